//! Files as the host sees them: where on the device their bytes lie.

/// A file's place in [`Files`].
pub type FileId = u32;

/// A contiguous piece of a file on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file it begins, in 512-byte sectors.
    pub offset: u64,
    /// Where on the device.
    pub lba: u64,
    /// How many sectors; never 0.
    pub sectors: u64,
}

/// One file, or a whole device opened as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the workload.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its extents, by offset, without holes, covering every byte of it; none if it is not on the device: calls on it move no data and
    /// are done at once.
    pub extents: Vec<Extent>,
    /// Whether it is empty at first: what was never written of it is not on the device, so that a page is not read before it is
    /// written in part.
    pub is_new: bool,
}

/// All files of a workload.
pub type Files = Vec<File>;

impl File {
    /// A device of `sectors` sectors, opened as a file.
    pub fn device(name: String, sectors: u64) -> File {
        File { name, bytes: sectors * 512, extents: vec![Extent { offset: 0, lba: 0, sectors }], is_new: false }
    }

    /// Where `sectors` sectors from `offset` on lie: (LBA, sectors) pieces in the file's order. Sectors beyond the last extent are
    /// left out.
    pub fn pieces(&self, offset: u64, sectors: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = offset + sectors;
        let first = self.extents.partition_point(|extent| extent.offset + extent.sectors <= offset);
        self.extents[first..].iter().take_while(move |extent| extent.offset < end).map(move |extent| {
            let from = offset.max(extent.offset);
            (extent.lba + (from - extent.offset), end.min(extent.offset + extent.sectors) - from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_file_is_found_in_all_the_extents_it_touches() {
        let extents = vec![
            Extent { offset: 0, lba: 1000, sectors: 8 },
            Extent { offset: 8, lba: 500, sectors: 16 },
            Extent { offset: 24, lba: 2000, sectors: 8 },
        ];
        let file = File { name: "f".to_owned(), bytes: 32 * 512, extents, is_new: false };
        let pieces = |offset, sectors| file.pieces(offset, sectors).collect::<Vec<_>>();
        assert_eq!(pieces(0, 8), [(1000, 8)]);
        assert_eq!(pieces(4, 24), [(1004, 4), (500, 16), (2000, 4)]);
        assert_eq!(pieces(8, 1), [(500, 1)]);
        assert_eq!(pieces(31, 5), [(2007, 1)]);
        assert_eq!(pieces(40, 5), []);
    }
}
