//! Replays a trace on a device under a scheduler.

mod lanes;
mod placement;
mod source;

use block::Nanos;

pub use placement::{FOLLOWED_STREAMS, Fit, FitError, Placement, Survey};

use crate::host::{DeviceTally, Queue, QueueSettings};
use crate::run::{Measure, RunError, Watch, run};
use crate::trace::TraceReader;
use lanes::Lanes;
use source::{Closed, Numbered, Open};

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
    /// The device's queue.
    pub queue: QueueSettings,
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

/// Replays a trace through `queue`. `placement` must come from a survey of the same trace.
pub fn replay(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    mut queue: Queue,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
) -> Result<Outcome, RunError> {
    let requests = Numbered::all(reader);
    let measure = match settings.mode {
        Mode::Open => run(Open::new(requests, placement, settings.speed), &mut queue, measure, watch)?,
        Mode::Closed => run(Closed::new(requests, placement, settings.speed), &mut queue, measure, watch)?,
    };
    Ok(Outcome { measure, tally: queue.tally(), busy: queue.busy(), busy_in_run: queue.busy_at_completion() })
}

/// Replays a trace with every stream that `measure` follows alone on a device of its own, made by `build`: what each would get
/// without the others. Other streams' requests are passed over and counted nowhere, so that the streams can be shared out among
/// cores: what a stream gets depends on who else is followed only in so far as they share the bound on what is in memory.
pub fn replay_alone(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    build: &dyn Fn() -> Queue,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
) -> Result<Measure, RunError> {
    let mut lanes = Lanes::new(build);
    let requests = Numbered::only(reader, measure.followed(), watch.stop);
    match settings.mode {
        Mode::Open => run(Open::new(requests, placement, settings.speed), &mut lanes, measure, watch),
        Mode::Closed => run(Closed::new(requests, placement, settings.speed), &mut lanes, measure, watch),
    }
}
