//! The need of loads for devices of several units.
#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use testbed::chance;
use testbed::synthetic::{Draw, Pattern, Places};

use super::*;

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

#[test]
fn a_stream_costs_a_seek_next_to_a_neighbour_and_random_reads_cost_the_same_as_alone() {
    let (disk, stop) = (sim::profile::load("atlas10k").unwrap(), AtomicBool::new(false));
    let queue = || host(&disk, DeviceOptions::default(), QueueSettings::default());
    let costs = |locality: f64| {
        let wanted = || {
            let pattern = Pattern::Local { locality, reads: 100, sizes: &[8], places: Places::Uniform };
            (Draw::new(0..(4 << 21), chance::source("reads", 1, 0)), pattern)
        };
        let alone = serve(queue(), wanted(), 1, Extent::default(), &stop).unwrap();
        let shared = serve_with_neighbour(queue(), wanted(), 1, disk.capacity_sectors(), Extent::default(), &stop).unwrap();
        shared.work_each() / alone.work_each()
    };
    let (stream, random) = (costs(1.0), costs(0.0));
    assert!(stream > 3.0, "{stream} times");
    assert!((0.8..1.5).contains(&random), "{random} times");
}
