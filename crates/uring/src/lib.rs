//! Buffers for direct I/O, and a safe interface to io_uring.
//!
//! The kernel accesses a buffer long after the call that submitted it. Therefore a [`Ring`] owns the buffers of its transfers until they
//! complete, and waits for all of them when dropped. This is the only code of the workspace with `unsafe`: it allocates aligned memory and
//! passes addresses to the kernel, and nothing else.

mod buffer;
mod ring;

pub use buffer::{Buffer, Buffers};
pub use ring::{Done, Ring, Waker};
