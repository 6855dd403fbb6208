//! Labels in memory: reading after changes, torn writes, damage, and exchanges.

use backing::MemoryBacking;

use super::*;
use backing::Backing as _;

const BYTES: u64 = 1 << 30;

fn uuid() -> Uuid {
    Uuid::random().unwrap()
}

fn volume(id: u32, extents: &[(u32, u32)]) -> Record {
    let (name, store) = (format!("volume-{id}"), "a".to_owned());
    Record {
        id,
        name,
        store,
        bytes: 8 * EXTENT_BYTES,
        contract: "weight = 2".to_owned(),
        moves: 0,
        is_thick: false,
        max_used: None,
        extents: extents.to_vec(),
    }
}

/// A store in memory.
struct Rig {
    backing: MemoryBacking,
    label: StoreLabel,
    catalog: Uuid,
}

fn to(backing: &MemoryBacking) -> impl FnMut(Vec<(u64, Buffer)>) -> io::Result<()> + '_ {
    |blocks| blocks.iter().try_for_each(|(offset, data)| backing.write(*offset, data))
}

impl Rig {
    fn new() -> Rig {
        let (backing, catalog) = (MemoryBacking::default(), uuid());
        let mut label = StoreLabel::new("a", BYTES, catalog).unwrap();
        let start = uuid();
        label.begin_whole("a", start, start, &Change::default(), &mut to(&backing)).unwrap();
        Rig { backing, label, catalog }
    }

    fn apply(&mut self, change: &Change) {
        self.label.apply(change, &mut to(&self.backing)).unwrap();
    }

    fn creates(&mut self, volume: &Record) {
        let change = self.label.with_volume(volume).unwrap();
        self.apply(&change);
        let change = self.label.gives(volume.id, &volume.extents);
        self.apply(&change);
    }

    fn found(&self) -> Found {
        read(&self.backing, BYTES).unwrap()
    }

    fn read(&self) -> StoreLabel {
        match self.found() {
            Found::Labelled(labelled) => labelled.label,
            other => panic!("{other:?}"),
        }
    }

    fn damage(&self, copy: Copy, index: u32) {
        self.backing.write(self.label.layout.offset(copy, index) + 100, &[0xff; 8]).unwrap();
    }

    fn identify(&self, known: Version) -> Result<Identified, String> {
        let known = Known::from([("a".to_owned(), Some(known))]);
        identify("a", self.catalog, &known, &self.found(), BYTES).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn volumes_and_owners_are_read_as_they_were_written() {
    let mut rig = Rig::new();
    let [one, two] = [volume(1, &[(0, 3), (2, 4)]), volume(7, &[(1, 5)])];
    rig.creates(&one);
    rig.creates(&two);
    assert_eq!(rig.read().volumes(), [one.clone(), two.clone()]);
    assert_eq!(rig.read().version(), rig.label.version());
    let change = rig.label.without_volume(1);
    rig.apply(&change);
    assert_eq!(rig.read().volumes(), [two]);
    assert!(
        rig.label.with_volume(&Record { contract: "x".repeat(4096), ..one }).unwrap_err().to_string().contains("more than fit")
    );
}

#[test]
fn a_block_that_is_damaged_in_one_copy_is_read_from_the_other_and_repaired_and_in_both_it_is_refused() {
    let mut rig = Rig::new();
    let one = volume(1, &[(0, 3)]);
    rig.creates(&one);
    let blocks = [0, 1, rig.label.layout.owner_block(3).0];
    for copy in COPIES {
        for index in blocks {
            rig.damage(copy, index);
            let mut read = rig.read();
            assert_eq!(read.volumes(), std::slice::from_ref(&one), "{copy:?} {index}");
            let start = uuid();
            read.begin("a", start, start, &Change::default(), &mut to(&rig.backing)).unwrap();
            let (front, end) = (rig.label.layout.offset(Copy::Front, index), rig.label.layout.offset(Copy::End, index));
            let mut pair = [[0; BLOCK_BYTES], [0; BLOCK_BYTES]];
            rig.backing.read(front, &mut pair[0]).unwrap();
            rig.backing.read(end, &mut pair[1]).unwrap();
            assert!(
                pair.iter().all(|block| matches!(block::decode(block, index), block::Decoded::Intact { .. })),
                "{copy:?} {index}"
            );
        }
    }
    for index in blocks {
        COPIES.iter().for_each(|copy| rig.damage(*copy, index));
        assert!(
            matches!(rig.found(), Found::Damaged(why) if why.contains("damaged in both copies") || why.contains("both copies of it"))
        );
    }
}

/// Power cuts while blocks are written: each block is old, new or torn. Volumes are as before or as after the change.
#[test]
fn a_change_that_is_cut_is_there_or_not_and_the_label_is_readable() {
    let mut rig = Rig::new();
    rig.creates(&volume(1, &[(0, 3)]));
    let before = rig.label.volumes();
    let change = rig.label.with_volume(&volume(2, &[])).unwrap();
    for kept in 0..=2 * BLOCK_BYTES / 512 {
        let (cut, mut label) = (Rig::new(), rig.label.clone());
        let mut all = Buffer::new(BLOCK_BYTES);
        for copy in COPIES {
            for index in 0..label.layout.blocks() {
                rig.backing.read(label.layout.offset(copy, index), &mut all).unwrap();
                cut.backing.write(label.layout.offset(copy, index), &all).unwrap();
            }
        }
        let mut left = kept;
        // Sectors from the last to the first: a torn block may begin with the old header or the new one.
        let applied = label.apply(&change, &mut |blocks| {
            for (offset, data) in blocks {
                for sector in (0..BLOCK_BYTES / 512).rev().take(left) {
                    cut.backing.write(offset + 512 * sector as u64, &data[512 * sector..512 * (sector + 1)])?;
                }
                if left < BLOCK_BYTES / 512 {
                    return Err(io::Error::other("cut"));
                }
                left -= BLOCK_BYTES / 512;
            }
            Ok(())
        });
        let found = cut.read();
        let names: Vec<u32> = found.volumes().iter().map(|volume| volume.id).collect();
        assert_eq!(applied.is_err(), kept < 2 * BLOCK_BYTES / 512);
        assert!(names == [1] || names == [1, 2], "{kept}: {names:?}");
        assert!(kept < BLOCK_BYTES / 512 || names == [1, 2], "{kept}");
        if applied.is_err() {
            assert_eq!(label.volumes(), before);
            assert!(!label.is_written());
            // The next change writes blocks that may not have been written.
            label.apply(&Change::default(), &mut to(&cut.backing)).unwrap();
            assert_eq!(cut.read().volumes(), before, "{kept}");
        }
    }
}

#[test]
fn an_undone_change_is_not_there() {
    let mut rig = Rig::new();
    rig.creates(&volume(1, &[(0, 3)]));
    let before = rig.label.volumes();
    let inverse = rig.label.apply(&rig.label.without_volume(1), &mut to(&rig.backing)).unwrap();
    assert!(rig.read().volumes().is_empty());
    rig.label.undo(&inverse, &mut to(&rig.backing)).unwrap();
    assert_eq!((rig.read().volumes(), rig.label.volumes()), (before.clone(), before));
}

#[test]
fn the_same_store_is_recognised_and_its_copies_are_not() {
    let mut rig = Rig::new();
    let at_first = rig.label.version();
    assert_eq!(rig.identify(at_first), Ok(Identified::Same));
    rig.creates(&volume(1, &[(0, 3)]));
    assert_eq!(rig.identify(at_first), Ok(Identified::Ahead), "a crash kept the change from the catalog");
    let version = rig.label.version();
    // The server starts, and its catalog does not know it.
    rig.label.begin("a", uuid(), version.start, &Change::default(), &mut to(&rig.backing)).unwrap();
    assert_eq!(rig.identify(version), Ok(Identified::Ahead));
    let of_start = rig.label.version();
    assert_eq!(rig.identify(of_start), Ok(Identified::Same));
    rig.label.begin("a", uuid(), of_start.start, &Change::default(), &mut to(&rig.backing)).unwrap();
    let refused = |known: Version| rig.identify(known).unwrap_err();
    assert!(refused(version).contains("is newer than the catalog"), "{}", refused(version));
    let now = rig.label.version();
    let later = Version { generation: now.generation + 1, ..now };
    assert!(refused(later).contains("is an older copy of store"), "{}", refused(later));
    let elsewhere = Version { start: uuid(), ..now };
    assert!(refused(elsewhere).contains("went on without this catalog"), "{}", refused(elsewhere));
    let other = Version { store: uuid(), ..now };
    assert!(refused(other).contains("the catalog knows store"), "{}", refused(other));
}

#[test]
fn what_is_not_the_store_is_refused() {
    let rig = Rig::new();
    let version = rig.label.version();
    let known = Known::from([("a".to_owned(), Some(version)), ("b".to_owned(), Some(Version { store: uuid(), ..version }))]);
    let refused =
        |name: &str, found: &Found, bytes: u64| format!("{:#}", identify(name, rig.catalog, &known, found, bytes).unwrap_err());
    assert!(refused("b", &rig.found(), BYTES).contains("is store a ("));
    assert!(refused("c", &rig.found(), BYTES).contains("is store a ("));
    assert!(refused("a", &Found::Blank, BYTES).contains("is empty"));
    assert!(refused("c", &Found::Foreign, BYTES).contains("--overwrite"));
    let truncated = read(&rig.backing, BYTES / 2).unwrap();
    assert!(refused("a", &truncated, BYTES / 2).contains("is truncated"));
    let of_another = Rig::new();
    assert!(refused("c", &of_another.found(), BYTES).contains("of another catalog"));
    rig.backing.write(0, &[7; 8192]).unwrap();
    assert!(rig.identify(version).unwrap_err().contains("has overwritten its beginning"));
    let blank = MemoryBacking::default();
    assert!(matches!(read(&blank, BYTES).unwrap(), Found::Blank));
    // A superblock of ext4.
    blank.write(1080, &[0x53, 0xef]).unwrap();
    assert!(matches!(read(&blank, BYTES).unwrap(), Found::Foreign));
}

#[test]
fn a_store_that_has_grown_keeps_its_volumes_and_one_of_another_catalog_is_taken_or_not_but_never_half() {
    let mut rig = Rig::new();
    let one = volume(1, &[(0, 3)]);
    rig.creates(&one);
    let mut grown = match read(&rig.backing, 2 * BYTES).unwrap() {
        Found::Labelled(labelled) => labelled.label,
        other => panic!("{other:?}"),
    };
    grown.grow(2 * BYTES);
    let start = uuid();
    grown.begin_whole("a", start, start, &Change::default(), &mut to(&rig.backing)).unwrap();
    let Found::Labelled(labelled) = read(&rig.backing, 2 * BYTES).unwrap() else { panic!("no label") };
    assert_eq!((labelled.label.volumes(), labelled.label.layout.bytes), (vec![one.clone()], 2 * BYTES));
    // Cut after each write: the former UUID with its volume, or the new one with the new id.
    let (old, new) = (labelled.label.version.store, uuid());
    let renamed = Record { id: 9, ..one };
    for writes in 0..=4 {
        let copy = MemoryBacking::default();
        for at in (0..2 * BYTES).step_by(1 << 20).filter(|at| *at < 8 << 20 || *at + (8 << 20) >= 2 * BYTES) {
            let mut chunk = vec![0; 1 << 20];
            rig.backing.read(at, &mut chunk).unwrap();
            copy.write(at, &chunk).unwrap();
        }
        let mut label = labelled.label.clone();
        label.belongs_to(new).unwrap();
        let change = label.difference(std::slice::from_ref(&renamed)).unwrap();
        let mut left = writes;
        let mut write = |blocks| {
            left -= 1;
            if left < 0 { Err(io::Error::other("cut")) } else { to(&copy)(blocks) }
        };
        let begun = label.begin_whole("a", start, start, &change, &mut write);
        assert_eq!(begun.is_ok(), writes == 4);
        let Found::Labelled(found) = read(&copy, 2 * BYTES).unwrap() else { panic!("no label") };
        let id = found.label.volumes()[0].id;
        assert_eq!((id, found.label.version.store == old), if writes < 2 { (1, true) } else { (9, false) }, "{writes}");
    }
}
