//! The keys of a tenant's reservation and limits.

use std::num::NonZeroU64;

use anyhow::{Context, bail, ensure};
use block::{Nanos, Rate, Rates};
use toml::Value;

use super::whole;

/// All keys of rates.
pub(super) const KEYS: [&str; 10] = [
    "reservation_iops",
    "reservation_mb_s",
    "limit_iops",
    "limit_mb_s",
    "limit_read_iops",
    "limit_write_iops",
    "limit_read_mb_s",
    "limit_write_mb_s",
    "limit_burst_s",
    "io_unit_kib",
];
/// Maximum burst: a limit that accumulates for a day is ineffective.
const MAX_BURST_S: f64 = 86_400.0;
/// Maximum unit: 1 GiB.
const MAX_UNIT_KIB: i64 = 1 << 20;

/// Sets a key; returns `false` if it is not one of [`KEYS`].
pub(super) fn set(rates: &mut Rates, key: &str, value: &Value) -> anyhow::Result<bool> {
    match key {
        "reservation_iops" => rates.reservation.iops = Some(iops(value)?),
        "reservation_mb_s" => rates.reservation.bytes_per_s = Some(bytes_per_s(value)?),
        "limit_iops" => rates.limit.iops = Some(iops(value)?),
        "limit_mb_s" => rates.limit.bytes_per_s = Some(bytes_per_s(value)?),
        "limit_read_iops" => rates.read_limit.iops = Some(iops(value)?),
        "limit_write_iops" => rates.write_limit.iops = Some(iops(value)?),
        "limit_read_mb_s" => rates.read_limit.bytes_per_s = Some(bytes_per_s(value)?),
        "limit_write_mb_s" => rates.write_limit.bytes_per_s = Some(bytes_per_s(value)?),
        "limit_burst_s" => {
            let seconds = number(value).filter(|seconds| (0.0..=MAX_BURST_S).contains(seconds));
            let seconds = seconds.with_context(|| format!("{value} should be seconds, 0 to {MAX_BURST_S}"))?;
            rates.burst = Some(Nanos::from_secs_f64(seconds));
        }
        "io_unit_kib" => {
            let kib = whole(value)?;
            ensure!((1..=MAX_UNIT_KIB).contains(&kib), "{kib} should be KiB that count as one request, 1 to {MAX_UNIT_KIB}");
            rates.unit_bytes = u64::try_from(kib << 10).ok().and_then(NonZeroU64::new).unwrap_or(rates.unit_bytes);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Checks combinations of keys that are valid one by one.
pub(super) fn check(rates: &Rates) -> anyhow::Result<()> {
    ensure!(
        rates.burst.is_none() || rates.is_limited(),
        "limit_burst_s says how long an unused limit is saved up, but there is no limit"
    );
    let Rates { reservation, limit, read_limit, write_limit, .. } = rates;
    let iops = |rate: &Rate| rate.iops.map(u64::from);
    not_above("iops", 1, iops(reservation), [iops(limit), iops(read_limit), iops(write_limit)])?;
    let bytes = |rate: &Rate| rate.bytes_per_s.map(u64::from);
    not_above("mb_s", 1_000_000, bytes(reservation), [bytes(limit), bytes(read_limit), bytes(write_limit)])
}

/// Checks a reservation against the limits of all requests, of reads and of writes of the same kind; `unit` is the divisor for
/// the keys.
fn not_above(kind: &str, unit: u64, reserved: Option<u64>, [all, reads, writes]: [Option<u64>; 3]) -> anyhow::Result<()> {
    let Some(reserved) = reserved else { return Ok(()) };
    let text = |rate: u64| rate as f64 / unit as f64;
    if let Some(limit) = all.filter(|limit| *limit < reserved) {
        bail!("reservation_{kind} = {} is more than limit_{kind} = {}; it should be at most that", text(reserved), text(limit));
    }
    if let Some(limit) = reads.zip(writes).map(|(reads, writes)| reads.saturating_add(writes)).filter(|limit| *limit < reserved) {
        bail!(
            "reservation_{kind} = {} is more than limit_read_{kind} and limit_write_{kind} together allow, {}; it should be at most that",
            text(reserved),
            text(limit)
        );
    }
    Ok(())
}

fn iops(value: &Value) -> anyhow::Result<NonZeroU64> {
    let requests = whole(value)?;
    let rate = u64::try_from(requests).ok().and_then(NonZeroU64::new);
    rate.with_context(|| format!("{requests} should be requests a second, at least 1"))
}

fn bytes_per_s(value: &Value) -> anyhow::Result<NonZeroU64> {
    let bytes = number(value).map(|mb_s| mb_s * 1e6).filter(|bytes| (1.0..=1e15).contains(bytes));
    let bytes = bytes.and_then(|bytes| NonZeroU64::new(bytes.round() as u64));
    bytes.with_context(|| format!("{value} should be 10^6 bytes a second, more than 0"))
}

/// A number with or without a fraction.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}
