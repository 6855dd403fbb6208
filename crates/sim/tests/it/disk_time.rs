//! The work that devices report for each request: its sum is the busy time of their mechanics.

use block::{Nanos, Op, Priority, Request, StreamId};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::device::raid::layout::{ArrayLayout, level};
use sim::device::raid::{Raid, RebuildRate};
use sim::device::{Completion, Device};
use sim::profile::{DeviceOptions, load};

/// A request of a stream.
#[derive(Clone, Copy)]
struct Ask {
    stream: StreamId,
    op: Op,
    lba: u64,
    sectors: u32,
}

/// Disk time of each of two streams.
type DiskTimes = [Nanos; 2];

/// Issues `count` requests with depth `depth` to a device, and waits until it is idle.
fn keep_busy(device: &mut dyn Device, depth: usize, count: u32, mut next: impl FnMut(u32) -> Ask) -> DiskTimes {
    let (mut now, mut done, mut asked) = (Nanos::ZERO, Vec::<Completion>::new(), Vec::new());
    let (mut work, mut under_way) = ([Nanos::ZERO; 2], 0);
    loop {
        while under_way < depth && asked.len() < count as usize {
            let Ask { stream, op, lba, sectors } = next(asked.len() as u32);
            let (id, priority) = (asked.len() as u32, Priority::DEFAULT);
            asked.push(stream);
            under_way += 1;
            device.submit(now, &Request { id, stream, op, sync: true, priority, sectors, lba, arrival: now });
        }
        let Some(at) = device.wake_at() else { return work };
        now = now.max(at);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            under_way -= 1;
            work[asked[completion.id as usize] as usize] += completion.work.expect("every device tells");
        }
    }
}

fn device(profile: &str) -> Box<dyn Device> {
    load(profile).unwrap().build(DeviceOptions::default())
}

/// A RAID of eight disks with accessible members.
fn array(number: u32, disk: &str) -> Raid {
    let members: Vec<_> = (0..8).map(|_| device(disk)).collect();
    let layout = ArrayLayout::new(level(number).unwrap(), 8, 128, members[0].capacity_sectors()).unwrap();
    Raid::new(layout, members, None, None, None, RebuildRate::default())
}

fn members_busy(array: &Raid) -> f64 {
    array.member_busy().fold(Nanos::ZERO, |sum, busy| sum + busy).as_secs_f64()
}

/// Requests of this size anywhere.
fn anywhere(op: Op, sectors: u32, capacity: u64) -> impl FnMut(u32) -> Ask {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    move |_| Ask { stream: 0, op, lba: random.random_range(0..capacity / 8 - 512) * 8, sectors }
}

#[track_caller]
fn assert_close(what: &str, work: f64, busy: f64, tolerance: f64) {
    assert!((work / busy - 1.0).abs() < tolerance, "{what}: {work:.3} s of work in {busy:.3} s");
}

#[test]
fn the_work_of_random_reads_adds_up_to_the_busy_time_of_a_disk() {
    for disk in ["ibm18es", "cheetah9LP", "atlas10k", "barracuda", "hp_c2247a", "sata7200"] {
        for depth in [1, 4, 16] {
            let mut disk_at_work = device(disk);
            let capacity = disk_at_work.capacity_sectors();
            let [work, _] = keep_busy(&mut *disk_at_work, depth, 2_000, anywhere(Op::Read, 64, capacity));
            assert_close(&format!("{disk}, {depth} at once"), work.as_secs_f64(), disk_at_work.busy().as_secs_f64(), 0.02);
        }
    }
}

#[test]
fn the_work_of_cached_writes_adds_up_to_the_time_of_the_arm() {
    for disk in ["ibm18es", "cheetah9LP", "sata7200"] {
        let mut disk_at_work = device(disk);
        let capacity = disk_at_work.capacity_sectors();
        let [work, _] = keep_busy(&mut *disk_at_work, 8, 2_000, anywhere(Op::Write, 16, capacity));
        assert_close(disk, work.as_secs_f64(), disk_at_work.busy().as_secs_f64(), 0.05);
    }
}

#[test]
fn random_writers_are_charged_for_the_arm_although_writes_are_reported_at_once() {
    let mut disk = device("sata7200");
    let capacity = disk.capacity_sectors();
    let mut random = anywhere(Op::Write, 16, capacity / 2);
    let [random, sequential] = keep_busy(&mut *disk, 1, 12_000, |number| match number % 20 {
        0 => random(number),
        // Nineteen in a row, so that most follow on a waiting request.
        _ => Ask { stream: 1, op: Op::Write, lba: capacity / 2 + u64::from(number) * 16, sectors: 16 },
    });
    assert!(random.0 / 600 > 2 * sequential.0 / 11_400, "{random} for 600 writes anywhere, {sequential} for 11,400 in a row");
    let all = (random + sequential).as_secs_f64();
    assert_close("together", all, disk.busy().as_secs_f64(), 0.05);
}

#[test]
fn the_work_of_an_array_is_that_of_its_members() {
    for (number, op) in [(0, Op::Read), (1, Op::Read), (5, Op::Read), (0, Op::Write), (5, Op::Write)] {
        let mut array = array(number, "cheetah9LP");
        let capacity = array.capacity_sectors();
        let [work, _] = keep_busy(&mut array, 64, 4_000, anywhere(op, 64, capacity));
        assert_close(&format!("RAID {number}, {op:?}"), work.as_secs_f64(), members_busy(&array), 0.06);
    }
}

#[test]
fn a_small_write_to_raid_5_costs_its_reads_and_its_parity() {
    let cost = |number: u32| {
        let mut array = array(number, "cheetah9LP");
        let capacity = array.capacity_sectors();
        keep_busy(&mut array, 1, 500, anywhere(Op::Write, 8, capacity))[0].as_secs_f64()
    };
    let (plain, with_parity) = (cost(0), cost(5));
    assert!(with_parity > 2.5 * plain, "{with_parity:.2} s against {plain:.2} s");
}

#[test]
fn the_work_of_flash_is_that_of_its_dies() {
    let mut flash = device("nvme-tlc");
    let capacity = flash.capacity_sectors();
    let [one_at_a_time, _] = keep_busy(&mut *flash, 1, 2_000, anywhere(Op::Read, 8, capacity));
    let busy = flash.busy();
    assert!(one_at_a_time <= busy, "{one_at_a_time} of work in {busy}");
    let mut flash = device("nvme-tlc");
    let [many_at_once, _] = keep_busy(&mut *flash, 256, 2_000, anywhere(Op::Read, 8, capacity));
    assert_eq!(many_at_once, one_at_a_time, "the same requests cost the same, however long they wait for each other");
}
