//! A disk is asked until its mechanics are known: one request at a time, each told by nothing but when it was done.
//!
//! ```text
//! the same sectors, again and again ─▶ a turn ─▶ when sectors pass ─▶ tracks, zones ─▶ pairs at all distances ─▶ the arm
//! ```
//! Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS 1995), do so with vectors of
//! requests found for each parameter; here every answer gives an angle, the place at which the platter stood, and the rest is
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

/// Somebody to ask: a device, alone.
pub trait Probe {
    /// Sectors of the device.
    fn capacity_sectors(&self) -> u64;

    /// Asks for something when the request before is done, and says when it was asked for and when it was done, in nanoseconds.
    /// `None`: no more is to be asked.
    fn ask(&mut self, op: Op, lba: u64, sectors: u32) -> Option<(f64, f64)>;
}

/// The mechanics of a disk; `None` if nothing turns in it, it does not show, or no more was to be asked.
pub fn find(probe: &mut dyn Probe, seed: u64) -> Option<Mechanics> {
    let mut angles = turn::find(probe, seed)?;
    let tracks = tracks::find(&mut angles)?;
    let mut mechanics = Mechanics::of(angles.turn_ns(), tracks);
    arm::find(&mut angles, &mut mechanics)?;
    Some(mechanics)
}
