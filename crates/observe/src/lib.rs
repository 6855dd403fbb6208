//! Events of a block device in; windows, features, scores and similarity out.
//!
//! ```text
//! Event (a request queued, a request completed) ──▶ window::Extractor ──▶ Features (the requests issued)
//!                                               ──▶ window::Tally ──────▶ WindowOutcome (the performance) ──▶ merit: a score
//! ```
//! This crate knows no simulator, kernel, clock, thread or file: its host passes in events with their times.

pub mod counters;
pub mod description;
pub mod event;
pub mod load_tracker;
pub mod merit;
pub mod performance;
pub mod preference;
pub mod similarity;
pub mod window;

pub use event::Event;
pub use preference::{Preference, PreferenceError};
pub use window::WindowOutcome;
