//! Self-tuning: observes the requests sent to a disk, folds them into windows, classifies the workload and decides which
//! scheduler and tunables to set, and why.
//!
//! ```text
//!            Event (a request queued, a request done)
//! Plant ────────────────────────────────────────────▶ Steering ──▶ window::Extractor ──▶ Window (features, outcome)
//!   ▲                                                     │                                  │
//!   └── Setting (scheduler, its tunables, the host's) ◀───┴──── Controller ◀─────────────────┘
//!                                                                 │   ▲
//!                                                  decisions ─▶ knowledge base ─▶ models
//! ```
//! This crate does not depend on a simulator, kernel, clock or thread, and opens no file except its knowledge base. The host of a
//! controller passes in events with their times and applies the decisions, so the same controllers run on a simulated disk and a
//! real one.

pub mod candidates;
pub mod controller;
pub mod counters;
pub mod description;
pub mod device;
pub mod event;
pub mod experience;
pub mod knowledge;
pub mod merit;
pub mod model;
pub mod placement;
pub mod plant;
pub mod preference;
pub mod regression;
pub mod rotation;
pub mod sched;
pub mod search;
pub mod setting;
pub mod similarity;
pub mod steering;
pub mod watched;
pub mod window;

pub use controller::{Controller, Decision};
pub use event::Event;
pub use plant::{Plant, PlantError};
pub use preference::{Preference, PreferenceError};
pub use setting::Setting;
pub use steering::{Decided, Steering};
pub use window::{Extent, Window, WindowOutcome};
