//! Learners, controllers and evaluations, through their public interface. One test binary, as linking is slow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod controller;
mod counters;
mod fitted_devices;
mod fitted_limits;
mod guarantees;
mod model;
mod protect;
mod tenants;
