//! The emulated disk: a device model with real delays, so that the kernel and its I/O schedulers see a disk that behaves as its profile
//! says.
//!
//! ```text
//! program ─▶ file system ─▶ I/O scheduler ─▶ loop device ─▶ Backend (FUSE) ─▶ Disk ─▶ Emulated ─▶ sim's Device
//!            └──────────────── the real kernel ─────────┘                    │  └─▶ crate backing: the data
//!                                                                            └ replies when the model says so
//! ```
//! [`emulated`] is the pure core, without a clock; [`disk`] drives it in real time. [`backend`] is the interface to the kernel, [`fuse`]
//! its only implementation so far. [`attach`] sets up the loop device and takes it down.

pub mod attach;
pub mod backend;
pub mod disk;
pub mod emulated;
pub mod fuse;
pub mod null_device;
mod overhead;
mod pacer;
pub mod statistics;
