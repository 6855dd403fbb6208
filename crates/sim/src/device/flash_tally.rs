//! Counts of flash operations.

use block::Nanos;

/// Counts of flash operations since the device was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashTally {
    /// 512-byte sectors that the host wrote.
    pub host_sectors_written: u64,
    /// 512-byte sectors of a page, the unit of the map.
    pub page_sectors: u32,
    /// Pages read for the host, or to complete partly written ones.
    pub data_reads: u64,
    /// Pages programmed for the host, including pages left empty in shared flash pages.
    pub data_programs: u64,
    /// Translation pages read, including those for collection.
    pub map_reads: u64,
    /// Translation pages programmed because an entry changed, including those for collection.
    pub map_programs: u64,
    /// Pages of data and of the map moved by collection.
    pub pages_moved: u64,
    /// Logical pages with content that the host discarded completely.
    pub pages_discarded: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Time that dies or planes spent on collection.
    pub collection: Nanos,
    /// Lookups in the part of the map held in memory; 0 if all of it is.
    pub map_lookups: u64,
    /// Number of these that were found.
    pub map_hits: u64,
    /// Erasures of the least worn block.
    pub least_erases: u32,
    /// Erasures of the most worn block.
    pub most_erases: u32,
}

impl FlashTally {
    /// The sum of several devices; `None` if there are none, or if their page sizes differ.
    pub fn sum(mut tallies: impl Iterator<Item = FlashTally>) -> Option<FlashTally> {
        let first = tallies.next()?;
        tallies.try_fold(first, |mut sum, other| {
            sum.host_sectors_written += other.host_sectors_written;
            sum.data_reads += other.data_reads;
            sum.data_programs += other.data_programs;
            sum.map_reads += other.map_reads;
            sum.map_programs += other.map_programs;
            sum.pages_moved += other.pages_moved;
            sum.pages_discarded += other.pages_discarded;
            sum.erases += other.erases;
            sum.collection += other.collection;
            sum.map_lookups += other.map_lookups;
            sum.map_hits += other.map_hits;
            sum.least_erases = sum.least_erases.min(other.least_erases);
            sum.most_erases = sum.most_erases.max(other.most_erases);
            (sum.page_sectors == other.page_sectors).then_some(sum)
        })
    }

    /// Bytes programmed for each byte written by the host; `None` if it wrote none.
    pub fn write_amplification(&self) -> Option<f64> {
        let programs = self.data_programs + self.map_programs + self.pages_moved;
        let programmed = programs as f64 * f64::from(self.page_sectors);
        (self.host_sectors_written > 0).then(|| programmed / self.host_sectors_written as f64)
    }

    /// The share of map lookups that needed no flash access; `None` if the whole map is in memory.
    pub fn map_hit_ratio(&self) -> Option<f64> {
        (self.map_lookups > 0).then(|| self.map_hits as f64 / self.map_lookups as f64)
    }
}
