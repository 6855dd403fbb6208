//! Gains expected from similar cases, with their uncertainty.
//!
//! Kernel regression (Nadaraya, On estimating regression, 1964; Watson, Smooth regression analysis, 1964) over the cases of an
//! [`Experience`]. Each case is weighted by its similarity to the current window; the uncertainty follows from the spread of the
//! cases and their number. Device and workload both enter the similarity, so measurements from one system help on a related one,
//! which the paper names as future work (section 6).

use crate::description::names;
use crate::experience::Experience;
use crate::preference::Preference;
use crate::setting::Setting;

/// How a value is compared: directly or as a ratio.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Ratio,
}

/// The values compared, with the scale of each. Chosen so that an administrator would regard a difference of one in any of them
/// as another workload or another kind of disk.
const ASPECTS: &[(&str, Scale, f64)] = &[
    ("read_share", Scale::Linear, 0.2),
    ("sync_share", Scale::Linear, 0.2),
    ("sequential_share", Scale::Linear, 0.2),
    ("size_mean_bytes", Scale::Ratio, 0.7),
    ("streams", Scale::Ratio, 0.6),
    ("streams_effective", Scale::Ratio, 0.6),
    ("stream_distance_below_span_log2", Scale::Linear, 5.0),
    ("depth_mean", Scale::Ratio, 0.7),
    ("idle_arrival_share", Scale::Linear, 0.3),
    ("arm_share", Scale::Linear, 0.3),
    ("at_device_mean", Scale::Ratio, 0.5),
];
/// Distance if only one of the two windows has the value.
const MISSING: f64 = 1.0;
/// Cases beyond this squared distance are ignored.
const FAR: f64 = 12.0;
/// Standard deviation of a gain for which there are no cases; its mean is zero.
const UNKNOWN_DEVIATION: f64 = 0.4;
/// Gains and losses are clipped to this, a factor of nearly three. Whether a working set fits in memory can make a thousandfold
/// difference, and one such case would dominate all others.
const MOST: f64 = 1.0;
/// The mean over all cases weighs as much as this many cases of full similarity.
const TRUST: f64 = 0.15;

/// A setting chosen without a known workload must have gained this many times its losses, in at least this many cases.
const SEVERAL: f64 = 5.0;
const ENOUGH: usize = 50;

/// The position of a window or case.
pub type Point = [f64; ASPECTS.len()];

/// A point without any values.
pub const NOWHERE: Point = [f64::NAN; ASPECTS.len()];

/// Expected gain of a setting relative to the one in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Difference of scores: 0.01 is one percent.
    pub gain: f64,
    /// Standard deviation of the gain.
    pub deviation: f64,
    /// Number of similar cases, weighted by similarity.
    pub cases: f64,
}

impl Expected {
    /// No cases.
    pub const UNKNOWN: Expected = Expected { gain: 0.0, deviation: UNKNOWN_DEVIATION, cases: 0.0 };

    /// Whether there are any cases.
    pub fn is_known(&self) -> bool {
        *self != Expected::UNKNOWN
    }
}

/// An [`Experience`] prepared for queries under one preference.
#[derive(Clone, Debug)]
pub struct Similar {
    columns: [Option<usize>; ASPECTS.len()],
    settings: Vec<String>,
    cases: Vec<Known>,
    /// By setting in force, then by setting: the gain over all cases.
    overall: Vec<Vec<Expected>>,
}

#[derive(Clone, Debug)]
struct Known {
    under: usize,
    point: Point,
    /// NaN where not measured.
    scores: Vec<f64>,
}

impl Similar {
    /// Prepares an experience.
    pub fn new(experience: &Experience, preference: &Preference) -> Similar {
        let column = |name: &str, names: &[String]| names.iter().position(|known| known == name);
        let theirs: Vec<Option<usize>> = ASPECTS.iter().map(|(name, ..)| column(name, &experience.features)).collect();
        let cases = experience.cases.iter().map(|case| Known {
            under: case.under,
            point: point(|aspect| theirs[aspect].and_then(|column| case.features[column]).map_or(f64::NAN, f64::from)),
            scores: case.ranked(preference).into_iter().map(|score| score.unwrap_or(f64::NAN)).collect(),
        });
        let ours = names();
        Similar {
            columns: std::array::from_fn(|aspect| column(ASPECTS[aspect].0, &ours)),
            settings: experience.settings.clone(),
            overall: overall(experience, preference),
            cases: cases.collect(),
        }
    }

    /// The position of a row made by [`describe`](crate::description::describe).
    pub fn point(&self, row: &[f64]) -> Point {
        point(|aspect| self.columns[aspect].and_then(|column| row.get(column).copied()).unwrap_or(f64::NAN))
    }

    /// The setting of `settings` to begin with while the workload is unknown and `under` is in force: the one with the largest
    /// mean gain over all cases, among those whose gains are several times their losses. `None` if there is none.
    pub fn safest(&self, under: &Setting, settings: &[Setting]) -> Option<usize> {
        let under = self.number(under)?;
        let judged = settings.iter().enumerate().filter_map(|(index, setting)| {
            let number = self.number(setting).filter(|&number| number != under)?;
            let gains = self.cases.iter().map(|case| (case.scores[number] - case.scores[under]).clamp(-MOST, MOST));
            let (gained, lost, count) = gains.filter(|gain| !gain.is_nan()).fold((0.0, 0.0, 0), |(gained, lost, count), gain| {
                (gained + f64::max(gain, 0.0), lost - f64::min(gain, 0.0), count + 1)
            });
            (count >= ENOUGH && gained > SEVERAL * lost).then_some((index, (gained - lost) / count as f64))
        });
        judged.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    fn number(&self, setting: &Setting) -> Option<usize> {
        let text = setting.to_string();
        self.settings.iter().position(|known| *known == text)
    }

    /// Expected gain of each of `settings` relative to `under`, which is in force at `point`.
    pub fn expect(&self, point: &Point, under: &Setting, settings: &[Setting]) -> Vec<Expected> {
        let numbers: Vec<Option<usize>> = settings.iter().map(|setting| self.number(setting)).collect();
        let Some(under) = self.number(under) else { return vec![Expected::UNKNOWN; settings.len()] };
        // Per setting: weight, weighted gain, weighted square of the gain.
        let mut sums = vec![[0.0_f64; 3]; settings.len()];
        for case in self.cases.iter().filter(|case| case.under == under) {
            let distance = distance(point, &case.point, FAR);
            let now = case.scores[under];
            if distance >= FAR || now.is_nan() {
                continue;
            }
            let weight = (-distance / 2.0).exp();
            for (sum, number) in sums.iter_mut().zip(&numbers) {
                let gain = number.map_or(f64::NAN, |number| (case.scores[number] - now).clamp(-MOST, MOST));
                if !gain.is_nan() {
                    *sum = [sum[0] + weight, sum[1] + weight * gain, sum[2] + weight * gain * gain];
                }
            }
        }
        let overall = |number: &Option<usize>| number.map_or(Expected::UNKNOWN, |number| self.overall[under][number]);
        sums.into_iter().zip(numbers.iter().map(overall)).map(expected).collect()
    }
}

/// Gain and deviation from weighted sums, shrunk towards the mean over all cases where there is little evidence.
fn expected(([weight, gains, squares], overall): ([f64; 3], Expected)) -> Expected {
    let trust = weight / (weight + TRUST);
    let mean = if weight > 0.0 { gains / weight } else { 0.0 };
    let spread = if weight > 0.0 { (squares / weight - mean * mean).max(0.0) } else { 0.0 };
    let gain = trust * mean + (1.0 - trust) * overall.gain;
    let apart = trust * (1.0 - trust) * (mean - overall.gain).powi(2);
    let variance = trust * spread + (1.0 - trust) * overall.deviation.powi(2) + apart + 0.015_f64.powi(2);
    Expected { gain, deviation: variance.sqrt(), cases: weight }
}

fn overall(experience: &Experience, preference: &Preference) -> Vec<Vec<Expected>> {
    let count = experience.settings.len();
    let mut sums = vec![vec![[0.0_f64; 3]; count]; count];
    for case in &experience.cases {
        let ranked = case.ranked(preference);
        let score = |setting: usize| ranked[setting];
        for (setting, sum) in sums[case.under].iter_mut().enumerate() {
            if let Some(gain) = score(setting).zip(score(case.under)).map(|(then, now)| (then - now).clamp(-MOST, MOST)) {
                *sum = [sum[0] + 1.0, sum[1] + gain, sum[2] + gain * gain];
            }
        }
    }
    let one = |[cases, gains, squares]: [f64; 3]| {
        if cases < 2.0 {
            return Expected::UNKNOWN;
        }
        let gain = gains / cases;
        Expected { gain, deviation: (squares / cases - gain * gain).max(0.0).sqrt(), cases: 0.0 }
    };
    sums.into_iter().map(|of_one| of_one.into_iter().map(one).collect()).collect()
}

fn point(value: impl Fn(usize) -> f64) -> Point {
    std::array::from_fn(|aspect| {
        let (_, scale, width) = ASPECTS[aspect];
        let value = value(aspect);
        match scale {
            Scale::Linear => value / width,
            Scale::Ratio if value.is_nan() => value,
            Scale::Ratio => value.max(1e-9).ln() / width,
        }
    })
}

/// Squared distance; stops early at `far`.
pub fn distance(a: &[f64], b: &[f64], far: f64) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        sum += match (a.is_nan(), b.is_nan()) {
            (false, false) => (a - b) * (a - b),
            (true, true) => 0.0,
            _ => MISSING,
        };
        if sum >= far {
            break;
        }
    }
    sum
}

/// The first aspects of a [`Point`], which depend only on the load and not on the setting in force.
const OF_LOAD: std::ops::Range<usize> = 0..5;

/// Squared distance in the aspects that depend only on the load.
pub fn load_distance(a: &Point, b: &Point) -> f64 {
    distance(&a[OF_LOAD], &b[OF_LOAD], f64::INFINITY)
}
