//! A real block device under Linux, for every program that watches or sets one.
//!
//! ```text
//! topology: /sys/block ─▶ Device          which there are, what stands on what, what comes and goes
//! events:   tracefs, /sys/block/*/stat ─▶ observe::Event, samples of counters, recordings
//! cgroups:  /proc/PID/cgroup ─▶ the unit that a request belongs to
//! target:   control::Target ─▶ the applier, which writes to /sys and puts everything back
//! advice:   a device watched for a while ─▶ experiment::advice
//! probe:    reads of a device, reads and writes of a scratch file ─▶ experiment::iocost
//! ```
//! This crate sets nothing: it asks the applier.

pub mod advice;
pub mod cgroups;
pub mod clock;
pub mod events;
pub mod probe;
pub mod target;
pub mod topology;
