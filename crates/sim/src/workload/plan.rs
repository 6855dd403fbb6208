//! The plan of a job's I/O: its parts of files, and their order.

use block::Nanos;

use crate::host::FileId;

/// A job's part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) file: FileId,
    /// Offset of the job's part, in bytes.
    pub(super) start: u64,
    /// Length of the job's part, in bytes.
    pub(super) bytes: u64,
}

/// A job's I/O plan.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) targets: Vec<Target>,
    /// Total number of bytes to transfer, unless only time ends the job.
    pub(super) limit: u64,
    /// Seed of its random numbers.
    pub(super) seed: u64,
    /// Start delay after the beginning of its phase, in addition to `startdelay`.
    pub(super) late: Nanos,
}
