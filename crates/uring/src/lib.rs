//! Buffers that the kernel transfers to and from directly, and io_uring behind an interface that cannot be misused.
//!
//! The kernel writes into a buffer long after the call that named it. Therefore a [`Ring`] owns the buffers of its transfers until they are
//! done, and waits for all of them before it goes. This is the only code of the workspace with `unsafe`: it allocates aligned memory and
//! hands addresses to the kernel, and nothing else.

mod buffer;
mod ring;

pub use buffer::{Buffer, Buffers};
pub use ring::{Done, Ring, Waker};
