//! Copy-on-write tables: the devices of a profile share the initial content and copy a chunk when they change it.
//!
//! ```text
//!  own    place |  0 |  2 |  0 |  1 |    0: as in the base         entries |DDDD|BBBB|
//!  base   place |  1 |  0 |  0 |  2 |    0: zeroes                 entries |aaaa|dddd|
//! ```
//! Chunks are stored in the order in which they were first written.

use std::sync::Arc;

/// Size of a chunk in bytes: small, since requests are scattered, and large compared with the four bytes of its
/// index.
const CHUNK_BYTES: usize = 4096;

/// The chunks of a table that differ from its base.
#[derive(Debug)]
struct Chunks<T> {
    /// By chunk: its place among the entries plus one, or 0.
    place: Vec<u32>,
    entries: Vec<T>,
}

impl<T: Copy + Default> Chunks<T> {
    /// Binary logarithm of the entries per chunk.
    const BITS: u32 = (CHUNK_BYTES / size_of::<T>()).ilog2();
    const SIZE: usize = 1 << Self::BITS;

    fn new(chunks: usize) -> Chunks<T> {
        Chunks { place: vec![0; chunks], entries: Vec::new() }
    }

    #[inline]
    fn position(&self, index: usize) -> Option<usize> {
        let place = self.place[index >> Self::BITS].checked_sub(1)?;
        Some(((place as usize) << Self::BITS) + (index & (Self::SIZE - 1)))
    }

    fn chunk(&self, chunk: usize) -> Option<&[T]> {
        let from = self.position(chunk << Self::BITS)?;
        Some(&self.entries[from..from + Self::SIZE])
    }
}

/// A table of entries that are initially zero.
#[derive(Debug)]
pub(super) struct Table<T> {
    base: Arc<Chunks<T>>,
    own: Chunks<T>,
}

impl<T: Copy + Default> Table<T> {
    pub fn new(entries: usize) -> Table<T> {
        let chunks = entries.div_ceil(Chunks::<T>::SIZE);
        Table { base: Arc::new(Chunks::new(chunks)), own: Chunks::new(chunks) }
    }

    #[inline]
    pub fn get(&self, index: usize) -> T {
        match self.own.position(index) {
            Some(at) => self.own.entries[at],
            None => self.base.position(index).map(|at| self.base.entries[at]).unwrap_or_default(),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> &mut T {
        let at = match self.own.position(index) {
            Some(at) => at,
            None => self.copy(index),
        };
        &mut self.own.entries[at]
    }

    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        *self.get_mut(index) = value;
    }

    /// Copies the chunk of an entry from the base. Returns the entry's position.
    #[cold]
    fn copy(&mut self, index: usize) -> usize {
        let (chunk, from) = (index >> Chunks::<T>::BITS, self.own.entries.len());
        match self.base.chunk(chunk) {
            Some(known) => self.own.entries.extend_from_slice(known),
            None => self.own.entries.resize(from + Chunks::<T>::SIZE, T::default()),
        }
        self.own.place[chunk] = (from >> Chunks::<T>::BITS) as u32 + 1;
        from + (index & (Chunks::<T>::SIZE - 1))
    }

    /// Makes the current content the base that is shared.
    pub fn freeze(&mut self) {
        let chunks = self.own.place.len();
        let mut base = std::mem::replace(&mut self.own, Chunks::new(chunks));
        base.entries.shrink_to_fit();
        self.base = Arc::new(base);
    }

    /// A copy that shares this table, which must be frozen.
    pub fn share(&self) -> Table<T> {
        debug_assert!(self.own.entries.is_empty(), "entries that are not frozen would be lost");
        Table { base: self.base.clone(), own: Chunks::new(self.own.place.len()) }
    }
}

#[cfg(test)]
impl<T> Table<T> {
    /// Bytes not shared with other tables.
    pub fn own_bytes(&self) -> usize {
        size_of_val(&*self.own.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_invisible_to_tables_that_share_the_base() {
        let mut first = Table::<u32>::new(5000);
        first.set(4999, 7);
        first.freeze();
        let (mut second, third) = (first.share(), first.share());
        second.set(4998, 8);
        assert_eq!((second.get(4998), second.get(4999), second.get(0)), (8, 7, 0));
        assert_eq!((third.get(4998), third.get(4999)), (0, 7));
        assert_eq!((second.own.entries.len(), third.own.entries.len()), (1024, 0), "only written entries are copied");
    }
}
