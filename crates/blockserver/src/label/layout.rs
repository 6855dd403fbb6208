//! Where a label is on its store.
//!
//! ```text
//! |label|volumes|owners| … extents … |volumes|owners|label|
//! 0                                                        end of the store
//! ```
//! Both copies have the same blocks. Extents that overlap a copy are reserved.

use serde::{Deserialize, Serialize};

use super::block::{BLOCK_BYTES, PAYLOAD_BYTES};
use crate::record::EXTENT_BYTES;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Extents whose owners are in one block.
pub const OWNERS_PER_BLOCK: u32 = PAYLOAD_BYTES as u32 / 8;
/// Minimum and maximum number of volumes of a store. Choice: 4 MiB and 16 MiB for each copy; not varied.
const VOLUMES: (u32, u32) = (1024, 4096);
/// A store may grow by this factor before its label cannot describe more extents. Choice: costs 64 bytes for each extent of 64 MiB; not
/// varied.
const GROWTH: u32 = 4;
/// Minimum number of blocks with owners. Choice: 8,096 extents, which are 506 GiB; not varied.
const MIN_OWNER_BLOCKS: u32 = 16;

/// The copies of a label.
pub const COPIES: [Copy; 2] = [Copy::Front, Copy::End];

/// One of the copies of a label.
#[derive(Clone, core::marker::Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// At the beginning of the store.
    Front,
    /// At its end.
    End,
}

/// The layout of a label, which depends on the size of the store when it was labelled.
#[derive(Clone, core::marker::Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Size of the store in bytes.
    pub bytes: u64,
    /// Number of blocks for volumes, one each.
    pub volumes: u32,
    /// Number of blocks for owners of extents.
    pub owners: u32,
}

impl Layout {
    /// Size of the smallest store, in MiB: an extent between two copies of a label for 1,024 volumes.
    pub const LEAST_MIB: u64 = 133;

    /// The layout for a new store of this size; `None` if it is too small for an extent.
    pub fn new(bytes: u64) -> Option<Layout> {
        let extents = u32::try_from(bytes / EXTENT_BYTES).unwrap_or(u32::MAX / GROWTH);
        let owners = extents.saturating_mul(GROWTH).div_ceil(OWNERS_PER_BLOCK).max(MIN_OWNER_BLOCKS);
        let layout = Layout { bytes, volumes: extents.clamp(VOLUMES.0, VOLUMES.1), owners };
        (layout.usable() > 0).then_some(layout)
    }

    /// Whether it can be the layout of a store: a label may have been written by an attacker.
    pub fn is_sound(&self) -> bool {
        self.volumes <= VOLUMES.1 && u64::from(self.blocks()) * BLOCK <= self.bytes / 2 && self.usable() > 0
    }

    /// Number of blocks of a copy.
    pub fn blocks(&self) -> u32 {
        self.volumes.saturating_add(self.owners).saturating_add(1)
    }

    /// Index of the block with the owner of an extent, and its position in the block.
    pub fn owner_block(&self, extent: u32) -> (u32, usize) {
        (1 + self.volumes + extent / OWNERS_PER_BLOCK, (extent % OWNERS_PER_BLOCK) as usize)
    }

    fn end(&self) -> u64 {
        self.bytes / BLOCK * BLOCK
    }

    fn area_bytes(&self) -> u64 {
        u64::from(self.blocks()) * BLOCK
    }

    /// First byte of a block of a copy. The label itself is the first block of the store, and the last.
    pub fn offset(&self, copy: Copy, index: u32) -> u64 {
        match (copy, index) {
            (Copy::Front, index) => u64::from(index) * BLOCK,
            (Copy::End, 0) => self.end() - BLOCK,
            (Copy::End, index) => self.end() - self.area_bytes() + u64::from(index - 1) * BLOCK,
        }
    }

    /// Number of extents, including reserved ones.
    pub fn extents(&self) -> u32 {
        u32::try_from(self.bytes / EXTENT_BYTES).unwrap_or(u32::MAX).min(self.owners.saturating_mul(OWNERS_PER_BLOCK))
    }

    /// Whether an extent overlaps a copy of the label.
    pub fn is_reserved(&self, extent: u32) -> bool {
        let begin = u64::from(extent) * EXTENT_BYTES;
        begin < self.area_bytes() || begin + EXTENT_BYTES > self.end().saturating_sub(self.area_bytes())
    }

    /// Number of extents that are not reserved.
    pub fn usable(&self) -> u32 {
        let front = self.area_bytes().div_ceil(EXTENT_BYTES);
        let behind = self.end().saturating_sub(self.area_bytes()) / EXTENT_BYTES;
        u32::try_from(behind.min(u64::from(self.extents())).saturating_sub(front)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_overlap_no_usable_extent_and_no_two_blocks_overlap() {
        for bytes in [193 << 20, 1 << 30, (5 << 30) + 777, 40 << 40, 256 << 20] {
            let layout = Layout::new(bytes).unwrap();
            assert!(layout.is_sound());
            let extents = 0..layout.extents();
            assert_eq!(extents.clone().filter(|extent| !layout.is_reserved(*extent)).count(), layout.usable() as usize, "{bytes}");
            let mut offsets: Vec<u64> =
                COPIES.iter().flat_map(|copy| (0..layout.blocks()).map(|at| layout.offset(*copy, at))).collect();
            offsets.sort_unstable();
            assert!(offsets.windows(2).all(|pair| pair[0] + BLOCK <= pair[1]) && offsets.last().unwrap() + BLOCK <= bytes);
            let overlaps = |extent: &u32| {
                let begin = u64::from(*extent) * EXTENT_BYTES;
                offsets.iter().any(|offset| *offset < begin + EXTENT_BYTES && offset + BLOCK > begin)
            };
            let sample: Vec<u32> =
                if bytes > 1 << 40 { vec![0, 1, layout.extents() - 2, layout.extents() - 1] } else { extents.collect() };
            for extent in sample {
                assert_eq!(
                    layout.is_reserved(extent),
                    overlaps(&extent) || u64::from(extent + 1) * EXTENT_BYTES > bytes,
                    "{extent} {bytes}"
                );
            }
        }
        assert_eq!((Layout::new(132 << 20), Layout::new(133 << 20).map(|layout| layout.usable())), (None, Some(1)));
        assert_eq!(Layout::new(256 << 20).unwrap().usable(), 2);
    }
}
