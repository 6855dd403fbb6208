//! Simulated testbeds: a load on a device behind a host, each by its name, and threads for many runs.
//!
//! ```text
//! trace, fio job file, shipped workload ─▶ named ─▶ Load ─┐
//! random requests of tenants ─▶ synthetic                 ├─▶ runs on Workers ─▶ figures
//! profile, array, learned device ─────────────▶ World ────┘
//! ```
//! Conclusions from the runs are drawn in the crates above: `guarantee` for tenants, `experiment` for settings.

pub mod chance;
pub mod figures;
pub mod jobs;
pub mod learned;
pub mod load;
pub mod named;
pub mod pool;
pub mod shipped;
pub mod synthetic;
pub mod trace;
pub mod world;
