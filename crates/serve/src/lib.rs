//! Hosts by the wall clock. Here: the emulated disk, a device model that really takes its time, so that the kernel and its I/O
//! schedulers meet a disk that behaves as its profile says.
//!
//! ```text
//! program ─▶ file system ─▶ I/O scheduler ─▶ loop device ─▶ Backend (FUSE) ─▶ Disk ─▶ Emulated ─▶ sim's Device
//!            └──────────────── the real kernel ─────────┘                    │  └─▶ Backing: what was written
//!                                                                            └ replies when the model says so
//! ```
//! [`emulated`] is the pure core: it reads no clock. [`disk`] drives it by the wall clock. [`backend`] is how the kernel reaches a
//! disk, [`fuse`] the one way there is so far. [`attach`] sets the loop device up and takes it down.

pub mod attach;
pub mod backend;
pub mod backing;
pub mod disk;
pub mod emulated;
pub mod fuse;
pub mod immediate;
mod pacer;
pub mod statistics;
mod way;
