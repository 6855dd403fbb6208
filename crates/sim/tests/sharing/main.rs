//! Disk time shared among tenants, on simulated disks and arrays.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod rates;
mod shares;
mod tenants;
