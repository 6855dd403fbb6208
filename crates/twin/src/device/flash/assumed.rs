//! Builds the estimate of a hypothetical flash device, without a fit.

use super::{Estimate, PCIE_MB_S, SATA_MB_S};

/// Size of the flash model in trials, in sectors: 1 GiB, because hundreds of devices are built. Choice: memory and time to build against
/// room for garbage collection; not varied.
pub const SMALL_FLASH: u64 = 1 << 21;

/// Flash. Times are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedFlash {
    /// Page read time.
    pub read_us: f64,
    /// Page program time.
    pub program_us: f64,
    /// Command overhead.
    pub overhead_us: f64,
    /// Number of dies.
    pub dies: u32,
    /// Write buffer in pages; 0 for none.
    pub buffer_pages: u32,
    /// Whether its link is faster than SATA.
    pub is_on_pcie: bool,
    /// Queue depth.
    pub depth: u32,
}

/// A flash device with this capacity in sectors.
pub fn assumed(capacity: u64, flash: &AssumedFlash) -> Estimate {
    Estimate {
        capacity,
        read_us: flash.read_us,
        reads: 0,
        program_us: flash.program_us,
        programs: 0,
        overhead_us: flash.overhead_us,
        dies: f64::from(flash.dies),
        queued: 0,
        buffer_pages: f64::from(flash.buffer_pages),
        writes: 0,
        link_mb_s: if flash.is_on_pcie { PCIE_MB_S } else { SATA_MB_S },
        depth: flash.depth,
    }
}
