//! Fits a device to the times of the requests that it served.
//!
//! ```text
//! ObservedRequest ─▶ accesses ─┬─ estimates by kind of device, each over a prior ─▶ specification ─▶ refined by replays ─▶ profile
//!                   └─ the last accesses, held out: residual error
//! ```

pub mod access;
mod array;
mod assumed;
mod findings;
mod flash;
mod hdd;
mod kind;
mod limits;
mod members;
mod refine;
mod replay;
mod residual;
mod seek;

use std::fmt;
use std::sync::Arc;

use block::Nanos;
use sim::profile::{DeviceProfile, Profile};

pub use self::access::Access;
pub use self::assumed::AssumedDevice;
pub use self::findings::Finding;
pub use self::flash::AssumedFlash;
pub use self::hdd::AssumedDisk;
pub(crate) use self::hdd::TurnSearch;
use self::limits::Limit;
pub use self::refine::MOST as MOST_REPLAYED;
pub use self::residual::Residual;
use crate::ObservedRequest;

/// Minimum number of accesses: fewer add nothing to the prior. Choice: devices from short recordings against errors of the fit; 100 before
/// commit 66e4a0eb.
pub const MIN_ACCESSES: usize = 20;

/// A live device is fitted to at most this number of its latest requests. Choice: 40 ms of processor time for requests that are not replayed; not
/// varied.
pub(crate) const MAX_FITTED: usize = 4_000;

/// Relative replay error up to which a single disk is accepted without trying others: about that of a randomly generated drive with a known
/// queue depth. Choice: processor time for arrays against arrays that resemble a disk; not varied.
const AS_IT_IS: f64 = 0.08;

/// A device without a visible rotation is flash if the error of flash is below this factor times that of disks.
/// Derived: [`array::CLEARLY`].
const CLEARLY_FLASH: f64 = array::CLEARLY;

/// A device behind a limit is accepted if its replay error is below this factor times the error without a limit. Choice: a limit has more
/// parameters, so it fits better by chance, too; not varied.
const CLEARLY: f64 = 0.7;

/// Why no device could be fitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// Too few requests; only this number of accesses.
    TooFew(usize),
    /// A request ends beyond the device: its end, and the capacity, in sectors.
    Beyond(u64, u64),
    /// The fitted parameters are not a valid profile, which is a bug.
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
    /// The profile as text for `sim::profile`, with the findings as comments at its head.
    pub profile_toml: String,
    /// Each parameter with its error.
    pub findings: Vec<Finding>,
    profile: Arc<dyn DeviceProfile>,
    turn: Option<Nanos>,
}

impl Fitted {
    /// The rotation time, if completion times show it, so that a learning scheduler has also found it or soon will. `None` if they do not,
    /// or if the device does not rotate.
    pub fn turn(&self) -> Option<Nanos> {
        self.turn
    }

    /// The device, ready to be built.
    pub fn profile(&self) -> Arc<dyn DeviceProfile> {
        self.profile.clone()
    }
}

/// Fits a device to requests that it served, in any order. `capacity_sectors`: its size in 512-byte sectors; `None`: the end of the last
/// sector accessed.
///
/// ```
/// use block::{Nanos, Op, Priority, Request};
/// use twin::ObservedRequest;
///
/// // Random reads of 4 KiB that take 5 to 15 ms each: a hard disk.
/// let mut at = Nanos::ZERO;
/// let seen: Vec<ObservedRequest> = (0..200).map(|number| {
///     let (op, priority, lba) = (Op::Read, Priority::DEFAULT, 7_919 * 8 * (number * 7_919 % 1_000));
///     let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival: at };
///     let dispatched = at;
///     at += Nanos::from_millis(5 + number * 7 % 11);
///     ObservedRequest { request, dispatched, completed: at }
/// }).collect();
/// let fitted = twin::fit(&seen, Some(1 << 27)).unwrap();
/// assert!(fitted.turn().is_none(), "these times show no rotation");
/// assert!(!fitted.findings.is_empty());
/// ```
///
/// # Errors
/// Too few requests, or one is beyond the device.
pub fn fit(seen: &[ObservedRequest], capacity_sectors: Option<u64>) -> Result<Fitted, FitError> {
    fit_again(seen, capacity_sectors, &mut TurnSearch::default())
}

/// Like [`fit`], with the results of searches for the rotation in earlier fits of the same device, and for later ones.
///
/// # Errors
/// As [`fit`].
pub(crate) fn fit_again(
    seen: &[ObservedRequest],
    capacity_sectors: Option<u64>,
    search: &mut TurnSearch,
) -> Result<Fitted, FitError> {
    let (accesses, capacity) = looked_at(seen, capacity_sectors)?;
    fitted(&accesses, (capacity, capacity_sectors.is_some()), None, search)
}

/// Default fraction of a recording that a device is fitted to, if the rest is used to judge the fit. Choice: both errors are equally
/// precise with halves; not varied.
pub const JUDGED_SHARE: f64 = 0.5;

/// Like [`fit`], with the residual error: that of a device fitted to the first `share` of the accesses, judged on the others.
///
/// # Errors
/// As [`fit`].
pub fn fit_and_judge(seen: &[ObservedRequest], capacity_sectors: Option<u64>, share: f64) -> Result<(Fitted, Residual), FitError> {
    let (accesses, capacity) = looked_at(seen, capacity_sectors)?;
    let fitted_to = fitted_to(accesses.len(), share);
    let of = (capacity, capacity_sectors.is_some());
    let part = fitted(&accesses[..fitted_to], of, None, &mut TurnSearch::default())?;
    let residual = residual::judge(&*part.profile, &accesses, fitted_to);
    Ok((fitted(&accesses, of, Some(&residual), &mut TurnSearch::default())?, residual))
}

/// The accesses, and the capacity in sectors.
fn looked_at(seen: &[ObservedRequest], capacity_sectors: Option<u64>) -> Result<(Vec<Access>, u64), FitError> {
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

/// The residual error of a given profile on the accesses to which [`fit_and_judge`] does not fit.
///
/// # Errors
/// Too few requests, or one is beyond the profile's device.
pub fn judge(profile: &Profile, seen: &[ObservedRequest], share: f64) -> Result<Residual, FitError> {
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

/// Number of accesses to fit to: at least one, leaving at least one to judge on.
fn fitted_to(accesses: usize, share: f64) -> usize {
    ((accesses as f64 * share) as usize).clamp(1, accesses - 1)
}

/// Whether these findings are of a device behind a limit of its rate, such as a cloud volume.
pub fn is_limited(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| [limits::OF_BYTES, limits::OF_OPERATIONS].contains(&finding.name))
}

/// The device fitted to these accesses, with its findings.
fn fitted(
    accesses: &[Access],
    (capacity, is_known): (u64, bool),
    residual: Option<&Residual>,
    search: &mut TurnSearch,
) -> Result<Fitted, FitError> {
    let (device, irregular) = Served::by(accesses, capacity, is_known, search)?;
    // Of two devices one of which cannot be, the other one need not be much better.
    let clearly = if irregular.is_some() { 1.0 } else { CLEARLY };
    let Served { profile, text, findings, turn } = match limits::found(accesses).or(irregular) {
        Some(limit) => device.or_limited((&limit, clearly), accesses, capacity, is_known)?,
        None => device,
    };
    let profile_toml = findings::head(&findings, residual) + &text;
    Ok(Fitted { profile_toml, findings, profile, turn })
}

/// A candidate for the device that served the accesses.
struct Served {
    profile: Arc<dyn DeviceProfile>,
    text: String,
    findings: Vec<Finding>,
    turn: Option<Nanos>,
}

fn no_profile(error: impl fmt::Display) -> FitError {
    FitError::NoProfile(error.to_string())
}

impl Served {
    /// A device without a limit; and an irregular limit, if the accesses show neither an arm nor a rotation and are slower than those of
    /// flash, so that the device cannot be one.
    fn by(
        accesses: &[Access],
        capacity: u64,
        is_known: bool,
        search: &mut TurnSearch,
    ) -> Result<(Served, Option<Limit>), FitError> {
        let kind = kind::of(accesses);
        let findings = kind.findings(capacity, is_known);
        if kind.kind == kind::MediumKind::Flash {
            return Ok((Served::by_flash(flash::estimate(accesses, capacity), findings)?, None));
        }
        let disk = hdd::estimate(accesses, capacity, search);
        let (single, distance) = disk.clone().refined(accesses);
        let is_told = distance <= AS_IT_IS && single.is_usual();
        let array = (!is_told).then(|| array::better(&disk, accesses, search)).flatten();
        let array = array.and_then(|array| array.refined_if_better((&single, distance), accesses));
        let of_disks = array.as_ref().map_or(single.weighed(distance), array::Array::weighed);
        let disks = match array {
            Some(array) => {
                let member = array.member().map_err(no_profile)?;
                let profile = array.profile().ok_or_else(|| no_profile("no array can be made"))?;
                let findings = [findings, array.findings()].concat();
                Served { profile, text: member.text().to_owned(), findings, turn: None }
            }
            None => Served::by_disk(&single, findings)?,
        };
        if is_told || single.shows_platters() {
            return Ok((disks, None));
        }
        let (flash, of_flash) = flash::estimate_with_distance(accesses, capacity);
        let is_possible = flash.is_possible();
        // A flash device that no profile can express is discarded.
        let Ok(flash) = Served::by_flash(flash, kind.instead(kind::MediumKind::Flash).findings(capacity, is_known)) else {
            return Ok((disks, None));
        };
        // Flash must be closer both on the latest accesses, to which both were refined, and on all accesses.
        let is_flash =
            of_flash < CLEARLY_FLASH * of_disks && flash.off(accesses) < CLEARLY_FLASH * single.weighed(disks.off(accesses));
        let is_slow = if is_flash { !is_possible } else { !single.is_usual() && single.seen_turn().is_none() };
        let irregular = if is_slow { limits::irregular(accesses) } else { None };
        Ok((if is_flash && irregular.is_none() { flash } else { disks }, irregular))
    }

    /// Replay error on all accesses, in ms.
    fn off(&self, accesses: &[Access]) -> f64 {
        residual::judge(&*self.profile, accesses, 0).demerit_ms
    }

    fn by_flash(estimate: flash::Estimate, findings: Vec<Finding>) -> Result<Served, FitError> {
        let profile = estimate.folded().map_err(no_profile)?;
        let text = estimate.profile().map_err(no_profile)?.text().to_owned();
        Ok(Served { profile, text, findings: [findings, estimate.findings()].concat(), turn: None })
    }

    fn by_disk(disk: &hdd::Estimate, findings: Vec<Finding>) -> Result<Served, FitError> {
        let profile = disk.profile().map_err(no_profile)?;
        let findings = [findings, disk.findings()].concat();
        Ok(Served { profile: profile.device(), text: profile.text().to_owned(), findings, turn: disk.seen_turn() })
    }

    /// The device behind a limit, if its error is below `clearly` times that of this one. Arrays are not tried: behind a limit, requests seldom overlap
    /// in the device, so an array would not show.
    fn or_limited(
        self,
        (limit, clearly): (&Limit, f64),
        accesses: &[Access],
        capacity: u64,
        is_known: bool,
    ) -> Result<Served, FitError> {
        let behind = limit.taken_off(accesses);
        let kind = kind::of(&behind);
        let findings = kind.findings(capacity, is_known);
        let mut limited = match kind.kind {
            kind::MediumKind::Flash => Served::by_flash(flash::estimate(&behind, capacity).holding(limit.most()), findings)?,
            kind::MediumKind::HardDisk => {
                let (disk, _) = hdd::estimate(&behind, capacity, &mut TurnSearch::default()).refined(&behind);
                Served::by_disk(&disk.resized(capacity, limit.most()), findings)?
            }
        };
        limited.profile = limit.before(limited.profile).map_err(no_profile)?;
        limited.text += &limit.text();
        limited.findings.extend(limit.findings());
        Ok(if limited.off(accesses) < clearly * self.off(accesses) { limited } else { self })
    }
}
