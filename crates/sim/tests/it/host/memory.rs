use std::sync::Arc;

use block::{Nanos, Op};
use sim::host::{Host, HostSettings, HostTally};
use sim::streams;

use crate::host::machine::{KIB, MIB, Machine, SECTORS, files, in_order, read, scramble, write};

#[test]
fn memory_stays_within_its_size_and_a_larger_file_is_read_again_from_the_device() {
    let mut machine = Machine::new(files(&[64 * MIB]), "memory_mib=16");
    machine.race(vec![in_order(read, 0, 64 * MIB, 64 * KIB)]);
    machine.race(vec![in_order(read, 0, 64 * MIB, 64 * KIB)]);
    let tally = machine.host.tally();
    assert!(tally.memory_peak <= 4096 && tally.memory_peak > 3800, "{tally:?}");
    let sectors: u64 = machine.seen().iter().map(|seen| u64::from(seen.sectors)).sum();
    assert!(sectors > 64 * MIB / 512 * 18 / 10, "{sectors}");
}

#[test]
fn pages_used_again_and_again_outlive_a_scan() {
    let mut machine = Machine::new(files(&[4 * MIB, 256 * MIB]), "memory_mib=32");
    for _ in 0..3 {
        machine.race(vec![in_order(read, 0, 4 * MIB, 64 * KIB)]);
    }
    machine.race(vec![in_order(read, 1, 256 * MIB, 64 * KIB)]);
    machine.forget();
    machine.race(vec![in_order(read, 0, 4 * MIB, 64 * KIB)]);
    assert!(machine.seen().is_empty(), "{} requests", machine.seen().len());
}

/// Scans a file of 96 MiB every two seconds, ten times, with 64 MiB of anonymous pages in 128 MiB of memory.
fn scan(swappiness: u32) -> (Machine, HostTally) {
    let settings =
        format!("memory_mib=128,anonymous_mib=64,swap_mib=128,anonymous_touches=5000,anonymous_skew=70,swappiness={swappiness}");
    let mut machine = Machine::new(files(&[96 * MIB]), &settings);
    for number in 0..10 {
        machine.pass_until(Nanos::from_millis(2000 * number));
        machine.race(vec![in_order(read, 0, 96 * MIB, 64 * KIB)]);
    }
    let tally = machine.host.tally();
    (machine, tally)
}

#[test]
fn more_swappiness_keeps_more_file_pages_and_costs_more_swapping() {
    let [(_, none), (_, some), (machine, most)] = [0, 60, 200].map(scan);
    assert_eq!((none.swap.pages_out, none.swap.pages_in), (0, 0), "at 0 nothing is swapped while there are file pages");
    assert!(some.swap.pages_out < most.swap.pages_out, "{some:?} {most:?}");
    assert!(some.swap.pages_in < most.swap.pages_in && most.swap.faults > 0, "{some:?} {most:?}");
    let ratios = [none, some, most].map(|tally| tally.hit_ratio().unwrap());
    assert!(most.misses < none.misses, "{ratios:?} {none:?} {most:?}");
    let seen = machine.seen();
    let area = SECTORS - 128 * MIB / 512;
    let swap: Vec<_> = seen.iter().filter(|seen| seen.lba >= area).collect();
    assert!(swap.iter().any(|seen| seen.op == Op::Write && seen.stream == streams::KSWAPD && seen.sectors > 8), "in clusters");
    assert!(swap.iter().any(|seen| seen.op == Op::Read && seen.stream <= streams::BACKGROUND), "by the process that touches");
    assert!(swap.len() < seen.len() && swap.iter().all(|seen| seen.stream > 1000));
}

#[test]
fn page_cluster_sets_the_pages_read_from_the_swap_area_at_once() {
    let largest = |cluster: u32| {
        let settings = format!("memory_mib=32,anonymous_mib=64,swap_mib=64,page-cluster={cluster},anonymous_skew=50");
        let mut machine = Machine::new(files(&[MIB]), &settings);
        machine.pass_until(Nanos::from_millis(20_000));
        let reads: Vec<_> = machine.seen().into_iter().filter(|seen| seen.op == Op::Read).collect();
        assert!(reads.len() > 100, "{} reads", reads.len());
        reads.iter().map(|seen| seen.sectors).max().unwrap()
    };
    assert_eq!(largest(0), 8);
    assert!((16..=64).contains(&largest(3)), "{}", largest(3));
}

#[test]
fn anonymous_memory_larger_than_memory_works_from_the_swap_area_forever() {
    let mut machine = Machine::new(files(&[64 * MIB]), "memory_mib=16,anonymous_mib=40,swap_mib=64,anonymous_touches=20000");
    machine.race(vec![in_order(read, 0, 32 * MIB, 64 * KIB), in_order(write, 0, 32 * MIB, 64 * KIB)]);
    let tally = machine.host.tally();
    assert!(tally.swap.pages_in > 100 && tally.swap.pages_out > 100 && tally.memory_peak <= 4096, "{tally:?}");
}

#[test]
fn dirty_pages_in_all_of_memory_are_written_and_no_process_waits_forever() {
    let settings = "memory_mib=16,dirty_ratio=100,dirty_background_ratio=99,dirty_writeback_centisecs=0";
    let mut machine = Machine::new(files(&[256 * MIB]), settings);
    let random = (0..40_000).map(|number| write(0, scramble(number) % 65_536 * 4096, 4096));
    machine.race(vec![Box::new(random), in_order(read, 0, 256 * MIB, 4 * KIB)]);
    assert!(machine.host.tally().memory_peak <= 4096);
}

#[test]
fn an_impossible_host_is_rejected_with_the_reason() {
    let refused = |bytes: &[u64], settings: &str| {
        let queue = Machine::new(files(&[]), "").host;
        drop(queue);
        let profile = sim::profile::load("atlas10k").unwrap();
        let (spec, values) = block::parse("noop").unwrap();
        let scheduler = (spec.build)(&block::Limits::default(), &values);
        let queue = sim::host::Queue::new(scheduler, profile.build(Default::default()), Default::default());
        Host::new(queue, Arc::new(files(bytes)), HostSettings::parse(settings).unwrap()).err().expect("it cannot be").to_string()
    };
    assert_eq!(refused(&[], "swap_mib=10000"), "host: swap_mib=10000 is more than the device, which has 8759 MiB");
    assert_eq!(
        refused(&[8 << 30], "swap_mib=1000"),
        "host: file 'f0' reaches into the swap area, the last 1000 MiB of the device; end it before, or set a smaller swap_mib"
    );
    let message = refused(&[], "memory_mib=64,anonymous_mib=100,swap_mib=10");
    assert!(
        message.starts_with("host: anonymous_mib=100 should be at most 68: memory_mib and swap_mib less the needs"),
        "{message}"
    );
}
