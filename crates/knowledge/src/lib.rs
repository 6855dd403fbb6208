//! The knowledge base: an SQLite file of windows, requests, models and decisions. It is the log database of the paper
//! ("Self-Learning Disk Scheduling", Fig. 1).
//!
//! ```text
//!                     run (id, plant, device, source, seed, program)
//!                      │ 1:n        │ 1:n                    │ 1:n
//! Writer ──▶ Batch ──▶ window ◀┄┄┄┄ decision                request        model
//!                      setting, features, outcome            (by the request)  name, kind, JSON, features
//! ```
//! Committed data survives a crash of the program. A controller's host writes through [`Writer`], which never fails: if
//! the knowledge base cannot be written, control continues without it.

mod base;
mod error;
mod exchange;
mod gene_pool;
mod history;
mod merge;
mod open;
mod query;
mod record;
mod retention;
mod rows;
mod schema;
mod summary;
mod writer;

pub use base::Knowledge;
pub use error::{KnowledgeError, Problem};
pub use exchange::{ExchangeError, Form, Imported, Table};
pub use merge::Merged;
pub use query::{Filter, Rows};
pub use record::Batch;
pub use retention::{Pruned, Retention};
pub use rows::{DecisionRow, ModelRow, RequestRow, Row, Run, RunId, Stored, WindowRow};
pub use summary::{ModelSummary, SettingSummary, Summary};
pub use writer::{Pace, Writer};
