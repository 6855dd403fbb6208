//! Predicts the performance of a unit alone on a device by replaying its processes' requests on the fitted device.

use twin::unit_load::UnitLoad;

use crate::decision::{Alone, Figure, PERIOD, Promise, Protector, Unit};

/// A p99 guarantee is rejected only if the forecast exceeds it by this factor: the forecast for a solid-state drive with occasional writes
/// was 2.5 times the measured p99, for disks at most 1.3 times (`seekwise-lab protect`, the first eight draws of seed 5 of the training
/// world). Choice: above 2.5, the largest measured factor; a lower one refuses feasible guarantees (docs/development/agent.md).
const P99_FACTOR: f64 = 3.0;
/// A rate guarantee is rejected only if it exceeds the forecast by this fraction: forecasts of rates were 0.95 to 1.06 times the measured
/// ones, except one of a share, which was 2.2 times (docs/development/agent.md). Choice: above the measured error of 6%; a lower one
/// refuses feasible guarantees.
const ERROR: f64 = 0.3;

/// Predicts how a unit performs alone. The figures have bounds, widened by the errors that forecasts had. `capacity_sectors`: the
/// device's capacity.
///
/// # Errors
/// No device can be fitted to the recorded requests, or the replay serves too little.
pub fn forecast(load: &UnitLoad, promise: &Promise, capacity_sectors: u64) -> Result<Alone, String> {
    let unit = Unit { name: String::new(), promise: Some(promise.clone()), is_limitable: false, floor_bytes_per_s: 0 };
    let mut protector = Protector::new(vec![unit]);
    let mut next = PERIOD;
    load.replay(capacity_sectors, &mut |event| {
        while event.at() >= next {
            protector.step(next);
            next += PERIOD;
        }
        protector.event(0, event);
    })?;
    let mut alone = protector.alone(0).ok_or("too little was served")?;
    let beyond = |figure: Option<Figure>, by: f64| figure.map(|Figure { value, .. }| Figure { value, bound: value * by });
    alone.p99_s = alone.p99_s.map(|figure| beyond(figure, 1.0 / P99_FACTOR));
    alone.rates = alone.rates.map(|figure| beyond(figure, 1.0 + ERROR));
    alone.basis = format!("forecast from {} requests", load.requests());
    Ok(alone)
}
