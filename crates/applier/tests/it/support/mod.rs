//! Shared by several tests.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test that meets the unexpected should fail, and the agent's tests use it, too"
)]

pub mod kernel;
