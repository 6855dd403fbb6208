//! Static limits, for hosts without the daemon: the largest that keep a guarantee in a recording, and their cost by hour.
//!
//! ```text
//! recording ─▶ device fitted to it ─┬─ replay without limits ─▶ kept? transfers of neighbours
//!                                   └─ replays with one limit for each neighbour, by bisection ─▶ largest that keeps it, by the hour
//! ```
//! Requests arrive at the times of the recording (open loop): a limited neighbour does not slow down its requests, so later ones queue
//! behind earlier ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use block::{Nanos, Request, Roster, StreamId, Tenant};
use control::Setting;
use experiment::recorded::{MOST, Recorded};
use progress::{Interrupted, Monitor};
use serde::Serialize;
use sim::host::{HostSettings, Queue};
use sim::profile::{DeviceOptions, DeviceProfile};
use sim::run::{Finished, Issue, Measure, RunError, Source, Watch, run};
use sim::trace::OpenOptions;
use twin::ObservedRequest;

use crate::decision::{Limit, Promise, SMALL_BYTES};
use crate::simulated::{CgroupPilot, CgroupRecord, ResponseKind, largest_kept};

/// The guarantee is evaluated in windows of this many seconds. Choice: a shorter one has too few requests for a p99, a longer one hides
/// seconds that break the guarantee; not varied.
const WINDOW_S: usize = 10;
/// In a window, this part of the responses has to be in time. Derived: the definition of a p99.
const IN_TIME: f64 = 0.99;
/// In each hour, this part of the windows has to keep the guarantee. Choice: a larger part lets the worst minute of an hour set the limit;
/// `seekwise-lab protect` asks the same of seconds; not varied.
pub const KEPT: f64 = 0.95;
/// A minimum rate is evaluated only in windows in which the unit had requests for this part of the time. Choice: a smaller part judges
/// windows in which the unit paused, a larger one leaves few; not varied.
const ACTIVE: f64 = 0.9;
/// Candidate limits per decade. Choice: more find a larger limit and cost replays; a third from one to the next; not varied.
const STEPS_PER_DECADE: f64 = 8.0;
/// Length of an hour. Derived: 60 minutes of 60 seconds.
const SECONDS_PER_HOUR: usize = 60 * 60;
/// Bytes in a megabyte. Source: SI, 10⁶ bytes.
const MB: f64 = 1e6;
/// Maximum number of streams that an error lists. Choice: bounds the length of an error; not varied.
const NAMED: usize = 20;
/// The scheduler assumed for recordings that do not name theirs: Linux's default. Source: `elevator_get_default` in `block/elevator.c`, for
/// devices with one hardware queue.
const SCHEDULER: &str = "mq-deadline";

/// A request for static limits.
#[derive(Clone, Debug)]
pub struct LimitRequest {
    /// The trace, with streams named by unit.
    pub recording: PathBuf,
    /// Options for reading the trace.
    pub options: OpenOptions,
    /// The unit with the promise.
    pub victim: String,
    /// The guarantee; a trace has no calls of fsync, so that bound is refused.
    pub promise: Promise,
    /// The units that may be limited.
    pub neighbours: Vec<String>,
    /// Lowest allowed limit, in bytes per second.
    pub floor_bytes_per_s: u64,
}

/// An hour of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hour {
    /// Number of the hour, from 0.
    pub hour: usize,
    /// Percentage of windows that keep the guarantee without limits; `None`: the unit had no requests.
    pub kept_before_percent: Option<f64>,
    /// Percentage of windows that keep it with limits; `None`: the unit had no requests.
    pub kept_percent: Option<f64>,
    /// Throughput of each neighbour without limits, in 10^6 bytes per second.
    pub demand_mb_s: Vec<f64>,
    /// Percentage of that throughput which is still queued at the end of the hour with limits.
    pub held_back_percent: Vec<f64>,
}

/// A neighbour and its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limited {
    /// The unit.
    pub unit: String,
    /// Bytes per second, for reads and writes each.
    pub bytes_per_s: u64,
    /// Requests per second of reads and of writes; `None` if they are large.
    pub iops: [Option<u64>; 2],
}

impl Limited {
    fn limit(&self) -> Limit {
        let bytes = Some(self.bytes_per_s);
        Limit { read_bytes_per_s: bytes, write_bytes_per_s: bytes, read_iops: self.iops[0], write_iops: self.iops[1] }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StaticLimits {
    /// The device's name in the recording, if it has one.
    pub device: Option<String>,
    /// Mean error of the fitted device, in milliseconds per request.
    pub error_ms: f64,
    /// Whether no limit keeps the guarantee in every hour; the limits are then the lowest.
    pub is_out_of_reach: bool,
    /// One for each neighbour; empty if the guarantee is kept without limits.
    pub limits: Vec<Limited>,
    /// By hour of the recording.
    pub hours: Vec<Hour>,
}

/// Finds the largest limit, the same for each neighbour, that keeps the guarantee in every hour.
///
/// # Errors
/// The recording cannot be replayed, a unit is not in it, the guarantee is about fsync or for a limited unit, or it was interrupted.
pub fn find(wanted: &LimitRequest, monitor: &dyn Monitor) -> anyhow::Result<StaticLimits> {
    let path = wanted.recording.display();
    ensure!(wanted.promise.flush_p99.is_none(), "{path}: a trace has no calls of fsync; promise reads, writes or a rate");
    ensure!(!wanted.neighbours.contains(&wanted.victim), "{}: is promised something, so it cannot be limited", wanted.victim);
    let recording = Recording::read(wanted, monitor)?;
    let sizes = recording.mean_sizes();
    let before = recording.replay(&[], monitor)?;
    let limited = |bytes_per_s: u64| -> Vec<Limited> {
        let of_small = |size: &f64| (*size > 0.0 && *size < SMALL_BYTES).then(|| (bytes_per_s as f64 / size).ceil() as u64);
        let iops = sizes[1..].iter().map(|sizes| sizes.each_ref().map(of_small));
        let each = wanted.neighbours.iter().zip(iops);
        each.map(|(unit, iops)| Limited { unit: unit.clone(), bytes_per_s, iops }).collect()
    };
    let is_kept = |records: &[CgroupRecord]| {
        hourly(&windows(&wanted.promise, &records[0])).iter().all(|kept| kept.is_none_or(|kept| kept >= KEPT))
    };
    let (mut limits, mut after, mut is_out_of_reach) = (Vec::new(), None, false);
    if !is_kept(&before) {
        let peak = before[1..].iter().flat_map(|record| &record.seconds).map(|second| second.bytes).max().unwrap_or(0);
        let floor = wanted.floor_bytes_per_s as f64;
        let beyond = ((peak as f64 / floor).log10().max(0.0) * STEPS_PER_DECADE) as u32 + 1;
        let at = |step: u32| {
            let limits = limited((floor * 10_f64.powf(f64::from(step) / STEPS_PER_DECADE)) as u64);
            let records = recording.replay(&limits, monitor)?;
            Ok((limits, records))
        };
        let lowest = at(0)?;
        is_out_of_reach = !is_kept(&lowest.1);
        let best = if is_out_of_reach { lowest } else { largest_kept(lowest, beyond, at, |(_, records)| is_kept(records))? };
        (limits, after) = (best.0, Some(best.1));
    }
    let hours = hours(&wanted.promise, &before, after.as_deref().unwrap_or(&before));
    let Recording { device, error_ms, .. } = recording;
    Ok(StaticLimits { device, error_ms, is_out_of_reach, limits, hours })
}

/// A recording, with its units as tenants and a device fitted to it.
struct Recording {
    /// Requests by arrival.
    seen: Vec<ObservedRequest>,
    profile: Arc<dyn DeviceProfile>,
    /// The device's name.
    device: Option<String>,
    error_ms: f64,
    /// The unit with the promise first, then its neighbours.
    roster: Roster,
    scheduler: Setting,
}

impl Recording {
    fn read(wanted: &LimitRequest, monitor: &dyn Monitor) -> anyhow::Result<Recording> {
        let path = wanted.recording.display();
        monitor.begin(0, "reading the recording, requests:");
        let mut recorded = Recorded::read(&wanted.recording, &wanted.options, &mut |count| {
            monitor.progress(count);
            Ok(monitor.check()?)
        })?;
        monitor.end();
        ensure!(
            recorded.timed > 0,
            "{path}: none of its {} requests says when it was done; response times are needed",
            recorded.all
        );
        if recorded.timed == MOST {
            monitor.warn(&format!("{path}: only its first {MOST} requests are replayed"));
        }
        if recorded.devices.len() > 1 {
            bail!("{path}: holds {} devices; cut one out with `seekwise trace split`", recorded.devices.len());
        }
        let (number, mut seen) = recorded.of_device(&wanted.recording, None)?;
        seen.retain(|one| !one.is_flush());
        let reader = &recorded.opened.reader;
        let names: Vec<&String> = [&wanted.victim].into_iter().chain(&wanted.neighbours).collect();
        let roster = roster(&seen, &names, |stream| reader.stream_name(stream)).with_context(|| path.to_string())?;
        let about = reader.recorded_device();
        let scheduler = about.and_then(|device| device.scheduler.as_deref()).unwrap_or(SCHEDULER);
        let scheduler = Setting::parse(scheduler).or_else(|_| Setting::parse(SCHEDULER))?;
        let capacity = about.and_then(|device| device.capacity_sectors);
        let device = reader.device_name(number).filter(|name| !name.is_empty()).map(str::to_owned);
        monitor.begin(0, "fitting the device");
        let (fitted, residual) =
            twin::device::fit_and_judge(&seen, capacity, twin::device::JUDGED_SHARE).with_context(|| path.to_string())?;
        monitor.end();
        Ok(Recording { seen, profile: fitted.profile(), device, error_ms: residual.mean_error_ms, roster, scheduler })
    }

    /// Mean sizes in bytes of each unit's reads and writes; 0 without any.
    fn mean_sizes(&self) -> Vec<[f64; 2]> {
        let mut sums = vec![[(0.0, 0.0); 2]; self.roster.tenants().len()];
        for ObservedRequest { request, .. } in self.seen.iter().filter(|one| one.request.op.transfers()) {
            if let Some(unit) = self.roster.owner(request) {
                let (count, bytes) = &mut sums[unit][usize::from(request.op.is_write())];
                *count += 1.0;
                *bytes += f64::from(request.sectors) * 512.0;
            }
        }
        sums.into_iter().map(|of_unit| of_unit.map(|(count, bytes): (f64, f64)| bytes / count.max(1.0))).collect()
    }

    /// Replays the recording under limits on the neighbours and returns the record of each unit.
    fn replay(&self, limits: &[Limited], monitor: &dyn Monitor) -> anyhow::Result<Vec<CgroupRecord>> {
        let fixed = limits.iter().enumerate().map(|(index, limited)| (index + 1, limited.limit())).collect();
        let mut pilot = CgroupPilot::new(&self.roster, 0).with_limits(fixed);
        let host = HostSettings::default().queue();
        let scheduler = (self.scheduler.spec.build)(&host.limits(), &self.scheduler.values);
        let mut queue = Queue::new(scheduler, self.profile.build(DeviceOptions::default()), host);
        queue.set_roster(&self.roster);
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        monitor.begin(0, "replaying the recording");
        let outcome = run(Replayed(self.seen.iter()), &mut queue, Measure::new([]), &watch, Some(&mut pilot));
        monitor.end();
        match outcome {
            Err(RunError::Interrupted) => Err(Interrupted.into()),
            outcome => outcome.map(|_| pilot.records).context("the replay failed"),
        }
    }
}

/// Requests at the times of the recording.
struct Replayed<'a>(std::slice::Iter<'a, ObservedRequest>);

impl Source for Replayed<'_> {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.0.as_slice().first().map(|next| next.request.arrival))
    }

    fn take(&mut self, _now: Nanos) -> Result<Option<Issue>, RunError> {
        Ok(self.0.next().map(|next| {
            let Request { arrival, lba, sectors, op, sync, stream, priority, .. } = next.request;
            Issue { arrival, lba, sectors, op, sync, stream, priority, token: 0 }
        }))
    }

    fn completed(&mut self, _finished: &Finished) {}
}

fn roster<'a>(
    seen: &[ObservedRequest],
    names: &[&String],
    name_of: impl Fn(StreamId) -> Option<&'a str>,
) -> anyhow::Result<Roster> {
    let streams: BTreeSet<StreamId> = seen.iter().map(|one| one.request.stream).collect();
    let mut owned: Vec<(StreamId, usize)> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let of_unit: Vec<StreamId> = streams.iter().copied().filter(|&stream| name_of(stream) == Some(name)).collect();
        if of_unit.is_empty() {
            let known: BTreeSet<&str> = streams.iter().filter_map(|&stream| name_of(stream)).collect();
            let known = known.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
            bail!("has no stream {name}; it has {known} (`seekwise trace capture --by unit` names streams by unit)");
        }
        owned.extend(of_unit.into_iter().map(|stream| (stream, number)));
    }
    Ok(Roster::new(names.iter().map(|name| Tenant::new((*name).clone())).collect(), Vec::new(), &owned, 1)?)
}

/// Whether the guarantee was kept in each window; `None`: there was nothing to evaluate.
fn windows(promise: &Promise, record: &CgroupRecord) -> Vec<Option<bool>> {
    let count = record.seconds.len().div_ceil(WINDOW_S);
    // Responses of each kind: all, and those in time.
    let mut responses = vec![[(0_u64, 0_u64); 2]; count];
    let limits = [(ResponseKind::Read, promise.read_p99), (ResponseKind::Write, promise.write_p99)];
    for response in &record.responses {
        let window = (response.at.as_secs_f64() as usize / WINDOW_S).min(count.saturating_sub(1));
        for (index, (kind, limit)) in limits.iter().enumerate() {
            if let Some(limit) = limit.filter(|_| *kind == response.kind) {
                let (all, in_time) = &mut responses[window][index];
                *all += 1;
                *in_time += u64::from(response.at - response.arrival <= limit);
            }
        }
    }
    let seconds = record.seconds.chunks(WINDOW_S);
    let judged = responses.into_iter().zip(seconds).map(|(kinds, seconds)| {
        let mut kept = Vec::new();
        for (all, in_time) in kinds.into_iter().filter(|(all, _)| *all > 0) {
            kept.push(in_time as f64 >= (IN_TIME * all as f64).floor());
        }
        let sum = |of: fn(&crate::simulated::Second) -> f64| seconds.iter().map(of).sum::<f64>();
        let length = seconds.len() as f64;
        let is_active = sum(|second| second.wanted.as_secs_f64()) >= ACTIVE * length;
        if let Some(least) = promise.least_iops.filter(|_| is_active) {
            kept.push(sum(|second| second.requests as f64) >= least * length);
        }
        if let Some(least) = promise.least_bytes_per_s.filter(|_| is_active) {
            kept.push(sum(|second| second.bytes as f64) >= least * length);
        }
        (!kept.is_empty()).then(|| kept.iter().all(|kept| *kept))
    });
    judged.collect()
}

/// The part of the evaluated windows that kept the guarantee, by hour; `None` without any.
fn hourly(windows: &[Option<bool>]) -> Vec<Option<f64>> {
    let part = |hour: &[Option<bool>]| {
        let judged: Vec<bool> = hour.iter().flatten().copied().collect();
        (!judged.is_empty()).then(|| judged.iter().filter(|kept| **kept).count() as f64 / judged.len() as f64)
    };
    windows.chunks(SECONDS_PER_HOUR / WINDOW_S).map(part).collect()
}

fn hours(promise: &Promise, before: &[CgroupRecord], after: &[CgroupRecord]) -> Vec<Hour> {
    let [kept_before, kept] = [before, after].map(|records| hourly(&windows(promise, &records[0])));
    let longest = before.iter().map(|record| record.seconds.len()).max().unwrap_or(0);
    let transferred = |record: &CgroupRecord, to: usize| -> f64 {
        record.seconds[..to.min(record.seconds.len())].iter().map(|second| second.bytes as f64).sum()
    };
    let percent = |kept: &[Option<f64>], hour: usize| kept.get(hour).copied().flatten().map(|part| 100.0 * part);
    let one = |hour: usize| {
        let (from, to) = (hour * SECONDS_PER_HOUR, ((hour + 1) * SECONDS_PER_HOUR).min(longest));
        let neighbours = || before[1..].iter().zip(&after[1..]);
        let demand = |record: &CgroupRecord| transferred(record, to) - transferred(record, from);
        Hour {
            hour,
            kept_before_percent: percent(&kept_before, hour),
            kept_percent: percent(&kept, hour),
            demand_mb_s: neighbours().map(|(record, _)| demand(record) / MB / (to - from).max(1) as f64).collect(),
            held_back_percent: neighbours()
                .map(|(before, after)| {
                    // A backlog from earlier hours counts in the last hour in which it was still held back.
                    let missing = (transferred(before, to) - transferred(after, to)).max(0.0);
                    if demand(before) > 0.0 { (100.0 * missing / demand(before)).min(100.0) } else { 0.0 }
                })
                .collect(),
        }
    };
    (0..longest.div_ceil(SECONDS_PER_HOUR)).map(one).collect()
}

/// A systemd drop-in: its path below `/etc/systemd/system`, and its content.
///
/// # Errors
/// The unit's name has no suffix of a systemd unit that can have limits.
pub fn drop_in(limited: &Limited, device: &Path) -> anyhow::Result<(PathBuf, String)> {
    let unit = &limited.unit;
    let sections = [
        (".service", "Service"),
        (".slice", "Slice"),
        (".scope", "Scope"),
        (".socket", "Socket"),
        (".mount", "Mount"),
        (".swap", "Swap"),
    ];
    let section = sections.iter().find(|(ending, _)| unit.ends_with(ending) && !unit.contains('/'));
    let (_, section) = section.with_context(|| {
        format!("{unit}: is no unit of systemd; limits of a container are set by its runtime, as in `docker run --device-read-bps`")
    })?;
    let (device, Limited { bytes_per_s, iops, .. }) = (device.display(), limited);
    let mut text = format!(
        "# Written by seekwise protect export.\n[{section}]\nIOAccounting=yes\nIOReadBandwidthMax={device} {bytes_per_s}\n\
         IOWriteBandwidthMax={device} {bytes_per_s}\n"
    );
    for (key, iops) in ["IOReadIOPSMax", "IOWriteIOPSMax"].into_iter().zip(iops) {
        if let Some(iops) = iops {
            text += &format!("{key}={device} {iops}\n");
        }
    }
    Ok((Path::new(&format!("{unit}.d")).join("50-seekwise.conf"), text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::simulated::{Response, Second};

    fn responses(second: u64, count: usize, ms: u64) -> Vec<Response> {
        let at = Nanos::from_millis(second * 1_000 + 500);
        vec![Response { kind: ResponseKind::Read, arrival: at - Nanos::from_millis(ms), at }; count]
    }

    #[test]
    fn windows_are_kept_if_99_of_100_are_in_time_and_rates_count_while_it_waits() {
        let busy = Second { wanted: Nanos::from_millis(1_000), requests: 50, bytes: 0, ..Second::default() };
        let mut record = CgroupRecord::default();
        record.seconds.resize(20, busy);
        record.seconds.resize(30, Second::default());
        record.responses.extend([responses(3, 99, 5), responses(4, 1, 50), responses(12, 98, 5), responses(13, 2, 50)].concat());
        let p99 = Promise { read_p99: Some(Nanos::from_millis(10)), ..Promise::default() };
        assert_eq!(windows(&p99, &record), [Some(true), Some(false), None]);
        assert_eq!(hourly(&windows(&p99, &record)), [Some(0.5)]);
        let rate = |least| Promise { least_iops: Some(least), ..Promise::default() };
        assert_eq!(windows(&rate(50.0), &record), [Some(true), Some(true), None]);
        assert_eq!(windows(&rate(51.0), &record), [Some(false), Some(false), None]);
    }

    #[test]
    fn a_drop_in_has_the_section_of_its_unit() {
        let limited = |unit: &str| Limited { unit: unit.to_owned(), bytes_per_s: 20_000_000, iops: [Some(300), None] };
        let (path, text) = drop_in(&limited("backup.service"), Path::new("/dev/sda")).unwrap();
        assert_eq!(path, Path::new("backup.service.d/50-seekwise.conf"));
        assert!(
            text.contains("[Service]\n") && text.contains("IOReadIOPSMax=/dev/sda 300\n") && !text.contains("WriteIOPS"),
            "{text}"
        );
        assert!(drop_in(&limited("user.slice"), Path::new("/dev/sda")).unwrap().1.contains("[Slice]\n"));
        let refused = drop_in(&limited("docker-4f2a1b2c3d4e"), Path::new("/dev/sda")).unwrap_err().to_string();
        assert!(refused.starts_with("docker-4f2a1b2c3d4e: is no unit of systemd"), "{refused}");
    }
}
