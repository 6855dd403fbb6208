//! A store in real time: the simulator's queue and schedulers in front of real data.
//!
//! ```text
//! front doors ─▶ Work ─▶ [inbox] ─▶ a turn: sim's Queue ─▶ scheduler ─▶ picked ─┬▶ read from the page cache at once ─▶ next turn
//!      ▲                    ▲   timer: WaitUntil                                 ├▶ io_uring, by the store's thread
//!      └────── Replies ─────┴─────────────── done ◀───────────────────────────────┴▶ pool of threads, where it is forbidden
//! ```
//! Data moves when a request is dispatched, not when it arrives, so that the scheduler determines the order. On an emulated store the
//! device is a model: data is moved in memory on dispatch, and the reply is sent when the model completes the request.

mod device;
mod extents;
mod host;
mod job;
mod medium;
mod pool;
mod read_ahead;
mod recent;
mod ring;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod totals;
mod work;

pub use device::StoreDevice;
pub use extents::Extents;
pub use host::{Batch, Engine, StoreHost};
pub use medium::Medium;
pub use recent::Served;
pub use state::{Observed, Report};
pub use status::StoreStatus;
pub use totals::{CLASSES_US, Times, Totals};
pub use uring::{Buffer, Buffers};
pub use work::{Kind, Piece, Replies, Work};
