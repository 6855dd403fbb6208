//! The host, observed from both sides: the times of calls, and the requests to the device.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod any;
mod flushing;
mod machine;
mod memory;
mod reading;
mod throttling;
mod writing;
