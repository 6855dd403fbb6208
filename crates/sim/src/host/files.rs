//! Files as the host sees them: the location of their bytes on the device.

/// Index of a file in [`Files`].
pub type FileId = u32;

/// A contiguous piece of a file on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First sector in the file.
    pub offset: u64,
    /// First sector on the device.
    pub lba: u64,
    /// Number of sectors; never 0.
    pub sectors: u64,
}

/// One file, or a whole device opened as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the workload.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its extents, by offset, without holes, covering the whole file; empty if it is not on the device: calls on it transfer no data
    /// and complete at once.
    pub extents: Vec<Extent>,
    /// Whether it is initially empty: parts that were never written are not on the device, so writing a part of such a page does not
    /// read it first.
    pub is_new: bool,
}

/// All files of a workload.
pub type Files = Vec<File>;

impl File {
    /// A device of `sectors` sectors, opened as a file.
    pub fn device(name: String, sectors: u64) -> File {
        File { name, bytes: sectors * 512, extents: vec![Extent { offset: 0, lba: 0, sectors }], is_new: false }
    }

    /// The extents of `sectors` sectors from `offset` on: (LBA, sectors) pieces in the file's order. Sectors beyond the last extent
    /// are omitted.
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
