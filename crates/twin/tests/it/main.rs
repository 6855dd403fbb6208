//! What is inferred of loads, through the public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod counters;
mod device;
mod load;
