//! The control loop and searches, through their public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod control_loop;
mod search;
