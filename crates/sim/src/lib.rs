//! Traces, simulated disks, and the event loop that replays one on the other.
//!
//! Everything runs in virtual time and is deterministic: the same input, settings and seed give the same result.

pub mod device;
pub mod diskspecs;
pub mod host;
mod keyed;
pub mod profile;
pub mod reference;
pub mod replay;
pub mod run;
pub mod scramble;
pub mod store;
pub mod streams;
pub mod trace;
pub mod validate;
pub mod workload;

#[cfg(test)]
#[path = "../tests/cases/mod.rs"]
mod cases;
