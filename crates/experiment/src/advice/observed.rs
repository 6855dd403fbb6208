//! Observed requests with their times, from a recording or a run in the simulator.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use block::{Limits, Nanos, READ_AHEAD_SECTORS, StreamId};
use control::Setting;
use control::target::Bounds;
use observe::Event;
use observe::starvation::{Tail, Tails};
use sim::host::{QueueSettings, RunSummary};
use sim::run::{Measure, Pilot, RunError, ServerEvent, Steerable, StreamMeasure, Watch};
use sim::trace::numbered::Numbered;
use sim::trace::sort::Sorter;
use sim::trace::{OpenOptions, RecordedDevice, TraceError, TraceReader, TraceRequest};
use testbed::figures::rate;
use testbed::load::Load;
use testbed::world::World;
use twin::recording::Call;
use twin::{ObservedRequest, event};

use super::requests::{Requests, in_trace};
use crate::comparison::service;
use progress::monitor::{Interrupted, Monitor};
use report::advice::Overload;
use report::record::ServiceFigures;
use statistics::Rank;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// Requests between updates of the progress bar and checks for Ctrl-C.
pub const CHECKED: u64 = 4096;
/// Requests of a run sorted in memory at once: 10 MB.
const SORTED: usize = 1 << 17;
/// Maximum number of flushes and calls of a run, which are kept in memory.
const MOST_CALLS: usize = 2_000_000;

/// Interval at which the progress bar is drawn.
const DRAWN: Duration = Duration::from_millis(20);

/// An observed load.
pub struct Observed {
    /// In order of arrival.
    pub requests: Requests,
    /// Flushes in order of completion; empty if the trace has none.
    pub flushes: Vec<ObservedRequest>,
    /// Process calls in order of return; empty if they cannot be observed.
    pub calls: Vec<Call>,
    /// Limits of the device and its queue.
    pub bounds: Bounds,
    /// Whether the size of the device is known. If not, it is assumed to end with the last request.
    pub knows_capacity: bool,
    /// The active scheduler, if recorded.
    pub scheduler: Option<String>,
    /// Service of each stream.
    pub streams: BTreeMap<StreamId, StreamMeasure>,
    /// Throughput in 10^6 bytes per second, and mean response time in ms, as [`compare`](crate::comparison) has them.
    pub whole: (f64, f64),
    /// Rows of the report: the streams of a job together, in the order of the load.
    pub rows: Vec<(String, Vec<StreamId>)>,
    /// Names of streams that have one.
    pub names: BTreeMap<StreamId, String>,
    /// If not all requests are judged: the number of those that are, and of all.
    pub judged_of: Option<(u64, u64)>,
    /// Whether requests arrived faster than the simulated disk served them.
    pub overload: Option<Overload>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

impl Observed {
    /// From the first arrival, which is at time 0, to the last completion.
    pub fn lasts(&self) -> Nanos {
        self.requests.lasts()
    }

    /// Number of requests and p99 response time of each stream.
    ///
    /// # Errors
    /// The temporary file of the requests cannot be read.
    pub fn tails(&self) -> anyhow::Result<Tails> {
        let mut waited: BTreeMap<StreamId, Vec<Nanos>> = BTreeMap::new();
        for seen in self.requests.from(0) {
            let seen = seen?;
            waited.entry(seen.request.stream).or_default().push(seen.completed - seen.request.arrival);
        }
        let tail = |mut waited: Vec<Nanos>| {
            let p99_s = Rank::Above.of_ordered(&mut waited, 0.99).map_or(0.0, Nanos::as_secs_f64);
            Tail { requests: waited.len() as u64, p99_s }
        };
        Ok(waited.into_iter().map(|(stream, waited)| (stream, tail(waited))).collect())
    }

    /// Service of these streams together.
    pub fn service(&self, streams: &[StreamId]) -> ServiceFigures {
        service(streams.iter().filter_map(|stream| self.streams.get(stream)))
    }

    /// Number of the stream, with its name if it has one.
    pub fn name(&self, stream: StreamId) -> String {
        self.names.get(&stream).map_or_else(|| stream.to_string(), |name| format!("{stream} ({name})"))
    }

    /// Reads the requests of a trace with response times. `device` is a number within the trace; `None` takes the device with the most
    /// requests.
    ///
    /// # Errors
    /// The trace cannot be read, its requests have no response times, it has no such device, or the work was interrupted.
    pub fn recorded(path: &Path, options: &OpenOptions, device: Option<u32>, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        let name = options.name(path);
        let mut opened = sim::trace::open(path, options)?;
        let read = Timed::read(&mut *opened.reader, monitor)?;
        let Timed { devices, all, timed } = &read;
        if *all == 0 {
            bail!("{name}: holds no request; there is nothing to judge");
        }
        if timed.is_empty() {
            bail!(
                "{name}: none of its {all} requests says when it was done (format {}), so the device cannot be inferred; name a disk to run them on, as in --disk sata7200",
                opened.format.name
            );
        }
        let numbers = || devices.keys().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let busiest = || devices.iter().max_by_key(|(_, requests)| **requests).map_or(0, |(device, _)| *device);
        let chosen = device.unwrap_or_else(busiest);
        ensure!(devices.contains_key(&chosen), "{name}: --device {chosen}: there are the devices {}", numbers());
        let mut notes = Vec::new();
        let is_only = devices.len() == 1;
        if !is_only {
            let parts = if options.others.is_empty() { "" } else { "; --same-devices if these are parts of one recording" };
            notes.push(format!("The trace is of {} devices; this is about number {chosen} (--device{parts}).", devices.len()));
        }
        let untimed = all - timed.len() as u64;
        if untimed > 0 {
            notes.push(format!("{untimed} of {all} requests do not say when they were done and were left out."));
        }
        if opened.reader.skipped() > 0 {
            notes.push(format!("{} damaged lines were skipped.", opened.reader.skipped()));
        }
        notes.extend(opened.reader.warnings().iter().map(|warning| format!("The trace: {warning}.")));
        let (requests, streams) = of_device(read, chosen, monitor)?;
        let queue = QueueSettings::default();
        // A device recorded in the trace applies only if there is no other.
        let RecordedDevice { capacity_sectors, scheduler, read_ahead_kib } =
            opened.reader.recorded_device().filter(|_| is_only).cloned().unwrap_or_default();
        let knows_capacity = capacity_sectors.is_some();
        let capacity_sectors = capacity_sectors.unwrap_or(0).max(requests.end());
        // Linux's default.
        let read_ahead_kib = read_ahead_kib.or(Some(READ_AHEAD_SECTORS / 2));
        let bounds = Bounds { capacity_sectors, limits: queue.limits(), nr_requests: queue.nr_requests, read_ahead_kib };
        let named = streams.keys().filter_map(|&stream| Some((stream, opened.reader.stream_name(stream)?.to_owned())));
        let names: BTreeMap<StreamId, String> = named.collect();
        let all = service(streams.values()).all;
        Ok(Observed {
            whole: (all.throughput_mb_s, all.response.mean_ms),
            requests,
            flushes: Vec::new(),
            calls: Vec::new(),
            bounds,
            knows_capacity,
            scheduler,
            rows: rows(&streams, &names),
            streams,
            names,
            judged_of: None,
            overload: None,
            notes,
        })
    }

    /// Simulates `load` under `setting`; reports every request to `monitor`.
    ///
    /// # Errors
    /// The run failed or was interrupted.
    pub fn simulated(load: &dyn Load, world: &World, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Observed> {
        let mut recorder = Recorder::new();
        let outcome = run(load, world, setting, monitor, &mut recorder)?;
        let Recorder { sorter, first, failed, flushes, calls, left_out, limits, nr_requests } = recorder;
        let requests = sorted(sorter, first, failed)?;
        let judged = requests.len() as u64;
        let judged_of = (left_out > 0).then(|| (judged, judged + left_out));
        let bounds = Bounds { capacity_sectors: world.profile.capacity_sectors(), limits, nr_requests, read_ahead_kib: None };
        let (whole, overload) = (whole(&outcome.measure), load.overload(&outcome));
        let streams = outcome.measure.streams;
        let named = streams.keys().filter_map(|&stream| Some((stream, load.stream_name(stream)?.to_owned())));
        let names = named.collect();
        let jobs: Vec<(String, Vec<StreamId>)> = load.reported().into_iter().map(|row| (row.name, row.streams)).collect();
        let rows = if jobs.is_empty() { rows(&streams, &names) } else { jobs };
        Ok(Observed {
            requests,
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
            overload,
            notes: Vec::new(),
        })
    }
}

/// Maximum number of streams reported one by one where a load has no jobs.
const FOLLOWED: usize = 200;

/// The busiest streams one by one, by name or number. Streams with the same name share a row.
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

/// The requests of a trace that have a response time, shifted so that the first one arrives at time zero.
struct Timed {
    /// Number of requests by device number.
    devices: BTreeMap<u32, u64>,
    /// Requests that were read, those without a response time included.
    all: u64,
    timed: Numbered,
}

impl Timed {
    fn read(reader: &mut dyn TraceReader, monitor: &dyn Monitor) -> anyhow::Result<Timed> {
        let mut read = Timed { devices: BTreeMap::new(), all: 0, timed: Numbered::default() };
        monitor.begin(0, "reading the trace, requests:");
        let mut first = None;
        while let Some(request) = reader.next_request() {
            let mut request = request?;
            read.all += 1;
            if read.all.is_multiple_of(CHECKED) {
                monitor.check()?;
                monitor.progress(read.all);
            }
            if request.response.is_some() {
                request.arrival = request.arrival - *first.get_or_insert(request.arrival);
                *read.devices.entry(request.device).or_default() += 1;
                read.timed.push(request)?;
            }
        }
        monitor.end();
        Ok(read)
    }
}

/// The requests of one device, the first at time zero, and the service of each stream.
fn of_device(timed: Timed, device: u32, monitor: &dyn Monitor) -> anyhow::Result<(Requests, BTreeMap<StreamId, StreamMeasure>)> {
    let Timed { devices, timed, .. } = timed;
    let (mut requests, mut streams) = (Requests::default(), BTreeMap::<StreamId, StreamMeasure>::new());
    let is_only = devices.len() == 1;
    let mut begins = None;
    for (number, request) in timed.from(0).enumerate() {
        let mut request = request?;
        if (number as u64).is_multiple_of(CHECKED) {
            monitor.check()?;
        }
        let Some(response) = request.response.filter(|_| request.device == device) else { continue };
        request.arrival = request.arrival - *begins.get_or_insert(request.arrival);
        let seen = ObservedRequest::recorded(&request, response);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        streams.entry(request.stream).or_default().record(request.op, request.arrival, seen.completed, bytes);
        // Those of the only device are stored already, beginning at time zero.
        if is_only { requests.note(&seen) } else { requests.push(&seen)? }
    }
    streams.values_mut().for_each(StreamMeasure::finish);
    Ok((if is_only { requests.noted(timed) } else { requests }, streams))
}

/// Runs `load` under `setting`, observed by `pilot`.
pub(super) fn run(
    load: &dyn Load,
    world: &World,
    setting: &Setting,
    monitor: &dyn Monitor,
    pilot: &mut dyn Pilot,
) -> anyhow::Result<RunSummary> {
    let world = world.under(setting);
    let queue = world.queue(world.scheduler(setting));
    watched(monitor, |watch| load.run(queue, world.host, watch, Some(pilot)))
}

/// Throughput in 10^6 bytes per second and mean response time in ms of a run.
pub(super) fn whole(measure: &Measure) -> (f64, f64) {
    let bytes = measure.read_bytes + measure.written_bytes;
    (rate(bytes, measure.duration().as_secs_f64()) / 1e6, measure.all.mean().as_millis_f64())
}

/// Runs `work` while showing its progress.
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

/// Records the requests, flushes and calls of a run.
struct Recorder {
    /// For sorting by arrival: requests are recorded when they complete.
    sorter: Sorter,
    first: Nanos,
    /// First error of the sorter.
    failed: Option<TraceError>,
    flushes: Vec<ObservedRequest>,
    calls: Vec<Call>,
    left_out: u64,
    limits: Limits,
    nr_requests: u32,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder {
            sorter: Sorter::with_runs(&std::env::temp_dir(), SORTED),
            first: Nanos::MAX,
            failed: None,
            flushes: Vec::new(),
            calls: Vec::new(),
            left_out: 0,
            limits: Limits::default(),
            nr_requests: 0,
        }
    }

    fn completed(&mut self, seen: &ObservedRequest) {
        if self.flushes.len() + self.calls.len() >= MOST_CALLS {
            self.left_out += 1;
            return;
        }
        self.first = self.first.min(seen.request.arrival);
        if self.failed.is_none() {
            self.failed = self.sorter.push(in_trace(seen)).err();
        }
    }
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        (self.limits, self.nr_requests) = (plant.limits(), plant.nr_requests());
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(event) {
            match event {
                Event::Completed { request, dispatched, at } => {
                    self.completed(&ObservedRequest { request, dispatched, completed: at });
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

/// The requests of a run in order of arrival.
fn sorted(sorter: Sorter, first: Nanos, failed: Option<TraceError>) -> anyhow::Result<Requests> {
    if let Some(error) = failed {
        return Err(error.into());
    }
    let mut sorted = sorter.finish(Box::new(Nameless))?;
    let mut requests = Requests::default();
    while let Some(request) = sorted.next_request() {
        let mut request = request?;
        // The sorter starts at time zero, the clock of a run does not.
        request.arrival += first;
        requests.push(&ObservedRequest::recorded(&request, request.response.unwrap_or_default()))?;
    }
    Ok(requests)
}

/// An empty trace, for a sorter without input of its own.
struct Nameless;

impl TraceReader for Nameless {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        None
    }
}
