//! The model against real drives: Carnegie Mellon's validation traces, where the data folder is there.
//!
//! DiskSim's own demerit figures on the same traces are the bar. On the HP C2247A, whose trace keeps the true time between
//! requests, the rotational position can be followed from request to request, and most single requests must be right too; the
//! other four traces lost it (the phase between one access and the next is uniformly random in them at any speed).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fail here")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use sim::diskspecs::{ImportOptions, import};
use sim::profile::{Profile, load};
use sim::validate::{Validation, compare, read_measured, replay};

/// Disk, DiskSim's demerit in ms over all requests, the most that the demerit of the worse of reads and writes may be, and the most
/// that the RMS error per request may be. What DiskSim's is for reads and writes apart was never published.
const BARS: [(&str, f64, f64, f64); 5] = [
    ("atlas10k", 0.268, 0.18, 1.8),
    ("barracuda", 0.348, 0.28, 2.5),
    ("ibm18es", 0.136, 0.10, 2.5),
    ("cheetah9LP", 0.107, 0.17, 1.8),
    ("hp_c2247a", 0.089, 0.12, 2.3),
];

/// The folder with the drives' parameter files (`disks/`) and measured traces (`measured/`); `None` if anything of it is missing,
/// which is said on standard error, where the test harness hides nothing.
fn data() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let wanted = BARS.iter().flat_map(|(name, ..)| [format!("measured/{name}.csv"), format!("disks/{name}/{name}.parv")]);
    let missing: Vec<String> = wanted.filter(|file| !folder.join(file).is_file()).collect();
    if missing.is_empty() {
        return Some(folder);
    }
    let message = format!("skipped: of the validation data, {} not in {}\n", missing.join(", "), folder.display());
    // `eprintln!` would be captured with the output of a test that passes.
    let _ = std::io::stderr().write_all(message.as_bytes());
    None
}

/// The comparison, and the share of requests within 0.5 ms.
fn validate(profile: &Profile, data: &Path, name: &str) -> (Validation, f64) {
    let requests = read_measured(&data.join(format!("measured/{name}.csv")), profile.capacity_sectors()).unwrap();
    let mut device = profile.build(Default::default());
    let responses = replay(&mut *device, &requests, |_| false).unwrap();
    let right = requests.iter().zip(&responses).filter(|(request, time)| (request.response_ms - **time).abs() < 0.5).count();
    (compare(&requests, &responses), right as f64 / requests.len() as f64)
}

#[test]
fn the_disks_that_come_with_the_program_are_no_further_from_the_real_ones_than_disksim() {
    let Some(data) = data() else { return };
    for (name, demerit_ms, worse_ms, rms_ms) in BARS {
        let (validation, _) = validate(&load(name).unwrap(), &data, name);
        let (demerit, rms) = (validation.all.demerit_ms, validation.all.per_request_rms_ms);
        println!("{name}: demerit {demerit:.4} ms (DiskSim {demerit_ms}), RMS per request {rms:.3} ms");
        for (what, group) in [("reads", &validation.reads), ("writes", &validation.writes)] {
            println!("  {what}: demerit {:.4} ms, mean {:+.3} ms", group.demerit_ms, group.mean_error_ms);
        }
        assert!(demerit <= demerit_ms, "{name}: demerit {demerit} ms, DiskSim {demerit_ms}");
        let (op, worse) = validation.worse();
        assert!(worse.demerit_ms <= worse_ms, "{name}: demerit of {op:?}s {} ms, bar {worse_ms}", worse.demerit_ms);
        assert!(rms <= rms_ms, "{name}: RMS error per request {rms} ms, bar {rms_ms}");
    }
}

#[test]
fn imported_disks_equal_those_that_come_with_the_program() {
    let Some(data) = data() else { return };
    for (name, ..) in BARS {
        let imported = import(&data.join(format!("disks/{name}/{name}.parv")), ImportOptions::default()).unwrap();
        let shipped = load(name).unwrap();
        let mut spec = imported.profile.hdd().unwrap().specification.clone();
        spec.description = shipped.description().to_owned();
        assert_eq!(&spec, &shipped.hdd().unwrap().specification, "{name}");
        assert_eq!(imported.profile.hdd().unwrap().model, shipped.hdd().unwrap().model, "{name}");
    }
}

#[test]
fn where_the_trace_keeps_true_time_single_requests_are_right() {
    let Some(data) = data() else { return };
    let (_, right) = validate(&load("hp_c2247a").unwrap(), &data, "hp_c2247a");
    println!("within 0.5 ms: {:.1}%", 100.0 * right);
    assert!(right > 0.95, "only {right} of all requests within 0.5 ms");
}

#[test]
fn the_same_trace_gives_the_same_times_twice() {
    let Some(data) = data() else { return };
    let profile = load("atlas10k").unwrap();
    assert_eq!(validate(&profile, &data, "atlas10k").0, validate(&profile, &data, "atlas10k").0);
}
