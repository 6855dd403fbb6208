//! Calibration, where the truth is known: a disk whose profile was changed is recorded, and the unchanged profile fitted to it.

use block::{Nanos, Op};
use experiment::calibration::{Calibration, Outcome, calibrate};
use progress::monitor::Quiet;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::device::hdd::spec::{HddSpecification, ReadAheadTrigger};
use sim::profile::{Profile, load};
use sim::validate::{MeasuredRequest, replay};
use testbed::pool::Workers;

fn shipped(name: &str) -> HddSpecification {
    load(name).unwrap().hdd().unwrap().specification.clone()
}

/// Response times of a disk with this profile to requests like those of validation traces: two reads to a write, a third that follow on, a
/// third near by. The pauses on record differ by up to half a revolution from those that were made, where the phase is lost.
fn recording(spec: &HddSpecification, count: usize, keeps_phase: bool) -> Vec<MeasuredRequest> {
    let profile = Profile::from_hdd(spec, "truth").unwrap();
    let capacity = profile.capacity_sectors();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut end = 0_u64;
    let request = |_| {
        let sectors = 2 * random.random_range(1..=16);
        let lba = match random.random_range(0..3) {
            0 => end,
            1 => (end + random.random_range(0..2000_u64)).saturating_sub(1000),
            _ => random.random_range(0..capacity),
        };
        let lba = lba.min(capacity - u64::from(sectors));
        end = lba + u64::from(sectors);
        let op = if random.random_range(0..3) == 0 { Op::Write } else { Op::Read };
        let think = Nanos::from_millis_f64(30.0 + 20.0 * random.random::<f64>());
        MeasuredRequest { lba, sectors, op, response_ms: 0.0, think }
    };
    let mut requests: Vec<MeasuredRequest> = (0..count).map(request).collect();
    let responses = replay(&mut *profile.build(Default::default()), &requests, |_| false).unwrap();
    for (request, response) in requests.iter_mut().zip(responses) {
        // To the microsecond, as recordings are.
        request.response_ms = (response * 1e3).round() / 1e3;
        if !keeps_phase {
            request.think = Nanos(request.think.0 - 3_000_000 + random.random_range(0..6_000_000));
        }
    }
    requests
}

fn calibrated(spec: &HddSpecification, requests: &[MeasuredRequest], threads: usize) -> Calibration {
    calibrate(spec, requests, Workers::new(&Quiet::default(), Some(threads))).unwrap()
}

/// The value and uncertainty of a number that was taken.
fn number(calibration: &Calibration, key: &str) -> (f64, f64) {
    let fitted = calibration.fitted.iter().find(|fitted| fitted.key == key).unwrap();
    match fitted.outcome {
        Outcome::Number { value, uncertainty } => (value, uncertainty),
        ref other => panic!("{key}: {other:?}, best fit {}", fitted.after),
    }
}

#[test]
fn parameters_that_were_changed_come_back_within_their_uncertainty() {
    let profile = shipped("atlas10k");
    let mut truth = profile.clone();
    truth.overheads.read_hit_after_read_ms += 0.15;
    truth.overheads.write_hit_after_write_ms += 0.3;
    truth.bus.write_sector_ms += 0.03;
    for keeps_phase in [true, false] {
        let calibration = calibrated(&profile, &recording(&truth, 3000, keeps_phase), 2);
        for (key, expected) in [
            ("overheads.read_hit_after_read_ms", truth.overheads.read_hit_after_read_ms),
            ("overheads.write_hit_after_write_ms", truth.overheads.write_hit_after_write_ms),
            ("bus.write_sector_ms", truth.bus.write_sector_ms),
        ] {
            let (value, uncertainty) = number(&calibration, key);
            assert!((value - expected).abs() <= uncertainty, "{key}: {value} ± {uncertainty}, truly {expected}");
            assert!(uncertainty < 0.1, "{key}: {value} ± {uncertainty} says little");
        }
        let (before, after) = (calibration.before.worse().1.demerit_ms, calibration.after.worse().1.demerit_ms);
        assert!(after < 0.7 * before, "demerit {before} before, {after} after");
    }
}

#[test]
fn a_prefetch_rule_that_the_profile_has_wrong_is_found() {
    let profile = shipped("barracuda");
    let mut truth = profile.clone();
    truth.cache.read_ahead_trigger = ReadAheadTrigger::AfterSequence;
    let calibration = calibrated(&profile, &recording(&truth, 2000, false), 2);
    assert_eq!(calibration.specification.cache.read_ahead_trigger, ReadAheadTrigger::AfterSequence);
    assert!(calibration.after.reads.demerit_ms < 0.7 * calibration.before.reads.demerit_ms);
}

#[test]
fn seeks_of_writes_that_differ_from_those_of_reads_are_found() {
    let profile = shipped("hp_c2247a");
    let mut truth = profile.clone();
    truth.mechanics.write_settle_ms += 1.2;
    let calibration = calibrated(&profile, &recording(&truth, 2000, true), 2);
    let (before, after) = (calibration.before.writes.demerit_ms, calibration.after.writes.demerit_ms);
    assert!(after < 0.3 * before, "demerit of writes {before} before, {after} after");
}

#[test]
fn a_profile_that_is_right_is_left_as_it_is() {
    let profile = shipped("ibm18es");
    let calibration = calibrated(&profile, &recording(&profile, 2000, false), 2);
    let taken: Vec<_> =
        calibration.fitted.iter().filter(|fitted| fitted.before != fitted.after && is_taken(&fitted.outcome)).collect();
    assert!(taken.is_empty(), "{taken:?}");
    assert_eq!(calibration.specification, profile);
}

fn is_taken(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Number { .. } | Outcome::Rule { .. })
}

#[test]
fn the_result_is_the_same_for_any_number_of_threads() {
    let mut truth = shipped("cheetah9LP");
    truth.overheads.write_hit_after_write_ms += 0.3;
    let requests = recording(&truth, 1000, true);
    let [one, three] = [1, 3].map(|threads| calibrated(&shipped("cheetah9LP"), &requests, threads));
    assert_eq!((one.specification, one.fitted), (three.specification, three.fitted));
}

#[test]
fn a_recording_that_is_too_short_is_refused() {
    let requests = recording(&shipped("atlas10k"), 999, true);
    let error = calibrate(&shipped("atlas10k"), &requests, Workers::new(&Quiet::default(), Some(1))).unwrap_err();
    assert!(error.to_string().starts_with("999 requests; at least 1000 are needed"), "{error}");
}
