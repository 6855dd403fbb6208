//! Devices with limits, as cloud volumes have them, recorded under a load and fitted from the times alone; and devices without any.

use block::{Nanos, Op, Priority, Request};
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use research::devices;
use sim::profile::{DeviceOptions, Profile, load};
use twin::device::{Residual, fit_and_judge};
use twin::{Fitted, ObservedRequest, fit as fit_device};

/// A stretch of a load: so many requests, this many at once, each so long after an answer.
#[derive(Clone, Copy)]
struct Stretch {
    requests: usize,
    at_once: usize,
    think_ms: f64,
    /// Share of writes, sizes in sectors, and whether they follow on.
    writes: f64,
    sizes: &'static [u32],
    in_order: bool,
}

const SMALL: &[u32] = &[8];
const MIXED: &[u32] = &[8, 8, 32, 128];
const LARGE: &[u32] = &[64, 256, 512, 1024];

const RANDOM: Stretch = Stretch { requests: 3_000, at_once: 16, think_ms: 0.0, writes: 0.3, sizes: MIXED, in_order: false };
const LONE: Stretch = Stretch { requests: 60, at_once: 1, think_ms: 30.0, writes: 0.0, ..RANDOM };

/// Serves one stretch after the other.
fn recorded(profile: &Profile, stretches: &[Stretch], seed: u64) -> Vec<ObservedRequest> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut device = profile.build(DeviceOptions { queue_depth: Some(64), queue_policy: None });
    let places = profile.capacity_sectors() / 8 - 256;
    let (mut now, mut seen, mut done) = (Nanos::ZERO, Vec::new(), Vec::new());
    for stretch in stretches {
        let mut held: Vec<(Request, Nanos)> = Vec::new();
        let mut due = vec![now; stretch.at_once];
        let (mut issued, mut answered, mut next) = (0, 0, random.random_range(0..places / 2));
        while answered < stretch.requests {
            due.sort_unstable();
            let first = due.first().copied().filter(|_| issued < stretch.requests);
            match (first, device.wake_at()) {
                (Some(at), wake) if wake.is_none_or(|wake| wake > at) => {
                    now = now.max(at);
                    due.remove(0);
                    let op = if random.random::<f64>() < stretch.writes { Op::Write } else { Op::Read };
                    let sectors = stretch.sizes[random.random_range(0..stretch.sizes.len())];
                    let place = if stretch.in_order { next } else { random.random_range(0..places) };
                    next = place + u64::from(sectors / 8);
                    let id = issued as u32;
                    let request = Request {
                        id,
                        stream: 1,
                        op,
                        sync: true,
                        priority: Priority::DEFAULT,
                        sectors,
                        lba: 8 * place,
                        arrival: now,
                    };
                    device.submit(now, &request);
                    held.push((request, now));
                    issued += 1;
                }
                (_, wake) => {
                    now = now.max(wake.unwrap());
                    device.advance(now, &mut done);
                }
            }
            for completion in done.drain(..) {
                let at = held.iter().position(|(request, _)| request.id == completion.id).unwrap();
                let (request, dispatched) = held.swap_remove(at);
                seen.push(ObservedRequest { request, dispatched, completed: completion.at });
                due.push(completion.at + Nanos::from_millis_f64(stretch.think_ms * random.random_range(0.5..1.5)));
                answered += 1;
            }
        }
    }
    seen
}

fn limited(disk: &str, limits: &str) -> Profile {
    let text = load(disk).unwrap().text().split("[limits]").next().unwrap().to_owned();
    Profile::parse(&format!("{text}\n[limits]\n{limits}\n"), disk).unwrap()
}

fn number(fitted: &Fitted, name: &str) -> Option<f64> {
    fitted.findings.iter().find(|finding| finding.name == name).and_then(|finding| finding.number)
}

fn kind(fitted: &Fitted) -> &str {
    &fitted.findings.iter().find(|finding| finding.name == "kind of device").unwrap().value
}

fn fit(profile: &Profile, stretches: &[Stretch], seed: u64) -> (Fitted, Residual) {
    let seen = recorded(profile, stretches, seed);
    fit_and_judge(&seen, Some(profile.capacity_sectors()), 2.0 / 3.0).unwrap()
}

/// The fit finds these numbers within 10%, predicts requests that it was not fitted to, and its profile says the same.
fn is_recovered(limits: &str, stretches: &[Stretch], seed: u64, expected: &[(&str, f64)]) {
    let (fitted, residual) = fit(&limited("nvme-tlc", limits), stretches, seed);
    let what = format!("{limits}, seed {seed}: {}", fitted.profile_toml);
    assert_eq!(kind(&fitted), "flash", "{what}");
    for (name, value) in expected {
        let found = number(&fitted, name).unwrap_or(0.0);
        assert!((found / value - 1.0).abs() < 0.1, "{name}: {found} instead of {value}: {what}");
    }
    let all = ["limit of operations", "limit of bytes", "burst", "credits"];
    let others = all.iter().filter(|name| !expected.iter().any(|(known, _)| known == *name));
    assert!(others.clone().all(|name| number(&fitted, name).is_none()), "{what}");
    assert!(residual.demerit_ms < 0.05 * residual.mean_ms, "{residual:?}: {what}");
    let again = Profile::parse(&fitted.profile_toml, "fitted.toml").unwrap();
    let mut device = again.build(DeviceOptions::default());
    assert!(again.text().contains("[limits]") && device.queue_depth() >= stretches.iter().map(|one| one.at_once).max().unwrap());
    // Kept full of requests of 4 KiB it passes as many as the limit says.
    let mut done = Vec::new();
    for id in 0..32 {
        let arrival = Nanos::ZERO;
        device.submit(
            arrival,
            &Request { id, stream: 0, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival },
        );
    }
    while done.len() < 32 {
        device.advance(device.wake_at().unwrap(), &mut done);
    }
    let a_second = 31.0 / (done[31].at - done[0].at).as_secs_f64();
    let (name, rate) = expected[expected.len().min(2) - 1];
    if name.ends_with("operations") || name == "burst" && number(&fitted, "limit of operations").is_some() {
        assert!((a_second / rate - 1.0).abs() < 0.1, "{a_second} operations/s: {what}");
    }
}

const READS: Stretch = Stretch { writes: 0.0, sizes: SMALL, ..RANDOM };

#[test]
fn a_limit_of_operations_is_found_at_any_rate_and_under_any_mix() {
    for rate in [100.0, 500.0, 3_000.0] {
        let limits = format!("operations_per_second = {rate}");
        for seed in 1..3 {
            for stretches in [&[RANDOM][..], &[READS], &[LONE, RANDOM, LONE]] {
                is_recovered(&limits, stretches, seed, &[("limit of operations", rate)]);
            }
        }
    }
}

#[test]
fn flash_of_few_operations_is_no_hard_disk_though_it_is_asked_one_at_a_time() {
    for sizes in [SMALL, MIXED] {
        let one_by_one = Stretch { requests: 1_000, at_once: 1, sizes, ..READS };
        is_recovered("operations_per_second = 100", &[one_by_one], 1, &[("limit of operations", 100.0)]);
    }
}

#[test]
fn limits_of_bytes_and_of_operations_are_distinguished_by_sizes() {
    for seed in 1..3 {
        let large = Stretch { sizes: LARGE, ..RANDOM };
        is_recovered("mb_s = 125", &[large], seed, &[("limit of bytes", 125.0)]);
        is_recovered("mb_s = 40", &[Stretch { sizes: LARGE, ..LONE }, large], seed, &[("limit of bytes", 40.0)]);
        let limits = "operations_per_second = 300\noperation_kib = 256";
        let pieces = Stretch { sizes: &[8, 512, 1024, 2048], ..RANDOM };
        is_recovered(limits, &[pieces], seed, &[("limit of operations", 300.0)]);
    }
}

#[test]
fn a_burst_that_ends_in_the_recording_tells_its_rate_and_its_credits() {
    for seed in 1..3 {
        let limits = "operations_per_second = 300\nburst_operations_per_second = 3000\nburst_operations = 1500";
        let expected = [("limit of operations", 300.0), ("burst", 3_000.0), ("credits", 1_500.0)];
        is_recovered(limits, &[RANDOM], seed, &expected);
        is_recovered(limits, &[LONE, RANDOM], seed, &expected);
        // With one request in flight, and where half of the requests are writes.
        let limits = "operations_per_second = 500\nburst_operations_per_second = 2000\nburst_operations = 1000";
        let expected = [("limit of operations", 500.0), ("burst", 2_000.0), ("credits", 1_000.0)];
        is_recovered(limits, &[Stretch { at_once: 1, ..READS }], seed, &expected);
        is_recovered(limits, &[Stretch { at_once: 4, writes: 0.52, sizes: SMALL, ..RANDOM }], seed, &expected);
        let limits = "mb_s = 40\nburst_mb_s = 250\nburst_mb = 200";
        let expected = [("limit of bytes", 40.0), ("burst", 250.0), ("credits", 200.0)];
        is_recovered(limits, &[Stretch { sizes: LARGE, ..RANDOM }], seed, &expected);
    }
}

#[test]
fn a_hard_disk_behind_a_limit_is_still_one() {
    let (fitted, residual) = fit(&limited("sata7200", "operations_per_second = 50"), &[LONE, RANDOM], 1);
    assert_eq!(kind(&fitted), "hard disk");
    assert!((number(&fitted, "limit of operations").unwrap() / 50.0 - 1.0).abs() < 0.1, "{}", fitted.profile_toml);
    assert!(residual.mean_error_ms.abs() < 0.05 * residual.mean_ms, "{residual:?}");
}

/// Loads that keep a device busy have no limit found where there is none.
fn has_none(profile: &Profile, seed: u64) {
    let one_by_one = Stretch { at_once: 1, ..RANDOM };
    let in_order = Stretch { writes: 0.0, sizes: &[128], in_order: true, ..RANDOM };
    let large = Stretch { writes: 0.0, sizes: &[256], ..RANDOM };
    let [mixed, reads, writes] = [RANDOM, READS, Stretch { writes: 1.0, sizes: SMALL, ..RANDOM }];
    let many = Stretch { at_once: 64, ..RANDOM };
    let alone = Stretch { requests: 1_500, at_once: 1, ..reads };
    for stretch in [mixed, reads, writes, many, large, one_by_one, in_order, Stretch { at_once: 1, ..in_order }] {
        let short = Stretch { requests: 1_500, ..stretch };
        for stretches in [&[short][..], &[LONE, short], &[short, alone]] {
            let seen = recorded(profile, stretches, seed);
            let fitted = fit_device(&seen, Some(profile.capacity_sectors())).unwrap();
            assert!(!fitted.profile_toml.contains("limit"), "{}, seed {seed}: {}", profile.name(), fitted.profile_toml);
        }
    }
}

#[test]
fn flash_without_limits_has_none() {
    for seed in 1..3 {
        has_none(&load(["nvme-tlc", "ssd-dftl"][seed as usize % 2]).unwrap(), seed);
        for family in ["sata-flash", "nvme-flash"] {
            has_none(&devices::draw(devices::find(family).unwrap(), seed, 0).unwrap(), seed);
        }
    }
}

#[test]
fn hard_disks_without_limits_have_none() {
    for seed in 1..3 {
        has_none(&load(["sata7200", "cheetah9LP"][seed as usize % 2]).unwrap(), seed);
        for family in ["scsi-1990s", "desktop"] {
            has_none(&devices::draw(devices::find(family).unwrap(), seed, 0).unwrap(), seed);
        }
    }
}
