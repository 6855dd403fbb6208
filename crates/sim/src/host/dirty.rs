//! The dirty pages of all files.

use std::collections::BTreeMap;

use super::FileId;

/// Pages per bitmap.
const CHUNK: u64 = 64;

/// Dirty pages in the order of the files, as bitmaps of 64 pages: corresponds to the dirty tags of a file's index in
/// Linux.
#[derive(Default)]
pub(super) struct DirtyPages {
    chunks: BTreeMap<(FileId, u64), u64>,
    len: u64,
}

impl DirtyPages {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Adds a page, which must not be in the set.
    pub fn insert(&mut self, file: FileId, page: u64) {
        *self.chunks.entry((file, page / CHUNK)).or_default() |= 1 << (page % CHUNK);
        self.len += 1;
    }

    /// Removes a page, which must be in the set.
    pub fn remove(&mut self, file: FileId, page: u64) {
        let key = (file, page / CHUNK);
        if let Some(bits) = self.chunks.get_mut(&key) {
            *bits &= !(1 << (page % CHUNK));
            self.len -= 1;
            if *bits == 0 {
                self.chunks.remove(&key);
            }
        }
    }

    /// The first dirty page of a file from `page` on.
    pub fn next(&self, file: FileId, page: u64) -> Option<u64> {
        let first = page / CHUNK;
        let mut chunks = self.chunks.range((file, first)..=(file, u64::MAX));
        chunks.find_map(|(&(_, chunk), bits)| {
            let bits = if chunk == first { bits >> (page % CHUNK) << (page % CHUNK) } else { *bits };
            (bits != 0).then(|| chunk * CHUNK + u64::from(bits.trailing_zeros()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_in_the_order_of_their_file() {
        let mut dirty = DirtyPages::default();
        for page in [5000, 3, 64, 63] {
            dirty.insert(1, page);
        }
        dirty.insert(2, 0);
        let next = |dirty: &DirtyPages, page| dirty.next(1, page);
        assert_eq!([0, 4, 64, 65, 5001].map(|page| next(&dirty, page)), [Some(3), Some(63), Some(64), Some(5000), None]);
        dirty.remove(1, 63);
        assert_eq!((next(&dirty, 4), dirty.len()), (Some(64), 4));
    }
}
