//! The steady state of a device after many random overwrites, constructed directly instead of simulated.
//!
//! Under uniform random writes every valid page is as likely to die next. So blocks with k valid pages fall to k - 1 at a rate
//! proportional to k times their number, and in the steady state that rate is the same for every k between a full block and the one
//! that greedy collection takes: the number of blocks with k valid pages goes as 1/k. (Desnoyers, "Analytic modeling of SSD write
//! performance", SYSTOR 2012.) Collection takes blocks of data and of the map at the same count, so both have the same share of
//! garbage. The rest (the cached map, the open blocks) settles in a short run of random writes.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::blocks::Content;
use super::ftl::Ftl;

/// Number of random writes at the end: the logical pages divided by this, plus the capacity of the cached map.
const SETTLING: u64 = 32;

impl Ftl {
    /// Lays out all planes in their state after random writes.
    pub(super) fn lay_out_at_random(&mut self) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
        for plane in 0..self.model.shape.planes {
            self.scatter_plane(plane, &mut random);
        }
        let cached = self.model.map.cached_groups.map_or(0, |groups| u64::from(groups) * 2);
        let pages = self.logical_pages();
        for _ in 0..pages.div_ceil(SETTLING).max(cached.min(pages)) {
            let page = random.random_range(0..pages) as u32;
            if self.model.shape.packed_bits > 0 {
                self.place(page);
            } else {
                self.write(page, true);
            }
        }
    }

    /// Assigns every logical and translation page of a plane to a place in the closed blocks.
    fn scatter_plane(&mut self, plane: u32, random: &mut Xoshiro256PlusPlus) {
        let model = self.model.clone();
        let closed = model.shape.blocks - model.collection.low_free - 2;
        let of_map = u64::from(closed) * u64::from(model.map.translation)
            / (u64::from(model.map.logical) + u64::from(model.map.translation));
        let of_map = (of_map as u32)
            .max(model.map.translation.div_ceil(model.shape.pages))
            .min(closed - model.map.logical.div_ceil(model.shape.pages));
        for (content, blocks, count) in
            [(Content::Data, closed - of_map, model.map.logical), (Content::Map, of_map, model.map.translation)]
        {
            let mut numbers: Vec<u32> = (0..count).collect();
            numbers.shuffle(random);
            let mut numbers = numbers.into_iter();
            for valid in valid_pages(blocks, model.shape.pages, count) {
                let block = self.blocks.take_least_worn(plane, content);
                self.fill(plane, content, block, valid, &mut numbers, random);
            }
        }
    }

    /// Closes a block with `valid` of its pages valid, chosen at random.
    fn fill(
        &mut self,
        plane: u32,
        content: Content,
        block: u32,
        valid: u32,
        numbers: &mut impl Iterator<Item = u32>,
        random: &mut Xoshiro256PlusPlus,
    ) {
        let pages = self.model.shape.pages;
        let mut needed = valid;
        for page in 0..pages {
            if random.random_range(0..pages - page) < needed
                && let Some(number) = numbers.next()
            {
                needed -= 1;
                self.set_all_valid(plane, block * pages + page, 1);
                self.point(plane, content, number, block * pages + page);
            }
        }
        self.blocks.add_valid(plane, block, valid);
        self.blocks.close(plane, block);
    }
}

/// The number of valid pages of each of `blocks` blocks of `pages` pages, with `count` valid pages in total: the number of blocks
/// with k valid pages is proportional to 1/k, from full ones down to where the sum is right. Only sums and quotients: the same on
/// every machine.
fn valid_pages(blocks: u32, pages: u32, count: u32) -> Vec<u32> {
    if blocks == 0 {
        return Vec::new();
    }
    let mean = f64::from(count) / f64::from(blocks);
    // Blocks with at least `least` pages have (pages - least + 1) / harmonic of them on average.
    let (mut least, mut harmonic) = (pages, 1.0 / f64::from(pages));
    while least > 1 && f64::from(pages - least + 1) / harmonic > mean {
        least -= 1;
        harmonic += 1.0 / f64::from(least);
    }
    let mut all = Vec::with_capacity(blocks as usize);
    let (mut valid, mut share) = (least, 1.0 / f64::from(least));
    for block in 0..blocks {
        while valid < pages && f64::from(block) + 0.5 > share / harmonic * f64::from(blocks) {
            valid += 1;
            share += 1.0 / f64::from(valid);
        }
        all.push(valid);
    }
    // The rounding error is spread evenly.
    let mut sum: u64 = all.iter().map(|&valid| u64::from(valid)).sum();
    while sum != u64::from(count) {
        for valid in &mut all {
            if sum < u64::from(count) && *valid < pages {
                (*valid, sum) = (*valid + 1, sum + 1);
            } else if sum > u64::from(count) && *valid > 0 {
                (*valid, sum) = (*valid - 1, sum - 1);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::valid_pages;

    #[test]
    fn blocks_hold_all_pages_and_fuller_blocks_are_rarer() {
        let all = valid_pages(1000, 64, 40_000);
        assert_eq!((all.len(), all.iter().sum::<u32>()), (1000, 40_000));
        let with = |range: std::ops::Range<u32>| all.iter().filter(|valid| range.contains(valid)).count();
        assert!(with(0..24) == 0 && with(24..34) > with(34..44) && with(34..44) > with(50..60), "{all:?}");
        assert_eq!(valid_pages(3, 8, 24), [8, 8, 8]);
        assert_eq!(valid_pages(4, 2, 0), [0, 0, 0, 0]);
        assert_eq!(valid_pages(4, 8, 1).iter().sum::<u32>(), 1);
    }
}
