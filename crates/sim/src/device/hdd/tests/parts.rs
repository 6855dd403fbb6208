//! Tests of zones that are built in parts.

use super::*;
use crate::device::hdd::layout::SectorLocation;

/// A disk of five zones, from the outer edge inwards, with about this many terabytes.
fn large(terabytes: u32) -> HddSpecification {
    let mut spec = tiny();
    let cylinders = 80_000 * terabytes;
    spec.geometry.cylinders = cylinders;
    spec.geometry.surfaces = 18;
    spec.seek = Seek::Table { points: vec![(1, 1.0), (cylinders - 1, 20.0)] };
    spec.zones = (0..5).map(|n| zone(n * cylinders / 5, (n + 1) * cylinders / 5 - 1, 1_600 - 120 * n)).collect();
    spec
}

#[test]
fn five_zones_hold_many_terabytes() {
    for terabytes in [8, 16, 24] {
        let spec = large(terabytes);
        let layout = HddLayout::new(&spec.geometry, &spec.zones).unwrap();
        let sectors = |zone: &ZoneSpecification| {
            u64::from(zone.last_cylinder - zone.first_cylinder + 1) * 18 * u64::from(zone.sectors_per_track)
        };
        assert!(sectors(&spec.zones[0]) > 1 << 31);
        assert_eq!(layout.capacity_sectors, spec.zones.iter().map(sectors).sum::<u64>());
        assert!(layout.capacity_sectors * 512 > u64::from(terabytes) * 1_000_000_000_000);
        let mut first = 0;
        for zone in &spec.zones {
            let last = first + sectors(zone) - 1;
            let (begin, end) = (layout.locate(first), layout.locate(last));
            assert_eq!((begin.cylinder, begin.head, begin.sector), (zone.first_cylinder, 0, 0));
            assert_eq!((end.cylinder, end.head, end.sector), (zone.last_cylinder, 17, zone.sectors_per_track - 1));
            // The skew goes on over the whole zone.
            let angle = u64::MAX / u64::from(zone.sectors_per_track);
            let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder);
            let skew = (cylinders * (20 + 17 * 10) + 17 * 10 + u64::from(zone.sectors_per_track) - 1).wrapping_mul(angle);
            assert_eq!(end.angle, skew);
            first = last + 1;
        }
        let mut disk = disk(&spec);
        let last = layout.capacity_sectors - 8;
        disk.submit(Nanos::ZERO, &request(1, Op::Read, last, 8));
        assert_eq!(finish(&mut disk).len(), 1);
    }
}

#[test]
fn a_zone_that_is_too_large_is_named_by_its_key() {
    let complains = |change: &dyn Fn(&mut HddSpecification), expected: &[&str]| {
        let mut spec = large(8);
        change(&mut spec);
        let error = HddLayout::new(&spec.geometry, &spec.zones).unwrap_err();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    };
    complains(&|spec| spec.zones[0].sectors_per_track = 1 << 30, &["zone[0].sectors_per_track: 1073741824", "1 to 1099511627776"]);
    complains(
        &|spec| (spec.zones[0].sectors_per_track, spec.zones[0].last_cylinder) = (1 << 27, 7),
        &["zone[0].sectors_per_track: 134217728 makes 4831838208 sectors in 2 cylinders", "at most 2147483647"],
    );
    complains(&|spec| spec.zones[1].remaps = vec![(1, 3_000_000_000)], &["zone[1].remaps: ", "same part"]);
    let with_spares = |spec: &mut HddSpecification| {
        (spec.geometry.sparing, spec.zones[2].spares, spec.zones[2].slips) = (Sparing::Zone, 100, vec![5]);
    };
    complains(&with_spares, &["zone[2].slips: ", "several smaller zones"]);
    complains(
        &|spec| (spec.geometry.sparing, spec.zones[0].slips) = (Sparing::EndOfDisk, vec![u32::MAX]),
        &["zone[0].slips: 4294967295"],
    );
}

proptest! {
    #[test]
    fn a_zone_in_parts_has_the_same_places((geometry, zones) in geometries(), part in 1u32..=8) {
        let Ok(whole) = HddLayout::new(&geometry, &zones) else { return Ok(()) };
        let largest = zones.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(1) * u32::from(geometry.surfaces);
        let Ok(parts) = HddLayout::in_parts(&geometry, &zones, 2 * part * largest * geometry.sparing_range_cylinders.max(1)) else { return Ok(()) };
        prop_assert_eq!(parts.capacity_sectors, whole.capacity_sectors);
        for lba in 0..whole.capacity_sectors {
            let (here, there) = (parts.locate(lba), whole.locate(lba));
            prop_assert_eq!(SectorLocation { zone: there.zone, ..here }, there, "LBA {}", lba);
            prop_assert_eq!(parts.track_start(lba, &here), whole.track_start(lba, &there));
            prop_assert_eq!(parts.track_end(lba, &here), whole.track_end(lba, &there));
        }
    }
}
