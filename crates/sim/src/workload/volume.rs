//! A tenant's files placed on a disk of its own, which holds only its volume.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use block::Roster;

use super::place::PlacedWorkload;
use crate::host::{Extent, File, FileId, Files};

impl PlacedWorkload {
    /// The sectors of the device that a job's parts of its files occupy, in the order of the files.
    ///
    /// # Panics
    /// There is no such job.
    pub fn sectors(&self, job: usize) -> Vec<Range<u64>> {
        let files = self.files();
        let targets = self.plan(job).targets.iter();
        let pieces = targets.flat_map(|target| {
            let (from, to) = (target.start / 512, (target.start + target.bytes).div_ceil(512));
            files[target.file as usize].pieces(from, to - from)
        });
        pieces.map(|(lba, sectors)| lba..lba + sectors).collect()
    }

    /// The files of these jobs on a disk that holds only the volume of their tenant, from sector 0 on. Sectors that they use
    /// outside the volume are placed after it; sectors that they do not use are not placed.
    ///
    /// # Panics
    /// There is no such job.
    pub fn files_alone(&self, jobs: &[usize], roster: &Roster, tenant: usize) -> Arc<Files> {
        let files = self.files();
        let mut used: BTreeMap<FileId, Vec<Range<u64>>> = BTreeMap::new();
        for target in jobs.iter().flat_map(|&job| &self.plan(job).targets) {
            let part = target.start / 512..(target.start + target.bytes).div_ceil(512);
            used.entry(target.file).or_default().push(part);
        }
        let mut volume = Volume::new(roster, tenant);
        let placed = files.iter().zip(0..).map(|(file, id)| match used.get_mut(&id) {
            Some(parts) => volume.place(file, parts),
            None => File { name: file.name.clone(), bytes: 0, extents: Vec::new(), is_new: false },
        });
        Arc::new(placed.collect())
    }
}

/// A tenant's volume as a disk.
struct Volume<'a> {
    roster: &'a Roster,
    /// Its ranges on the shared device.
    pieces: Vec<Range<u64>>,
    /// Location of the next sectors outside the volume.
    behind: u64,
}

impl Volume<'_> {
    fn new(roster: &Roster, tenant: usize) -> Volume<'_> {
        let pieces: Vec<Range<u64>> = roster.volumes().filter(|(_, owner)| *owner == tenant).map(|(sectors, _)| sectors).collect();
        let behind = pieces.iter().map(|sectors| sectors.end - sectors.start).sum();
        Volume { roster, pieces, behind }
    }

    /// Places a file of which these parts are used.
    fn place(&mut self, file: &File, parts: &mut [Range<u64>]) -> File {
        parts.sort_unstable_by_key(|part| (part.start, part.end));
        let (mut extents, mut reached) = (Vec::new(), 0);
        for part in parts.iter() {
            if part.start > reached {
                // Never accessed; it only must not be a hole.
                extents.push(Extent { offset: reached, lba: 0, sectors: part.start - reached });
            }
            let from = part.start.max(reached);
            let mut offset = from;
            for (lba, sectors) in file.pieces(from, part.end.saturating_sub(from)) {
                self.place_piece(lba..lba + sectors, &mut offset, &mut extents);
            }
            reached = reached.max(offset);
        }
        File { name: file.name.clone(), bytes: file.bytes.min(reached * 512), extents, is_new: file.is_new }
    }

    /// Places a contiguous range of the shared device.
    fn place_piece(&mut self, piece: Range<u64>, offset: &mut u64, extents: &mut Vec<Extent>) {
        let mut at = piece.start;
        while at < piece.end {
            let next = self.pieces.partition_point(|own| own.end <= at);
            let (end, lba) = match self.pieces.get(next) {
                Some(own) if own.start <= at => (own.end.min(piece.end), self.roster.tenant_lba(at)),
                own => {
                    let end = own.map_or(piece.end, |own| own.start.min(piece.end));
                    let lba = self.behind;
                    self.behind += end - at;
                    (end, lba)
                }
            };
            match extents.last_mut().filter(|last| last.lba + last.sectors == lba && last.offset + last.sectors == *offset) {
                Some(last) => last.sectors += end - at,
                None => extents.push(Extent { offset: *offset, lba, sectors: end - at }),
            }
            *offset += end - at;
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use block::Tenant;

    #[test]
    fn alone_a_tenants_files_lie_side_by_side_from_the_first_sector_on() {
        let text = "[a]\nrw=read\nsize=300m\ndirectory=/one\n[b]\nrw=read\nsize=200m\ndirectory=/two\n[c]\nrw=read\nsize=200m\ndirectory=/one\n";
        let placed = Workload::parse(text, "t").unwrap().place(1 << 25, 1).unwrap();
        let volumes: Vec<_> = [(0, 0), (1, 1), (2, 0)]
            .into_iter()
            .flat_map(|(job, tenant)| placed.sectors(job).into_iter().map(move |sectors| (sectors, tenant)))
            .collect();
        let roster = Roster::new(vec![Tenant::new("x"), Tenant::new("y")], volumes, &[], 1).unwrap();
        let files = placed.files_alone(&[0, 2], &roster, 0);
        let mut all: Vec<Range<u64>> =
            files.iter().flat_map(|file| &file.extents).map(|extent| extent.lba..extent.lba + extent.sectors).collect();
        all.sort_by_key(|range| range.start);
        assert_eq!((all[0].start, all[all.len() - 1].end), (0, 500 * 2048));
        assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{all:?}");
        assert_eq!(files.iter().map(|file| file.bytes >> 20).collect::<Vec<_>>(), [300, 0, 200]);
    }

    #[test]
    fn of_a_device_in_parts_each_has_its_own() {
        let text = "[global]\nrw=read\nfilename=/dev/sda\nsize=64m\n[a]\noffset=0\n[b]\noffset=128m\n";
        let placed = Workload::parse(text, "t").unwrap().place(1 << 25, 1).unwrap();
        let sectors = [0, 1].map(|job| placed.sectors(job));
        assert_eq!(sectors.concat(), [0..131_072, 262_144..393_216]);
        let volumes = vec![(0..131_072, 0), (262_144..393_216, 1)];
        let roster = Roster::new(vec![Tenant::new("x"), Tenant::new("y")], volumes, &[], 1).unwrap();
        let files = placed.files_alone(&[1], &roster, 1);
        assert_eq!(files[0].pieces(262_144, 8).collect::<Vec<_>>(), [(0, 8)]);
        assert_eq!(files[0].bytes, 192 << 20);
    }
}
