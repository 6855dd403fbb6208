//! Settings and lines of cgroups on a machine that is simulated down to its faults.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod cgroups;
mod support;
mod writing;
