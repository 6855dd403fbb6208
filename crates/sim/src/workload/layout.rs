//! File placement on a fresh file system, as in Linux's ext4 (fs/ext4: ialloc.c, mballoc.c; e2fsprogs: mke2fs).
//!
//! ```text
//! flex group 0 (2 GiB)                            flex group 1
//! [bitmaps, inode tables | file | file |  free  ] [bitmaps, inode tables | file …
//!  of all 16 groups       directory "/"            directory "/a"
//! ```
//! The device is divided into block groups of 128 MiB, sixteen of which form a flex group with the metadata of all of them at its
//! start. Each directory is assigned a flex group; its files are allocated from the second block group on, one after another, and
//! continue where there is room. No extent is longer than a block group. The journal is in the middle of the device.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::host::Extent;

/// Blocks are 4 KiB, mke2fs's choice for all but the smallest devices.
const SECTORS_PER_BLOCK: u64 = 8;
/// Blocks of a group: the number of bits in a block.
const GROUP: u64 = 32_768;
/// Blocks of a flex group (mke2fs.conf: flex_bg, 16 groups).
const FLEX: u64 = 16 * GROUP;
/// Blocks of a group's two bitmaps and its inode table: an inode of 256 bytes for every 16 KiB (mke2fs.conf).
const GROUP_METADATA: u64 = 2 + GROUP * 4096 / 16_384 * 256 / 4096;
/// Super block, group descriptors and reserved space for their growth, in the first group and in those with a copy.
const SUPER_BLOCK: u64 = 1 + 1024;

/// Maximum size of a file system, 256 TiB, which bounds memory.
const MAX_BLOCKS: u64 = 1 << 36;

/// A file system's free space and the locations of its directories.
pub(super) struct Layout {
    /// Free ranges: from first block to length.
    free: BTreeMap<u64, u64>,
    free_blocks: u64,
    blocks: u64,
    /// First block for the files of each directory.
    directories: BTreeMap<String, u64>,
    random: Xoshiro256PlusPlus,
}

impl Layout {
    /// A fresh file system on a device of `sectors` sectors.
    pub(super) fn new(sectors: u64, seed: u64) -> Layout {
        let blocks = (sectors / SECTORS_PER_BLOCK).min(MAX_BLOCKS);
        let mut layout = Layout {
            free: BTreeMap::from([(0, blocks)]),
            free_blocks: blocks,
            blocks,
            directories: BTreeMap::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        };
        layout.reserve(0, SUPER_BLOCK.min(blocks / 64));
        for flex in (0..blocks).step_by(FLEX as usize) {
            // In proportion if the device ends within a flex group.
            let metadata = GROUP_METADATA * 16 * (blocks - flex).min(FLEX) / FLEX;
            let start = if flex == 0 { SUPER_BLOCK.min(blocks / 64) } else { flex };
            layout.reserve(start, metadata);
        }
        // Copies of the super block are in group 1 and in those whose number is a power of 3, 5 or 7 (sparse_super).
        for base in [3u64, 5, 7] {
            let groups = std::iter::successors(Some(1), |&group: &u64| group.checked_mul(base));
            for group in groups.take_while(|group| group * GROUP < blocks) {
                layout.reserve(group * GROUP, SUPER_BLOCK);
            }
        }
        let middle = blocks / 2 / FLEX * FLEX;
        let journal = layout.take(middle, journal_blocks(blocks));
        debug_assert!(journal.iter().all(|(_, length)| *length > 0));
        layout
    }

    /// Sectors available for files.
    pub(super) fn free_sectors(&self) -> u64 {
        self.free_blocks * SECTORS_PER_BLOCK
    }

    /// Allocates a file of `bytes` bytes in `directory`; `None` if there is not enough space.
    pub(super) fn place(&mut self, directory: &str, bytes: u64) -> Option<Vec<Extent>> {
        let blocks = bytes.div_ceil(4096);
        if blocks > self.free_blocks {
            return None;
        }
        let goal = self.goal(directory);
        let mut offset = 0;
        let extents = self.take(goal, blocks).into_iter().map(|(block, length)| {
            let extent = Extent { offset, lba: block * SECTORS_PER_BLOCK, sectors: length * SECTORS_PER_BLOCK };
            offset += extent.sectors;
            extent
        });
        Some(extents.collect())
    }

    /// The first block for a directory's files: in the first flex group for the root, in a random one for others, as Orlov's
    /// allocator spreads directories.
    fn goal(&mut self, directory: &str) -> u64 {
        if let Some(&goal) = self.directories.get(directory) {
            return goal;
        }
        let root = matches!(directory, "" | "." | "/");
        let flex = if root { 0 } else { self.random.random_range(0..self.blocks.div_ceil(FLEX).max(1)) };
        // ext4_inode_to_goal_block: the first group of a flex group is reserved for directories and metadata.
        let goal = (flex * FLEX + GROUP).min(self.blocks.saturating_sub(1) / GROUP * GROUP);
        self.directories.insert(directory.to_owned(), goal);
        goal
    }

    /// Allocates the free parts of a range.
    fn reserve(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        while let Some((&first, &free)) = self.free.range(..end).next_back() {
            let (from, to) = (first.max(start), (first + free).min(end));
            if from >= to {
                return;
            }
            self.cut(first, free, from, to);
            if first <= start {
                return;
            }
        }
    }

    /// Removes `from..to` from the free range that begins at `first`.
    fn cut(&mut self, first: u64, free: u64, from: u64, to: u64) {
        self.free.remove(&first);
        if from > first {
            self.free.insert(first, from - first);
        }
        if first + free > to {
            self.free.insert(to, first + free - to);
        }
        self.free_blocks -= to - from;
    }

    /// Allocates `blocks` free blocks from `goal` on, wrapping at the end, in extents that do not cross the end of a block group,
    /// because the kernel searches the bitmap of one group at a time. Fewer if there are fewer.
    fn take(&mut self, goal: u64, mut blocks: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        let mut at = goal;
        while blocks > 0 && self.free_blocks > 0 {
            let before = self.free.range(..=at).next_back().filter(|&(&first, &free)| first + free > at);
            let Some((&first, &free)) = before.or_else(|| self.free.range(at..).next()) else {
                at = 0;
                continue;
            };
            let from = first.max(at);
            let to = (first + free).min((from / GROUP + 1) * GROUP).min(from.saturating_add(blocks));
            self.cut(first, free, from, to);
            blocks -= to - from;
            taken.push((from, to - from));
            at = to;
        }
        taken
    }
}

/// Blocks of the journal (ext2fs_default_journal_size in e2fsprogs).
fn journal_blocks(blocks: u64) -> u64 {
    match blocks {
        0..2_048 => 0,
        2_048..32_768 => 1_024,
        32_768..262_144 => 4_096,
        262_144..524_288 => 8_192,
        524_288..4_194_304 => 16_384,
        4_194_304..8_388_608 => 32_768,
        8_388_608..16_777_216 => 65_536,
        16_777_216..33_554_432 => 131_072,
        _ => 262_144,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 21;

    #[test]
    fn files_of_one_directory_lie_one_behind_the_other_and_large_ones_in_groups() {
        let mut layout = Layout::new(100 * GIB, 1);
        let small = layout.place("", 1 << 20).unwrap();
        let large = layout.place("", 1 << 30).unwrap();
        assert_eq!(small.len(), 1);
        assert_eq!(large[0].lba, small[0].lba + small[0].sectors);
        assert!(large.len() >= 8 && large.iter().all(|extent| extent.sectors <= GROUP * SECTORS_PER_BLOCK));
        assert!(large.iter().all(|extent| extent.lba < 4 * GIB), "{large:?}");
    }

    #[test]
    fn directories_are_spread_over_the_device_and_the_seed_says_where() {
        let places = |seed| {
            let mut layout = Layout::new(1000 * GIB, seed);
            (0..20).map(|i| layout.place(&format!("/d{i}"), 4096).unwrap()[0].lba).collect::<Vec<_>>()
        };
        let once = places(7);
        assert_eq!(once, places(7));
        assert_ne!(once, places(8));
        let (least, most) = (once.iter().min().unwrap(), once.iter().max().unwrap());
        assert!(most - least > 500 * GIB, "{once:?}");
    }

    #[test]
    fn a_full_device_takes_no_more_and_a_tiny_one_is_no_trouble() {
        for sectors in [0, 1, 8, 100, 5_000, 100_000, GIB, 3 * GIB + 7] {
            let mut layout = Layout::new(sectors, 1);
            let room = layout.free_sectors() * 512;
            assert!(layout.place("a", room + 1).is_none());
            assert_eq!(layout.place("a", room).unwrap().iter().map(|extent| extent.sectors).sum::<u64>(), room / 512);
            assert!(layout.place("b", 1).is_none());
        }
        assert!(Layout::new(u64::MAX, 1).place("a", 1 << 40).is_some());
    }

    proptest! {
        #[test]
        fn files_never_overlap_are_whole_and_stay_on_the_device(
            sectors in 1u64..40 * GIB,
            seed: u64,
            files in prop::collection::vec((0u8..5, 1u64..2_000_000_000), 1..40),
        ) {
            let mut layout = Layout::new(sectors, seed);
            let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
            for (directory, bytes) in files {
                let before = layout.free_sectors();
                let Some(extents) = layout.place(&directory.to_string(), bytes) else {
                    prop_assert!(before * 512 < bytes);
                    continue;
                };
                let mut offset = 0;
                for extent in extents {
                    prop_assert_eq!(extent.offset, offset);
                    offset += extent.sectors;
                    prop_assert!(extent.sectors > 0 && extent.lba + extent.sectors <= sectors);
                    let end = extent.lba + extent.sectors;
                    let below = taken.range(..end).next_back();
                    prop_assert!(below.is_none_or(|(_, &below)| below <= extent.lba));
                    taken.insert(extent.lba, end);
                }
                prop_assert!(offset * 512 >= bytes && offset * 512 < bytes + 4096);
            }
        }
    }
}
