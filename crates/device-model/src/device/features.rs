//! Features of a request that determine its time: the request, its predecessors, and the angle of the platter.
//!
//! ```text
//! look ─▶ a row of FEATURES, for a tree          settle ─▶ the state after the request:
//!                                                          positions of the arms, recent reads and writes, backlog of the disks
//! ```
//! The paper has size, location and the gap to the request before (III.A). These three leave most of a disk's time unexplained: the angle
//! of the platter when the head arrives, the contents of the drive's cache, and its write backlog. The other features cover these.

use block::{Nanos, Op, Request};

use super::arms::Arms;
use super::array::Array;
use super::mechanics::Mechanics;

/// The names of the features, in order.
pub const FEATURES: [&str; COUNT] = [
    "operation",
    "sectors",
    "location",
    "gap_sectors",
    "after_write",
    "idle_ms",
    "waiting",
    "run_sectors",
    "ahead_sectors",
    "ahead_requests",
    "reread_requests",
    "rewritten_requests",
    "known_requests",
    "seek_cylinders",
    "wait_turns",
    "buffered_writes",
    "buffered_sectors",
    "disks",
    "transfer_ms",
    "media_ms",
    "behind_ms",
    "backlog_ms",
    "stream_ms",
    "even_ms",
    "writes_lately",
];

/// Number of features.
pub const COUNT: usize = 25;

/// Their meanings, for display.
pub const MEANINGS: [&str; COUNT] = [
    "0 for a read, 1 for a write, 2 for a discard",
    "of the request",
    "where on the device, from 0 to 1",
    "from the end of the request before; below 0 backwards",
    "the request before was none that reads",
    "since the request before was done",
    "further requests in the queue",
    "that were asked for one after the other up to here, in one of the last 16 runs",
    "from the end of the nearest of these runs before it to the request",
    "since that run was asked for",
    "since one of the last 32 read where it begins",
    "since one of the last 32 wrote there",
    "since one of the last 65,536 or so did either",
    "that the arm has to cross",
    "that the platter has to turn when the head is there",
    "that may not be on the media yet; without mechanics their sectors, fading within 20 ms",
    "of these writes; without mechanics fading within 500 ms",
    "that have a part in it",
    "its sectors take at the media's rate; without mechanics, 1 ms for a thousand",
    "it takes from the media, were the disk idle",
    "it takes from the media behind writes that are still cached",
    "until earlier writes are on the media",
    "until a drive that has read on since that run has it",
    "its part of the disks' time on the media, in the order of sectors among those that wait",
    "part of writes among requests; the last 16 count most",
];

/// Features to which times may be proportional, with and without known mechanics.
pub(super) const SCALES: [usize; 6] = [18, 19, 20, 21, 22, 23];
pub(super) const SCALES_WITHOUT_MECHANICS: [usize; 3] = [18, 20, 21];

/// The first split: whether the request is alone at the device. Only then is the platter's angle known; otherwise times are averages.
pub(super) const ALONE: (usize, f64) = (6, 0.5);

const RUNS: usize = 16;
/// Maximum distance in sectors behind a run for a request to belong to it.
const RUN_REACH: u64 = 1 << 16;
const RECENT: usize = 32;
/// Size of the table of 4 KiB pages that are remembered for longer; one slot per page.
const PAGES: usize = 1 << 16;
/// Index of the feature that uses the table.
const KNOWN: usize = 12;
/// The value of a time or count for "never".
const NEVER: f64 = 1e6;
/// Time constants by which buffered writes decay on a device without mechanics: a buffer of some MB is empty after the first, erasing completes
/// after the second.
const SOON_MS: f64 = 20.0;
const LATE_MS: f64 = 500.0;
/// Minimum duration, so that scales are positive.
const LEAST_MS: f64 = 1e-3;
/// Maximum time to write the device's buffer.
const MOST_UNWRITTEN_NS: f64 = 1e9;
/// Number of recent requests over which the share of writes is averaged.
const LATELY: f64 = 16.0;

/// A sequential run of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    end: u64,
    sectors: u64,
    number: u64,
    done_ns: f64,
    is_write: bool,
}

/// A recent request.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    lba: u64,
    end: u64,
    is_write: bool,
    number: u64,
}

/// State of a device after the requests so far.
#[derive(Clone, Debug)]
pub(super) struct State {
    number: u64,
    done_ns: f64,
    end: u64,
    was_write: bool,
    runs: [Run; RUNS],
    recent: [Asked; RECENT],
    pages: Vec<(u32, u32)>,
    arms: Arms,
    buffered: (f64, f64),
    /// Without mechanics: when all accepted writes are on the media.
    written_ns: f64,
    /// Share of writes among recent requests.
    writes: f64,
    /// Start time, location, length and direction of the request that was looked at last.
    asked: Option<(f64, u64, u64, bool)>,
}

impl State {
    /// A device at rest. `with_pages`: whether to allocate the table of pages, which takes the most memory.
    pub fn new(array: &Array, with_pages: bool) -> State {
        State {
            number: 0,
            done_ns: 0.0,
            end: 0,
            was_write: false,
            runs: [Run::default(); RUNS],
            recent: [Asked::default(); RECENT],
            pages: vec![(u32::MAX, 0); if with_pages { PAGES } else { 0 }],
            arms: Arms::at_rest(array),
            buffered: (0.0, 0.0),
            written_ns: 0.0,
            writes: 0.0,
            asked: None,
        }
    }

    /// The feature row of a request that begins at `start`.
    pub fn look(&mut self, device: &Known, start: Nanos, request: &Request, waiting: u32) -> [f64; COUNT] {
        let start_ns = start.0 as f64;
        let (lba, sectors, is_write) = (request.lba, u64::from(request.sectors), request.op.is_write());
        self.asked = Some((start_ns, lba, sectors, is_write));
        let mut row = [0.0; COUNT];
        row[0] = match request.op {
            Op::Read => 0.0,
            Op::Write => 1.0,
            Op::Discard => 2.0,
        };
        row[1] = sectors as f64;
        row[2] = lba as f64 / device.capacity_sectors.max(1) as f64;
        row[3] = lba as f64 - self.end as f64;
        row[4] = f64::from(u8::from(self.was_write));
        row[5] = ((start_ns - self.done_ns) / 1e6).max(0.0);
        row[6] = f64::from(waiting);
        let run = self.run_before(lba, is_write);
        if let Some(run) = run {
            row[7] = run.sectors as f64;
            row[8] = (lba - run.end) as f64;
            row[9] = (self.number - run.number) as f64;
        } else {
            (row[8], row[9]) = (NEVER, NEVER);
        }
        [row[10], row[11]] = self.since(lba);
        row[12] = self.since_known(lba);
        row[24] = self.writes;
        self.reckon_media(device, start_ns, (lba, sectors, is_write), waiting, &mut row);
        self.reckon_stream(run, start_ns, sectors, &mut row);
        row
    }

    /// The nearest recent run that ends at or before this sector, within reach.
    fn run_before(&self, lba: u64, is_write: bool) -> Option<Run> {
        let mut nearest: Option<&Run> = None;
        for run in &self.runs {
            let is_one = run.number > 0 && run.is_write == is_write && lba.wrapping_sub(run.end) < RUN_REACH;
            if is_one && nearest.is_none_or(|other| (run.end, run.number) > (other.end, other.number)) {
                nearest = Some(run);
            }
        }
        nearest.copied()
    }

    /// Number of requests since this sector was last read, and since it was last written; [`NEVER`] if not recently.
    fn since(&self, lba: u64) -> [f64; 2] {
        let mut last = [0; 2];
        for asked in &self.recent {
            // One comparison: sectors before the first wrap around.
            let covers = lba.wrapping_sub(asked.lba) < asked.end - asked.lba;
            let last = &mut last[usize::from(asked.is_write)];
            *last = (*last).max(if covers { asked.number } else { 0 });
        }
        last.map(|number| if number > 0 { (self.number + 1 - number) as f64 } else { NEVER })
    }

    fn since_known(&self, lba: u64) -> f64 {
        let (page, slot) = page(lba);
        match self.pages.get(slot) {
            Some(&(known, number)) if known == page => (self.number as u32).wrapping_sub(number) as f64,
            _ => NEVER,
        }
    }

    /// Features of the request's time on the media, and of the backlog before it.
    fn reckon_media(&mut self, device: &Known, start_ns: f64, request: (u64, u64, bool), waiting: u32, row: &mut [f64; COUNT]) {
        let Some(mechanics) = &device.mechanics else {
            row[17] = self.arms.split(&device.array, request) as f64;
            row[18] = request.1 as f64 / 1e3;
            let idle_ms = (start_ns - self.done_ns).max(0.0) / 1e6;
            (row[15], row[16]) = (self.buffered.0 * (-idle_ms / SOON_MS).exp(), self.buffered.1 * (-idle_ms / LATE_MS).exp());
            let unwritten_ns = (self.written_ns - start_ns).max(0.0);
            let written_ns = if request.2 { request.1 as f64 * device.drain_ns } else { 0.0 };
            row[20] = ((unwritten_ns + written_ns) / 1e6).max(LEAST_MS);
            row[21] = (unwritten_ns / 1e6).max(LEAST_MS);
            return;
        };
        let plan = match waiting {
            0 => self.arms.plan(&device.array, mechanics, start_ns, request),
            _ => self.arms.plan_sorted(&device.array, mechanics, (self.number, start_ns), request, waiting),
        };
        if waiting == 0 && plan.busy_ns <= start_ns {
            self.buffered = (0.0, 0.0);
        }
        (row[13], row[14]) = (plan.distance as f64, plan.wait);
        (row[15], row[16]) = self.buffered;
        row[17] = plan.parts as f64;
        row[18] = (plan.transfer_ns / 1e6).max(LEAST_MS);
        row[19] = (plan.media_ns / 1e6).max(LEAST_MS);
        row[20] = ((plan.done_ns - start_ns) / 1e6).max(LEAST_MS);
        row[21] = ((plan.busy_ns - start_ns) / 1e6).max(LEAST_MS);
        row[23] = (plan.even_ns / 1e6).max(LEAST_MS);
    }

    /// Features of read-ahead: a drive that continues to read behind a run provides the next sectors at the media rate.
    fn reckon_stream(&self, run: Option<Run>, start_ns: f64, sectors: u64, row: &mut [f64; COUNT]) {
        let Some(run) = run else {
            row[22] = row[19].max(row[18]);
            return;
        };
        let a_sector_ms = row[18] / sectors.max(1) as f64;
        let since_ms = (start_ns - run.done_ns) / 1e6;
        row[22] = (row[18] + row[8] * a_sector_ms - since_ms).max(LEAST_MS);
    }

    /// Updates the state after the request that was looked at last, which took `took_ns`.
    pub fn settle(&mut self, device: &Known, took_ns: f64) {
        let Some((start_ns, lba, sectors, is_write)) = self.asked.take() else { return };
        let done_ns = start_ns + took_ns;
        self.number += 1;
        self.arms.settle(device.mechanics.as_ref(), start_ns, done_ns, is_write);
        self.writes += (f64::from(u8::from(is_write)) - self.writes) / LATELY;
        if is_write {
            self.written_ns = (self.written_ns.max(start_ns) + sectors as f64 * device.drain_ns).min(done_ns + MOST_UNWRITTEN_NS);
        }
        self.buffer(device, done_ns, if is_write { sectors as f64 } else { 0.0 });
        let end = lba + sectors;
        self.extend_run(lba, end, is_write, done_ns);
        self.recent[(self.number % RECENT as u64) as usize] = Asked { lba, end, is_write, number: self.number };
        let (page, slot) = page(lba);
        if let Some(place) = self.pages.get_mut(slot) {
            *place = (page, self.number as u32);
        }
        (self.done_ns, self.end, self.was_write) = (done_ns, end, is_write);
    }

    /// Updates the amount of buffered writes. Without mechanics it is unknown when these reach the media, so the amount decays.
    fn buffer(&mut self, device: &Known, done_ns: f64, written: f64) {
        let since_ms = (done_ns - self.done_ns).max(0.0) / 1e6;
        let (soon, late) = match device.mechanics {
            Some(_) => (self.buffered.0 + f64::from(u8::from(written > 0.0)), self.buffered.1),
            None => (self.buffered.0 * (-since_ms / SOON_MS).exp() + written, self.buffered.1 * (-since_ms / LATE_MS).exp()),
        };
        self.buffered = (soon, late + written);
    }

    fn extend_run(&mut self, lba: u64, end: u64, is_write: bool, done_ns: f64) {
        let number = self.number;
        let goes_on = self.runs.iter_mut().find(|run| run.number > 0 && run.is_write == is_write && run.end == lba);
        match goes_on {
            Some(run) => *run = Run { end, sectors: run.sectors + (end - lba), number, done_ns, is_write },
            None => {
                if let Some(oldest) = self.runs.iter_mut().min_by_key(|run| run.number) {
                    *oldest = Run { end, sectors: end - lba, number, done_ns, is_write };
                }
            }
        }
    }
}

/// Properties of a device that are independent of its tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub capacity_sectors: u64,
    /// Queue depth.
    pub queue_depth: u32,
    pub array: Array,
    pub mechanics: Option<Mechanics>,
    /// Without mechanics: time per written sector to reach the media in nanoseconds; 0 if unknown.
    pub drain_ns: f64,
}

/// Whether a tree with these influences uses the table of pages.
pub(super) fn wants_pages(influence: &[f64]) -> bool {
    influence.get(KNOWN).is_some_and(|share| *share > 0.0)
}

/// A page's number, and its slot in the table.
fn page(lba: u64) -> (u32, usize) {
    let page = lba >> 3;
    (page as u32, (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % PAGES)
}

/// Approximate time of a request that is alone at the device, from its row.
pub(super) fn alone_ms(row: &[f64; COUNT]) -> f64 {
    // Without mechanics, the command overhead counts as eight sectors.
    if row[19] > 0.0 { row[19] } else { row[18] + 0.008 }
}
