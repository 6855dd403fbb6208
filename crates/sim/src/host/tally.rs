//! The host's counts.

use block::Nanos;

/// Counts since the host was built. Pages are 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTally {
    /// Pages of buffered reads that were in the cache.
    pub hits: u64,
    /// Pages of buffered reads for which the process had to wait.
    pub misses: u64,
    /// Pages read ahead.
    pub read_ahead: u64,
    /// Number of these that were used later.
    pub read_ahead_used: u64,
    /// Number of these that were evicted unused. The rest is still in memory.
    pub read_ahead_wasted: u64,
    /// Pages dirtied; pages that were already dirty are not counted.
    pub dirtied: u64,
    /// Pages whose write-back is complete, by the flusher or for a waiting process.
    pub written_back: u64,
    /// Pages that are dirty or being written back.
    pub dirty: u64,
    /// Maximum of `dirty`.
    pub dirty_peak: u64,
    /// Total time that writers slept because of too many dirty pages.
    pub throttled: Nanos,
    /// Number of times a process had to wait for memory.
    pub memory_waits: u64,
    /// Pages reclaimed, of files and anonymous ones.
    pub reclaimed: u64,
    /// Use of the swap area.
    pub swap: SwapTally,
    /// The maximum memory in use, in pages.
    pub memory_peak: u64,
}

/// Counts of the swap area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapTally {
    /// Anonymous pages read from it.
    pub pages_in: u64,
    /// Anonymous pages written to it.
    pub pages_out: u64,
    /// Touches of anonymous pages that had to wait for it.
    pub faults: u64,
}

impl HostTally {
    /// Whether anything used the page cache or the swap area.
    pub fn is_used(&self) -> bool {
        self.hits + self.misses + self.dirtied + self.swap.pages_in + self.swap.pages_out > 0
    }

    /// The share of pages read that were in the cache, 0 to 1; `None` if none was read.
    pub fn hit_ratio(&self) -> Option<f64> {
        let reads = self.hits + self.misses;
        (reads > 0).then(|| self.hits as f64 / reads as f64)
    }
}
