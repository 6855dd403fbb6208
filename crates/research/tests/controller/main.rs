//! The paper's schemes steer a scripted plant through the same [`control::ControlLoop`] as everything else.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod classified;
mod pauses;
mod rig;
mod round_robin;
mod tuner;
