//! Block server: volumes made of extents on stores, each store behind a scheduler that enforces its volumes' guarantees.
//!
//! ```text
//! serve.toml ─▶ configuration ─▶ Server ── store ─▶ store_entry ─▶ store (queue, scheduler, medium)
//! serve.db  ◀─▶ catalog ◀──────▶   │   └── volume ◀─ nbd, vhost ◀─ clients
//!                                control ◀─ `seekwise-serve volume …`
//! ```

pub mod access;
mod admission;
pub mod catalog;
pub mod configuration;
pub mod control;
pub mod door;
mod granules;
mod health;
pub mod label;
pub mod metrics;
pub mod migration;
pub mod nbd;
pub mod planner;
pub mod program;
pub mod record;
pub mod server;
mod stalls;
pub mod store;
pub mod store_entry;
pub mod tuner;
pub mod tuning;
pub mod verdict;
#[cfg(feature = "vhost-user")]
pub mod vhost;
pub mod volume;
pub mod watch;
