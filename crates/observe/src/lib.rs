//! Events of a block device in; windows, features, scores and similarity out.
//!
//! ```text
//! Event (a request queued, a request completed) ──▶ window::Extractor ──▶ Features (the requests issued)
//!                                               ──▶ window::Tally ──────▶ WindowOutcome (the performance) ──▶ merit: a score
//! ```
//! This crate knows no simulator, kernel, clock, thread or file: its host passes in events with their times.
//!
//! ```
//! use block::{Nanos, Op, Priority, Request};
//! use observe::window::{Extractor, Tally};
//! use observe::{Event, Preference};
//!
//! let (mut extractor, mut tally) = (Extractor::new(), Tally::new());
//! for number in 0..100 {
//!     let arrival = Nanos::from_millis(10 * number);
//!     let request =
//!         Request { id: 0, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 8 * number, arrival };
//!     let completed = Event::Completed { request, dispatched: arrival, at: arrival + Nanos::from_millis(5) };
//!     for event in [Event::Queued(request), completed] {
//!         extractor.event(&event);
//!         tally.event(&event);
//!     }
//! }
//! let second = Nanos::from_millis(1_000);
//! let (features, outcome) = (extractor.close(second), tally.close(second));
//! assert_eq!(features.get("read_share"), Some(1.0));
//! assert!(outcome.rate() == 100.0 && (outcome.mean_response_s - 0.005).abs() < 1e-9);
//! assert!(outcome.score(&Preference::default()).is_finite());
//! ```

pub mod counters;
pub mod description;
pub mod event;
pub mod load_tracker;
pub mod merit;
pub mod outstanding;
pub mod performance;
pub mod preference;
pub mod similarity;
pub mod starvation;
pub mod stream_table;
pub mod units;
pub mod window;

pub use event::Event;
pub use preference::{Preference, PreferenceError};
pub use window::WindowOutcome;
