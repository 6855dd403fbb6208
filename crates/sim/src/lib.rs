//! Simulated disks and hosts, and the event loop that replays a trace or runs a workload on them.
//!
//! Everything runs in virtual time and is deterministic: the same input, settings and seed give the same result.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use block::Limits;
//! use sim::host::{Host, HostSettings, Queue, QueueSettings};
//! use sim::profile::DeviceOptions;
//! use sim::run::{Measure, Watch};
//! use sim::workload::{self, Workload};
//!
//! let disk = sim::profile::load("sata7200")?;
//! let (scheduler, values) = block::parse("mq-deadline")?;
//! let scheduler = (scheduler.build)(&Limits::default(), &values);
//! let queue = Queue::new(scheduler, disk.build(DeviceOptions::default()), QueueSettings::default());
//!
//! let job = "[reader]\nrw=randread\nbs=4k\nsize=1g\ndirect=1\nnumber_ios=100\n";
//! let placed = Workload::parse(job, "reader.fio")?.place(disk.capacity_sectors(), 1)?;
//! let mut host = Host::new(queue, placed.files(), HostSettings::parse("")?)?;
//! let run = workload::run(&placed, &mut host, None, Measure::new([0]), &Watch::default(), None)?;
//! assert_eq!(run.measure.completed(), 100);
//! assert!((5.0..20.0).contains(&(run.measure.reads.mean().as_secs_f64() * 1e3)));
//! # Ok(())
//! # }
//! ```

pub mod device;
pub mod diskspecs;
pub mod host;
pub mod profile;
pub mod reference;
pub mod replay;
pub mod run;
pub mod store;
pub mod streams;
pub mod validate;
pub mod workload;

pub use trace;

#[cfg(test)]
#[path = "../../../tests/cases/mod.rs"]
mod cases;
