//! Probes a disk for its mechanics: one request at a time, using only completion times.
//!
//! ```text
//! the same sectors, again and again ─▶ a turn ─▶ when sectors pass ─▶ tracks, zones ─▶ pairs at all distances ─▶ the arm
//! ```
//! Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS 1995), use vectors of
//! requests designed for each parameter; here every completion gives an angle of the platter, and the rest is
//! arithmetic with angles.

mod angles;
mod arm;
mod drain;
mod tracks;
mod turn;

use block::Op;

pub use angles::Angles;
pub use drain::find as find_drain;

use super::mechanics::Mechanics;

/// A device used exclusively for probing.
///
/// ```
/// use block::Op;
/// use device_model::device::probing::{Probe, find};
///
/// /// Answers every request after 100 µs, as flash does.
/// struct Flash(f64);
///
/// impl Probe for Flash {
///     fn capacity_sectors(&self) -> u64 {
///         1 << 30
///     }
///     fn ask(&mut self, _op: Op, _lba: u64, _sectors: u32) -> Option<(f64, f64)> {
///         let began = self.0;
///         self.0 += 100_000.0;
///         Some((began, self.0))
///     }
/// }
///
/// assert!(find(&mut Flash(0.0), 1).is_none());
/// ```
pub trait Probe {
    /// Capacity in sectors.
    fn capacity_sectors(&self) -> u64;

    /// Issues a request after the previous one completed; returns when it was issued and when it completed, in nanoseconds. `None` ends the
    /// probing.
    fn ask(&mut self, op: Op, lba: u64, sectors: u32) -> Option<(f64, f64)>;
}

/// The mechanics of a disk; `None` if it has no platter, its mechanics cannot be found, or the probe ended.
pub fn find(probe: &mut dyn Probe, seed: u64) -> Option<Mechanics> {
    let mut angles = turn::find(probe, seed)?;
    let tracks = tracks::find(&mut angles)?;
    let mut mechanics = Mechanics::of(angles.turn_ns(), tracks);
    arm::find(&mut angles, &mut mechanics)?;
    Some(mechanics)
}
