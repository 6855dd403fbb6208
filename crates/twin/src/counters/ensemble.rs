//! Hypotheses that reproduce the counters.
//!
//! They are drawn from the prior, and moved in rounds: each round increases the weight of the counters, resamples the hypotheses by how
//! well they match, and moves all of them by steps that preserve the distribution (Del Moral, Doucet, Jasra: Sequential Monte Carlo
//! samplers, J. R. Statist. Soc. B 68, 2006). All randomness is derived from a seed.

use std::fmt;
use std::sync::Arc;

use block::{Limits, Nanos};
use control::Setting;
use observe::Event;
use rayon::prelude::*;
use sim::profile::DeviceProfile;
use statistics::Rank;

use super::counted::{Counted, Side};
use super::counter::Counter;
use super::draws::{Point, Random};
use super::hypothesis::{DIMENSIONS, Hypothesis, Known};
use crate::forecast::TrialRig;
use crate::load::Load;
use crate::trial::{TrialLength, TrialResult};

/// Number of hypotheses. Choice: coverage of the prior against processor time in proportion; 96 before commit b172224f.
const MANY: usize = 144;
/// Maximum number of rounds until the counters have full weight, including the first. Choice: bounds the processor time of a decision; not
/// varied.
const MAX_ROUNDS: usize = 10;
/// Number of rounds that separate copies after that. Choice: each moves most copies once; not varied.
const LAST_ROUNDS: usize = 3;
/// A round increases the weight until the effective sample size is this fraction of the hypotheses. Choice: fewer survivors per round
/// against more rounds; not varied.
const COUNT: f64 = 0.5;
/// Number of requests in a trial of a hypothesis. Choice: rates that vary by their mean have an error of 3%, below the tolerated
/// deviations; not varied.
const COUNTED: f64 = 1_200.0;
/// Bounds of the length of such a trial, in seconds. Choice: at least some requests of a slow disk, at most a minute of a nearly idle one;
/// not varied.
const LASTS_S: (f64, f64) = (0.05, 60.0);
/// Number of hypotheses on which candidates are simulated. Choice: a third of [`MANY`], as each candidate is simulated on all of them; 40
/// before commit b172224f.
const KEPT: usize = 48;

/// Tolerated deviation of the logarithm of a rate: how closely a good model matches the counters of a real device, as no assumed device and
/// load are exactly like real ones. Choice: tighter ones reject all hypotheses, wider ones accept unlike ones; not varied.
const RATE_OFF: f64 = 0.12;
/// Tolerated deviation of the logarithm of a mean size. Choice: as [`RATE_OFF`].
const SIZE_OFF: f64 = 0.15;
/// Tolerated deviation of the logarithm of a response time. Choice: as [`RATE_OFF`]; wider, as a model predicts times less well than rates.
const RESPONSE_OFF: f64 = 0.2;
/// Tolerated deviation of the fraction of merged requests. Choice: as [`RATE_OFF`].
const MERGED_OFF: f64 = 0.08;
/// Tolerated deviation of the busy fraction. Choice: as [`RATE_OFF`].
const BUSY_OFF: f64 = 0.12;
/// Model errors have longer tails than a normal distribution, with which small faults would let a few hypotheses displace all others. The
/// likelihood is Student's distribution with this number of degrees of freedom. Source: Lange, Little, Taylor: Robust statistical modeling
/// using the t distribution, J. Am. Statist. Assoc. 84, 1989.
const FREEDOM: f64 = 4.0;
/// Maximum median deviation of the hypotheses, in tolerated deviations; beyond it none is close enough to the counters. Choice: advice more
/// often against advice by hypotheses that do not match; 4.0 before commit b172224f.
const UNLIKE: f64 = 2.0;

/// No hypothesis is close enough to the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Unlike {
    /// Counters of the closest hypothesis.
    pub nearest: Counted,
    /// The observed counters.
    pub counted: Counted,
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |counted: &Counted| {
            let response_ms = counted.response().as_millis_f64();
            format!("{:.0} requests/s of {:.3} ms, {:.0}% busy", counted.requests_per_s(), response_ms, 100.0 * counted.busy_share)
        };
        write!(
            f,
            "no assumed load and device has such counters: the nearest has {} instead of {}",
            text(&self.nearest),
            text(&self.counted)
        )
    }
}

/// A hypothesis, with its counters and their deviation.
#[derive(Clone, Debug)]
struct Particle {
    point: Point,
    seed: u64,
    /// Twice the negative log-likelihood of the counters, 0 for an exact match.
    off: f64,
    /// Root mean square of its deviations, in tolerated deviations.
    deviates: f64,
    counted: Counted,
}

/// Hypotheses that are moved towards the counters.
pub struct Ensemble {
    counted: Counted,
    known: Known,
    active: Setting,
    particles: Vec<Particle>,
    random: Random,
    /// Weight of the counters in the current round, from 0 to 1.
    weight: f64,
    rounds: usize,
    last_rounds: usize,
    requests: u64,
}

/// An accepted hypothesis, ready for trials.
pub(super) struct Kept {
    /// Its parameters.
    pub hypothesis: Hypothesis,
    /// The device.
    pub device: Arc<dyn DeviceProfile>,
    /// The load.
    pub load: Load,
}

impl Ensemble {
    /// An ensemble before its first round. `active`: the setting under which the counters were read.
    pub fn new(counted: &Counted, known: &Known, active: &Setting, seed: u64) -> Ensemble {
        Ensemble {
            counted: *counted,
            known: known.clone(),
            active: active.clone(),
            particles: Vec::new(),
            random: Random::new(seed),
            weight: 0.0,
            rounds: 0,
            last_rounds: 0,
            requests: 0,
        }
    }

    /// Whether all rounds are done.
    pub fn is_done(&self) -> bool {
        self.last_rounds >= LAST_ROUNDS || self.rounds >= MAX_ROUNDS + LAST_ROUNDS
    }

    /// Number of simulated requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Runs one round, on all cores.
    pub fn round(&mut self) {
        if self.rounds == 0 {
            let drawn: Vec<(Point, u64)> =
                (0..MANY).map(|number| (Point::drawn(DIMENSIONS, &mut self.random), number as u64)).collect();
            self.particles = self.counted_all(drawn);
        } else {
            if self.weight < 1.0 {
                self.weigh();
            }
            let moved: Vec<(Point, u64)> =
                self.particles.iter().map(|particle| (particle.point.moved(&mut self.random), particle.seed)).collect();
            let moved = self.counted_all(moved);
            let weight = self.weight;
            for (particle, other) in self.particles.iter_mut().zip(moved) {
                // Metropolis acceptance: the prior is uniform over the cube, and proposals are symmetric.
                if self.random.unit() < (weight * (particle.off - other.off) / 2.0).exp() {
                    *particle = other;
                }
            }
        }
        self.rounds += 1;
        self.last_rounds += usize::from(self.weight >= 1.0);
    }

    /// Increases the weight of the counters, and resamples the hypotheses by their weights.
    fn weigh(&mut self) {
        let weights = |more: f64| -> Vec<f64> {
            let least = self.particles.iter().map(|one| one.off).fold(f64::INFINITY, f64::min);
            self.particles.iter().map(|one| (-more * (one.off - least) / 2.0).exp()).collect()
        };
        let left = 1.0 - self.weight;
        let mut more = left;
        if counting(&weights(left)) < COUNT {
            let (mut low, mut high) = (0.0, left);
            for _ in 0..40 {
                let middle = (low + high) / 2.0;
                if counting(&weights(middle)) < COUNT { high = middle } else { low = middle }
            }
            more = low;
        }
        let weights = weights(more);
        self.weight = if more >= left { 1.0 } else { self.weight + more };
        let whole: f64 = weights.iter().sum();
        let count = self.particles.len();
        let begin = self.random.unit();
        let (mut reached, mut sum, mut drawn) = (0, weights[0], Vec::with_capacity(count));
        for number in 0..count {
            let at = (begin + number as f64) / count as f64 * whole;
            while sum < at && reached + 1 < count {
                reached += 1;
                sum += weights[reached];
            }
            drawn.push(self.particles[reached].clone());
        }
        self.particles = drawn;
    }

    fn counted_all(&mut self, points: Vec<(Point, u64)>) -> Vec<Particle> {
        let (counted, known, active) = (&self.counted, &self.known, &self.active);
        let one = |(point, seed): (Point, u64)| {
            let hypothesis = Hypothesis::at(&point, counted, known, seed);
            let (is, requests) = would_count(&hypothesis, counted, known, active).unwrap_or_default();
            let (off, deviates) = off(counted, &is);
            (Particle { off, deviates, point, seed, counted: is }, requests)
        };
        let counted: Vec<(Particle, u64)> = points.into_par_iter().with_max_len(1).map(one).collect();
        self.requests += counted.iter().map(|(_, requests)| requests).sum::<u64>();
        counted.into_iter().map(|(particle, _)| particle).collect()
    }

    /// [`KEPT`] of the hypotheses, evenly spaced.
    ///
    /// # Errors
    /// No hypothesis is close enough to the counters.
    pub(super) fn kept(&self) -> Result<Vec<Kept>, Box<Unlike>> {
        let count = self.particles.len() as f64;
        let mut deviate: Vec<f64> = self.particles.iter().map(|one| one.deviates).collect();
        if Rank::Above.of(&mut deviate, 0.5).is_none_or(|middle| middle > UNLIKE) {
            let nearest = self.particles.iter().min_by(|a, b| a.off.total_cmp(&b.off)).map(|one| one.counted).unwrap_or_default();
            return Err(Box::new(Unlike { nearest, counted: self.counted }));
        }
        let step = count / KEPT as f64;
        let chosen = (0..KEPT.min(self.particles.len())).map(|number| &self.particles[(number as f64 * step.max(1.0)) as usize]);
        Ok(chosen
            .filter_map(|one| {
                let hypothesis = Hypothesis::at(&one.point, &self.counted, &self.known, one.seed);
                let device = hypothesis.profile(&self.known).ok()?;
                Some(Kept { load: hypothesis.load(&self.counted), device, hypothesis })
            })
            .collect())
    }
}

/// The effective sample size, as a fraction (Kong, Liu, Wong: Sequential imputations, J. Am. Statist. Assoc. 89, 1994).
fn counting(weights: &[f64]) -> f64 {
    let (sum, squares) = weights.iter().fold((0.0, 0.0), |(sum, squares), weight| (sum + weight, squares + weight * weight));
    sum * sum / squares.max(f64::MIN_POSITIVE) / weights.len() as f64
}

/// The counters under a hypothesis, and the number of simulated requests; `None` if it cannot be simulated.
fn would_count(hypothesis: &Hypothesis, counted: &Counted, known: &Known, active: &Setting) -> Option<(Counted, u64)> {
    let (device, load) = (hypothesis.profile(known).ok()?, hypothesis.load(counted));
    let per_s = counted.read.asked_per_s() + counted.write.asked_per_s();
    let lasts = Nanos::from_secs_f64((COUNTED / per_s).clamp(LASTS_S.0, LASTS_S.1));
    let length = TrialLength::new(lasts, 2 * COUNTED as u64);
    let rig = TrialRig { device: &*device, bounds: known.bounds, load: &load, call_model: None, length };
    let mut counter = Counter::new(known.bounds.limits.max_sectors);
    let mut first = None;
    let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
    let TrialResult { until, requests, .. } = rig.run_for((active, None), &build, length, &mut |event: &Event| {
        if first.is_none() && event.at() >= length.warmup {
            first = Some(counter.sample(event.at()));
        }
        counter.event(event);
    })?;
    let first = first?;
    (until > first.at).then(|| (Counted::between(&first, &counter.sample(until)), requests))
}

/// The deviations of the counters, in tolerated deviations.
fn features(counted: &Counted, is: &Counted) -> Vec<f64> {
    let mut features = Vec::new();
    let ln = |is: f64, was: f64| (is.max(1e-12) / was.max(1e-12)).ln();
    let all = counted.requests_per_s();
    for (was, is) in [(&counted.read, &is.read), (&counted.write, &is.write)] {
        let Side { requests_per_s, .. } = *was;
        if requests_per_s <= 0.02 * all {
            continue;
        }
        let with = |off: f64, error: f64| off.hypot(error);
        features.push(ln(is.requests_per_s, requests_per_s) / with(RATE_OFF, was.rate_error));
        features.push(ln(is.response_s, was.response_s) / with(RESPONSE_OFF, was.response_error));
        features.push(ln(is.mean_bytes, was.mean_bytes) / SIZE_OFF);
        features.push((is.merged_share - was.merged_share) / MERGED_OFF);
    }
    features.push((is.busy_share - counted.busy_share) / BUSY_OFF);
    features
}

/// Twice the negative log-likelihood, and the root mean square deviation.
fn off(counted: &Counted, is: &Counted) -> (f64, f64) {
    let features = features(counted, is);
    let unlikely = features.iter().map(|one| (FREEDOM + 1.0) * (one * one / FREEDOM).ln_1p()).sum();
    let square = features.iter().map(|one| one * one).sum::<f64>() / features.len() as f64;
    (unlikely, square.sqrt())
}
