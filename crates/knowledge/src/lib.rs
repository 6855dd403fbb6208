//! The knowledge base: windows, requests, models and decisions, in an SQLite file or on a PostgreSQL server. It is the log database of the
//! paper ("Self-Learning Disk Scheduling", Fig. 1).
//!
//! ```text
//!                     run (id, plant, device, source, seed, program)
//!                      │ 1:n        │ 1:n                    │ 1:n
//! Writer ──▶ Batch ──▶ window ◀┄┄┄┄ decision                request        model
//!                      setting, features, outcome            (by the request)  name, kind, JSON, features
//! ```
//! Committed data survives a crash of the program. A controller's host writes through [`Writer`], which never fails: if
//! the knowledge base cannot be written, control continues without it.
//!
//! ```
//! use knowledge::{DecisionRow, Filter, Knowledge, Run, RunId};
//! use block::Nanos;
//!
//! let folder = tempfile::tempdir()?;
//! let mut knowledge = Knowledge::open(&folder.path().join("knowledge.db"))?;
//! let [plant, device, source, program] = ["simulator", "hdd", "example", "doc test"].map(str::to_owned);
//! let run = Run { id: RunId([1; 16]), began_s: 0, plant, device, source, seed: Some(1), program };
//! let decision = DecisionRow {
//!     number: 0,
//!     at: Nanos::ZERO,
//!     window: None,
//!     from: "mq-deadline".to_owned(),
//!     to: "bfq".to_owned(),
//!     why: "several streams".to_owned(),
//!     expected_gain: Some(0.1),
//!     measured_gain: None,
//!     refused: None,
//! };
//! let mut batch = knowledge.batch()?;
//! assert!(batch.decision(&run, &decision)?, "recorded");
//! assert!(!batch.decision(&run, &decision)?, "known already");
//! batch.commit()?;
//! let stored = knowledge.decisions(&Filter { device: Some("hdd".to_owned()), ..Filter::default() }).next();
//! assert_eq!(stored.transpose()?.map(|stored| stored.row), Some(decision));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod base;
mod database;
mod error;
mod exchange;
mod fleet;
mod gene_pool;
mod history;
mod interrupt;
mod merge;
mod open;
mod query;
mod record;
mod retention;
mod rows;
mod schema;
#[cfg(feature = "postgres")]
mod server;
#[cfg(not(feature = "postgres"))]
#[path = "without_server.rs"]
mod server;
mod summary;
mod writer;

pub use base::Knowledge;
pub use error::{KnowledgeError, Problem};
pub use exchange::{ExchangeError, Form, Imported, Table};
pub use fleet::{Exchanged, Fleet, MAX_OUTBOX, Member, NewOutcome, NewRollout, Rollout, RolloutState, Score, WaitingScore};
pub use interrupt::interrupt_on;
pub use merge::Merged;
pub use query::{Filter, Rows};
pub use record::Batch;
pub use retention::{Pruned, Retention};
pub use rows::{DecisionRow, ModelRow, RequestRow, Row, Run, RunId, Stored, WindowRow};
pub use summary::{ModelSummary, SettingSummary, Summary};
pub use writer::{Pace, Writer};
