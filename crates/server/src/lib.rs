//! Block server: volumes made of extents on stores, each store behind a scheduler that enforces its volumes' guarantees.
//!
//! ```text
//! serve.toml ─▶ configuration ─▶ Server ── store ─▶ serve::store (queue, scheduler, medium)
//! serve.db  ◀─▶ catalog ◀──────▶   │   └── volume ◀─ serve::nbd ◀─ clients
//!                                control ◀─ `seekwise-serve volume …`
//! ```

pub mod access;
mod admission;
pub mod catalog;
pub mod configuration;
pub mod control;
mod dirty;
pub mod door;
mod health;
pub mod metrics;
pub mod migration;
pub mod planner;
pub mod program;
pub mod server;
mod stalls;
pub mod store;
pub mod tuner;
pub mod tuning;
pub mod volume;
pub mod watch;
