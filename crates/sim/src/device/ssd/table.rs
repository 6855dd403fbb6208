//! Tables whose initial content the devices of a profile share: a device copies what it changes, a chunk at a time.
//!
//! ```text
//!  base   |aaaa|bbbb|cccc|dddd|      of the profile, or nothing: then all entries are zero
//!  place  |  0 |  2 |  0 |  1 |      0: as in the base
//!  own    |DDDD|BBBB|                in the order in which they were first written
//! ```

use std::sync::Arc;

/// Bytes of a chunk: small, since requests are scattered, and large beside the four bytes that tell where it is.
const CHUNK_BYTES: usize = 4096;

/// A table of entries that begin as zeroes.
#[derive(Debug)]
pub(super) struct Table<T> {
    /// Empty if all is zero at the beginning.
    base: Arc<[T]>,
    /// By chunk: its place in `own` and one, or 0.
    place: Vec<u32>,
    own: Vec<Box<[T]>>,
}

impl<T: Copy + Default> Table<T> {
    /// The entries of a chunk are a power of two.
    const BITS: u32 = (CHUNK_BYTES / size_of::<T>()).ilog2();
    const MASK: usize = (1 << Self::BITS) - 1;

    pub fn new(entries: usize) -> Table<T> {
        Table { base: Arc::new([]), place: vec![0; entries.div_ceil(1 << Self::BITS)], own: Vec::new() }
    }

    #[inline]
    pub fn get(&self, index: usize) -> T {
        match self.place[index >> Self::BITS] {
            0 => self.base.get(index).copied().unwrap_or_default(),
            place => self.own[place as usize - 1][index & Self::MASK],
        }
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        let chunk = index >> Self::BITS;
        if self.place[chunk] == 0 {
            self.copy(chunk);
        }
        &mut self.own[self.place[chunk] as usize - 1][index & Self::MASK]
    }

    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        *self.get_mut(index) = value;
    }

    #[cold]
    fn copy(&mut self, chunk: usize) {
        let mut copy = vec![T::default(); 1 << Self::BITS].into_boxed_slice();
        let from = (chunk << Self::BITS).min(self.base.len());
        let known = &self.base[from..self.base.len().min(from + copy.len())];
        copy[..known.len()].copy_from_slice(known);
        self.own.push(copy);
        self.place[chunk] = self.own.len() as u32;
    }

    /// Makes what was written the content that others share.
    pub fn freeze(&mut self) {
        if !self.own.is_empty() {
            self.base = (0..self.place.len() << Self::BITS).map(|index| self.get(index)).collect();
            self.own = Vec::new();
            self.place.fill(0);
        }
    }

    /// Another one with the same content; only that of a frozen one is shared.
    pub fn share(&self) -> Table<T> {
        debug_assert!(self.own.is_empty(), "what is not frozen would be lost");
        Table { base: self.base.clone(), place: vec![0; self.place.len()], own: Vec::new() }
    }
}

#[cfg(test)]
impl<T> Table<T> {
    /// Bytes that only this one has.
    pub fn own_bytes(&self) -> usize {
        self.own.iter().map(|chunk| size_of_val(&**chunk)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_others_do_not_see() {
        let mut first = Table::<u32>::new(5000);
        first.set(4999, 7);
        first.freeze();
        let (mut second, third) = (first.share(), first.share());
        second.set(4998, 8);
        assert_eq!((second.get(4998), second.get(4999), second.get(0)), (8, 7, 0));
        assert_eq!((third.get(4998), third.get(4999)), (0, 7));
        assert_eq!((second.own.len(), third.own.len()), (1, 0), "only what is written is copied");
    }
}
