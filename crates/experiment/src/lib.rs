//! Experiments for users: find the setting for a workload on a device.
//!
//! ```text
//! workload (trace, fio job file, shipped) ─▶ comparison ─▶ records     every scheduler, every controller
//!                                         ─▶ advice ─────▶ advice      the setting to use and its predicted effect
//! contract ─▶ tenants ─▶ comparison, guarantee, placement              guarantees of tenants, and their service
//! ```
//! The program parses the command line, calls this crate and prints. Long work reports to a [`Monitor`](progress::Monitor).

pub mod advice;
pub mod bench;
pub mod calibration;
pub mod capacity;
pub mod capture;
pub mod comparison;
pub mod experience;
pub mod fio;
pub mod guarantee;
pub mod iocost;
pub mod learned_device;
pub mod placement;
pub mod planner;
pub mod recorded;
pub mod reference_disk;
pub mod request_log;
pub mod steered;
pub mod sweep;
pub mod tenants;
pub mod timed;
