//! The laboratory: draws loads, runs them on simulated storage under schedulers and controllers, and judges what comes of it.
//!
//! ```text
//! loads (shipped, drawn, traces) ─▶ comparison ─▶ records           one load, one disk, the user's question
//!                                ─▶ advice ─────▶ advice             the setting to use, and what it would bring
//!                                ─▶ gather ─────▶ experience         what controllers learn from
//!                                ─▶ exam ───────▶ marks              how good controllers are on what they never saw
//! contract ─▶ tenants ─▶ comparison ─▶ records                    what each tenant was promised, and what it got
//!                                ─▶ paper ──────▶ figures            what papers state, beside what comes out here
//! fio jobs on a real device ─▶ live ─▶ paper                       the same controllers on the real kernel
//! ```
//! The program parses the command line, calls this crate and prints; everything that is decided or computed about an experiment is
//! here. A [`Monitor`] is told how far long work is, and can stop it.

pub mod advice;
pub mod bench;
pub mod calibration;
pub mod capture;
mod chance;
pub mod comparison;
pub mod device_model;
pub mod devices;
pub mod exam;
pub mod experience;
pub mod field;
pub mod gather;
pub mod guarantee;
pub mod live;
pub mod loads;
pub mod monitor;
pub mod paper;
pub mod placement;
pub mod pool;
pub mod recorded;
pub mod shipped;
pub mod steered;
pub mod tenants;
mod timed;
pub mod truth;
pub mod world;
pub mod worlds;

pub use monitor::{Interrupted, Monitor};
