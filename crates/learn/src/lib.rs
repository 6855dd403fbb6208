//! What makes Seekwise tune itself: it watches the requests that go to a disk, folds them into windows, recognises the workload and
//! says what shall be set now, and why.
//!
//! ```text
//!            Event (a request queued, a request done)
//! Plant ────────────────────────────────────────────▶ Steering ──▶ window::Extractor ──▶ Window (features, outcome)
//!   ▲                                                     │                                  │
//!   └── Setting (scheduler, its tunables, the host's) ◀───┴──── Controller ◀─────────────────┘
//!                                                                 │   ▲
//!                                                  decisions ─▶ knowledge base ─▶ models
//! ```
//! Nothing here knows a simulator, a kernel, a clock, a thread or a file (but the knowledge base its own): whoever hosts a controller
//! tells it what happened and when, and sets what it says. So the same controllers steer a simulated disk and a real one.

pub mod candidates;
pub mod controller;
pub mod description;
pub mod event;
pub mod experience;
pub mod knowledge;
pub mod merit;
pub mod model;
pub mod plant;
pub mod preference;
pub mod sched;
pub mod setting;
pub mod similarity;
pub mod steering;
pub mod window;

pub use controller::{Controller, Decision};
pub use event::Event;
pub use plant::{Plant, PlantError};
pub use preference::{Preference, PreferenceError};
pub use setting::Setting;
pub use steering::{Decided, Steering};
pub use window::{Extent, Window, WindowOutcome};
