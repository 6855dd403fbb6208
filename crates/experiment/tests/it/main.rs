//! Calibration and models of devices, through their public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod calibration;
mod device_model;
