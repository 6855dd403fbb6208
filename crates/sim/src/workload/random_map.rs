//! The set of visited blocks, so that random I/O covers each block once before it repeats any.
//!
//! ```text
//! level 1:  0                       1 1 …        a bit for each word below: full
//! level 0:  1101…   (64 blocks)     1111… 1111…  a bit for each block: visited
//! ```

/// A set of blocks that finds the next block outside it in a few steps, however full it is.
#[derive(Clone, Debug)]
pub(super) struct RandomMap {
    levels: Vec<Vec<u64>>,
    blocks: u64,
}

impl RandomMap {
    /// A map of `blocks` blocks, none visited.
    pub(super) fn new(blocks: u64) -> RandomMap {
        let mut map = RandomMap { levels: Vec::new(), blocks };
        let mut bits = blocks;
        loop {
            map.levels.push(vec![0; bits.div_ceil(64) as usize]);
            if bits <= 64 {
                break;
            }
            bits = bits.div_ceil(64);
        }
        map.clear();
        map
    }

    /// Removes all blocks from the set.
    pub(super) fn clear(&mut self) {
        let mut bits = self.blocks;
        for level in &mut self.levels {
            level.fill(0);
            // Bits after the end count as visited.
            if !bits.is_multiple_of(64)
                && let Some(last) = level.last_mut()
            {
                *last = u64::MAX << (bits % 64);
            }
            bits = bits.div_ceil(64);
        }
    }

    pub(super) fn contains(&self, block: u64) -> bool {
        block >= self.blocks || self.levels[0][(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Adds `block`, which must be within the map.
    pub(super) fn insert(&mut self, block: u64) {
        let mut index = block;
        for level in &mut self.levels {
            let word = &mut level[(index / 64) as usize];
            *word |= 1 << (index % 64);
            if *word != u64::MAX {
                return;
            }
            index /= 64;
        }
    }

    /// Adds up to `count` blocks from `first` on, until one is already visited. Returns their number.
    pub(super) fn insert_run(&mut self, first: u64, count: u64) -> u64 {
        for done in 0..count {
            if self.contains(first + done) {
                return done;
            }
            self.insert(first + done);
        }
        count
    }

    /// The next unvisited block from `from` on, wrapping at the end; `None` if all are visited.
    pub(super) fn next_free(&self, from: u64) -> Option<u64> {
        self.free_from(from).or_else(|| self.free_from(0))
    }

    fn free_from(&self, from: u64) -> Option<u64> {
        let mut index = from;
        for (height, level) in self.levels.iter().enumerate() {
            let at = (index / 64) as usize;
            let free = !*level.get(at)? & (u64::MAX << (index % 64));
            if free != 0 {
                return Some(self.descend(height, at as u64 * 64 + u64::from(free.trailing_zeros())));
            }
            // Continue after this word, one level up.
            index = index / 64 + 1;
        }
        None
    }

    fn descend(&self, height: usize, mut index: u64) -> u64 {
        for level in self.levels[..height].iter().rev() {
            index = index * 64 + u64::from((!level[index as usize]).trailing_zeros());
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_free_block_is_the_one_that_a_plain_set_gives(
            blocks in 1u64..9000,
            visits in prop::collection::vec((any::<u64>(), 1u64..400), 0..200),
            from: u64,
        ) {
            let (mut map, mut plain) = (RandomMap::new(blocks), BTreeSet::new());
            for (first, count) in visits {
                let first = first % blocks;
                let inserted = map.insert_run(first, count);
                let expected = (first..blocks.min(first + count)).take_while(|block| !plain.contains(block)).count() as u64;
                prop_assert_eq!(inserted, expected);
                plain.extend(first..first + inserted);
            }
            let from = from % blocks;
            let expected = (from..blocks).chain(0..from).find(|block| !plain.contains(block));
            prop_assert_eq!(map.next_free(from), expected);
            map.clear();
            prop_assert_eq!(map.next_free(from), Some(from));
        }
    }

    #[test]
    fn a_full_map_of_two_million_blocks_has_none_free_until_it_is_cleared() {
        let blocks = 2_000_003;
        let mut map = RandomMap::new(blocks);
        (0..blocks).rev().for_each(|block| map.insert(block));
        assert_eq!(map.next_free(17), None);
        map.clear();
        assert_eq!(map.next_free(17), Some(17));
    }
}
