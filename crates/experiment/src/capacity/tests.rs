//! What loads need of devices of several units.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use super::*;
use crate::chance;
use crate::synthetic::asks::{Draw, Pattern, Places};

/// Random reads of 4 KiB.
fn reads() -> (Draw, Pattern) {
    let pattern = Pattern::Local { locality: 0.0, reads: 100, sizes: &[8], places: Places::Uniform };
    (Draw::new(0..(4 << 21), chance::source("reads", 1, 0)), pattern)
}

/// The need of reads at this depth, as fast as the device itself serves them.
fn of_itself(disk: &str, depth: usize) -> f64 {
    let (disk, stop) = (sim::profile::load(disk).unwrap(), AtomicBool::new(false));
    let queue = |merges| host(&disk, DeviceOptions::default(), QueueSettings { merges, ..QueueSettings::default() });
    let own = serve(queue(Merges::All), reads(), depth, Extent::default(), &stop).unwrap();
    let saturation = saturation(queue, reads, &own, Extent::default(), &stop).unwrap();
    saturation.need(own.requests, own.work_each())
}

#[test]
fn a_disk_needs_all_of_itself_at_any_depth() {
    for depth in [1, 32] {
        let need = of_itself("atlas10k", depth);
        assert!((0.97..=1.0).contains(&need), "{need} at depth {depth}");
    }
}

#[test]
fn one_reader_needs_its_unit_of_many() {
    let array = of_itself("raid0:disk=atlas10k,disks=8,stripe_unit_kib=64", 1);
    assert!(
        (0.12..0.25).contains(&array),
        "{array} of eight disks, five of which have work on average with eight requests in the array"
    );
    let flash = of_itself("ssd-dftl", 1);
    assert!(flash < 0.5, "{flash}");
    assert!(of_itself("raid0:disk=atlas10k,disks=8,stripe_unit_kib=64", 256) > 0.95);
}
