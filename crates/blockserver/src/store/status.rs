//! Counters of a store.

use std::sync::atomic::AtomicU64;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct StoreStatus {
    /// Requests that the scheduler dispatched, after merging.
    pub requests: AtomicU64,
    /// Pieces of clients' work, before merging.
    pub pieces: AtomicU64,
    /// Requests that failed at the medium.
    pub failed: AtomicU64,
    /// Flushes of the medium.
    pub flushes: AtomicU64,
    /// Time with work in progress, in nanoseconds.
    pub busy_ns: AtomicU64,
}
