//! The tags of a queue: a bitmap in which some requests may use only part of each word (Linux 6.18 `lib/sbitmap.c`).
//!
//! ```text
//! word 0             word 1             word 2             word 3
//! ###_####________   #####_##________   __######________   ########________      # taken
//! |-------|          |-------|          |-------|          |-------|             open to a request that may take half of them
//! ```
//! Some requests may take only the first tags of each word. A request that may take only one tag waits for the very first, even if all
//! others are free.

/// Stands for no tag.
pub const NONE: u32 = u32::MAX;

const WORD: u32 = u64::BITS;

/// The tags of a queue. Requests admitted before it was set up hold none.
#[derive(Debug)]
pub struct Tags {
    depth: u32,
    /// Tags in a word: a power of 2.
    word_size: u32,
    words: Vec<Word>,
    /// Start of the next search. The kernel has one for each processor.
    hint: u32,
    /// Tags that must be freed before as many sleeping streams wake.
    wake_batch: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    taken: u64,
    /// Freed tags, merged back when the word seems full.
    freed: u64,
}

impl Tags {
    /// All tags are free.
    pub fn new(depth: u32) -> Tags {
        let mut word_size = WORD;
        // At least four words, unless there are very few (`sbitmap_calculate_shift`).
        while depth >= 4 && 4 * word_size > depth {
            word_size /= 2;
        }
        Tags { depth, word_size, words: vec![Word::default(); depth.div_ceil(word_size) as usize], hint: 0, wake_batch: 1 }
    }

    pub fn depth(&self) -> u32 {
        self.depth
    }

    pub fn wake_batch(&self) -> u32 {
        self.wake_batch
    }

    pub fn set_wake_batch(&mut self, wake_batch: u32) {
        self.wake_batch = wake_batch;
    }

    /// Takes a tag for a request that may use `open` of them; `None` if none of those is free (`sbitmap_get_shallow`).
    pub fn take(&mut self, open: u32) -> Option<u32> {
        let (first, mut from) = (self.hint / self.word_size, self.hint % self.word_size);
        let words = self.words.len() as u32;
        for index in (first..words).chain(0..first) {
            let open = self.open_in(index, open);
            let found = self.words[index as usize].find(open, from).map(|bit| index * self.word_size + bit);
            if let Some(tag) = found {
                self.words[index as usize].taken |= 1 << (tag % self.word_size);
                if tag == self.hint {
                    self.hint = if tag + 1 < self.depth { tag + 1 } else { 0 };
                }
                return Some(tag);
            }
            from = 0;
        }
        self.hint = 0;
        None
    }

    /// Frees a tag.
    pub fn release(&mut self, tag: u32) {
        self.words[(tag / self.word_size) as usize].freed |= 1 << (tag % self.word_size);
        self.hint = tag;
    }

    /// The share of `open` tags in this word (`__map_depth_with_shallow`).
    fn open_in(&self, index: u32, open: u32) -> u32 {
        let size = self.word_size.min(self.depth - index * self.word_size);
        if open >= self.depth {
            return size;
        }
        let share = u64::from(size) * u64::from(open);
        let rest = share % u64::from(self.depth);
        (share / u64::from(self.depth)) as u32 + u32::from(rest >= u64::from((index + 1) * size))
    }
}

impl Word {
    /// A free bit of the first `open`, searched from bit `from` on and then from the start (`sbitmap_find_bit_in_word`).
    fn find(&mut self, open: u32, from: u32) -> Option<u32> {
        if open == 0 {
            return None;
        }
        let within = u64::MAX >> (WORD - open);
        loop {
            let free = !self.taken & within;
            let after = free & (u64::MAX << from);
            let found = if after != 0 { after } else { free };
            if found != 0 {
                return Some(found.trailing_zeros());
            }
            if self.freed == 0 {
                return None;
            }
            self.taken &= !std::mem::take(&mut self.freed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::BTreeSet;

    use super::*;

    /// Takes all free tags with `open` as the limit.
    fn all(tags: &mut Tags, open: u32) -> BTreeSet<u32> {
        std::iter::from_fn(|| tags.take(open)).collect()
    }

    #[test]
    fn every_tag_is_taken_once_and_again_after_its_release() {
        for depth in (1..=300).chain([1_024, 4_096]) {
            let mut tags = Tags::new(depth);
            for _ in 0..3 {
                assert_eq!(all(&mut tags, depth), (0..depth).collect());
                (0..depth).rev().for_each(|tag| tags.release(tag));
            }
        }
    }

    #[test]
    fn exactly_the_open_tags_are_taken_and_always_the_same() {
        for depth in [1, 2, 3, 7, 8, 30, 64, 100, 256] {
            for open in 1..=depth {
                let mut tags = Tags::new(depth);
                assert_eq!(all(&mut tags, open).len() as u32, open, "{depth}");
            }
        }
        let first_of_each_word = |count: u32| (0..4).flat_map(|word| 64 * word..64 * word + count).collect::<BTreeSet<_>>();
        assert_eq!(all(&mut Tags::new(256), 96), first_of_each_word(24));
    }

    #[test]
    fn a_single_open_tag_is_the_first_even_if_others_are_free() {
        let mut tags = Tags::new(256);
        assert_eq!((tags.take(256), tags.take(256)), (Some(0), Some(1)));
        assert_eq!(tags.take(1), None);
        tags.release(1);
        assert_eq!(tags.take(1), None);
        tags.release(0);
        assert_eq!(tags.take(1), Some(0));
    }

    #[test]
    fn freed_tags_are_reused_only_when_their_word_is_full() {
        let mut tags = Tags::new(8);
        assert_eq!([0; 3].map(|_| tags.take(8).unwrap()), [0, 1, 2]);
        tags.release(0);
        assert_eq!(tags.take(8), Some(0), "the search begins at the last freed tag, in a word that was full");
        tags.release(2);
        assert_eq!([0; 5].map(|_| tags.take(8).unwrap()), [3, 2, 4, 5, 6]);
    }
}
