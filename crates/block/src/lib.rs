//! What every body of Seekwise shares about block I/O: requests, time, tunables, and all I/O schedulers.
//!
//! Nothing here knows a clock, a thread, a file or a random source. A scheduler is told `now`, so the same code runs in
//! virtual time in the simulator and by the wall clock in the server.

#![no_std]
extern crate alloc;
#[cfg(any(test, feature = "conformance"))]
extern crate std;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod decay;
mod directory;
pub mod hash_index;
mod holders;
pub mod host_tunables;
mod knowledge;
pub mod limits;
pub mod list;
mod nearest;
pub mod queue;
mod request;
pub mod sched;
mod setting;
mod sorted;
pub mod tenants;
mod time;
mod tunable;
pub mod under_way;

pub use host_tunables::HOST_TUNABLES;
pub use knowledge::{Knowledge, KnowledgeStore};
pub use nearest::did_you_mean;
pub use queue::{Limits, Merges};
pub use request::{
    Op, Priority, PriorityClass, READ_AHEAD_SECTORS, Request, RequestId, SEQUENTIAL_GAP, StreamId, read_ahead_counts_as,
};
pub use sched::{ALL, CLASSIC, Insertion, KERNEL, Patience, Pick, Room, SHARING, Scheduler, SchedulerSpec, Tags, TakeOver, switch};
pub use setting::{SettingError, find, parse, parse_among, parse_values};
pub use tenants::{Roster, Tenant};
pub use time::Nanos;
pub use tunable::{Scale, Tunable, TunableValue, Unit, split_before};
