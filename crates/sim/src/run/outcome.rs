//! What one run gives.

use block::Nanos;

use super::Measure;
use crate::device::ssd::FlashTally;
use crate::host::{DeviceTally, HostTally, Queue};

/// What was measured, and what device and host did.
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
    /// What went on inside a flash device.
    pub flash: Option<FlashTally>,
    /// What the host's memory did, where requests passed through it.
    pub host: Option<HostTally>,
}

impl Outcome {
    /// What came of a run through `queue`, past the host's memory.
    pub fn new(measure: Measure, queue: &Queue) -> Outcome {
        Outcome {
            measure,
            tally: queue.tally(),
            busy: queue.busy(),
            busy_in_run: queue.busy_at_completion(),
            flash: queue.flash(),
            host: None,
        }
    }

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
