//! The block I/O types shared by all parts of Seekwise (requests, time, tunables), and every I/O scheduler.
//!
//! This crate has no clock, thread, file or random source. The host passes `now` to a scheduler, so the same code runs in virtual time in
//! the simulator and in real time in the server.
//!
//! ```
//! use block::{Insertion, Limits, Nanos, Op, Pick, Priority, Request};
//!
//! let (spec, values) = block::parse("deadline:fifo_batch=8")?;
//! let mut scheduler = (spec.build)(&Limits::default(), &values);
//! let read = |id, lba| Request {
//!     id, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: Nanos::ZERO,
//! };
//! assert_eq!(scheduler.insert(Nanos::ZERO, read(1, 800)), Insertion::Queued);
//! assert_eq!(scheduler.insert(Nanos::ZERO, read(2, 808)), Insertion::Merged { into: 1, absorbed: None });
//! assert_eq!(scheduler.pick(Nanos::ZERO), Pick::Go(Request { sectors: 16, ..read(1, 800) }));
//! assert_eq!(scheduler.pick(Nanos::ZERO), Pick::Empty);
//! # Ok::<(), block::SettingError>(())
//! ```

#![no_std]
extern crate alloc;
#[cfg(any(test, feature = "conformance"))]
extern crate std;

mod bound;
mod by_request;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod cost;
mod credit;
mod decay;
mod declaration;
mod directory;
pub mod hash_index;
pub mod held;
pub mod host_tunables;
pub mod in_flight;
pub mod keyed;
mod knowledge;
mod lanes;
pub mod list;
mod nearest;
mod parse;
mod promise;
mod quantile;
pub mod queue;
pub mod rates;
mod request;
pub mod sched;
mod scheduler;
pub mod scramble;
mod sorted;
mod tag_shares;
mod tags;
pub mod tenants;
pub mod throttle;
mod time;
mod tunable;

pub use declaration::check_declaration;
pub use host_tunables::{HOST_TUNABLES, QUEUE_TUNABLES};
pub use knowledge::KnowledgeStore;
pub use nearest::did_you_mean;
pub use parse::{SettingError, find, parse, parse_among, parse_values};
pub use queue::{Insertion, Limits, Merges};
pub use rates::{Rate, Rates};
pub use request::{
    Op, Priority, PriorityClass, READ_AHEAD_SECTORS, Request, RequestId, SEQUENTIAL_GAP, StreamId, read_ahead_response_weight,
};
pub use sched::{ALL, CLASSIC, KERNEL, OUT_OF_TREE, SHARING, linux_name, of_linux};
pub use scheduler::{Knowledge, LiveSwitch, Pick, Scheduler, SchedulerSpec, Standing, StarvationBound, switch};
pub use tags::{Room, Tags};
pub use tenants::{Roster, Tenant};
pub use time::Nanos;
pub use tunable::{Scale, Tunable, TunableValue, Unit, split_before};

#[cfg(test)]
#[path = "../../../tests/cases/mod.rs"]
mod cases;
