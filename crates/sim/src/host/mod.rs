//! The host between processes and a device: files, calls, and the queue of the block device.
//!
//! ```text
//! workload --Call--> Host (page cache, read-ahead, write-back) --Issue--> Queue (scheduler) --Request--> Device
//! block trace ------------------------------------------------Issue--> Queue …
//! ```

mod call;
mod files;
mod queue;
mod server;
mod settings;

pub use call::{Access, Action, Call};
pub use files::{Extent, File, FileId, Files};
pub use queue::{DeviceTally, Finished, Issue, Queue, QueueSettings};
pub use server::{Host, HostError};
pub use settings::{HostSettings, MACHINE, TUNABLES};
