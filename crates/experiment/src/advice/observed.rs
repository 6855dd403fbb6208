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

use crate::comparison::service;
use crate::figures::rate;
use crate::load::Load;
use crate::recorded::{MOST, Recorded};
use crate::world::World;
use progress::monitor::{Interrupted, Monitor};
use report::record::ServiceFigures;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

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
    /// What each stream got.
    pub streams: BTreeMap<StreamId, StreamMeasure>,
    /// Throughput in 10^6 bytes per second, and mean response time in ms, as [`compare`](crate::comparison) has them.
    pub whole: (f64, f64),
    /// Streams as they are reported: those of a job together, in the load's order.
    pub rows: Vec<(String, Vec<StreamId>)>,
    /// The streams' names, where they have any.
    pub names: BTreeMap<StreamId, String>,
    /// If not all requests are judged: how many are, and of how many.
    pub judged_of: Option<(u64, String)>,
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

    /// What these streams got together.
    pub fn service(&self, streams: &[StreamId]) -> ServiceFigures {
        service(streams.iter().filter_map(|stream| self.streams.get(stream)))
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
        let names: BTreeMap<StreamId, String> = named.collect();
        let mut streams: BTreeMap<StreamId, StreamMeasure> = BTreeMap::new();
        for ObservedRequest { request, completed, .. } in &seen {
            let bytes = u64::from(request.sectors) * SECTOR_BYTES;
            streams.entry(request.stream).or_default().record(request.op, request.arrival, *completed, bytes);
        }
        streams.values_mut().for_each(StreamMeasure::finish);
        let longest = longest(&seen);
        let all = service(streams.values()).all;
        Ok(Observed {
            whole: (all.throughput_mb_s, all.response.mean_ms),
            seen,
            flushes: Vec::new(),
            calls: Vec::new(),
            bounds,
            knows_capacity,
            scheduler,
            rows: rows(&streams, &names),
            streams,
            names,
            judged_of: (timed == MOST).then(|| (MOST, "all".to_owned())),
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
        let world = world.under(setting);
        let queue = world.queue(world.scheduler(setting));
        let outcome = watched(monitor, |watch| load.run(queue, world.host, watch, Some(&mut recorder)))?;
        let Recorder { mut seen, flushes, calls, left_out, limits, nr_requests } = recorder;
        seen.sort_by_key(|seen| (seen.request.arrival, seen.completed));
        let judged_of = (left_out > 0).then(|| (MOST, (MOST + left_out).to_string()));
        let bounds = Bounds { capacity_sectors: world.profile.capacity_sectors(), limits, nr_requests, read_ahead_kib: None };
        let measure = outcome.measure;
        let bytes = measure.read_bytes + measure.written_bytes;
        let whole = (rate(bytes, measure.duration().as_secs_f64()) / 1e6, measure.all.mean().as_millis_f64());
        let streams = measure.streams;
        let named = streams.keys().filter_map(|&stream| Some((stream, load.stream_name(stream)?.to_owned())));
        let (names, longest) = (named.collect(), longest(&seen));
        let jobs: Vec<(String, Vec<StreamId>)> = load.reported().into_iter().map(|row| (row.name, row.streams)).collect();
        let rows = if jobs.is_empty() { rows(&streams, &names) } else { jobs };
        Ok(Observed {
            seen,
            flushes,
            calls,
            bounds,
            knows_capacity: true,
            scheduler: None,
            streams,
            whole,
            rows,
            names,
            judged_of,
            notes: Vec::new(),
            longest,
        })
    }
}

/// Maximum number of streams reported one by one where a load has no jobs.
const FOLLOWED: usize = 200;

/// The busiest streams one by one, by name or number.
fn rows(streams: &BTreeMap<StreamId, StreamMeasure>, names: &BTreeMap<StreamId, String>) -> Vec<(String, Vec<StreamId>)> {
    let mut by_name: BTreeMap<String, (u64, Vec<StreamId>)> = BTreeMap::new();
    for (stream, measure) in streams {
        let name = names.get(stream).cloned().unwrap_or_else(|| stream.to_string());
        let (requests, of_name) = by_name.entry(name).or_default();
        *requests += measure.responses.count();
        of_name.push(*stream);
    }
    let mut rows: Vec<_> = by_name.into_iter().collect();
    rows.sort_by_key(|(_, (requests, _))| std::cmp::Reverse(*requests));
    rows.truncate(FOLLOWED);
    rows.into_iter().map(|(name, (_, streams))| (name, streams)).collect()
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
