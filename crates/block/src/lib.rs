//! What every body of Seekwise shares about block I/O: requests, time, tunables, and all I/O schedulers.
//!
//! Nothing here knows a clock, a thread, a file or a random source. A scheduler is told `now`, so the same code runs in
//! virtual time in the simulator and by the wall clock in the server.

#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod request;
pub mod sched;
mod time;
mod tunable;

pub use request::{Op, Priority, PriorityClass, Request, RequestId, StreamId};
pub use sched::{ALL, Insertion, Pick, Scheduler, Spec};
pub use time::Nanos;
pub use tunable::{Scale, Tunable, Unit};
