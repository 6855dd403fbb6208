//! Experiments for users: find the setting for a workload on a device.
//!
//! ```text
//! workload (trace, fio job file, shipped) ─▶ comparison ─▶ records     every scheduler, every controller
//!                                         ─▶ advice ─────▶ advice      the setting to use and its predicted effect
//! ```
//! The program parses the command line, calls this crate and prints. Long work reports to a [`Monitor`](progress::Monitor).

pub mod advice;
pub mod bench;
pub mod calibration;
pub mod capture;
pub mod comparison;
pub mod experience;
pub mod fio;
pub mod iocost;
pub mod learned_device;
pub mod recorded;
pub mod request_log;
pub mod steered;
pub mod sweep;
pub mod timed;
