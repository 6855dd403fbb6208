//! Real block devices under Linux, for every program that observes or tunes one.
//!
//! ```text
//! topology: /sys/block ─▶ Device          the devices, how they are stacked, hot-plug
//! events:   tracefs, /sys/block/*/stat ─▶ observe::Event, samples of counters, recordings
//! cgroups:  /proc/PID/cgroup ─▶ the unit that a request belongs to
//! target:   control::Target ─▶ the applier, which writes to /sys and puts everything back
//! advice:   a device watched for a while ─▶ experiment::advice
//! probe:    reads of a device, reads and writes of a scratch file ─▶ experiment::iocost
//! ```
//! This crate changes nothing itself: all changes go through the applier.

pub mod advice;
pub mod cgroups;
pub mod clock;
pub mod events;
pub mod probe;
pub mod target;
pub mod topology;
