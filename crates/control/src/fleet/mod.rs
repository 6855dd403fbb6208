//! Gains measured on other machines: a prior for settings, with a trust weight from its accuracy on this machine.
//!
//! ```text
//! outcomes of others ─▶ like device, like load ─▶ mean of each machine ─▶ estimate ─▶ × trust ─▶ expected before a trial
//! own outcomes ───────▶ compared with the others' ─────────────────────────────────────▶ trust
//! ```
//! The prior decides which setting is tried, never that it stays: that takes a local trial. Rows come over a network from machines
//! that may be broken or hostile, so each value is checked where it is read.

pub mod report;
pub mod rollout;

use std::collections::BTreeMap;

use observe::Preference;
use observe::merit::TOLERANCE;
use observe::similarity::{ANOTHER, Columns, Point, load_distance};

use crate::ab_test::Estimate;
use crate::setting::Setting;

/// Gains are clamped to this, as a logarithm: a factor of e either way, the same as for forecasts. Choice: a higher one lets a single
/// machine decide; evaluations clamp at the same factor; not varied.
const MAX_GAIN: f64 = 1.0;
/// The largest valid gain, as a logarithm: a factor of 4.9 × 10⁸. Rows beyond it are invalid. Choice: accepts every possible gain and
/// refuses damaged rows; not varied.
pub const MAX_MEASURED: f64 = 20.0;
/// The standard deviation of a setting's gain between machines with like devices and loads, before any of them is seen.
/// On 96 loads of the training world that six machines run at their own pace and with their own data it is below 0.005 for four
/// fifths of the settings, and up to 0.2 for the rest. It is not learned from the gains that agree: five machines that lie alike would be
/// believed to 2%, and cost 1.8 instead of 0.1% (24 loads of the validation world, in which one setting gained 6% on five machines and lost
/// 14% on the sixth). Choice: within the measured range, near its upper end, so that loads that differ between machines are not
/// overestimated.
const BETWEEN_MACHINES: f64 = 0.15;
/// The number of machines that [`BETWEEN_MACHINES`] counts as. Choice: a larger one distrusts machines that agree, a smaller one believes a
/// few that lie; not varied.
const PRIOR_MACHINES: f64 = 2.0;
/// Additional standard error of a gain measured on another model of the same kind of device. Choice: as [`BETWEEN_MACHINES`], as if another
/// model were another machine; not varied.
const OTHER_MODEL_ERROR: f64 = 0.15;
/// Additional standard error of a single machine's gain, which no other machine confirms. Choice: the largest measured deviation between
/// machines ([`BETWEEN_MACHINES`]); a smaller one believes a machine that lies; not varied.
const SINGLE_ERROR: f64 = 0.2;
/// Minimum standard error of a measured gain: loads drift. Choice: a smaller one lets one machine with many windows outvote the others;
/// five times the drift of a load on one machine; not varied.
const MIN_ERROR: f64 = 0.05;
/// Maximum deviation of a wrong expectation, in standard errors. Choice: a higher one makes one failure weigh more than many successes;
/// not varied.
const MAX_Z: f64 = 3.0;
/// Prior number of correct expectations. One complete failure before any success ends the trust in the fleet. Choice: a larger one forgives
/// more failures, a smaller one ends the trust by chance; not varied.
const PRIOR: f64 = 2.0;
/// Error scale from which the fleet is ignored. Derived: the error scale after one failure of [`MAX_Z`] before any success, √((2 + 3²) / (2
/// + 1)) = 1.91, rounded down.
const DISTRUSTED: f64 = 1.9;

/// The properties of a device that affect the choice of setting. Never its name, serial number or contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceType {
    /// The kind, for example `scsi, rotational`.
    pub kind: String,
    /// The model that the drive reports; empty if there is none or it was set by the owner.
    pub model: String,
    /// The firmware revision; empty if there is none.
    pub firmware: String,
}

/// The measured gain of a change of setting.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetOutcome {
    /// Random id, assigned at measurement: identifies the outcome on every machine.
    pub id: [u8; 16],
    /// Random id of the machine that measured it.
    pub machine: [u8; 16],
    /// The database role that wrote it; empty before it is on the server.
    pub writer: String,
    /// The day of the measurement, in days since 1970-01-01.
    pub day: u32,
    /// The device.
    pub device: DeviceType,
    /// The description of the load under `from` ([`describe`](observe::description::describe)), by name, without missing values.
    pub load: BTreeMap<String, f32>,
    /// The preference by which gains are scored, as text.
    pub preference: String,
    /// The setting before, as text.
    pub from: String,
    /// The setting after.
    pub to: String,
    /// The gain: the difference of the scores.
    pub gain: Estimate,
    /// The program and its version.
    pub program: String,
}

/// Maximum lengths of a row's texts. Choice: bounds the size of a row from a machine that is not trusted; several times the longest names
/// of devices; not varied.
const MAX_LETTERS: [(&str, usize); 5] = [("kind", 32), ("model", 128), ("firmware", 64), ("setting", 1024), ("program", 64)];
/// Maximum number of values that describe a load. Choice: bounds the size of a row; several times the values of a description; not varied.
const MAX_VALUES: usize = 128;

impl FleetOutcome {
    /// Why the row is invalid; `None` if it is valid.
    pub fn problem(&self) -> Option<String> {
        let texts = [&self.device.kind, &self.device.model, &self.device.firmware, &self.from, &self.program];
        for ((name, most), text) in MAX_LETTERS.iter().zip(texts).chain([(&MAX_LETTERS[3], &self.to)]) {
            if text.chars().count() > *most || text.chars().any(char::is_control) {
                return Some(format!("its {name} is longer than {most} letters, or no text"));
            }
        }
        let Estimate { mean, error } = self.gain;
        if !(mean.abs() <= MAX_MEASURED && (0.0..=MAX_MEASURED).contains(&error)) {
            return Some(format!("a gain of {mean} ± {error} should be within ±{MAX_MEASURED}"));
        }
        if self.load.len() > MAX_VALUES || self.load.values().any(|value| !value.is_finite()) {
            return Some("its load is no list of numbers".to_owned());
        }
        if self.from == self.to {
            return Some("it changes nothing".to_owned());
        }
        let unknown = [&self.from, &self.to].into_iter().find_map(|text| Setting::parse(text).err());
        unknown.map(|error| error.to_string())
    }
}

/// Trust in the fleet, from its accuracy on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trust {
    count: f64,
    squares: f64,
}

impl Trust {
    /// Records a local measurement against the expectation of the fleet.
    pub fn note(&mut self, expected: &Estimate, measured: f64) {
        // Expectations beyond the credible range count with their full error.
        let z = ((measured - expected.mean) / expected.error.max(TOLERANCE)).clamp(-MAX_Z, MAX_Z);
        if !z.is_nan() {
            (self.count, self.squares) = (self.count + 1.0, self.squares + z * z);
        }
    }

    /// Factor on the fleet's standard errors; 1 before any comparison.
    pub fn error_scale(&self) -> f64 {
        ((PRIOR + self.squares) / (PRIOR + self.count)).sqrt()
    }

    /// Scales the standard error of an expectation by the trust; `None` if the fleet is no longer trusted.
    pub fn weighted(&self, expected: &Estimate) -> Option<Estimate> {
        let scale = self.error_scale();
        (scale < DISTRUSTED).then(|| Estimate { mean: expected.mean, error: expected.error * scale.max(1.0) })
    }

    /// Combines the comparisons of both.
    #[must_use]
    pub fn with(&self, other: &Trust) -> Trust {
        Trust { count: self.count + other.count, squares: self.squares + other.squares }
    }

    /// Whether expectations were compared with local measurements and found right.
    pub fn is_proven(&self) -> bool {
        self.count > 0.0 && self.error_scale() <= 1.0
    }

    /// Number of comparisons.
    pub fn count(&self) -> u64 {
        self.count as u64
    }
}

/// An outcome on a similar device.
#[derive(Clone, Debug)]
struct Seen {
    writer: usize,
    machine: [u8; 16],
    is_same_model: bool,
    point: Point,
    from: String,
    to: String,
    gain: Estimate,
}

/// Outcomes of other machines on devices similar to this one.
#[derive(Clone, Debug, Default)]
pub struct FleetKnowledge {
    seen: Vec<Seen>,
    trust: Trust,
}

impl FleetKnowledge {
    /// Selects outcomes for a device of this type. Those of the machine `own` determine the trust in the others. Invalid rows are skipped.
    pub fn new(outcomes: &[FleetOutcome], own: [u8; 16], device: &DeviceType, preference: &Preference) -> FleetKnowledge {
        let preference = preference.to_string();
        let is_like = |outcome: &&FleetOutcome| {
            outcome.device.kind == device.kind && outcome.preference == preference && outcome.problem().is_none()
        };
        let (ours, others): (Vec<&FleetOutcome>, Vec<&FleetOutcome>) =
            outcomes.iter().filter(is_like).partition(|outcome| outcome.machine == own);
        let mut writers: Vec<&str> = others.iter().map(|outcome| outcome.writer.as_str()).collect();
        writers.sort_unstable();
        writers.dedup();
        let seen = |outcome: &&FleetOutcome| Seen {
            writer: writers.binary_search(&outcome.writer.as_str()).unwrap_or_default(),
            machine: outcome.machine,
            is_same_model: outcome.device.model == device.model,
            point: point(&outcome.load),
            from: outcome.from.clone(),
            to: outcome.to.clone(),
            gain: outcome.gain,
        };
        let mut known = FleetKnowledge { seen: others.iter().map(seen).collect(), trust: Trust::default() };
        for outcome in ours {
            if let Some(expected) = known.expect(&point(&outcome.load), &outcome.from, &outcome.to) {
                known.trust.note(&expected, outcome.gain.mean);
            }
        }
        known
    }

    /// Whether there are no outcomes.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Trust from the comparisons so far.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The settings that gained on the same model under any load, most often measured first.
    pub fn settings(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let better = self.seen.iter().filter(|seen| seen.is_same_model && seen.gain.mean > TOLERANCE);
        better.for_each(|seen| *counts.entry(&seen.to).or_default() += 1);
        let mut counts: Vec<(usize, &str)> = counts.into_iter().map(|(setting, count)| (count, setting)).collect();
        counts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        counts.into_iter().map(|(_, setting)| setting.to_owned()).collect()
    }

    /// Expected gain of `to` over `from` under a load, with the standard error of another machine's gain, before the trust weight; `None` if
    /// there are no outcomes of both settings for a similar load and device. Rows of the same model take precedence over others of its kind.
    pub fn expect(&self, load: &Point, from: &str, to: &str) -> Option<Estimate> {
        let of = |is_same_model: bool| {
            let alike = self.seen.iter().filter_map(|seen| {
                let sign = match () {
                    () if seen.from == from && seen.to == to => 1.0,
                    () if seen.from == to && seen.to == from => -1.0,
                    () => return None,
                };
                let is_alike = seen.is_same_model == is_same_model && load_distance(&seen.point, load) < ANOTHER;
                is_alike.then_some((seen, sign * seen.gain.mean))
            });
            among(alike, if is_same_model { 0.0 } else { OTHER_MODEL_ERROR })
        };
        of(true).or_else(|| of(false))
    }
}

/// Estimates the gain on another machine. With several roles, each counts once, so that one cannot outvote the rest under many
/// machine ids; with a single role, each machine counts once.
fn among<'a>(alike: impl Iterator<Item = (&'a Seen, f64)>, further_error: f64) -> Option<Estimate> {
    let alike: Vec<(&Seen, f64)> = alike.collect();
    let first = alike.first()?.0.writer;
    let by_writer = alike.iter().any(|(seen, _)| seen.writer != first);
    let mut sums: BTreeMap<(usize, [u8; 16]), (f64, f64)> = BTreeMap::new();
    for (seen, gain) in alike {
        let key = if by_writer { (seen.writer, [0; 16]) } else { (0, seen.machine) };
        let weight = seen.gain.error.hypot(MIN_ERROR).powi(-2);
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + weight * gain.clamp(-MAX_GAIN, MAX_GAIN), sum.1 + weight);
    }
    let gains: Vec<f64> = sums.into_values().map(|(sum, weight)| sum / weight).collect();
    let count = gains.len() as f64;
    let mean = gains.iter().sum::<f64>() / count;
    let squares = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() + PRIOR_MACHINES * BETWEEN_MACHINES.powi(2);
    let between = squares / (count - 1.0 + PRIOR_MACHINES);
    let single = if gains.len() == 1 { SINGLE_ERROR } else { 0.0 };
    let error = (between * (1.0 + 1.0 / count)).sqrt().hypot(further_error).hypot(single);
    Some(Estimate { mean, error })
}

/// The coordinates of a described load.
fn point(load: &BTreeMap<String, f32>) -> Point {
    let (names, values): (Vec<String>, Vec<f32>) = load.iter().map(|(name, value)| (name.clone(), *value)).unzip();
    Columns::of(&names).point(|column| values.get(column).map(|value| f64::from(*value)))
}

/// Converts Unix time to days since 1970. Outcomes carry only the day, to keep the exact time of a measurement private.
pub fn day(unix_seconds: u64) -> u32 {
    u32::try_from(unix_seconds / 86_400).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn load() -> BTreeMap<String, f32> {
        [("read_share", 0.7), ("sync_share", 0.7), ("sequential_share", 0.1), ("size_mean_bytes", 4096.0), ("streams", 4.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    fn device() -> DeviceType {
        DeviceType { kind: "scsi, rotational".into(), model: "ST4000".into(), firmware: "01".into() }
    }

    fn outcome(machine: u8, writer: &str, gain: f64) -> FleetOutcome {
        FleetOutcome {
            id: [machine; 16],
            machine: [machine; 16],
            writer: writer.into(),
            day: 20_000,
            device: device(),
            load: load(),
            preference: Preference::default().to_string(),
            from: "mq-deadline".into(),
            to: "bfq".into(),
            gain: Estimate { mean: gain, error: 0.02 },
            program: "test".into(),
        }
    }

    fn known(outcomes: &[FleetOutcome]) -> FleetKnowledge {
        FleetKnowledge::new(outcomes, [0; 16], &device(), &Preference::default())
    }

    fn expected(outcomes: &[FleetOutcome]) -> Option<Estimate> {
        known(outcomes).expect(&point(&load()), "mq-deadline", "bfq")
    }

    #[test]
    fn the_more_machines_agree_the_surer_is_what_is_expected() {
        let of = |machines: u8| expected(&(1..=machines).map(|machine| outcome(machine, "", 0.3)).collect::<Vec<_>>()).unwrap();
        assert!((of(5).mean - 0.3).abs() < 1e-9 && of(5).error < 0.11, "{:?}", of(5));
        assert!(of(1).error > 2.0 * of(5).error && of(2).error > of(5).error, "{:?}", of(1));
        let apart = expected(&[0.6, -0.1, 0.5, -0.2, 0.7].map(|gain| outcome((gain * 10.0 + 9.0) as u8, "", gain))).unwrap();
        assert!(apart.error > 3.0 * of(5).error, "{apart:?}");
    }

    #[test]
    fn a_change_back_says_the_opposite_and_other_loads_settings_and_kinds_say_nothing() {
        let known = known(&[outcome(1, "", 0.3), outcome(2, "", 0.3)]);
        let here = point(&load());
        assert!(known.expect(&here, "bfq", "mq-deadline").is_some_and(|gain| (gain.mean + 0.3).abs() < 1e-9));
        assert_eq!(known.expect(&here, "mq-deadline", "kyber"), None);
        let elsewhere = BTreeMap::from([("read_share".to_owned(), 0.1), ("size_mean_bytes".to_owned(), 1e6)]);
        assert_eq!(known.expect(&point(&elsewhere), "mq-deadline", "bfq"), None);
        let change = |change: &dyn Fn(&mut FleetOutcome)| {
            let mut one = outcome(1, "", 0.3);
            change(&mut one);
            expected(&[one.clone(), FleetOutcome { machine: [9; 16], ..one }])
        };
        assert_eq!(change(&|one| one.device.kind = "nvme".into()), None);
        assert_eq!(change(&|one| one.preference = "1,3,2".into()), None);
        let same = change(&|_| {}).unwrap();
        assert!(change(&|one| one.device.model = "WD40".into()).unwrap().error > same.error);
    }

    #[test]
    fn a_role_that_writes_under_many_machines_does_not_outvote_the_others() {
        let honest = (1..=4).map(|machine| outcome(machine, &format!("agent {machine}"), 0.2));
        let hostile = (100..200).map(|machine| outcome(machine, "mallory", -20.0));
        let both = expected(&honest.clone().chain(hostile).collect::<Vec<_>>()).unwrap();
        assert!(both.mean > -0.1 && both.error > 0.3, "{both:?}");
        assert!(expected(&honest.collect::<Vec<_>>()).unwrap().error < 0.12);
    }

    #[test]
    fn broken_rows_are_passed_over() {
        let broken: [&dyn Fn(&mut FleetOutcome); 10] = [
            &|one| one.gain.mean = f64::NAN,
            &|one| one.gain.mean = 1e300,
            &|one| one.gain.error = -1.0,
            &|one| one.gain.error = f64::INFINITY,
            &|one| one.to = "bfq:slice_idle=-5".into(),
            &|one| one.to = "rm -rf".into(),
            &|one| one.to = one.from.clone(),
            &|one| one.device.model = "x".repeat(1_000_000),
            &|one| one.device.firmware = "\u{1b}[2J".into(),
            &|one| one.load = BTreeMap::from([("read_share".into(), f32::NAN)]),
        ];
        for (number, change) in broken.into_iter().enumerate() {
            let mut one = outcome(1, "", 0.3);
            change(&mut one);
            assert!(one.problem().is_some(), "{number}");
            assert!(known(&[one]).is_empty(), "{number}");
        }
        assert_eq!(outcome(1, "", 0.3).problem(), None);
    }

    #[test]
    fn others_that_were_wrong_here_are_believed_less_and_then_not_at_all() {
        let expected = Estimate { mean: 0.5, error: 0.1 };
        let mut trust = Trust::default();
        assert_eq!(trust.weighted(&expected), Some(expected));
        trust.note(&expected, 0.35);
        assert!(trust.weighted(&expected).is_some_and(|weighted| weighted.error > 0.1), "{trust:?}");
        trust.note(&expected, -0.5);
        trust.note(&expected, -0.5);
        assert_eq!(trust.weighted(&expected), None);
        (0..20).for_each(|_| trust.note(&expected, 0.5));
        assert_eq!(trust.weighted(&expected), Some(expected), "they were right later");
        // Earlier local measurements change the trust in the same way.
        let own = |gain: f64| FleetOutcome { machine: [0; 16], ..outcome(0, "", gain) };
        let others: Vec<FleetOutcome> = (1..=5).map(|machine| outcome(machine, "", 0.9)).collect();
        let with = |own: &[FleetOutcome]| known(&[&others, own].concat()).trust();
        assert!(with(&[own(-0.3)]).error_scale() > DISTRUSTED && with(&[own(0.9)]).error_scale() <= 1.0);
    }
}
