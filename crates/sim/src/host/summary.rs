//! The result of one run: measures, and the counts of device and host.

use block::Nanos;

use super::{DeviceTally, HostTally, Ledger, Queue};
use crate::device::FlashTally;
use crate::run::Measure;

/// The result of one run through a queue or a host.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Response times and curves.
    pub measure: Measure,
    /// The device's counts.
    pub tally: DeviceTally,
    /// Busy time of the device until the last write of its cache was on the media.
    pub busy: Nanos,
    /// The part of [`busy`](RunSummary::busy) before the last completion.
    pub busy_in_run: Nanos,
    /// The counts of a flash device's translation layer.
    pub flash: Option<FlashTally>,
    /// The host's counts; `None` for a run without a host.
    pub host: Option<HostTally>,
    /// Device time of each tenant; `None` without a roster.
    pub ledger: Option<Ledger>,
}

impl RunSummary {
    /// The result of a run through `queue` without a host.
    pub fn new(measure: Measure, queue: &Queue) -> RunSummary {
        RunSummary {
            measure,
            tally: queue.tally(),
            busy: queue.busy(),
            busy_in_run: queue.busy_at_completion(),
            flash: queue.flash(),
            host: None,
            ledger: queue.ledger().cloned(),
        }
    }

    /// The share of the run during which the device was busy.
    pub fn utilisation(&self) -> f64 {
        ratio(self.busy_in_run, self.measure.watched())
    }

    /// Mean number of requests in the queue and at the device: `aqu-sz` of iostat(1). Requests that wait to be admitted are not
    /// included.
    pub fn queue_size(&self) -> f64 {
        let watched = self.measure.watched();
        if watched == Nanos::ZERO { 0.0 } else { self.tally.in_queue_ns as f64 / watched.0 as f64 }
    }

    /// For an open replay at `speed` that overloaded the device: the speed at which it served a full queue, which bounds the sustainable
    /// one, as a device has less choice in a shorter queue; `None` if it kept up.
    ///
    /// The device is overloaded if it was busy at least 98% of the time and needed over 5% more time than the requests took to
    /// arrive.
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
