//! Guarantees to cgroups that share a disk, kept by limiting their neighbours.
//!
//! ```text
//!                        decision: Protector ◀── events of units
//!   simulated: tenants of a simulated host ─┘ │ Change, every 100 ms
//!   live: cgroups of this machine ────────────┴─▶ io.max, through the applier
//!
//!   alone: a unit's performance without neighbours, for admission      static_limits: limits without a daemon
//! ```
//! `decision` knows no simulator and no kernel: the same [`Protector`] runs on both.

pub mod alone;
mod decision;
pub mod live;
pub mod simulated;
pub mod static_limits;

pub use decision::{
    Admission, Alone, Blame, Change, Figure, KINDS, Limit, PERIOD, Promise, Protector, RATES, Reference, Standing, State, Unit,
};
