//! Tenants that share a disk: their guarantees, and the service they get.
//!
//! ```text
//! FILE.toml, or comments in a job file ─▶ Contract ─▶ block::Roster ─▶ the schedulers, the queue and the meter of a run
//!                                            │                                          │
//!                                            └─▶ reference runs: each tenant alone on   ▼
//!                                                the disk that it was promised ─▶ Judgement: what was promised, what it got
//! ```

mod comments;
mod contract;
mod entry;
pub mod judge;
mod reference;
mod roster;
mod service_comparison;
mod significance;

pub use contract::{Contract, TenantGuarantee};
pub use judge::{P99, THROUGHPUT, VIOLATED, WINDOWS, capacity, judge};
pub use reference::{Alone, Reference, alone};
pub use roster::Models;
pub use service_comparison::{LEAST, Recovery, ServiceComparison, Windows};
