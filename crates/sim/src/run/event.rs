//! What the loop, its measures and its pilots are told: requests as they were issued, and what became of them.

use block::{Nanos, Op, Priority, StreamId};

/// A request of the workload, placed on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// When it was issued; the response time counts from here even if the host's queue was full.
    pub arrival: Nanos,
    /// The first sector.
    pub lba: u64,
    /// How many sectors; 0 only of a flush that is done.
    pub sectors: u32,
    /// Read, write or discard.
    pub op: Op,
    /// Whether somebody waits for it.
    pub sync: bool,
    /// Whose.
    pub stream: StreamId,
    /// How urgent.
    pub priority: Priority,
    /// The source's own number for it, handed back in [`Finished`].
    pub token: u64,
}

/// An [`Issue`] that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What was issued.
    pub issue: Issue,
    /// When its last part went to the device.
    pub dispatched: Nanos,
    /// When its last part was done.
    pub at: Nanos,
}

/// What happened to an [`Issue`], for whoever steers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It was issued: not yet split, not yet merged.
    Issued(Issue),
    /// It is done.
    Finished(Finished),
    /// A process called the host at this time.
    Called(Nanos),
    /// Its call is over.
    Returned(Finished),
}
