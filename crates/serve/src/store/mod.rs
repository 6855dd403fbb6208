//! A store by the wall clock: the scheduler and the queue of the simulator in front of real data.
//!
//! ```text
//! front doors ─▶ Work ─▶ [inbox] ─▶ StoreHost's thread: sim's Queue ─▶ scheduler ─▶ picked ─▶ [jobs] ─▶ pool of threads ─▶ Medium
//!      ▲                                   ▲   timer: WaitUntil                                             │
//!      └───────────── Reply ───────────────┴────────────────────────────── [done] ◀─────────────────────────┘
//! ```
//! Data moves when a request is picked, not when it arrives, so that the order is the scheduler's. On an emulated store the device is a
//! model: data moves in memory at the same moment, and the reply comes when the model says so.

mod buffer;
mod device;
mod host;
mod medium;
mod pool;
mod recent;
#[cfg(test)]
mod tests;
mod totals;

pub use buffer::Buffer;
pub use device::StoreDevice;
pub use host::{Kind, Piece, Replies, Report, StoreHost, StoreStatus, Work};
pub use medium::Medium;
pub use recent::Served;
pub use totals::{CLASSES_US, Times, Totals};
