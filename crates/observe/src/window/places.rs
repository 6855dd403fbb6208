//! Locality: how much of the disk a window touches, and how much is accessed again. Both estimates need a few kilobytes.

use crate::event::SECTOR_BYTES;

/// The first `bits` bits of a hash. A single multiplication would spread equal strides more evenly than at random, which biases counting.
#[inline]
fn mixed(number: u64, bits: u32) -> usize {
    let product = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((product ^ product >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - bits)) as usize
}

/// Base-2 logarithm of a region's sectors: a region is 1 MiB. Choice: a smaller region limits the estimate to smaller disks, a larger one
/// counts neighbouring files once; not varied.
const REGION_BITS: u32 = 11;
/// Bytes per region. Derived: from [`REGION_BITS`].
const REGION_BYTES: f64 = (SECTOR_BYTES << REGION_BITS) as f64;
/// Base-2 logarithm of the bitmap's size in bits. Choice: 512 bytes, which count 37,000 regions; not varied.
const BITMAP_BITS: u32 = 12;

/// Estimates the number of regions of 1 MiB touched, by linear counting (Whang, Vander-Zanden, Taylor, ACM TODS 1990): each region sets one of
/// 4,096 bits, and the bits still clear give the number of regions. A few percent off up to 10,000 regions, less accurate beyond, at most 37,000.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    bits: [u64; 1 << (BITMAP_BITS - 6)],
}

impl Footprint {
    /// A request touches the regions of its first and its last sector; regions between them are ignored.
    #[inline]
    pub fn add(&mut self, first: u64, last: u64) {
        for region in [first >> REGION_BITS, last >> REGION_BITS] {
            let bit = mixed(region, BITMAP_BITS);
            self.bits[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Bytes of the regions touched.
    pub fn bytes(&self) -> f64 {
        let all = f64::from(1_u32 << BITMAP_BITS);
        let clear = self.bits.iter().map(|word| f64::from(word.count_zeros())).sum::<f64>();
        // If none is clear, use half a bit: the number is beyond the range.
        REGION_BYTES * all * (all / clear.max(0.5)).ln()
    }
}

impl Default for Footprint {
    fn default() -> Footprint {
        Footprint { bits: [0; 1 << (BITMAP_BITS - 6)] }
    }
}

/// Base-2 logarithm of a block's sectors: a block is 4 KiB. Source: the page size of x86-64, the unit of buffered requests.
const BLOCK_BITS: u32 = 3;
/// Base-2 logarithm of the number of slots. Choice: 8 KiB, small beside the cache of a processor; not varied.
const RECENT_BITS: u32 = 10;

/// Blocks where recent requests began: each of 1,024 slots holds the last block that was hashed to it.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    blocks: Box<[u64; 1 << RECENT_BITS]>,
}

impl Recent {
    pub fn new() -> Recent {
        // No block has this number: blocks have 61 bits.
        Recent { blocks: Box::new([u64::MAX; 1 << RECENT_BITS]) }
    }

    /// Whether an earlier request began in this sector's block. Blocks that were replaced count as new, never the reverse.
    #[inline]
    pub fn add(&mut self, lba: u64) -> bool {
        let block = lba >> BLOCK_BITS;
        let place = &mut self.blocks[mixed(block, RECENT_BITS)];
        std::mem::replace(place, block) == block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footprint_is_accurate_to_a_few_percent_for_consecutive_and_scattered_requests() {
        for stride in [1_u64, 7, 1 << 20] {
            for regions in [1_u64, 10, 1_000, 4_000] {
                let mut footprint = Footprint::default();
                for time in 0..2 * regions {
                    let lba = time % regions * stride * 2_048;
                    footprint.add(lba, lba + 7);
                }
                let ratio = footprint.bytes() / (regions as f64 * REGION_BYTES);
                assert!((0.9..1.1).contains(&ratio), "{regions} regions, stride {stride}: {ratio}");
            }
        }
    }

    #[test]
    fn repeated_requests_are_recognised_and_new_ones_are_not() {
        let mut recent = Recent::new();
        assert!((0..500).all(|block| !recent.add(block * 8)));
        let known = (0..500).filter(|block| recent.add(block * 8 + 3)).count();
        assert!((300..=500).contains(&known), "{known}");
        assert!((0..100_000).all(|block| !recent.add((1 << 40) + block * 8)));
        assert!(!recent.add(0), "long ago");
    }
}
