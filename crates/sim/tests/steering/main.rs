//! A queue whose scheduler and settings change while requests are under way, and pilots that change them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

#[path = "../../../../tests/cases/mod.rs"]
mod cases;
mod device;
mod limits;
mod pilot;
mod switching;
mod tags;
