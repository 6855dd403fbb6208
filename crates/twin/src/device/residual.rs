//! The error of a fitted device on requests that it was not fitted to.

use block::{Nanos, Op};
use sim::profile::{DeviceOptions, DeviceProfile};
use sim::validate::{MeasuredRequest, Validation, compare};

use super::access::Access;
use super::replay;

/// Comparison of response times from dispatch to completion, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residual {
    /// Number of accesses judged.
    pub accesses: usize,
    /// Mean on the device.
    pub mean_ms: f64,
    /// Mean of the model minus that of the device.
    pub mean_error_ms: f64,
    /// Root mean square distance of the distributions (demerit).
    pub demerit_ms: f64,
    /// Demerit of reads, and of writes.
    pub by_op_ms: [f64; 2],
}

/// Replays all accesses, so that the model is in steady state, and judges those after the first `skipped`.
pub fn judge(profile: &dyn DeviceProfile, accesses: &[Access], skipped: usize) -> Residual {
    // The queue depth is at least the observed number in flight, even if that of the profile is smaller.
    let most = accesses.iter().map(|access| access.others + 1).max().unwrap_or(1);
    let least = profile.build(DeviceOptions::default()).queue_depth() as u32;
    let mut device = profile.build(DeviceOptions { queue_depth: (most > least).then_some(most), queue_policy: None });
    let responses = replay::responses(&mut *device, accesses).accesses;
    let (measured, simulated): (Vec<MeasuredRequest>, Vec<f64>) = accesses[skipped..]
        .iter()
        .zip(&responses[skipped..])
        .filter(|(_, response)| response.is_finite())
        .map(|(access, &response)| (measured(access), response))
        .unzip();
    let Validation { all, reads, writes } = compare(&measured, &simulated);
    Residual {
        accesses: measured.len(),
        mean_ms: all.measured.mean_ms,
        mean_error_ms: all.mean_error_ms,
        demerit_ms: all.demerit_ms,
        by_op_ms: [reads.demerit_ms, writes.demerit_ms],
    }
}

fn measured(access: &Access) -> MeasuredRequest {
    MeasuredRequest {
        lba: access.lba,
        sectors: u32::try_from(access.sectors).unwrap_or(u32::MAX),
        op: if access.write { Op::Write } else { Op::Read },
        response_ms: access.response_ms(),
        think: Nanos::ZERO,
    }
}
