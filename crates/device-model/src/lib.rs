//! Models of devices learned from the times of their requests.
//!
//! * [`device`]: mechanics of a disk found by probing, and a regression tree for the rest.
//! * [`grow`]: growing of binary trees by any criterion.
//! * [`regression`]: regression trees.
//! * [`rotation`]: the length of a track and the time of a revolution, from response times.
//! * [`sched`]: the scheduler that learns positioning times per request; it needs `std`, so it is not in `block`.

pub mod device;
mod fourier;
pub mod grow;
pub mod regression;
pub mod rotation;
pub mod sched;
