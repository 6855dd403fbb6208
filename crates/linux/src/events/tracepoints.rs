//! Request events from the kernel's block tracepoints.
//!
//! ```text
//! processor 0: page, page ─┐
//! processor 1: page        ├▶ by time ─▶ joining ─▶ observe::Event
//! processor 2: page, page ─┘   (except the last millisecond, as some processors' events may still be missing)
//! ```

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use applier::sysfs::{READER, Sysfs};
use applier::trace::{Formats, Instance, Tracefs};
use block::{Nanos, StreamId};
use observe::Event;
use rustix::io::Errno;

use super::format::Layouts;
use super::joining::Joining;
use super::names::Names;
use super::page;
use super::raw::Raw;
use super::{EventSource, ObserveError};
use crate::clock::monotonic;
use crate::topology::Device;

/// Events from within this time may not be in every processor's buffer yet: writing an event takes some time.
const UNSETTLED: Nanos = Nanos::from_millis(1);
/// Maximum number of pages read at a time per processor, to bound memory: some 14,000 events.
const PAGES_AT_ONCE: usize = 256;
/// Interval of checks that the device is still the same.
const LOOKS_EVERY: Nanos = Nanos::from_millis(1_000);

/// The events of one device.
pub struct Tracepoints {
    // Must be closed before the instance is removed, which would otherwise stay until another one is created.
    lanes: Vec<Lane>,
    instance: Option<Instance>,
    reader: Reader,
    joining: Joining,
    watched: SameDevice,
    reports_fsync: bool,
}

/// A processor: its pipe, and the events read from it in order of time.
struct Lane {
    pipe: OwnedFd,
    raw: Vec<Raw>,
    /// Number of events already joined.
    joined: usize,
}

impl Lane {
    fn next(&self) -> Option<&Raw> {
        self.raw.get(self.joined)
    }
}

/// State for reading pages.
struct Reader {
    layouts: Layouts,
    page: Box<[u8]>,
    names: Names,
    lost: u64,
    /// Times before which events were lost; kept until they are joined.
    gaps: Vec<Nanos>,
}

impl Tracepoints {
    /// Creates a tracing instance and starts it; requires root.
    ///
    /// # Errors
    /// The kernel forbids it, or its formats are unknown.
    pub fn open(sysfs: &Sysfs, device: &Device) -> Result<Tracepoints, ObserveError> {
        let instance = Instance::create(&Tracefs::find()?, device.number, device.has_queue)?;
        let mut tracepoints = Tracepoints::of_pipes(sysfs, device, instance.pipes()?, &instance.formats()?)?;
        instance.start()?;
        tracepoints.instance = Some(instance);
        Ok(tracepoints)
    }

    /// Reads the events of an [`Instance`] that another process created, from its [pipes](Instance::pipes) and
    /// [formats](Instance::formats).
    ///
    /// # Errors
    /// The formats are unknown.
    pub fn of_pipes(sysfs: &Sysfs, device: &Device, pipes: Vec<OwnedFd>, formats: &Formats) -> Result<Tracepoints, ObserveError> {
        let layouts = Layouts::parse(formats)?;
        let page = vec![0; layouts.page.data.offset + layouts.page.data.size].into();
        let writes_through = fs::read_to_string(sysfs.block(&device.name).join("queue/fua")).is_ok_and(|text| text.trim() == "1");
        Ok(Tracepoints {
            lanes: pipes.into_iter().map(|pipe| Lane { pipe, raw: Vec::new(), joined: 0 }).collect(),
            instance: None,
            reader: Reader { layouts, page, names: Names::default(), lost: 0, gaps: Vec::new() },
            joining: Joining::new(writes_through),
            watched: SameDevice::of(sysfs, device),
            reports_fsync: false,
        })
    }

    /// Stops tracing, and appends the remaining events.
    ///
    /// # Errors
    /// The kernel's data cannot be parsed.
    pub fn finish(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError> {
        if let Some(instance) = &self.instance {
            instance.stop()?;
        }
        loop {
            let known = self.fill(Nanos::MAX)?;
            self.join(known, out);
            if known == Nanos::MAX {
                return Ok(());
            }
        }
    }

    /// Reads available pages. Returns the time up to which all events are known: `until`, or earlier if there are more pages than are read
    /// at a time.
    fn fill(&mut self, until: Nanos) -> Result<Nanos, ObserveError> {
        let mut known = until;
        for lane in &mut self.lanes {
            let mut pages = 0;
            while self.reader.read_page(lane)? {
                pages += 1;
                if pages == PAGES_AT_ONCE {
                    known = known.min(lane.raw.last().map_or(known, |last| last.at));
                    break;
                }
            }
        }
        Ok(known)
    }

    /// Joins all events before this time.
    fn join(&mut self, until: Nanos, out: &mut Vec<Event>) {
        self.reader.gaps.sort_unstable();
        let mut gaps = self.reader.gaps.iter().peekable();
        while let Some((number, before)) = self.earliest(until) {
            let lane = &mut self.lanes[number];
            while let Some(raw) = lane.raw.get(lane.joined).filter(|raw| raw.at <= before && raw.at < until) {
                while let Some(gap) = gaps.next_if(|gap| **gap <= raw.at) {
                    self.joining.gap(*gap);
                }
                if self.reports_fsync || !raw.what.is_call() {
                    self.joining.event(raw, out);
                }
                lane.joined += 1;
            }
        }
        self.reader.gaps.retain(|gap| *gap >= until);
        for lane in &mut self.lanes {
            lane.raw.drain(..lane.joined);
            lane.joined = 0;
        }
    }

    /// The processor with the earliest event before `until`, and the time of the next event of any other; `None` without events.
    fn earliest(&self, until: Nanos) -> Option<(usize, Nanos)> {
        let (mut first, mut second) = (None, until);
        let mut at_first = until;
        for (number, lane) in self.lanes.iter().enumerate() {
            let Some(at) = lane.next().map(|raw| raw.at) else { continue };
            if at < at_first {
                (first, second, at_first) = (Some(number), at_first, at);
            } else {
                second = second.min(at);
            }
        }
        Some((first?, second))
    }
}

impl Reader {
    /// Reads a page of a processor. Returns whether there was one.
    fn read_page(&mut self, lane: &mut Lane) -> Result<bool, ObserveError> {
        let length = loop {
            match rustix::io::read(&lane.pipe, &mut *self.page) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(false),
                Ok(length) => break length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(ObserveError::io(Path::new(PIPE), io::Error::from(error))),
            }
        };
        let Reader { layouts, page, names, .. } = self;
        let lost = page::each_event(&page[..length], &layouts.page, |at, bytes| {
            if let Some((event, name)) = Raw::read(layouts, at, bytes).filter(|(_, name)| *name != READER.as_bytes()) {
                names.learn(event.process, name);
                lane.raw.push(event);
            }
        });
        let lost = lost.map_err(|message| ObserveError::unknown(Path::new(PIPE), message))?;
        if lost > 0 {
            self.lost += lost;
            self.gaps.extend(layouts.page.timestamp.number(page).map(Nanos));
        }
        Ok(true)
    }
}

/// The kernel's name of the files behind the pipes.
const PIPE: &str = "trace_pipe_raw";

impl EventSource for Tracepoints {
    fn read(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError> {
        let now = monotonic();
        let known = self.fill(now - UNSETTLED)?;
        self.join(known, out);
        self.watched.look(now)
    }

    fn report_fsync(&mut self) {
        self.reports_fsync = true;
    }

    fn lost(&self) -> u64 {
        self.reader.lost
    }

    fn name(&self, stream: StreamId) -> Option<&str> {
        self.reader.names.get(stream)
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.lanes.iter().map(|lane| lane.pipe.as_fd()).collect()
    }
}

/// Checks that a device is still the same.
struct SameDevice {
    device: String,
    folder: PathBuf,
    sequence: u64,
    looked: Nanos,
}

impl SameDevice {
    fn of(sysfs: &Sysfs, device: &Device) -> SameDevice {
        let (name, sequence) = (device.name.clone(), device.sequence);
        SameDevice { folder: sysfs.block(&name), device: name, sequence, looked: monotonic() }
    }

    fn look(&mut self, now: Nanos) -> Result<(), ObserveError> {
        if now - self.looked < LOOKS_EVERY {
            return Ok(());
        }
        self.looked = now;
        // Before Linux 5.15 there is no sequence number: only the existence of the device is checked.
        let sequence = fs::read_to_string(self.folder.join("diskseq")).ok().and_then(|text| text.trim().parse().ok());
        let is_same = sequence.unwrap_or(0) == self.sequence && self.folder.exists();
        if is_same { Ok(()) } else { Err(ObserveError::Gone { device: self.device.clone() }) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use block::{Op, Priority, Request};

    use super::super::fixtures::{of_bios, of_requests, with_fsync};
    use super::super::page::writing::Page;
    use super::*;

    const TAR: (u32, &str) = (40, "tar");
    const FIO: (u32, &str) = (41, "fio");

    /// A machine with one device, and a source with these pages of two processors.
    fn source(formats: &Formats, pages: [Vec<Page>; 2]) -> (tempfile::TempDir, Tracepoints) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/block/loop0");
        fs::create_dir_all(folder.join("queue")).unwrap();
        for (name, text) in [("dev", "7:0"), ("size", "2048"), ("diskseq", "5")] {
            fs::write(folder.join(name), text).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        let device = crate::topology::devices(&sysfs).unwrap().remove(0);
        let pipe = |pages: Vec<Page>| {
            let (reader, mut writer) = io::pipe().unwrap();
            rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK).unwrap();
            for page in pages {
                writer.write_all(&page.bytes()).unwrap();
            }
            OwnedFd::from(reader)
        };
        let source = Tracepoints::of_pipes(&sysfs, &device, pages.map(pipe).into(), formats).unwrap();
        (root, source)
    }

    /// All events of these pages. A machine that has just booted would take later times for the future.
    fn seen(formats: &Formats, pages: [Vec<Page>; 2]) -> Vec<Event> {
        let (_root, mut source) = source(formats, pages);
        let mut events = Vec::new();
        source.finish(&mut events).unwrap();
        events
    }

    fn request(op: Op, sync: bool, lba: u64, sectors: u32, stream: u32, arrival: u64) -> Request {
        Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors, lba, arrival: Nanos(arrival) }
    }

    fn completed(request: Request, dispatched: u64, at: u64) -> Event {
        Event::Completed { request, dispatched: Nanos(dispatched), at: Nanos(at) }
    }

    #[test]
    fn events_of_all_processors_are_joined_in_order_of_time() {
        let first = Page::at(100).queued(100, "WS", (8, 8), TAR).completed(900, "WS", (8, 8));
        let second = Page::at(200).queued(200, "R", (64, 16), FIO).issued(300, "WS", (8, 8)).issued(350, "R", (64, 16));
        let third = Page::at(950).completed(950, "R", (64, 16));
        let (write, read) = (request(Op::Write, true, 8, 8, 40, 100), request(Op::Read, true, 64, 16, 41, 200));
        let expected = [Event::Queued(write), Event::Queued(read), completed(write, 300, 900), completed(read, 350, 950)];
        assert_eq!(seen(&of_requests(), [vec![first, third], vec![second]]), expected);
    }

    #[test]
    fn names_are_those_of_the_issuing_process_and_not_of_the_dispatching_one() {
        let pages = vec![Page::at(100).queued(100, "W", (8, 8), TAR).issued(300, "W", (8, 8))];
        let (_root, mut source) = source(&of_requests(), [pages, vec![]]);
        source.read(&mut Vec::new()).unwrap();
        assert_eq!((source.name(40), source.name(9)), (Some("tar"), None));
    }

    #[test]
    fn what_began_before_the_recording_is_left_out() {
        let page = Page::at(100).issued(100, "R", (0, 8)).completed(200, "R", (0, 8)).completed(300, "R", (8, 8));
        assert_eq!(seen(&of_requests(), [vec![page], vec![]]), []);
    }

    #[test]
    fn a_flush_completes_all_requests_from_before_it_began() {
        let page = Page::at(0)
            .queued(100, "FWS", (0, 0), TAR)
            .queued(110, "FWS", (0, 0), FIO)
            .issued(120, "FF", (0, 0))
            .queued(130, "FWS", (0, 0), TAR)
            .completed(500, "FF", (u64::MAX, 0))
            .issued(510, "FF", (0, 0))
            .completed(900, "FF", (u64::MAX, 0));
        let flushed = |stream, asked, at| Event::Flushed { stream, asked: Nanos(asked), at: Nanos(at) };
        let expected = [flushed(40, 100, 500), flushed(41, 110, 500), flushed(40, 130, 900)];
        assert_eq!(seen(&of_requests(), [vec![page], vec![]]), expected);
    }

    #[test]
    fn a_write_that_is_to_be_on_the_media_has_a_flush_before_and_one_behind_it() {
        // A commit of ext4's journal on a loop device, as recorded.
        let page = || {
            Page::at(0)
                .queued(100, "FWFSM", (800, 2), (7, "jbd2/loop1-8"))
                .issued(104, "FF", (0, 0))
                .completed(2_400, "FF", (u64::MAX, 0))
                .issued(2_409, "WSM", (800, 2))
                .completed(6_300, "WSM", (800, 2))
                .issued(6_310, "FF", (0, 0))
                .completed(10_400, "FF", (u64::MAX, 0))
                .completed(10_401, "WSM", (800, 0))
        };
        let flushed = |asked, at| Event::Flushed { stream: 7, asked: Nanos(asked), at: Nanos(at) };
        let write = request(Op::Write, true, 800, 2, 7, 100);
        let expected = [Event::Queued(write), flushed(100, 2_400), completed(write, 2_409, 6_300), flushed(6_300, 10_400)];
        assert_eq!(seen(&of_requests(), [vec![page()], vec![]]), expected);
    }

    #[test]
    fn calls_of_fsync_are_reported_where_they_are_asked_for() {
        let pages = || {
            let first = Page::at(0).sync_returned(50, 40).sync_called(100, 40).queued(110, "FWFSM", (800, 2), (7, "jbd2/loop1-8"));
            // The return of a call was lost: it has returned, but its duration is unknown.
            let second = Page::at(200).sync_called(200, 41).sync_called(900, 41).sync_returned(950, 40).sync_returned(970, 41);
            [vec![first], vec![second]]
        };
        let called = |stream, at| Event::Called { stream, at: Nanos(at) };
        let returned = |stream, op, called, at| Event::Returned { stream, op, bytes: 0, called: Nanos(called), at: Nanos(at) };
        let write = Event::Queued(request(Op::Write, true, 800, 2, 7, 110));
        let expected = [
            called(40, 100),
            write,
            called(41, 200),
            returned(41, Op::Read, 200, 900),
            called(41, 900),
            returned(40, Op::Write, 100, 950),
            returned(41, Op::Write, 900, 970),
        ];
        assert_eq!(seen(&with_fsync(), pages()), [write]);
        let (_root, mut source) = source(&with_fsync(), pages());
        source.report_fsync();
        let mut events = Vec::new();
        source.finish(&mut events).unwrap();
        assert_eq!(events, expected);
    }

    #[test]
    fn a_device_without_a_queue_is_known_by_its_answers() {
        let page = Page::at(0).queued(100, "W", (8, 8), TAR).queued(150, "FW", (0, 0), FIO).answered(300, "W", (8, 8)).answered(
            400,
            "FW",
            (0, 0),
        );
        let write = request(Op::Write, false, 8, 8, 40, 100);
        let flushed = Event::Flushed { stream: 41, asked: Nanos(150), at: Nanos(400) };
        assert_eq!(seen(&of_bios(), [vec![page], vec![]]), [Event::Queued(write), completed(write, 100, 300), flushed]);
    }

    #[test]
    fn lost_events_are_counted_and_what_was_under_way_then_is_given_up() {
        let before = Page::at(100).queued(100, "R", (0, 8), FIO).issued(110, "R", (0, 8));
        let after = Page::at(500).missed(Some(3)).queued(500, "R", (0, 8), TAR).completed(600, "R", (0, 8));
        let (_root, mut source) = source(&of_requests(), [vec![before, after], vec![]]);
        let mut events = Vec::new();
        source.read(&mut events).unwrap();
        let (first, second) = (request(Op::Read, true, 0, 8, 41, 100), request(Op::Read, true, 0, 8, 40, 500));
        assert_eq!(events, [Event::Queued(first), Event::Queued(second), completed(second, 500, 600)]);
        assert_eq!(source.lost(), 3);
    }

    #[test]
    fn a_request_that_is_never_done_is_forgotten_in_the_end() {
        let hours = 3_600_000_000_000;
        let page = Page::at(0)
            .queued(100, "R", (0, 8), FIO)
            .queued(hours, "R", (64, 8), TAR)
            .completed(hours + 5, "R", (0, 8))
            .completed(hours + 9, "R", (64, 8));
        let events = seen(&of_requests(), [vec![page], vec![]]);
        let last = request(Op::Read, true, 64, 8, 40, hours);
        assert_eq!(events[2..], [completed(last, hours, hours + 9)]);
    }

    #[test]
    fn a_replaced_device_counts_as_removed() {
        let (root, mut source) = source(&of_requests(), [vec![], vec![]]);
        fs::write(root.path().join("sys/block/loop0/diskseq"), "6").unwrap();
        assert!(source.read(&mut Vec::new()).is_ok(), "it is not looked at every time");
        source.watched.looked = Nanos::ZERO;
        assert_eq!(source.read(&mut Vec::new()).unwrap_err().to_string(), "loop0 is gone");
    }

    #[test]
    fn formats_that_lack_something_say_what() {
        let mut formats = of_requests();
        formats.events[2].1 = formats.events[2].1.replace("nr_sector", "sectors");
        let error = Layouts::parse(&formats).unwrap_err().to_string();
        assert_eq!(error, "events/block/block_rq_complete/format: has no field nr_sector");
        formats.events.truncate(1);
        assert!(Layouts::parse(&formats).unwrap_err().to_string().contains("block_rq_complete"), "completions are needed");
    }
}
