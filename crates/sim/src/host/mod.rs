//! The host between processes and a device: files, calls, page cache, write-back, memory, and the queue of the block device.
//!
//! ```text
//! workload --Call--> Host (page cache, read-ahead, write-back) --Issue--> Queue (scheduler) --Request--> Device
//!                      |  flusher, kswapd, swap-in: streams of their own ----^
//! block trace ------------------------------------------------Issue--> Queue …
//! ```
//! Dependencies; no arrow leads upwards:
//!
//! ```text
//! server: the Host, with its calls, timers and waiters
//!   |---> reading, writing, syncing, direct: the stages of a running call ---> read_ahead
//!   |---> background: processes that touch anonymous pages
//!   v
//! reclaim: Memory, which makes room ---> scan
//!   |---> write_back: dirty pages and the flusher ---> dirty, dirty_files, throttle
//!   |---> new_files: written parts of files that were empty at first
//!   |---> swap: anonymous pages on the device ---> swap_area
//!   v
//! transfers: pages under way ---> page_cache: pages in frames ---> shadows, watermarks
//!   v
//! plug ---> queue (admit, dispatch, flush, switch) ---> ledger, block::Scheduler, device
//! ```
//! All of them use the types of `call`, `files`, `settings`, `error` and `tally`. `steering` changes queue and host while they
//! run; `summary` is the result of a run.

mod background;
mod call;
mod direct;
mod dirty;
mod dirty_files;
mod error;
mod files;
mod ledger;
mod new_files;
mod page_cache;
mod plug;
mod queue;
mod read_ahead;
mod reading;
mod reclaim;
mod running;
mod scan;
mod server;
mod settings;
mod shadows;
mod steering;
mod summary;
mod swap;
mod swap_area;
mod syncing;
mod tally;
mod throttle;
mod transfers;
mod watermarks;
mod write_back;
mod writing;

pub use call::{Access, Action, Advice, Call};
pub use error::HostError;
pub use files::{Extent, File, FileId, Files};
pub use ledger::Ledger;
pub use queue::{DeviceTally, Queue, QueueSettings};
pub use server::Host;
pub use settings::{HostSettings, MACHINE, TUNABLES};
pub use summary::RunSummary;
pub use tally::{HostTally, SwapTally};
