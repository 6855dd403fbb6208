//! Positioning times estimated by devices, and the gain of a scheduler that uses them.

use block::{Limits, Nanos, Op, Priority, Request};
use sim::device::Device;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile, load};
use sim::run::{Issue, Server};

/// A repeatable sequence of numbers (SplitMix64).
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }
}

fn profile(name: &str) -> Profile {
    load(name).unwrap()
}

fn device(profile: &Profile, depth: u32) -> Box<dyn Device> {
    profile.build(DeviceOptions { queue_depth: Some(depth), queue_policy: None })
}

/// Requests a second of a load that keeps 16 requests of 4 KiB under way for 100 s, anywhere on the device.
fn rate(scheduler: &str, profile: &Profile, depth: u32, op: Op) -> f64 {
    let (spec, values) = block::parse(scheduler).unwrap();
    let mut queue = Queue::new((spec.build)(&Limits::default(), &values), device(profile, depth), QueueSettings::default());
    let (mut next, pages) = (numbers(1), queue.capacity_sectors() / 8);
    let (mut now, mut finished, mut done) = (Nanos::ZERO, Vec::new(), 0);
    let mut issue = move |now: Nanos, queue: &mut Queue| {
        let (priority, sync) = (Priority::DEFAULT, true);
        queue.admit(now, Issue { arrival: now, stream: 0, op, sync, priority, sectors: 8, lba: next() % pages * 8, token: 0 });
    };
    (0..16).for_each(|_| issue(now, &mut queue));
    while now < Nanos::from_secs_f64(100.0) {
        queue.dispatch(now);
        now = queue.next_event().unwrap();
        queue.advance(now, &mut finished);
        done += finished.len();
        finished.drain(..).for_each(|_| issue(now, &mut queue));
    }
    done as f64 / now.as_secs_f64()
}

#[test]
fn shortest_positioning_serves_more_than_shortest_seek() {
    for (disk, gain) in [("atlas10k", 1.1), ("barracuda", 1.1), ("sata7200", 1.1)] {
        let profile = profile(disk);
        for op in [Op::Read, Op::Write] {
            let (near, soon) = (rate("sstf", &profile, 1, op), rate("sptf", &profile, 1, op));
            println!("{disk} {op:?}: sstf {near:.1}/s, sptf {soon:.1}/s, {:.2} times", soon / near);
            let least = if op == Op::Read { gain } else { 1.0 };
            assert!(soon >= near * least, "{disk} {op:?}: {soon:.1}/s against {near:.1}/s");
        }
    }
}

fn request(op: Op, lba: u64) -> Request {
    Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: Nanos::ZERO }
}

/// Serves random accesses one at a time, and estimates the positioning time of each and of `others` that are never issued. Returns
/// for each access the estimated and the actual positioning time, and its completion.
fn estimated_and_measured(device: &mut dyn Device, others: usize, writes: bool) -> Vec<(Option<Nanos>, Nanos, Nanos)> {
    let (mut next, mut never, pages) = (numbers(2), numbers(3), device.capacity_sectors() / 8);
    let (mut now, mut done) = (Nanos::ZERO, Vec::new());
    let serve = |number: usize| {
        let op = if writes && number.is_multiple_of(3) { Op::Write } else { Op::Read };
        for _ in 0..others {
            device.time_to_reach(now, &request(op, never() % pages * 8));
        }
        let asked = request(op, next() % pages * 8);
        let estimated = device.time_to_reach(now, &asked);
        device.submit(now, &asked);
        while done.is_empty() {
            now = device.wake_at().unwrap();
            device.advance(now, &mut done);
        }
        let completion = done.remove(0);
        (estimated, completion.seek + completion.rotation, completion.at)
    };
    (0..300).map(serve).collect()
}

#[test]
fn a_disk_estimates_its_positioning_times_without_command_overheads() {
    for disk in ["atlas10k", "barracuda", "ibm18es", "raid5-5x-sata7200"] {
        for (number, (estimated, actual, _)) in
            estimated_and_measured(&mut *device(&profile(disk), 1), 0, false).into_iter().enumerate()
        {
            let over = estimated.unwrap().0 as f64 / 1e6 - actual.0 as f64 / 1e6;
            assert!((0.0..=2.0).contains(&over), "{disk}: {estimated:?} for {actual} of access {number}");
        }
    }
}

#[test]
fn estimating_positioning_times_changes_nothing() {
    for disk in ["atlas10k", "sata7200", "raid5-5x-sata7200", "cloud-volume", "nvme-tlc"] {
        let profile = profile(disk);
        let run = |others| estimated_and_measured(&mut *device(&profile, 1), others, true);
        assert_eq!(run(0), run(5), "{disk}");
    }
}

#[test]
fn an_array_uses_its_members_estimates_and_flash_has_none() {
    let is_told = |name: &str| device(&profile(name), 1).time_to_reach(Nanos::ZERO, &request(Op::Read, 1 << 20)).is_some();
    assert!(is_told("raid5-5x-sata7200"));
    assert!(!is_told("nvme-tlc"));
    for (level, disks) in [(0, 4), (1, 2), (5, 4), (10, 4)] {
        let array = format!("raid{level}:disk=atlas10k,disks={disks}");
        let profile = profile(&array);
        let (near, soon) = (rate("sstf", &profile, 1, Op::Read), rate("sptf", &profile, 1, Op::Read));
        println!("{array}: sstf {near:.1}/s, sptf {soon:.1}/s");
        assert!(soon > near, "{array}: {soon:.1}/s against {near:.1}/s");
    }
}
