//! Controllers on a block device of the real kernel, while the real fio runs on it.
//!
//! ```text
//! jobs ─▶ fio ─▶ device ─▶ Live::watch: events, calls ─▶ ControlLoop: windows ─▶ controller
//!                  ▲                                                      │ settings
//!                  └───────────────── Live::plant: applied ◀────────────┘
//! ```
//! What runs is real and takes its time: nothing here is the same twice. So settings are compared in turns ([`in_turns`]), one after the
//! other and then in the other order, so that what drifts is no setting's.

mod calls;
mod jobs;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use block::Nanos;
use control::{ControlLoop, Controller, Setting, Target};
use observe::Event;

use calls::Calls;
use experiment::fio;
pub use jobs::{Jobs, part};
use progress::monitor::Monitor;

/// How long fio may take to send its first request.
const FIRST_REQUEST: Nanos = Nanos::from_millis(30_000);
/// How long is waited for events at most before it is looked whether a window ends, or the work is to stop.
const LOOK: Nanos = Nanos::from_millis(50);

/// A block device of the real kernel. What it is set to is put back when this goes, however that happens.
pub trait Live {
    /// Where it is.
    fn path(&self) -> String;

    /// Its size.
    fn size_bytes(&self) -> u64;

    /// What the page says of device and machine: name and value.
    fn facts(&self) -> Vec<(String, String)>;

    /// What can be set.
    fn plant(&mut self) -> &mut dyn Target;

    /// The clock of the events.
    fn now(&self) -> Nanos;

    /// Waits until something happens, or until so much time is over, and appends what happened.
    ///
    /// # Errors
    /// The device is gone, or the kernel says what cannot be understood.
    fn watch(&mut self, longest: Nanos, out: &mut Vec<Event>) -> anyhow::Result<()>;

    /// Events that the kernel lost so far.
    fn lost(&self) -> u64;

    /// Waits until all that was written is on the device, and makes an emulated one new again.
    ///
    /// # Errors
    /// The device fails.
    fn settle(&mut self) -> anyhow::Result<()>;
}

/// How a controller went.
pub struct Steered {
    /// What it [leaves](control::Controller::leaves): what it keeps, or what was found where nothing else is known to be better.
    pub ends_with: Setting,
    /// Whether it came to an end by itself.
    pub has_ended: bool,
    /// How long that took, in seconds.
    pub took_s: f64,
    /// What it said of its last decision.
    pub why: String,
    /// Bytes a second of each of the jobs that were run one after the other, where they asked for logs: seconds since it began, and rate.
    pub throughput: Vec<Vec<(f64, f64)>>,
}

/// Runs jobs one after the other while a controller steers. With `until_settled` that ends as soon as the controller tries nothing more.
/// What was found active is active again afterwards.
///
/// # Errors
/// fio fails, the device cannot be set or observed, or the work was interrupted.
pub fn steer(
    live: &mut dyn Live,
    controller: Box<dyn Controller>,
    jobs: &[Jobs],
    until_settled: bool,
    monitor: &dyn Monitor,
) -> anyhow::Result<Steered> {
    let found = live.plant().setting();
    let gate = Gate { monitor, stop: AtomicBool::new(false) };
    let path = live.path();
    let clock = std::time::Instant::now();
    let outcome = std::thread::scope(|scope| {
        let fio = scope.spawn(|| -> anyhow::Result<Vec<(f64, Vec<String>)>> {
            let run = |jobs: &Jobs| {
                let begins = clock.elapsed().as_secs_f64();
                let (_, logs) = fio::run_logged(&jobs.text(&path), jobs.lasts_s(), &gate)?;
                Ok((begins, logs))
            };
            jobs.iter().map(run).collect()
        });
        let mut calls = jobs.first().and_then(|jobs| jobs.call_bytes).map(Calls::of);
        let watched = watch(live, (controller, &mut calls), until_settled, monitor, &|| fio.is_finished());
        gate.stop.store(true, Ordering::Relaxed);
        let ran = fio.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (steering, settled_s) = watched?;
        monitor.check()?;
        // fio was stopped because the controller has settled, and then says that it was interrupted.
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
        throughput: ran.iter().map(|(begins, logs)| total(*begins, logs)).collect::<anyhow::Result<_>>()?,
    })
}

/// Drives a controller until fio ends, or it has settled; when that was, in seconds after it began.
fn watch(
    live: &mut dyn Live,
    (controller, calls): (Box<dyn Controller>, &mut Option<Calls>),
    until_settled: bool,
    monitor: &dyn Monitor,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<(ControlLoop, Option<f64>)> {
    let mut steering = ControlLoop::new(controller);
    let mut events = Vec::new();
    let asked = live.now();
    // Time in which fio starts is no load.
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

/// Ends a run of fio without ending all of the work.
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

/// The sum of the logs of processes that ran at once: a rate for each second.
fn total(begins_s: f64, logs: &[String]) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut seconds: Vec<f64> = Vec::new();
    for log in logs {
        for (at, rate) in fio::throughput(log)? {
            // A line tells of the second before it; reads and writes have lines of their own.
            let second = (at.round() as usize).saturating_sub(1);
            if seconds.len() <= second {
                seconds.resize(second + 1, 0.0);
            }
            seconds[second] += rate;
        }
    }
    Ok(seconds.into_iter().enumerate().map(|(second, rate)| (begins_s + second as f64 + 1.0, rate)).collect())
}

/// What processes got.
pub use experiment::fio::Overall;

/// What jobs get under each of these settings: this many rounds, each in the other order than the one before. What was found active is in
/// force again afterwards.
///
/// # Errors
/// fio fails, the device cannot be set, or the work was interrupted.
pub fn in_turns(
    live: &mut dyn Live,
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

fn once(live: &mut dyn Live, setting: &Setting, jobs: &Jobs, monitor: &dyn Monitor) -> anyhow::Result<Overall> {
    let now = live.now();
    live.plant().apply(now, setting)?;
    let report = fio::run(&jobs.text(&live.path()), jobs.lasts_s(), monitor)?;
    live.settle()?;
    // Its observations of that run are discarded.
    live.watch(Nanos::ZERO, &mut Vec::new())?;
    Ok(fio::parse(&report)?.overall)
}

/// The mean of several runs.
pub fn mean(runs: &[Overall]) -> Option<Overall> {
    let of = |figure: &dyn Fn(&Overall) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
    (!runs.is_empty()).then(|| Overall { bytes_per_s: of(&|run| run.bytes_per_s), response_s: of(&|run| run.response_s) })
}

#[cfg(test)]
mod tests;
