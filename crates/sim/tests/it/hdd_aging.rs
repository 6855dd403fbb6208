//! Ageing of a drive's queue under shortest access time first: no request starves, at little cost in throughput.

use std::collections::VecDeque;

use crate::cases::cases;
use block::{Nanos, Op, Priority, Request};
use proptest::prelude::*;
use sim::device::Device;
use sim::device::hdd::spec::QueuePolicy;
use sim::profile::{DeviceOptions, Profile, load};

/// The next request of a load.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Read(u64, u32),
    Write(u64, u32),
    Flush,
}

/// Keeps `depth` requests at the device for `seconds`; the response times in ms, ascending, and how many of them there are a second.
fn responses(device: &mut dyn Device, depth: usize, seconds: f64, mut ask: impl FnMut() -> Ask) -> (Vec<f64>, f64) {
    let (mut now, mut done, mut took) = (Nanos::ZERO, Vec::new(), Vec::new());
    let mut free: VecDeque<u32> = (0..depth as u32).collect();
    let mut begun = vec![Nanos::ZERO; depth];
    let end = Nanos::from_secs_f64(seconds);
    while now < end || free.len() < depth {
        while now < end
            && let Some(id) = free.pop_front()
        {
            begun[id as usize] = now;
            let (op, lba, sectors) = match ask() {
                Ask::Read(lba, sectors) => (Op::Read, lba, sectors),
                Ask::Write(lba, sectors) => (Op::Write, lba, sectors),
                Ask::Flush if device.flush(now, id) => continue,
                Ask::Flush => (Op::Read, 0, 8),
            };
            device.submit(now, &Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival: now });
        }
        now = device.wake_at().unwrap();
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            took.push((completion.at - begun[completion.id as usize]).0 as f64 / 1e6);
            free.push_back(completion.id);
        }
    }
    took.sort_unstable_by(f64::total_cmp);
    let rate = took.len() as f64 / now.as_secs_f64();
    (took, rate)
}

fn sptf(profile: &Profile) -> Box<dyn Device> {
    profile.build(DeviceOptions { queue_depth: None, queue_policy: Some(QueuePolicy::Sptf) })
}

/// A repeatable sequence of numbers.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 16
    }
}

fn without_aging(name: &str) -> Profile {
    let text = load(name).unwrap().text().replacen("policy = \"sptf\"", "policy = \"sptf\"\naging_ms_per_s = 0.0", 1);
    Profile::parse(&text, "no-aging").unwrap()
}

fn at(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// A drive of 4 MiB segments needs less for one of them, wherever the arm is; and holds no more than 32 of writes.
fn bound_ms(depth: usize) -> f64 {
    let (longest_access, aging_ms_per_s) = (16.0 + 0.1 + 60e3 / 7200.0, 6.0);
    longest_access / aging_ms_per_s * 1e3 + (depth + 32) as f64 * 75.0
}

#[test]
fn a_request_starves_behind_a_sequential_reader_without_aging_and_not_with_it() {
    let longest = |profile: &Profile| {
        let (mut next, mut asked) = (1_000_000, 0);
        let ask = || {
            asked += 1;
            if asked == 20 {
                return Ask::Read(7_000_000_000, 8);
            }
            next += 512;
            Ask::Read(next, 512)
        };
        *responses(&mut *sptf(profile), 16, 60.0, ask).0.last().unwrap()
    };
    let (without, with) = (longest(&without_aging("sata7200")), longest(&load("sata7200").unwrap()));
    println!("longest response {without:.0} ms without ageing, {with:.0} with it");
    assert!(without > 30_000.0, "{without} ms");
    assert!(with < bound_ms(16), "{with} ms");
}

#[test]
fn flushes_that_follow_each_other_do_not_keep_a_read_waiting() {
    let (mut asked, mut number) = (0, numbers(5));
    let ask = || {
        asked += 1;
        match asked % 4 {
            _ if asked == 50 => Ask::Read(7_000_000_000, 8),
            0 => Ask::Flush,
            _ => Ask::Write(number() % 1_000_000 * 8, 8),
        }
    };
    let (took, _) = responses(&mut *sptf(&load("sata7200").unwrap()), 24, 30.0, ask);
    assert!(*took.last().unwrap() < bound_ms(24), "{} ms", took.last().unwrap());
}

#[test]
fn aging_costs_random_reads_little_and_halves_their_longest_response() {
    let random = |profile: &Profile| {
        let mut number = numbers(1);
        responses(&mut *sptf(profile), 32, 300.0, || Ask::Read(number() % 976_754_646 * 8, 8))
    };
    let ((before, fast), (after, rate)) = (random(&without_aging("sata7200")), random(&load("sata7200").unwrap()));
    let figures = |sorted: &[f64]| format!("p99.9 {:.0}, longest {:.0} ms", at(sorted, 0.999), at(sorted, 1.0));
    println!("without: {fast:.1}/s, {}; with: {rate:.1}/s, {}", figures(&before), figures(&after));
    assert!(rate > 0.98 * fast, "{rate} of {fast} requests a second");
    assert!(at(&after, 1.0) < 0.5 * at(&before, 1.0) && at(&after, 0.999) < 0.7 * at(&before, 0.999));
}

/// The longest response in ms to readers in order, random requests, writes and flushes in the mixture that `weights` say: 12 s of
/// it, longer than any request may wait.
fn longest_of_mixture(depth: usize, seed: u64, weights: [u64; 5], sectors: u32, spread: u64) -> f64 {
    let (mut number, mut next) = (numbers(seed), [1_000_000u64, 6_000_000_000]);
    let total = weights.iter().sum::<u64>().max(1);
    let ask = || {
        let mut draw = number() % total;
        let kind = weights.iter().position(|&weight| {
            let here = draw < weight;
            draw = draw.saturating_sub(weight);
            here
        });
        let lba = number() % spread;
        match kind {
            Some(reader @ (0 | 1)) => {
                next[reader] += u64::from(sectors);
                Ask::Read(next[reader], sectors)
            }
            Some(2) => Ask::Write(lba, sectors),
            Some(3) => Ask::Flush,
            _ => Ask::Read(lba, sectors),
        }
    };
    let profile = load("sata7200").unwrap();
    let options = DeviceOptions { queue_depth: Some(depth as u32), queue_policy: None };
    let (took, _) = responses(&mut *profile.build(options), depth, 12.0, ask);
    took.last().copied().unwrap_or(0.0)
}

#[test]
fn writes_to_the_sectors_of_a_read_that_waits_do_not_go_before_it() {
    let longest = longest_of_mixture(23, 1_461_552_719_018_867_918, [2, 7, 7, 6, 1], 512, 1_000);
    assert!(longest < bound_ms(23), "{longest} ms");
}

#[test]
fn writes_that_wait_for_each_other_keep_their_age() {
    let longest = longest_of_mixture(16, 15_262_532_693_413_408_835, [6, 4, 1, 0, 0], 64, 1_000);
    assert!(longest < bound_ms(16), "{longest} ms");
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn no_request_waits_longer_than_the_bound_under_any_load(
        depth in 2usize..64,
        seed: u64,
        weights in prop::array::uniform5(0u64..8),
        sectors in prop::sample::select(vec![1u32, 8, 64, 512, 2048]),
        spread in prop::sample::select(vec![1_000u64, 1_000_000, 7_000_000_000]),
    ) {
        let longest = longest_of_mixture(depth, seed, weights, sectors, spread);
        prop_assert!(longest < bound_ms(depth), "{longest} ms at depth {depth}");
    }
}
