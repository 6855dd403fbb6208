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
//! Nothing is set that cannot be read back. The old value is on disk before the new one is written. What somebody else changes stays as
//! they want it.

pub mod advice;
pub mod applier;
pub mod attribute;
pub mod configuration;
pub mod control;
pub mod daemon;
pub mod journal;
pub mod learning;
pub mod metrics;
pub mod notify;
pub mod observe;
pub mod plant;
pub mod sysfs;
pub mod topology;
