//! The model against real drives: Carnegie Mellon's validation traces, where the data folder is there.
//!
//! DiskSim's own demerit figures on the same traces are the bar. On the HP C2247A, whose trace keeps the true time between
//! requests, the rotational position can be followed from request to request, and most single requests must be right too; the
//! other four traces lost it (the phase between one access and the next is uniformly random in them at any speed).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sim::device::hdd::Hdd;
use sim::device::hdd::mechanics::reacquire_estimate;
use sim::device::hdd::model::{Deviations, HddModel};
use sim::device::hdd::spec::{HddSpecification, MechanicsSpecification, ReadAhead};
use sim::diskspecs::{ImportOptions, import};
use sim::profile::{Profile, load};
use sim::validate::{Validation, compare, read_measured, replay};

/// Disk, DiskSim's demerit in ms over all requests, the most that the demerit of the worse of reads and writes may be, and the most
/// that the RMS error per request may be. DiskSim's figures for reads and writes separately were never published.
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
fn imported_disks_equal_the_built_in_ones() {
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

/// A modelling choice beyond the parameter files: its name, and its alternatives. The first is DiskSim's, which stands where
/// the other four disks say nothing; the last is the shipped one.
type Choice = (&'static str, &'static [(&'static str, Alternative)]);

/// Changes the profile, or the model made of it.
enum Alternative {
    Shipped,
    Profile(fn(&mut HddSpecification)),
    Model(fn(&mut Deviations)),
}

use Alternative::{Model, Profile as InProfile, Shipped};

const CHOICES: [Choice; 6] = [
    (
        "an access on the arm's own cylinder takes",
        &[
            ("nothing", InProfile(|spec| spec.mechanics.reacquire_ms = 0.0)),
            ("the skew", InProfile(reacquire_in_the_skew)),
            ("the skew less the head switch", Shipped),
        ],
    ),
    (
        "with read-ahead to the next track, the maximum",
        &[("does not count", InProfile(ignore_maximum)), ("counts, and the segment is filled over sent sectors", Shipped)],
    ),
    (
        "a drive that takes sectors in any order reads",
        &[("the sectors asked for", Model(|deviations| deviations.reads_whole_track = false)), ("the whole track", Shipped)],
    ),
    (
        "a segment that a write overlaps",
        &[("is dropped", Model(|deviations| deviations.keeps_overlapped_segment = false)), ("is kept", Shipped)],
    ),
    (
        "a drive that left the bus is back",
        &[("a reselection later", Model(|deviations| deviations.reselects_in_time = false)), ("in time", Shipped)],
    ),
    (
        "the least delay of a write runs from",
        &[("the command", Model(|deviations| deviations.delays_from_data = false)), ("its data", Shipped)],
    ),
];

fn reacquire_in_the_skew(spec: &mut HddSpecification) {
    let at_once = MechanicsSpecification { head_switch_ms: 0.0, ..spec.mechanics.clone() };
    spec.mechanics.reacquire_ms = reacquire_estimate(&at_once, &spec.seek, &spec.geometry, &spec.zones);
}

fn ignore_maximum(spec: &mut HddSpecification) {
    if spec.cache.read_ahead == ReadAhead::NextTrack {
        spec.cache.read_ahead_max_sectors = 0;
    }
}

/// All combinations of alternatives.
fn combinations() -> Vec<[usize; CHOICES.len()]> {
    let mut all = vec![[0; CHOICES.len()]];
    for (index, (_, alternatives)) in CHOICES.iter().enumerate() {
        all = all
            .iter()
            .flat_map(|before| {
                (0..alternatives.len()).map(move |alternative| {
                    let mut chosen = *before;
                    chosen[index] = alternative;
                    chosen
                })
            })
            .collect();
    }
    all
}

#[test]
fn choices_made_on_four_disks_hold_on_the_fifth() {
    let Some(data) = data() else { return };
    let all = combinations();
    let compared = |name: &str, combination: &[usize; CHOICES.len()]| {
        let mut spec = load(name).unwrap().hdd().unwrap().specification.clone();
        let mut deviations = Deviations::default();
        for ((_, alternatives), &chosen) in CHOICES.iter().zip(combination) {
            match alternatives[chosen].1 {
                InProfile(change) => change(&mut spec),
                Model(change) => change(&mut deviations),
                Shipped => {}
            }
        }
        let model = HddModel { deviations, ..HddModel::new(&spec).unwrap() };
        let requests = read_measured(&data.join(format!("measured/{name}.csv")), model.layout.capacity_sectors).unwrap();
        compare(&requests, &replay(&mut Hdd::new(Arc::new(model), None, None), &requests, |_| false).unwrap())
    };
    let table: Vec<Vec<Validation>> =
        BARS.iter().map(|(name, ..)| all.iter().map(|combination| compared(name, combination)).collect()).collect();
    let shipped = all.len() - 1;
    for (left_out, (name, ..)) in BARS.iter().enumerate() {
        // Reads and writes alike, and by ratios, so that no disk counts for more because it is slow.
        let score = |combination: usize| -> f64 {
            let others = (0..BARS.len()).filter(|&disk| disk != left_out).map(|disk| &table[disk][combination]);
            others.map(|validation| (validation.reads.demerit_ms * validation.writes.demerit_ms).ln()).sum()
        };
        let chosen = (1..all.len()).fold(0, |best, other| if score(other) < score(best) { other } else { best });
        for (what, validation) in
            [("chosen on the other four", &table[left_out][chosen]), ("as shipped", &table[left_out][shipped])]
        {
            let (reads, writes, worse) = (&validation.reads, &validation.writes, validation.worse().1);
            let [reads, writes, worse] = [reads, writes, worse].map(|group| group.demerit_ms);
            println!("{name}, {what}: demerit of reads {reads:.4}, writes {writes:.4}, worse {worse:.4} ms");
        }
        for ((what, alternatives), &chosen) in CHOICES.iter().zip(&all[chosen]) {
            println!("  {what}: {}", alternatives[chosen].0);
        }
        let worse = table[left_out][chosen].worse().1.demerit_ms;
        assert!(worse <= 1.5 * table[left_out][shipped].worse().1.demerit_ms, "{name}: {worse} ms by the other four's choices");
    }
}
