//! Written pages of initially empty files: the equivalent of ext4's file sizes and unwritten extents.

use std::collections::BTreeMap;

use super::{FileId, Files};

/// Pages per bitmap: 16 MiB of a file.
const CHUNK: u64 = 64 * WORD;
const WORD: u64 = 64;

/// Bitmaps of the written pages of new files.
#[derive(Default)]
pub(super) struct NewFiles {
    chunks: BTreeMap<(FileId, u64), Box<[u64; 64]>>,
}

impl NewFiles {
    /// Whether this page is not on the device, since it was never written (`ext4_block_write_begin` zeroes such a page).
    pub fn is_hole(&self, files: &Files, file: FileId, page: u64) -> bool {
        let is_written = || self.chunks.get(&(file, page / CHUNK)).is_some_and(|chunk| chunk[word(page)] & bit(page) != 0);
        is_new(files, file) && !is_written()
    }

    /// Marks a page as written.
    pub fn write(&mut self, files: &Files, file: FileId, page: u64) {
        if is_new(files, file) {
            self.chunks.entry((file, page / CHUNK)).or_insert_with(|| Box::new([0; 64]))[word(page)] |= bit(page);
        }
    }
}

fn is_new(files: &Files, file: FileId) -> bool {
    files.get(file as usize).is_some_and(|file| file.is_new)
}

/// Index of the word in its chunk.
fn word(page: u64) -> usize {
    (page % CHUNK / WORD) as usize
}

fn bit(page: u64) -> u64 {
    1 << (page % WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::File;

    #[test]
    fn a_page_of_a_new_file_is_a_hole_until_it_is_written() {
        let file = |is_new| File { name: String::new(), bytes: 1 << 40, extents: Vec::new(), is_new };
        let files = vec![file(true), file(true), file(false)];
        let mut new = NewFiles::default();
        for page in [0, 63, 64, 4095, 4096, 1 << 27] {
            assert!(new.is_hole(&files, 0, page));
            new.write(&files, 0, page);
            new.write(&files, 2, page);
            assert!(!new.is_hole(&files, 0, page) && new.is_hole(&files, 0, page + 1) && new.is_hole(&files, 1, page));
            assert!(!new.is_hole(&files, 2, page) && !new.is_hole(&files, 3, page));
        }
        assert!(new.chunks.keys().all(|(file, _)| *file == 0), "only new files need a map");
    }
}
