//! Controllers on a block device of the real kernel while fio runs on it.
//!
//! ```text
//! jobs ─▶ fio ─▶ device ─▶ LiveDevice::watch: events, calls ─▶ ControlLoop: windows ─▶ controller
//!                  ▲                                                                        │ settings
//!                  └────────────────────── LiveDevice::plant: applied ◀─────────────────────┘
//! ```
//! Runs take real time and are not reproducible. So settings are compared in turns ([`in_turns`]), alternating forward and backward, which
//! cancels linear drift.

mod calls;
mod jobs;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use block::Nanos;
use control::{ControlLoop, Controller, DecisionRecord, Setting, Target};
use observe::Event;

use calls::Calls;
use experiment::fio;
pub use jobs::{FioRun, Jobs, part};
use progress::monitor::Monitor;

/// Timeout for fio's first request.
const FIRST_REQUEST: Nanos = Nanos::from_millis(30_000);
/// Maximum wait for events before checking for the end of a window or an interruption.
const LOOK: Nanos = Nanos::from_millis(50);

/// A block device of the real kernel for controllers. Its settings are restored on drop, and by the applier if the process is killed.
///
/// ```
/// use block::Nanos;
/// use research::live::LiveDevice;
///
/// /// The number of events in about 100 ms.
/// fn events(device: &mut dyn LiveDevice) -> anyhow::Result<usize> {
///     let (mut events, end) = (Vec::new(), device.now() + Nanos::from_millis(100));
///     while device.now() < end {
///         device.watch(end - device.now(), &mut events)?;
///     }
///     Ok(events.len())
/// }
/// ```
pub trait LiveDevice {
    /// Path of the device, such as `/dev/sdb`.
    fn path(&self) -> String;

    /// Its size in bytes.
    fn size_bytes(&self) -> u64;

    /// Facts about device and machine for the report: names and values.
    fn facts(&self) -> Vec<(String, String)>;

    /// Access to its settings.
    fn plant(&mut self) -> &mut dyn Target;

    /// The current time on the clock of the events.
    fn now(&self) -> Nanos;

    /// Waits for events, at most for `longest`, and appends them to `out`, which may remain unchanged.
    ///
    /// # Errors
    /// The device is gone, or the kernel's trace cannot be parsed.
    fn watch(&mut self, longest: Nanos, out: &mut Vec<Event>) -> anyhow::Result<()>;

    /// Number of trace events lost since the beginning.
    fn lost(&self) -> u64;

    /// Waits until all written data is on the device. An emulated device without a file system is then reset to a new one.
    ///
    /// # Errors
    /// The device fails.
    fn settle(&mut self) -> anyhow::Result<()>;

    /// Makes a new file system on it, such as `ext2`, and mounts it; returns the folder. The previous one is gone.
    ///
    /// # Errors
    /// The kernel or the machine does not have this file system, or the device fails.
    fn mount(&mut self, file_system: &str) -> anyhow::Result<PathBuf>;

    /// Unmounts the file system, if there is one.
    ///
    /// # Errors
    /// It is in use.
    fn unmount(&mut self) -> anyhow::Result<()>;
}

/// The result of a run under a controller.
pub struct Steered {
    /// The setting that it leaves; the original one if no other is known to be better.
    pub ends_with: Setting,
    /// Whether its search finished before the jobs.
    pub has_ended: bool,
    /// Seconds until it finished, or until the end of the jobs.
    pub took_s: f64,
    /// Its decisions.
    pub decisions: Vec<DecisionRecord>,
    /// The reason of its last decision.
    pub why: String,
    /// For each of the jobs, if it has a bandwidth log: seconds since the start, and bytes per second; else empty.
    pub throughput: Vec<Vec<(f64, f64)>>,
    /// For each of the jobs, seconds from the start to the end of fio, and its JSON output.
    pub reports: Vec<(f64, String)>,
}

/// Runs jobs in sequence under a controller. With `until_settled`, stops as soon as its search has finished. Restores the original setting
/// at the end.
///
/// # Errors
/// fio fails, the device cannot be set or observed, or the work was interrupted.
pub fn steer(
    live: &mut dyn LiveDevice,
    controller: Box<dyn Controller>,
    runs: &[FioRun],
    until_settled: bool,
    monitor: &dyn Monitor,
) -> anyhow::Result<Steered> {
    let found = live.plant().setting();
    let gate = Gate { monitor, stop: AtomicBool::new(false) };
    let clock = std::time::Instant::now();
    let outcome = std::thread::scope(|scope| {
        let fio = scope.spawn(|| -> anyhow::Result<Vec<Ran>> {
            let run = |run: &FioRun| {
                let begins_s = clock.elapsed().as_secs_f64();
                let (report, logs) = fio::run_logged(&run.text, run.lasts_s, &gate)?;
                Ok(Ran { begins_s, took_s: clock.elapsed().as_secs_f64() - begins_s, report, logs })
            };
            runs.iter().map(run).collect()
        });
        let mut calls = runs.first().and_then(|run| run.call_bytes).map(Calls::of);
        let watched = watch(live, (controller, &mut calls), until_settled, monitor, &|| fio.is_finished());
        gate.stop.store(true, Ordering::Relaxed);
        let ran = fio.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (steering, settled_s) = watched?;
        monitor.check()?;
        // fio was stopped because the controller has settled; its error about the interruption is ignored.
        let ran = if settled_s.is_some() && until_settled { Vec::new() } else { ran? };
        Ok::<_, anyhow::Error>((steering, settled_s, ran))
    });
    let now = live.now();
    live.plant().apply(now, &found)?;
    live.settle()?;
    let (steering, settled_s, ran) = outcome?;
    let (has_ended, last) = (!steering.controller().is_searching(), steering.decisions().last());
    Ok(Steered {
        ends_with: steering.final_setting().unwrap_or(found),
        has_ended,
        took_s: settled_s.unwrap_or_else(|| clock.elapsed().as_secs_f64()),
        why: last.map_or_else(String::new, |last| last.why.clone()),
        decisions: steering.decisions().to_vec(),
        throughput: ran.iter().map(|ran| total(ran.begins_s, &ran.logs)).collect::<anyhow::Result<_>>()?,
        reports: ran.into_iter().map(|ran| (ran.took_s, ran.report)).collect(),
    })
}

/// A completed run of fio.
struct Ran {
    begins_s: f64,
    took_s: f64,
    report: String,
    logs: Vec<String>,
}

/// Drives a controller until fio ends, or until it settles if `until_settled`; also returns when it settled, in seconds after the start.
fn watch(
    live: &mut dyn LiveDevice,
    (controller, calls): (Box<dyn Controller>, &mut Option<Calls>),
    until_settled: bool,
    monitor: &dyn Monitor,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<(ControlLoop, Option<f64>)> {
    let mut steering = ControlLoop::new(controller);
    let mut events = Vec::new();
    let asked = live.now();
    // Do not count the start-up of fio as part of the load.
    while events.is_empty() && !is_over() && live.now() < asked + FIRST_REQUEST {
        monitor.check()?;
        live.watch(LOOK, &mut events)?;
    }
    let (began, mut lost) = (live.now(), live.lost());
    steering.begin(began, live.plant());
    while !is_over() {
        monitor.check()?;
        for event in events.drain(..) {
            steering.event(&event);
            if let Some(call) = calls.as_mut().and_then(|calls| calls.event(&event)) {
                steering.event(&call);
            }
        }
        let now = live.now();
        steering.advance(now, live.plant());
        if until_settled && !steering.controller().is_searching() {
            return Ok((steering, Some((live.now() - began).as_secs_f64())));
        }
        let until_next = steering.next_deadline().map_or(LOOK, |next| if next > now { next - now } else { Nanos::ZERO });
        live.watch(until_next.min(LOOK), &mut events)?;
        if live.lost() > lost {
            monitor.warn(&format!("the kernel lost {} trace events: the request rate is too high", live.lost() - lost));
            lost = live.lost();
            calls.iter_mut().for_each(Calls::lost);
        }
    }
    Ok((steering, None))
}

/// Stops a run of fio without interrupting the rest of the work.
struct Gate<'a> {
    monitor: &'a dyn Monitor,
    stop: AtomicBool,
}

impl Monitor for Gate<'_> {
    fn begin(&self, _total: u64, _what: &str) {}

    fn progress(&self, _done: u64) {}

    fn end(&self) {}

    fn warn(&self, text: &str) {
        self.monitor.warn(text);
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

/// The sum of the logs of concurrent processes: a rate for each second.
fn total(begins_s: f64, logs: &[String]) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut seconds: Vec<f64> = Vec::new();
    for log in logs {
        for (at, rate) in fio::throughput(log)? {
            // A line covers the second before it; reads and writes have separate lines.
            let second = (at.round() as usize).saturating_sub(1);
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += rate;
        }
    }
    Ok(seconds.into_iter().enumerate().map(|(second, rate)| (begins_s + second as f64 + 1.0, rate)).collect())
}

/// Performance of processes.
pub use experiment::fio::Overall;

/// Performance of the jobs under each of these settings, by round. Rounds alternate between forward and backward order. The original setting is
/// restored at the end.
///
/// # Errors
/// fio fails, the device cannot be set, or the work was interrupted.
pub fn in_turns(
    live: &mut dyn LiveDevice,
    settings: &[Setting],
    rounds: u32,
    jobs: &Jobs,
    monitor: &dyn Monitor,
) -> anyhow::Result<Vec<Vec<Overall>>> {
    let found = live.plant().setting();
    let mut got = vec![Vec::new(); settings.len()];
    let outcome = (0..rounds).try_for_each(|round| {
        let forwards = 0..settings.len();
        let order: Vec<usize> = if round % 2 == 0 { forwards.collect() } else { forwards.rev().collect() };
        order.into_iter().try_for_each(|place| {
            let setting = &settings[place];
            let jobs = Jobs { seed: jobs.seed + u64::from(round), ..jobs.clone() };
            got[place].push(once(live, setting, &jobs, monitor).with_context(|| format!("{}: under {setting}", live.path()))?);
            Ok::<(), anyhow::Error>(())
        })
    });
    let now = live.now();
    live.plant().apply(now, &found)?;
    outcome.map(|()| got)
}

fn once(live: &mut dyn LiveDevice, setting: &Setting, jobs: &Jobs, monitor: &dyn Monitor) -> anyhow::Result<Overall> {
    let now = live.now();
    live.plant().apply(now, setting)?;
    let report = fio::run(&jobs.text(&live.path()), jobs.lasts_s(), monitor)?;
    live.settle()?;
    // Discard observations of that run.
    live.watch(Nanos::ZERO, &mut Vec::new())?;
    Ok(fio::parse(&report)?.overall)
}

/// The mean of several runs; `None` if there are none.
pub fn mean(runs: &[Overall]) -> Option<Overall> {
    let of = |figure: &dyn Fn(&Overall) -> f64| statistics::mean(runs.iter().map(figure));
    Some(Overall { bytes_per_s: of(&|run| run.bytes_per_s)?, response_s: of(&|run| run.response_s)? })
}

#[cfg(test)]
mod tests;
