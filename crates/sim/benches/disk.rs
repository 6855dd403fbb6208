//! The device alone: random aligned 4 KB requests, two reads to a write, and writes alone on a flash device under collection.

use std::hint::black_box;

use block::{Nanos, Op, Priority, Request};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::device::Device;
use sim::profile::{DeviceOptions, Profile, load};

const REQUESTS: u32 = 1_000_000;

/// A random number from a count (splitmix64).
fn random(count: u64) -> u64 {
    let mut z = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keeps `depth` requests in the device until all are done. One in `writes` is a write.
fn run(device: &mut dyn Device, depth: u32, writes: u32) -> Nanos {
    run_from(Nanos::ZERO, device, depth, writes)
}

fn run_from(start: Nanos, device: &mut dyn Device, depth: u32, writes: u32) -> Nanos {
    let capacity = device.capacity_sectors() - 8;
    let (mut now, mut next, mut finished) = (start, 0, 0);
    let mut done = Vec::with_capacity(64);
    while finished < REQUESTS {
        while next < REQUESTS && next - finished < depth {
            let lba = random(start.0 + u64::from(next)) % capacity / 8 * 8;
            let op = if next % writes == writes - 1 { Op::Write } else { Op::Read };
            let request =
                Request { id: next, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now };
            device.submit(now, &request);
            next += 1;
        }
        let Some(at) = device.wake_at() else { break };
        now = at;
        device.advance(now, &mut done);
        finished += done.len() as u32;
        done.clear();
    }
    now
}

fn disk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("random 4 KB");
    group.throughput(Throughput::Elements(u64::from(REQUESTS))).sample_size(10);
    for (name, depth) in
        [("atlas10k", 1), ("sata7200", 1), ("sata7200", 32), ("raid0:disk=atlas10k,disks=8", 8), ("raid5:disk=atlas10k,disks=8", 8)]
    {
        #[expect(clippy::expect_used, reason = "a disk that comes with the program loads")]
        let profile = load(name).expect("built-in disk");
        group.bench_function(format!("{name}, depth {depth}"), |bencher| {
            bencher.iter(|| {
                let mut device = profile.build(DeviceOptions { queue_depth: Some(depth), queue_policy: None });
                black_box(run(&mut *device, depth, 3))
            });
        });
    }
    group.finish();
}

/// Writes of 4 KB to a flash device whose blocks are full of garbage: every one of them makes it collect.
fn flash(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("random 4 KB writes in steady garbage collection");
    group.throughput(Throughput::Elements(u64::from(REQUESTS))).sample_size(10);
    #[expect(clippy::expect_used, reason = "a disk that comes with the program loads")]
    let dftl = load("ssd-dftl").expect("built-in disk");
    let steady = dftl.text().replace("\"sequential\"", "\"random\"");
    for (name, text) in [("cached map", steady.clone()), ("whole map", steady.replace("cached_entries", "# cached_entries"))] {
        #[expect(clippy::expect_used, reason = "a changed word leaves the profile good")]
        let profile = Profile::parse(&text, name).expect("a profile");
        let mut device = profile.build(DeviceOptions::default());
        // The device goes on from one round to the next: it is in its steady state all the time.
        let mut now = Nanos::ZERO;
        group.bench_function(name, |bencher| bencher.iter(|| now = run_from(now, &mut *device, 32, 1)));
        println!("{name}: {:?}", device.flash());
    }
    group.finish();
}

criterion_group!(benches, disk, flash);
criterion_main!(benches);
