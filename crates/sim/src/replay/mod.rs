//! The event loop: replays a trace on a device under a scheduler, in virtual time.

mod host;
mod lanes;
mod measure;
mod placement;
mod source;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Nanos;

pub use host::{DeviceTally, Finished, Host, HostSettings, Issue};
pub use measure::{Bin, Measure, Responses, StreamMeasure};
pub use placement::{FOLLOWED_STREAMS, Fit, FitError, Placement, Survey};

use crate::trace::{TraceError, TraceReader};
use host::Server;
use lanes::Lanes;
use source::{Closed, Open, Source};

/// Events between two looks at the flag that stops a replay.
const EVENTS_PER_LOOK: u32 = 4096;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the trace's own times.
    Open,
    /// Each stream's next request its recorded think time after the one it waited for completes.
    Closed,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When requests are issued.
    pub mode: Mode,
    /// The trace's times (open) or think times (closed) are divided by this; positive and finite.
    pub speed: f64,
    /// The host's queue.
    pub host: HostSettings,
}

/// A replay that came to no result.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is not the one that was surveyed.
    #[error("the trace changed while it was being replayed")]
    Changed,
    /// Somebody asked it to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a replay is watched by and stopped through, from another thread.
#[derive(Debug, Default)]
pub struct Watch<'a> {
    /// Set: stop soon, with [`ReplayError::Interrupted`].
    pub stop: Option<&'a AtomicBool>,
    /// Grows by the requests completed.
    pub completed: Option<&'a AtomicU64>,
}

/// What one replay gives.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Response times and curves.
    pub measure: Measure,
    /// What the device did.
    pub tally: DeviceTally,
    /// How long the device was at work, until the last write of its cache was on the media.
    pub busy: Nanos,
    /// Of that, until the last completion: the run's own share.
    pub busy_in_run: Nanos,
}

impl Outcome {
    /// Share of the run in which the device was at work.
    pub fn utilisation(&self) -> f64 {
        ratio(self.busy_in_run, self.measure.duration())
    }

    /// For an open replay at `speed` that the device could not keep up with: the speed at which it just would.
    ///
    /// It could not if it was at work all the time (98%) and still needed over 5% more time than the requests took to arrive.
    pub fn sustainable_speed(&self, speed: f64) -> Option<f64> {
        let offered = self.measure.last_arrival - self.measure.first_arrival;
        let needed = self.measure.duration();
        let overrun = ratio(needed, offered);
        (self.utilisation() > 0.98 && overrun > 1.05).then(|| speed * ratio(offered, self.busy))
    }
}

fn ratio(part: Nanos, whole: Nanos) -> f64 {
    if whole == Nanos::ZERO { 0.0 } else { part.0 as f64 / whole.0 as f64 }
}

/// Replays a trace through `host`. `placement` must come from a survey of the same trace.
pub fn replay(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    mut host: Host,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
) -> Result<Outcome, ReplayError> {
    let measure = match settings.mode {
        Mode::Open => run(Open::new(reader, placement, settings.speed), &mut host, measure, watch)?,
        Mode::Closed => run(Closed::new(reader, placement, settings.speed), &mut host, measure, watch)?,
    };
    Ok(Outcome { measure, tally: host.tally(), busy: host.busy(), busy_in_run: host.busy_at_completion() })
}

/// Replays a trace with every stream that `measure` follows alone on a host of its own, made by `build`: what each would get without the others.
pub fn replay_alone(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    build: &dyn Fn() -> Host,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
) -> Result<Measure, ReplayError> {
    let mut lanes = Lanes::new(measure.streams.keys().copied(), build);
    match settings.mode {
        Mode::Open => run(Open::new(reader, placement, settings.speed), &mut lanes, measure, watch),
        Mode::Closed => run(Closed::new(reader, placement, settings.speed), &mut lanes, measure, watch),
    }
}

/// The loop: three sources of events (an arrival, the device, a scheduler that waits), the earliest first.
fn run(mut source: impl Source, server: &mut impl Server, mut measure: Measure, watch: &Watch) -> Result<Measure, ReplayError> {
    let mut now = Nanos::ZERO;
    let mut finished = Vec::new();
    let mut until_look = EVENTS_PER_LOOK;
    loop {
        let arrival = if server.has_room() { source.next_at()? } else { None };
        let event = server.next_event();
        let Some(next) = [arrival, event].into_iter().flatten().min() else { break };
        now = now.max(next);
        if event.is_some_and(|at| at <= now) {
            server.advance(now, &mut finished);
            for done in finished.drain(..) {
                measure.record(&done);
                source.completed(&done);
            }
        }
        // All that arrive at the same instant get into the queue before the device is offered anything.
        while server.has_room()
            && source.next_at()?.is_some_and(|at| at <= now)
            && let Some(issue) = source.take(now)?
        {
            server.admit(now, issue);
        }
        server.dispatch(now);
        until_look -= 1;
        if until_look == 0 {
            until_look = EVENTS_PER_LOOK;
            look(watch, &measure)?;
        }
    }
    look(watch, &measure)?;
    Ok(measure)
}

fn look(watch: &Watch, measure: &Measure) -> Result<(), ReplayError> {
    if let Some(completed) = watch.completed {
        completed.store(measure.all.count(), Ordering::Relaxed);
    }
    if watch.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        return Err(ReplayError::Interrupted);
    }
    Ok(())
}
