//! Write-back throttling: readers concurrent with a buffered writer.

use block::{Nanos, Op};
use sim::host::Action;
use sim::profile::{Profile, load};

use crate::host::machine::{MIB, Machine, direct, files, fsync, scramble, write};

const READ_FILE: u64 = 2048 * MIB;
const WRITTEN_FILE: u64 = 4096 * MIB;
const READER: usize = 0;
const WRITER: usize = 1;

/// The outcome of a run of 20 s.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Mean response time of the reads.
    wait_ms: f64,
    /// Throughput of the writer.
    mb_s: f64,
    /// A digest of the times at which calls were done.
    times: u64,
}

/// A disk with its write cache off, as in servers. With the cache on, writes wait inside the drive, where they cannot be throttled.
fn uncached() -> Profile {
    let text = load("sata7200").unwrap().text().replacen("write_cache = \"on\"", "write_cache = \"off\"", 1);
    Profile::parse(&text, "uncached").unwrap()
}

/// A reader of 4 KiB at random, one at a time and past the page cache, and one that writes a file in order through the cache.
fn run(profile: &Profile, scheduler: &str, settings: &str, processes: &[usize]) -> Outcome {
    let settings = format!("memory_mib=512{settings}");
    let mut machine = Machine::on_profile(profile, scheduler, files(&[READ_FILE, WRITTEN_FILE]), &settings);
    let mut reads = (0..).map(|n| direct(Op::Read, 0, scramble(n) % (READ_FILE / 4096) * 4096, 4096));
    let mut writes = (0..).map(|n| write(1, n * MIB % WRITTEN_FILE, MIB));
    let mut under_way: Vec<(u64, usize, Nanos)> = Vec::new();
    let mut start = |machine: &mut Machine, process: usize, under_way: &mut Vec<_>| {
        let action: Action = if process == READER { reads.next() } else { writes.next() }.unwrap();
        under_way.push((machine.start(process as u32, action), process, machine.now));
    };
    processes.iter().for_each(|&process| start(&mut machine, process, &mut under_way));
    let (mut waited_ms, mut calls, mut times) = (0.0, [0.0_f64; 2], 0);
    while machine.now < Nanos::from_millis(20_000) {
        assert!(machine.step(), "a call is never done");
        for done in machine.take_finished() {
            let place = under_way.iter().position(|&(token, ..)| token == done.token()).unwrap();
            let (_, process, began) = under_way.swap_remove(place);
            calls[process] += 1.0;
            waited_ms += if process == READER { (machine.now - began).0 as f64 / 1e6 } else { 0.0 };
            times = scramble(times ^ machine.now.0);
            start(&mut machine, process, &mut under_way);
        }
    }
    let wait_ms = waited_ms / calls[READER].max(1.0);
    Outcome { wait_ms, mb_s: calls[WRITER] * MIB as f64 / 1e6 / machine.now.as_secs_f64(), times }
}

const BOTH: &[usize] = &[READER, WRITER];

#[test]
fn throttling_a_buffered_writer_shortens_read_latency() {
    for (disk, profile, least) in [("uncached", uncached(), 3.0), ("sata7200", load("sata7200").unwrap(), 1.1)] {
        for scheduler in ["none", "mq-deadline", "kyber"] {
            let outcome = |settings| run(&profile, scheduler, settings, BOTH);
            let (off, on) = (outcome(",wbt_lat_usec=0"), outcome(""));
            println!(
                "{disk} {scheduler}: read {:.1} ms, write {:.1} MB/s; throttled {:.1} ms, {:.1} MB/s",
                off.wait_ms, off.mb_s, on.wait_ms, on.mb_s
            );
            assert!(on.wait_ms * least < off.wait_ms, "{disk} {scheduler}: {:.1} ms, {:.1} without", on.wait_ms, off.wait_ms);
            assert!(on.mb_s > 0.85 * off.mb_s, "{disk} {scheduler}: {:.1} MB/s, {:.1} without", on.mb_s, off.mb_s);
            assert_eq!(on, outcome(",wbt_lat_usec=75000"), "{disk} {scheduler}: the default of rotational disks");
            assert_eq!(on, outcome(",wbt_lat_usec=-1"), "{disk} {scheduler}: the same again");
        }
    }
}

#[test]
fn alone_a_buffered_writer_keeps_its_throughput() {
    for (disk, profile) in
        [("uncached", uncached()), ("sata7200", load("sata7200").unwrap()), ("nvme-tlc", load("nvme-tlc").unwrap())]
    {
        let outcome = |settings| run(&profile, "none", settings, &[WRITER]);
        let (off, on) = (outcome(",wbt_lat_usec=0"), outcome(""));
        println!("{disk}: {:.1} MB/s; throttled {:.1} MB/s", off.mb_s, on.mb_s);
        assert!(on.mb_s > 0.95 * off.mb_s, "{disk}: {:.1} MB/s, {:.1} without", on.mb_s, off.mb_s);
    }
}

#[test]
fn bfq_and_older_schedulers_throttle_only_when_configured_to() {
    let profile = uncached();
    for scheduler in ["bfq", "cfq", "deadline", "noop"] {
        let outcome = |settings| run(&profile, scheduler, settings, BOTH);
        let by_default = outcome("");
        assert_eq!(by_default, outcome(",wbt_lat_usec=0"), "{scheduler}");
        assert_ne!(by_default, outcome(",wbt_lat_usec=1000"), "{scheduler}: a value given by hand counts");
    }
}

#[test]
fn flash_has_a_target_of_its_own() {
    let profile = load("sd-card").unwrap();
    let outcome = |settings| run(&profile, "none", settings, BOTH);
    let (off, on) = (outcome(",wbt_lat_usec=0"), outcome(""));
    println!(
        "sd-card: read {:.1} ms, write {:.1} MB/s; throttled {:.1} ms, {:.1} MB/s",
        off.wait_ms, off.mb_s, on.wait_ms, on.mb_s
    );
    assert_eq!(on, outcome(",wbt_lat_usec=2000"));
    assert_ne!(on, outcome(",wbt_lat_usec=75000"));
}

/// Calls of fsync after 8 KiB each in the second half of a minute, next to a writer through the page cache whose write-back is limited.
fn syncs_next_to_a_limited_writer(are_cgroups: bool) -> usize {
    let mut machine = Machine::with_limited_tenant(files(&[64 * MIB, 1024 * MIB]), are_cgroups, "memory_mib=256");
    let mut writes = (0..).map(|n| write(1, n * MIB % (1024 * MIB), MIB));
    let log = |n: u64| if n.is_multiple_of(2) { write(0, n / 2 * 8192 % (64 * MIB), 8192) } else { fsync(0) };
    let (mut calls, mut synced) = (0, 0);
    let mut logging = machine.start(0, log(0));
    machine.start(1, writes.next().unwrap());
    while machine.now < Nanos::from_millis(60_000) && machine.step() {
        for done in machine.take_finished() {
            if done.token() == logging {
                calls += 1;
                synced += usize::from(calls % 2 == 0 && machine.now > Nanos::from_millis(30_000));
                logging = machine.start(0, log(calls));
            } else {
                machine.start(1, writes.next().unwrap());
            }
        }
    }
    synced
}

#[test]
fn a_limited_cgroup_does_not_slow_another_that_has_few_dirty_pages() {
    let (apart, together) = (syncs_next_to_a_limited_writer(true), syncs_next_to_a_limited_writer(false));
    println!("{apart} calls of fsync in 30 s, {together} where all dirty pages count together");
    // Once dirty pages are at the limit, each write sleeps for at least a tick.
    assert!(apart > 3_000, "{apart}");
    assert!(3 * together < apart, "{together} and {apart}");
}
