//! The device that served what was seen: fitted from times alone.
//!
//! ```text
//! Seen ─▶ accesses ─┬─ estimates by kind of device, each over a prior ─▶ specification ─▶ replays: what makes them truer ─▶ profile
//!                   └─ the last third, held out: how far the fit is off
//! ```

pub mod access;
mod findings;
mod hdd;
mod replay;
mod residual;
mod seek;

use std::fmt;
use std::sync::Arc;

use sim::profile::{DeviceProfile, Profile};

pub use self::access::Access;
pub use self::findings::Finding;
pub use self::residual::Residual;
use crate::Seen;

/// Fewer accesses tell nothing that the prior does not.
pub const MIN_ACCESSES: usize = 100;

/// Why no device could be fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// Too few requests: so many accesses of the device.
    TooFew(usize),
    /// A request that ends beyond the device: the sector behind its last, and the device's.
    Beyond(u64, u64),
    /// What was fitted is no profile: a mistake in this program.
    NoProfile(String),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::TooFew(accesses) => {
                write!(f, "{accesses} accesses with the times at which they were done; at least {MIN_ACCESSES} are needed")
            }
            FitError::Beyond(end, capacity) => {
                write!(f, "a request ends at sector {end}, beyond the device, which has {capacity}")
            }
            FitError::NoProfile(error) => write!(f, "what was fitted is no profile: {error}"),
        }
    }
}

impl std::error::Error for FitError {}

/// A fitted device.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The profile, for people and for `sim::profile`. What was found stands in its head.
    pub profile_toml: String,
    /// Each parameter, with how sure it is.
    pub findings: Vec<Finding>,
    /// How far the model that the first two thirds give is off on the last third.
    pub residual: Residual,
    profile: Profile,
}

impl Fitted {
    /// The device, ready to be built.
    pub fn profile(&self) -> Arc<dyn DeviceProfile> {
        self.profile.device()
    }
}

/// Fits a device to requests that it served, in any order. `capacity_sectors`: how many 512-byte sectors it has, if that is known.
///
/// # Errors
/// Too few requests, or one lies beyond the device.
pub fn fit(seen: &[Seen], capacity_sectors: Option<u64>) -> Result<Fitted, FitError> {
    let accesses = access::accesses(seen);
    if accesses.len() < MIN_ACCESSES {
        return Err(FitError::TooFew(accesses.len()));
    }
    let end = accesses.iter().map(Access::end).max().unwrap_or(0);
    let capacity = capacity_sectors.unwrap_or(end);
    if end > capacity {
        return Err(FitError::Beyond(end, capacity));
    }
    let (first, last) = accesses.split_at(accesses.len() * 2 / 3);
    let judged = profile(&hdd::estimate(first, capacity).specification())?;
    let residual = residual::judge(&judged, &accesses, last);
    let estimate = hdd::estimate(&accesses, capacity);
    let findings = estimate.findings(capacity_sectors.is_some());
    let profile = profile(&estimate.specification())?;
    let profile_toml = findings::head(&findings, &residual) + profile.text();
    Ok(Fitted { profile_toml, findings, residual, profile })
}

fn profile(specification: &sim::device::hdd::spec::HddSpecification) -> Result<Profile, FitError> {
    Profile::from_hdd(specification, "fitted").map_err(|error| FitError::NoProfile(error.to_string()))
}
