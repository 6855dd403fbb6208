//! What there is to judge by: requests with their times, from a recording or from a run in the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use block::{Limits, Nanos, READ_AHEAD_SECTORS, StreamId};
use control::Setting;
use control::target::Bounds;
use observe::Event;
use observe::merit::{Tail, Tails};
use sim::host::QueueSettings;
use sim::run::{Pilot, RunError, ServerEvent, Steerable, StreamMeasure, Watch};
use sim::trace::{OpenOptions, RecordedDevice};
use twin::recording::Call;
use twin::{ObservedRequest, event};

use crate::load::Load;
use crate::recorded::{MOST, Recorded};
use crate::world::World;
use progress::monitor::{Interrupted, Monitor};

/// How often a bar is drawn.
const DRAWN: Duration = Duration::from_millis(20);

/// What was observed.
pub struct Observed {
    /// Requests in the order of their arrival.
    pub seen: Vec<ObservedRequest>,
    /// Flushes in the order in which they were done; none where the trace does not tell of them.
    pub flushes: Vec<ObservedRequest>,
    /// Calls in the order of their returns; none where calls cannot be seen.
    pub calls: Vec<Call>,
    /// What the device and its queue allow.
    pub bounds: Bounds,
    /// Whether the device's size is known, and not only where the last request ends.
    pub knows_capacity: bool,
    /// The active scheduler, if the recording says it.
    pub scheduler: Option<String>,
    /// What each stream got, where it was simulated.
    pub streams: BTreeMap<StreamId, StreamMeasure>,
    /// The streams' names, where they have any.
    pub names: BTreeMap<StreamId, String>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// The longest response time.
    longest: Nanos,
}

impl Observed {
    /// From the first arrival, which is at time 0, to the last completion.
    pub fn lasts(&self) -> Nanos {
        self.seen.iter().map(|seen| seen.completed).max().unwrap_or_default()
    }

    /// The requests under way at any time between these, and some before.
    pub fn between(&self, from: Nanos, to: Nanos) -> &[ObservedRequest] {
        let since = from - self.longest;
        let first = self.seen.partition_point(|seen| seen.request.arrival < since);
        &self.seen[first..self.seen.partition_point(|seen| seen.request.arrival < to).max(first)]
    }

    /// How long each stream waited for its requests.
    pub fn tails(&self) -> Tails {
        let mut waited: BTreeMap<StreamId, Vec<Nanos>> = BTreeMap::new();
        for seen in &self.seen {
            waited.entry(seen.request.stream).or_default().push(seen.completed - seen.request.arrival);
        }
        let tail = |mut waited: Vec<Nanos>| {
            waited.sort_unstable();
            let p99_s = waited[(waited.len() * 99 / 100).min(waited.len() - 1)].as_secs_f64();
            Tail { requests: waited.len() as u64, p99_s }
        };
        waited.into_iter().map(|(stream, waited)| (stream, tail(waited))).collect()
    }

    /// The stream's number, with its name if it has one.
    pub fn name(&self, stream: StreamId) -> String {
        self.names.get(&stream).map_or_else(|| stream.to_string(), |name| format!("{stream} ({name})"))
    }

    /// The requests of a trace whose answers were recorded. `device` is the number of one within the trace; else the one with the most
    /// requests is meant.
    ///
    /// # Errors
    /// The trace cannot be read, its requests have no response times, it has no such device, or the work was interrupted.
    pub fn recorded(path: &Path, options: &OpenOptions, device: Option<u32>, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        let name = path.display();
        monitor.begin(0, "reading the trace, requests:");
        let mut recorded = Recorded::read(path, options, &mut |all| {
            if all % 4096 == 0 {
                monitor.check()?;
                monitor.progress(all);
            }
            Ok(())
        })?;
        monitor.end();
        let (all, timed) = (recorded.all, recorded.timed);
        if all == 0 {
            bail!("{name}: holds no request; there is nothing to judge");
        }
        if timed == 0 {
            bail!(
                "{name}: none of its {all} requests says when it was done (format {}), so it does not tell what served them; name a disk to run them on, as in --disk sata7200",
                recorded.opened.format.name
            );
        }
        let devices = recorded.devices.len();
        let (chosen, mut seen) = recorded.of_device(path, device)?;
        let opened = recorded.opened;
        let mut notes = Vec::new();
        if timed == MOST {
            notes.push(format!("Only the first {MOST} requests were looked at."));
        }
        if devices > 1 {
            notes.push(format!("The trace is of {devices} devices; this is about number {chosen} (--device)."));
        }
        if all > timed {
            notes.push(format!("{} of {all} requests do not say when they were done and were left out.", all - timed));
        }
        if opened.reader.skipped() > 0 {
            notes.push(format!("{} damaged lines were skipped.", opened.reader.skipped()));
        }
        notes.extend(opened.reader.warnings().iter().map(|warning| format!("The trace: {warning}.")));
        let begins = seen.iter().map(|seen| seen.request.arrival).min().unwrap_or_default();
        for one in &mut seen {
            one.request.arrival = one.request.arrival - begins;
            one.dispatched = one.dispatched - begins;
            one.completed = one.completed - begins;
        }
        let queue = QueueSettings::default();
        let reached = seen.iter().map(|seen| seen.request.end()).max().unwrap_or(1);
        // A recording that tells of its device is of one.
        let RecordedDevice { capacity_sectors, scheduler, read_ahead_kib } =
            opened.reader.recorded_device().filter(|_| devices == 1).cloned().unwrap_or_default();
        let knows_capacity = capacity_sectors.is_some();
        let capacity_sectors = capacity_sectors.unwrap_or(0).max(reached);
        // The default of Linux.
        let read_ahead_kib = read_ahead_kib.or(Some(READ_AHEAD_SECTORS / 2));
        let bounds = Bounds { capacity_sectors, limits: queue.limits(), nr_requests: queue.nr_requests, read_ahead_kib };
        let streams: BTreeSet<StreamId> = seen.iter().map(|seen| seen.request.stream).collect();
        let named = streams.into_iter().filter_map(|stream| Some((stream, opened.reader.stream_name(stream)?.to_owned())));
        let (names, longest) = (named.collect(), longest(&seen));
        Ok(Observed {
            seen,
            flushes: Vec::new(),
            calls: Vec::new(),
            bounds,
            knows_capacity,
            scheduler,
            streams: BTreeMap::new(),
            names,
            notes,
            longest,
        })
    }

    /// Simulates `load` under `setting`; reports every request to `monitor`.
    ///
    /// # Errors
    /// The run failed or was interrupted.
    pub fn simulated(load: &dyn Load, world: &World, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        let mut recorder = Recorder::default();
        let queue = world.queue(world.scheduler(setting));
        let outcome = watched(monitor, |watch| load.run(queue, watch, Some(&mut recorder)))?;
        let Recorder { mut seen, flushes, calls, left_out, limits, nr_requests } = recorder;
        seen.sort_by_key(|seen| (seen.request.arrival, seen.completed));
        let notes = match left_out {
            0 => Vec::new(),
            left_out => vec![format!("Only the first {MOST} requests were looked at; {left_out} came later.")],
        };
        let bounds = Bounds { capacity_sectors: world.profile.capacity_sectors(), limits, nr_requests, read_ahead_kib: None };
        let streams = outcome.measure.streams;
        let named = streams.keys().filter_map(|&stream| Some((stream, load.stream_name(stream)?.to_owned())));
        let (names, longest) = (named.collect(), longest(&seen));
        Ok(Observed { seen, flushes, calls, bounds, knows_capacity: true, scheduler: None, streams, names, notes, longest })
    }
}

fn longest(seen: &[ObservedRequest]) -> Nanos {
    seen.iter().map(ObservedRequest::response).max().unwrap_or_default()
}

/// Runs `work`, and shows how far it is.
fn watched<T>(monitor: &dyn Monitor, work: impl FnOnce(&Watch) -> Result<T, RunError>) -> anyhow::Result<T> {
    let (completed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                monitor.progress(completed.load(Ordering::Relaxed));
                std::thread::sleep(DRAWN);
            }
        });
        let done = work(&Watch { stop: Some(monitor.stop()), completed: Some(&completed), reached: None });
        is_over.store(true, Ordering::Relaxed);
        done
    });
    match done {
        Err(RunError::Interrupted) => Err(Interrupted.into()),
        done => Ok(done?),
    }
}

#[derive(Default)]
struct Recorder {
    seen: Vec<ObservedRequest>,
    flushes: Vec<ObservedRequest>,
    calls: Vec<Call>,
    left_out: u64,
    limits: Limits,
    nr_requests: u32,
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        (self.limits, self.nr_requests) = (plant.limits(), plant.nr_requests());
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(event) {
            match event {
                Event::Completed { .. } if self.seen.len() as u64 == MOST => self.left_out += 1,
                Event::Completed { request, dispatched, at } => {
                    self.seen.push(ObservedRequest { request, dispatched, completed: at })
                }
                Event::Flushed { stream, asked, at } if self.left_out == 0 => {
                    self.flushes.push(ObservedRequest::flush(stream, asked, at));
                }
                Event::Returned { stream, op, bytes, called, at } if self.left_out == 0 => {
                    self.calls.push(Call { stream, op, bytes, called, returned: at });
                }
                _ => {}
            }
        }
    }
}
