//! The Linux daemon: watches block devices, advises, tunes them and puts everything back.
//!
//! ```text
//!   without privileges                                 root, nothing else
//! ┌───────────────────────────────────────────┐      ┌─────────────────────────────────┐
//! │ observe ─▶ daemon: steering, guard ─▶ plant ──────▶ applier: allowed attributes,     │─▶ /sys, /proc/sys
//! │    ▲         │ what and why               │ socket│ ranges, journal; opens the       │
//! │    └─────────┼────────────────────────────◀──────│ tracepoints' pipes               │
//! │ topology     ▼                            │      └─────────────────────────────────┘
//! │          control socket, metrics, history │
//! └───────────────────────────────────────────┘
//! ```
//! The right half is the program `seekwise-applier`, of the crate `applier`. Nothing is set that cannot be read back. The old value is on
//! disk before the new one is written. What others change stays as they want it.

pub mod advice;
pub mod configuration;
pub mod control_socket;
pub mod daemon;
pub mod history;
pub mod learning;
pub mod metrics;
pub mod own_applier;
pub mod protect;
pub mod units;
