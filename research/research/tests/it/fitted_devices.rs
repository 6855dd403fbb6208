//! Drives that are drawn, recorded under a load, and fitted from the times alone: fitted parameters compared with true ones.

use block::{Nanos, Op, Priority, Request};
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use research::devices;
use sim::profile::{DeviceOptions, Profile};
use twin::device::fit_and_judge;
use twin::{Fitted, ObservedRequest};

/// The load of a device.
#[derive(Clone, Copy)]
enum Load {
    /// Reads and writes at random, this share of them writes.
    Random { writes: f64 },
    /// Reads in order, 128 KiB each, from four places by turns.
    Sequential,
    /// One after the other: runs in order, then reads and writes at random.
    Mixed,
}

const MEGABYTE: u64 = 2_048;

/// Requests of a load on so many sectors.
fn asked(load: Load, number: usize, capacity: u64, random: &mut Xoshiro256PlusPlus) -> (Op, u64, u32) {
    let anywhere = |random: &mut Xoshiro256PlusPlus| random.random_range(0..capacity / 8 - 32) * 8;
    match load {
        Load::Random { writes } => {
            let op = if random.random::<f64>() < writes { Op::Write } else { Op::Read };
            let sectors = if random.random::<f64>() < 0.7 { 8 } else { 128 };
            (op, anywhere(random), sectors)
        }
        Load::Sequential => {
            let run = (number / 50 % 4) as u64;
            let place = capacity / 5 * run / 8 * 8;
            (Op::Read, place + (number / 200 * 50 + number % 50) as u64 * 256, 256)
        }
        Load::Mixed if number % 300 < 100 => {
            let place = (number / 300) as u64 * 37 * MEGABYTE % (capacity / 2);
            (Op::Read, place / 8 * 8 + (number % 300) as u64 * 256, 256)
        }
        Load::Mixed => asked(Load::Random { writes: 0.3 }, number, capacity, random),
    }
}

/// Serves a load with so many requests at once, of which the device holds as many as it can.
fn recorded(profile: &Profile, load: Load, requests: usize, at_once: usize) -> Vec<ObservedRequest> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut device = profile.build(DeviceOptions::default());
    let depth = device.queue_depth().min(at_once);
    let (mut now, mut seen, mut done) = (Nanos::ZERO, Vec::new(), Vec::new());
    let mut held: Vec<(Request, Nanos)> = Vec::new();
    let mut arrivals = vec![Nanos::ZERO; at_once];
    let mut issued = 0;
    while seen.len() < requests {
        while held.len() < depth && issued < requests {
            let (op, lba, sectors) = asked(load, issued, profile.capacity_sectors(), &mut random);
            let arrival = arrivals.remove(0);
            let id = issued as u32;
            let request = Request { id, stream: 1, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival };
            device.submit(now, &request);
            held.push((request, now));
            issued += 1;
        }
        now = device.wake_at().unwrap().max(now);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            let at = held.iter().position(|(request, _)| request.id == completion.id).unwrap();
            let (request, dispatched) = held.swap_remove(at);
            seen.push(ObservedRequest { request, dispatched, completed: completion.at });
            arrivals.push(completion.at);
        }
    }
    seen
}

fn number(fitted: &Fitted, name: &str) -> (f64, Option<f64>) {
    let finding = fitted.findings.iter().find(|finding| finding.name == name).unwrap();
    (finding.number.unwrap(), finding.uncertainty)
}

fn drawn(family: &str, number: u32) -> Profile {
    devices::draw(devices::find(family).unwrap(), 11, number).unwrap()
}

/// Times, in ms, of a short way and of a long one, with the overhead of a command.
fn true_times(profile: &Profile) -> [f64; 2] {
    let spec = &profile.hdd().unwrap().specification;
    let curve = sim::device::hdd::mechanics::curve(&spec.seek, spec.geometry.cylinders).unwrap();
    [0.005, 0.5]
        .map(|part| curve(((part * f64::from(spec.geometry.cylinders)) as u32).max(1)) + spec.overheads.read_miss_after_read_ms)
}

#[test]
fn random_reads_tell_speed_seeks_and_rate_of_a_disk() {
    for family in ["scsi-1990s", "scsi-2000s", "desktop", "nearline", "laptop"] {
        for seed in 0..3 {
            let profile = drawn(family, seed);
            let spec = &profile.hdd().unwrap().specification;
            let seen = recorded(&profile, Load::Random { writes: 0.0 }, 1500, 1);
            let (fitted, residual) = fit_and_judge(&seen, Some(profile.capacity_sectors()), 2.0 / 3.0).unwrap();
            let found = format!("{}: {}", profile.name(), fitted.profile_toml.split("name =").next().unwrap());
            let (rpm, uncertainty) = number(&fitted, "speed");
            assert!((rpm - spec.mechanics.rotation_rpm).abs() <= uncertainty.unwrap(), "{found}");
            let overhead = number(&fitted, "overhead of a command").0;
            let names = ["short seek (0.5% of the stroke)", "long seek (half of the stroke)"];
            for (name, truth) in names.into_iter().zip(true_times(&profile)) {
                let (ms, uncertainty) = number(&fitted, name);
                let off = (ms + overhead - truth).abs();
                assert!(off <= uncertainty.unwrap().max(0.05 * truth), "{name}: off by {off} of {truth}, {found}");
            }
            let true_rate = f64::from(spec.zones[0].sectors_per_track) * 512.0 * spec.mechanics.rotation_rpm / 60e6;
            let (rate, uncertainty) = number(&fitted, "rate of the outermost tracks");
            assert!((rate - true_rate).abs() <= uncertainty.unwrap(), "{true_rate} MB/s, {found}");
            assert!(residual.demerit_ms < 0.06 * residual.mean_ms, "{residual:?}, {found}");
        }
    }
}

#[test]
fn the_kind_of_device_is_found() {
    for family in ["scsi-1990s", "scsi-2000s", "desktop", "nearline", "laptop", "sata-flash", "nvme-flash"] {
        let profile = drawn(family, 4);
        for (load, at_once) in [(Load::Random { writes: 0.3 }, 4), (Load::Mixed, 1), (Load::Random { writes: 1.0 }, 2)] {
            let fitted = twin::fit(&recorded(&profile, load, 1200, at_once), Some(profile.capacity_sectors())).unwrap();
            let kind = &fitted.findings[0];
            let expected = if family.ends_with("flash") { "flash" } else { "hard disk" };
            assert_eq!((kind.name, &*kind.value), ("kind of device", expected), "{}: {:?}", profile.name(), fitted.findings);
        }
    }
}

#[test]
fn what_is_fitted_is_a_profile_and_the_same_again() {
    for family in ["desktop", "nvme-flash"] {
        let profile = drawn(family, 1);
        let mut seen = recorded(&profile, Load::Mixed, 900, 4);
        let fitted = twin::fit(&seen, None).unwrap();
        let parsed = Profile::parse(&fitted.profile_toml, "fitted.toml").unwrap();
        assert_eq!(parsed.capacity_sectors(), fitted.profile().capacity_sectors());
        seen.reverse();
        assert_eq!(twin::fit(&seen, None).unwrap().profile_toml, fitted.profile_toml);
    }
}

#[test]
fn what_requests_do_not_tell_is_said_to_be_usual() {
    let profile = drawn("nearline", 1);
    let fitted = twin::fit(&recorded(&profile, Load::Sequential, 150, 1), None).unwrap();
    for name in ["speed", "long seek (half of the stroke)", "settling of writes"] {
        let finding = fitted.findings.iter().find(|finding| finding.name == name).unwrap();
        assert_eq!((finding.accesses, finding.uncertainty), (0, None), "{finding:?}");
    }
    let few = recorded(&profile, Load::Sequential, 15, 1);
    assert_eq!(twin::fit(&few, None).unwrap_err(), twin::FitError::TooFew(15));
    let beyond = twin::fit(&recorded(&profile, Load::Mixed, 150, 1), Some(1_000)).unwrap_err();
    assert!(matches!(beyond, twin::FitError::Beyond(_, 1_000)), "{beyond}");
}
