//! Settings of block devices, and the controllers that choose them.
//!
//! ```text
//!            observe::Event
//! Target ──────────────────────────▶ ControlLoop ──▶ Window (features, outcome)
//!   ▲                                    │               │
//!   └── Setting (scheduler, tunables) ◀──┴─ Controller ◀─┘
//! ```
//! This crate depends on no simulator, kernel, clock, thread or file. The host of a controller passes in timestamped events and applies the
//! decisions, so the same controllers run on simulated and on real disks.

pub mod ab_test;
pub mod candidates;
pub mod control_loop;
pub mod controller;
pub mod experience;
pub mod fleet;
pub mod search;
pub mod setting;
pub mod target;
pub mod trials;
pub mod verdict;
pub mod window;

pub use control_loop::{ControlLoop, DecisionRecord};
pub use controller::{Controller, Decision};
pub use setting::Setting;
pub use target::{Target, TargetError};
pub use verdict::{Ruling, Test, Verdict};
pub use window::{Window, WindowLength};
