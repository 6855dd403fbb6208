#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::collections::BTreeSet;

use block::{Nanos, Op, Priority, Request};
use rand::Rng as _;
use sim::device::Device;
use sim::device::hdd::spec::Seek;
use sim::profile::DeviceOptions;

use super::*;

const SEEDS: u64 = 100;

/// A device that serves one request at a time.
struct Alone {
    device: Box<dyn Device>,
    now: Nanos,
    served: u32,
}

impl Alone {
    fn new(profile: &Profile) -> Alone {
        Alone { device: profile.build(DeviceOptions::default()), now: Nanos::ZERO, served: 0 }
    }

    fn read(&mut self, lba: u64, sectors: u32) {
        let (id, arrival) = (self.served, self.now);
        let request = Request { id, stream: 0, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival };
        self.device.submit(self.now, &request);
        let mut done = Vec::new();
        while done.is_empty() {
            self.device.advance(self.device.wake_at().unwrap(), &mut done);
        }
        self.now = done[0].at;
        self.served += 1;
    }
}

fn drawn(family: &Family) -> impl Iterator<Item = Profile> {
    (0..SEEDS).map(|seed| draw(family, seed, 0).unwrap_or_else(|error| panic!("{}: {error:#}", family.name)))
}

fn is_flash(profile: &Profile) -> bool {
    profile.text().contains("[flash]")
}

#[test]
fn every_family_has_a_file() {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/devices")).unwrap();
    let files = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('_', "-").replace(".rs", ""));
    let files: BTreeSet<String> = files.filter(|file| !["mod", "tests", "drive", "flash"].contains(&file.as_str())).collect();
    assert_eq!(files, ALL.iter().map(|family| family.name.to_owned()).collect());
    assert!(ALL.iter().all(|family| find(family.name).is_some()) && find("drive").is_none());
}

#[test]
fn what_is_drawn_is_the_same_again_and_differs_between_numbers() {
    for family in ALL {
        let texts: BTreeSet<String> = drawn(family).map(|profile| profile.text().to_owned()).collect();
        assert_eq!(texts.len() as u64, SEEDS, "{}", family.name);
        assert_eq!(draw(family, 3, 4).unwrap().text(), draw(family, 3, 4).unwrap().text());
        assert_ne!(draw(family, 3, 4).unwrap().text(), draw(family, 3, 5).unwrap().text());
    }
}

/// Single random reads of 4 KiB, and sequential reads of 128 KiB from the first sector.
#[test]
fn drives_take_the_time_that_drives_take() {
    for family in ALL {
        for profile in drawn(family) {
            let mut alone = Alone::new(&profile);
            let mut random = chance::source(profile.name(), 0, 0);
            let all = profile.capacity_sectors() / 8;
            (0..200).for_each(|_| alone.read(random.random_range(0..all) * 8, 8));
            let mean_ms = alone.now.as_secs_f64() * 1000.0 / 200.0;
            let mut alone = Alone::new(&profile);
            (0..100).for_each(|number| alone.read(number * 256, 256));
            let mb_s = 100.0 * 131_072.0 / alone.now.as_secs_f64() / 1e6;
            let has = |text: &str| profile.text().contains(text);
            let is_failed = has("\nfailed = ");
            if is_flash(&profile) {
                // A provider allows at least a hundred requests per second. On full flash whose map is cached, a read may wait until
                // entries have been written back and a block has been collected for them; in a failed array, for the rebuild.
                let is_slow = has("[limits]") || is_failed || has("initial_state = \"random\"") && has("cached_entries");
                let most_ms = if is_slow { 10.5 } else { 2.0 };
                assert!(mean_ms < most_ms, "{}: {mean_ms} ms a read\n{}", profile.name(), profile.text());
            } else {
                // A read of a failed member waits for all others, which the rebuild keeps busy.
                let most_ms = if is_failed { 100.0 } else { 40.0 };
                assert!((2.0..most_ms).contains(&mean_ms), "{}: {mean_ms} ms a read\n{}", profile.name(), profile.text());
                let most = 400.0 * profile.disks() as f64;
                assert!((1.0..most).contains(&mb_s), "{}: {mb_s} MB/s\n{}", profile.name(), profile.text());
            }
        }
    }
}

/// Points of the seek curve by the profile's equation: distance and time.
fn seeks(seek: &Seek, cylinders: u32) -> Vec<(f64, f64)> {
    let Seek::Hpl { division_cylinders, short_base_ms, short_root_ms, long_base_ms, long_slope_ms, .. } = seek else {
        panic!("{seek:?}")
    };
    let distances = (1..200).map(|part| (f64::from(part) / 200.0 * f64::from(cylinders)).max(1.0).round());
    distances
        .map(|distance| {
            let short = distance < f64::from(*division_cylinders);
            let ms = if short { short_base_ms + short_root_ms * distance.sqrt() } else { long_base_ms + long_slope_ms * distance };
            (distance, ms)
        })
        .collect()
}

#[test]
fn hard_disks_hold_together() {
    for family in ALL {
        for profile in drawn(family) {
            let Some(hdd) = profile.hdd() else { continue };
            let (spec, name) = (&hdd.specification, profile.name());
            let points = seeks(&spec.seek, spec.geometry.cylinders);
            let slopes: Vec<f64> = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect();
            assert!(slopes.iter().all(|slope| *slope > 0.0), "{name}: seeks do not rise: {:?}", spec.seek);
            assert!(slopes.windows(2).all(|pair| pair[1] <= pair[0] * 1.01), "{name}: seeks bend upwards: {:?}", spec.seek);
            let (first, last) = (points[0].1, points[points.len() - 1].1);
            assert!(first > 0.1 && last < 35.0, "{name}: {first} to {last} ms");
            assert!(spec.zones.windows(2).all(|pair| pair[1].sectors_per_track <= pair[0].sectors_per_track), "{name}");
            assert!((8..=30).contains(&spec.zones.len()), "{name}");
            let (outer, inner) = (spec.zones[0].sectors_per_track, spec.zones[spec.zones.len() - 1].sectors_per_track);
            assert!((0.4..0.75).contains(&(f64::from(inner) / f64::from(outer))), "{name}: {outer} to {inner}");
        }
    }
}

#[test]
fn arrays_leave_no_files_behind() {
    let profile = draw(&array::FAMILY, 1, 0).unwrap();
    assert!(profile.disks() >= 2);
    let before = Folder::new().unwrap();
    let path = before.0.clone();
    assert!(path.is_dir());
    drop(before);
    assert!(!path.exists());
}
