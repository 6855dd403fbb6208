//! The simulator, through its public interface. One test binary, as linking is slow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

#[path = "../../../../tests/cases/mod.rs"]
mod cases;

mod array_profiles;
mod demerit;
mod disk_time;
mod hdd_aging;
mod host;
mod modules;
mod positioning;
mod profiles;
mod promises;
mod replay;
mod sharing;
mod steering;
mod workload;
