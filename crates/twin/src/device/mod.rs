//! The device that served what was seen: fitted from times alone.
//!
//! ```text
//! Seen ─▶ accesses ─┬─ estimates by kind of device, each over a prior ─▶ specification ─▶ replays: what makes them truer ─▶ profile
//!                   └─ the last third, held out: how far the fit is off
//! ```

pub mod access;
mod array;
mod findings;
mod flash;
mod hdd;
mod kind;
mod members;
mod refine;
mod replay;
mod residual;
mod seek;

use std::fmt;
use std::sync::Arc;

use block::Nanos;
use sim::profile::{DeviceProfile, Profile, ProfileError};

pub use self::access::Access;
pub use self::findings::Finding;
pub use self::residual::Residual;
use crate::Seen;

/// Fewer accesses tell nothing that the prior does not.
pub const MIN_ACCESSES: usize = 20;

/// A single disk whose replays are so close to what was seen, as a part of it, is one: a drawn drive with the depth of its queue known is
/// told to about this.
const AS_IT_IS: f64 = 0.08;

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
    profile: Arc<dyn DeviceProfile>,
    turn: Option<Nanos>,
}

impl Fitted {
    /// In which time it turns, if that shows as a line in the times at which requests ended: a scheduler that learns has found it, too,
    /// or soon will. `None` if it does not, or does not turn.
    pub fn turn(&self) -> Option<Nanos> {
        self.turn
    }

    /// The device, ready to be built.
    pub fn profile(&self) -> Arc<dyn DeviceProfile> {
        self.profile.clone()
    }
}

/// Fits a device to requests that it served, in any order. `capacity_sectors`: how many 512-byte sectors it has, if that is known;
/// else it ends where the last request does.
///
/// # Errors
/// Too few requests, or one lies beyond the device.
pub fn fit(seen: &[Seen], capacity_sectors: Option<u64>) -> Result<Fitted, FitError> {
    let (accesses, capacity) = looked_at(seen, capacity_sectors)?;
    fitted(&accesses, capacity, capacity_sectors.is_some(), None)
}

/// As [`fit`]; and how far a fit to this share of the accesses, the first, is off on the others.
///
/// # Errors
/// As [`fit`].
pub fn fit_and_judge(seen: &[Seen], capacity_sectors: Option<u64>, share: f64) -> Result<(Fitted, Residual), FitError> {
    let (accesses, capacity) = looked_at(seen, capacity_sectors)?;
    let fitted_to = fitted_to(accesses.len(), share);
    let part = fitted(&accesses[..fitted_to], capacity, capacity_sectors.is_some(), None)?;
    let residual = residual::judge(&*part.profile, &accesses, fitted_to);
    Ok((fitted(&accesses, capacity, capacity_sectors.is_some(), Some(&residual))?, residual))
}

/// The accesses, and the sectors of the device.
fn looked_at(seen: &[Seen], capacity_sectors: Option<u64>) -> Result<(Vec<Access>, u64), FitError> {
    let accesses = access::accesses(seen);
    if accesses.len() < MIN_ACCESSES {
        return Err(FitError::TooFew(accesses.len()));
    }
    let end = accesses.iter().map(Access::end).max().unwrap_or(0);
    let capacity = capacity_sectors.unwrap_or(end);
    if end > capacity {
        return Err(FitError::Beyond(end, capacity));
    }
    Ok((accesses, capacity))
}

/// How far a given profile is off on the accesses that [`fit_and_judge`] does not fit to.
///
/// # Errors
/// Too few requests, or one lies beyond the profile's device.
pub fn judge(profile: &Profile, seen: &[Seen], share: f64) -> Result<Residual, FitError> {
    let accesses = access::accesses(seen);
    if accesses.len() < MIN_ACCESSES {
        return Err(FitError::TooFew(accesses.len()));
    }
    let end = accesses.iter().map(Access::end).max().unwrap_or(0);
    if end > profile.capacity_sectors() {
        return Err(FitError::Beyond(end, profile.capacity_sectors()));
    }
    Ok(residual::judge(&*profile.device(), &accesses, fitted_to(accesses.len(), share)))
}

/// Something is left to fit to, and to judge on.
fn fitted_to(accesses: usize, share: f64) -> usize {
    ((accesses as f64 * share) as usize).clamp(1, accesses - 1)
}

/// What these accesses give, and what was found.
fn fitted(accesses: &[Access], capacity: u64, is_known: bool, residual: Option<&Residual>) -> Result<Fitted, FitError> {
    let kind = kind::of(accesses);
    let no_profile = |error: ProfileError| FitError::NoProfile(error.to_string());
    let mut findings = kind.findings(capacity, is_known);
    let mut turn = None;
    let (profile, text) = match kind.kind {
        kind::Kind::HardDisk => {
            let disk = hdd::estimate(accesses, capacity);
            let (single, distance) = disk.clone().refined(accesses);
            let is_told = distance <= AS_IT_IS && single.is_usual();
            let array = (!is_told).then(|| array::better(&disk, accesses)).flatten();
            match array.and_then(|array| array.refined_if_better((&single, distance), accesses)) {
                Some(array) => {
                    findings.extend(array.findings());
                    let member = array.member().map_err(no_profile)?;
                    let profile = array.profile().ok_or_else(|| FitError::NoProfile("no array can be made".to_owned()))?;
                    (profile, member.text().to_owned())
                }
                None => {
                    turn = single.seen_turn();
                    findings.extend(single.findings());
                    let profile = single.profile().map_err(no_profile)?;
                    (profile.device(), profile.text().to_owned())
                }
            }
        }
        kind::Kind::Flash => {
            let estimate = flash::estimate(accesses, capacity);
            findings.extend(estimate.findings());
            (estimate.folded().map_err(no_profile)?, estimate.profile().map_err(no_profile)?.text().to_owned())
        }
    };
    let profile_toml = findings::head(&findings, residual) + &text;
    Ok(Fitted { profile_toml, findings, profile, turn })
}
