//! Estimates coefficients from a recording: a device is fitted to it and probed in the simulator.

use std::sync::Arc;

use anyhow::Context as _;
use block::{Nanos, Op};
use progress::Monitor;
use sim::device::Device;
use sim::profile::DeviceProfile;
use twin::ObservedRequest;
use twin::device::{JUDGED_SHARE, MIN_ACCESSES, Residual, fit_and_judge};

use super::simulated::Simulated;
use super::{Learned, learn};

/// Length of a sample in simulated time.
const SAMPLE: Nanos = Nanos::from_millis(2_000);
/// Size of the scratch file in the simulator, in sectors: 1 GiB.
const FILE: u64 = 1 << 21;

/// Estimates coefficients from requests with completion times. The error of a figure is half of the difference between the estimates from
/// the two halves of the recording, or the spread of the probes if that is more; `None` if there are too few requests of its direction.
///
/// # Errors
/// No device can be fitted, or the work was interrupted.
pub fn from_requests(
    seen: &[ObservedRequest],
    capacity: Option<u64>,
    monitor: &dyn Monitor,
) -> anyhow::Result<(Learned, Residual)> {
    let capacity = capacity.or_else(|| seen.iter().map(|one| one.request.end()).max());
    let (fitted, residual) = fit_and_judge(seen, capacity, JUDGED_SHARE)?;
    let probed = |profile: Arc<dyn DeviceProfile>| -> anyhow::Result<Learned> {
        let device: Box<dyn Device> = profile.build(sim::profile::DeviceOptions::default());
        learn(&mut Simulated::of(device, FILE, 1), SAMPLE, monitor)
    };
    let mut learned = probed(fitted.profile())?;
    let (first, second) = seen.split_at(seen.len() / 2);
    let halves = [first, second].map(|half| twin::fit(half, capacity).ok().map(|fitted| probed(fitted.profile())));
    let [first, second] = halves.map(Option::transpose);
    let halves = first?.zip(second?).context("a half of the recording is too short to fit a device to");
    let (first, second) = halves?;
    let count = |op: Op| seen.iter().filter(|one| one.request.op == op && !one.is_flush()).count();
    for (index, figure) in learned.model.iter_mut().enumerate() {
        let op = if index < 3 { Op::Read } else { Op::Write };
        let [one, other] = [&first, &second].map(|half| half.model[index].value);
        let apart = 100.0 * (one - other).abs() / 2.0 / figure.value;
        figure.error_percent = (count(op) >= MIN_ACCESSES).then(|| figure.error_percent.unwrap_or(0.0).max(apart));
    }
    Ok((learned, residual))
}
