//! The host between processes and a device: files, calls, page cache, write-back, memory, and the queue of the block device.
//!
//! ```text
//! workload --Call--> Host (page cache, read-ahead, write-back) --Issue--> Queue (scheduler) --Request--> Device
//!                      |  flusher, kswapd, swap-in: streams of their own ----^
//! block trace ------------------------------------------------Issue--> Queue …
//! ```
//! [`server`] leads calls through the host. What they meet there stands beside it, one file each: [`memory`] (frames and lists),
//! [`reading`] and [`read_ahead`], [`writing`] and [`throttle`], [`flusher`] and [`dirty`], [`syncing`], [`reclaim`],
//! [`background`] (anonymous memory) and [`swap_area`]; [`steering`] is how queue and host are set while they run.

mod background;
mod call;
mod dirty;
mod files;
mod flusher;
mod memory;
mod queue;
mod read_ahead;
mod reading;
mod reclaim;
mod server;
mod settings;
mod steering;
mod summary;
mod swap_area;
mod syncing;
mod tally;
mod throttle;
mod writing;

pub use background::BACKGROUND_PROCESSES;
pub use call::{Access, Action, Call};
pub use files::{Extent, File, FileId, Files};
pub use queue::{DeviceTally, Queue, QueueSettings};
pub use server::{BACKGROUND_STREAM, FLUSHER_STREAM, Host, HostError, KSWAPD_STREAM};
pub use settings::{HostSettings, MACHINE, TUNABLES};
pub use summary::RunSummary;
pub use tally::HostTally;
