//! The Linux daemon: monitors block devices, recommends settings, applies them and restores the original ones.
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
//! The right half is the program `seekwise-applier`, of the crate `applier`. Only attributes that can be read back are set. The old value is
//! written to the journal before the new one is applied. Changes by other programs are respected.

pub mod configuration;
pub mod control_socket;
pub mod daemon;
pub mod fleet;
pub mod history;
pub mod learning;
pub mod metrics;
pub mod own_applier;
pub mod units;
