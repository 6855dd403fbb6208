//! Helpers shared by tests.

#![allow(clippy::unwrap_used, dead_code, reason = "a test that meets the unexpected should fail, and not every test needs all")]

#[path = "../../../applier/tests/it/support/kernel.rs"]
pub mod kernel;
