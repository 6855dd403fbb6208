//! The paper's schemes steer a scripted plant through the same [`control::ControlLoop`] as everything else.

mod classified;
mod pauses;
mod rig;
mod round_robin;
mod tuner;
