//! The twin of a plant: replays what was observed against every candidate in the simulator.
//!
//! ```text
//! observe::Event ──▶ Recording ──▶ load: what the streams would ask ──┐
//!                      │                                            ├──▶ tried in sim under each candidate ──▶ controller
//!                      └───────▶ device: what serves them ──────────┘
//! ```
//! It knows only what a Linux device's block tracepoints tell: when requests were queued, dispatched and completed. Nothing comes from
//! inside a simulated device.

#![forbid(unsafe_code)]

pub mod above;
pub mod ask;
pub mod controller;
pub mod counters;
pub mod device;
pub mod load;
pub mod recording;
pub mod trial;

pub use above::Above;
pub use ask::{Answer, Comes, ForecastError, Question};
pub use device::{Finding, FitError, Fitted, fit};
pub use load::Load;
pub use recording::{Recording, Seen};
/// What can be set of the host that a candidate is tried on: Linux's names, ranges and defaults.
pub use sim::host::TUNABLES as HOST_TUNABLES;
pub use trial::{Slots, Tried, event};
