//! Coordinate search: one parameter after the other along a ladder of steps, fine at its middle and wide at its ends.
//!
//! ```text
//! every parameter alone: ladder ─▶ for each block: the best value without it ─▶ is it better on the block?
//!        ▲                                                                          │ in the mean by three standard errors
//!        └── all that were taken, once more, until nothing changes ◀── take the one that gains most
//! ```

use control::ab_test::Estimate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testbed::pool::Workers;

use anyhow::Context as _;
use sim::device::hdd::model::HddModel;
use sim::device::hdd::spec::HddSpecification;
use statistics::student;

use super::parameters::{Candidate, Kind, Parameter, parameters, rounded};
use super::recording::{BLOCKS, Losses, Recording};

/// Steps of a ladder, as parts of the parameter's scale: the smallest is the resolution of an overhead in a recording with
/// microseconds, and each is two and a half times the one before.
const STEPS: [f64; 9] = [0.0013, 0.0033, 0.0082, 0.02, 0.05, 0.13, 0.32, 0.8, 2.0];

/// Minimum gain in standard errors for a parameter to be accepted.
const ENOUGH: f64 = 3.0;

/// Maximum passes over all accepted parameters: they converge in a few.
const PASSES: usize = 4;

/// Values of all parameters.
type Point = Vec<f64>;

/// The outcome for a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Its key.
    pub key: &'static str,
    /// The original value.
    pub before: String,
    /// The fitted value: together with the accepted parameters, or for a rejected one alone.
    pub after: String,
    /// Whether it was accepted, and its uncertainty.
    pub outcome: Outcome,
}

/// Whether a parameter was accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A number, with its 95% interval in ms.
    Number {
        /// The value in ms.
        value: f64,
        /// Half of the interval.
        uncertainty: f64,
    },
    /// A rule that was accepted. Each of [`BLOCKS`] refits leaves out one block.
    Rule {
        /// The number of refits that chose the same rule.
        refits: usize,
    },
    /// Rejected: the gain on held-out requests is too small.
    Left {
        /// The gain in standard errors.
        gain: f64,
    },
    /// Unchanged: the requests do not depend on it.
    NoEffect,
}

/// A parameter's ladder with the losses at each value.
struct Line {
    /// Ascending values and their losses.
    rungs: Vec<(f64, Losses)>,
}

impl Line {
    /// The rung with the least loss.
    fn best(&self, loss: impl Fn(&Losses) -> f64) -> usize {
        let mut best = 0;
        for (index, (_, losses)) in self.rungs.iter().enumerate() {
            if loss(losses) < loss(&self.rungs[best].1) {
                best = index;
            }
        }
        best
    }

    /// The value with the lowest loss, interpolated: the vertex of a parabola through the best rung and its neighbours.
    fn least(&self, loss: impl Fn(&Losses) -> f64) -> f64 {
        let best = self.best(&loss);
        let at = |index: usize| (self.rungs[index].0, loss(&self.rungs[index].1));
        let (x1, y1) = at(best);
        if best == 0 || best + 1 == self.rungs.len() {
            return x1;
        }
        let ((x0, y0), (x2, y2)) = (at(best - 1), at(best + 1));
        let (left, right) = ((x1 - x0) * (y1 - y2), (x1 - x2) * (y1 - y0));
        let lowest = x1 - 0.5 * ((x1 - x0) * left - (x1 - x2) * right) / (left - right);
        if lowest.is_finite() { lowest.clamp(x0, x2) } else { x1 }
    }

    /// Whether the losses do not depend on the value.
    fn is_flat(&self) -> bool {
        self.rungs.iter().all(|(_, losses)| losses.all.to_bits() == self.rungs[0].1.all.to_bits())
    }

    /// The gain on held-out blocks over `now`, with the value that the other blocks choose: the mean, and the mean in standard
    /// errors.
    fn gain(&self, now: &Losses) -> (f64, f64) {
        let gains: [f64; BLOCKS] = std::array::from_fn(|block| {
            let chosen = self.best(|losses| losses.without[block]);
            now.only[block] - self.rungs[chosen].1.only[block]
        });
        let Some(Estimate { mean, error }) = Estimate::of_values(&gains) else { return (0.0, 0.0) };
        (mean, if error > 0.0 { mean / error } else { 0.0 })
    }
}

/// The state of a search.
pub struct Search<'a> {
    base: Candidate,
    parameters: Vec<Parameter>,
    recording: &'a Recording,
    workers: Workers<'a>,
    first: Point,
    point: Point,
    taken: Vec<usize>,
    replays: AtomicU64,
}

impl<'a> Search<'a> {
    /// Starts from the original profile.
    pub fn new(spec: &HddSpecification, recording: &'a Recording, workers: Workers<'a>) -> Search<'a> {
        let base = Candidate::new(spec);
        let parameters = parameters(spec);
        let first: Point = parameters.iter().map(|parameter| (parameter.get)(&base)).collect();
        let replays = AtomicU64::new(0);
        Search { base, parameters, recording, workers, point: first.clone(), first, taken: Vec::new(), replays }
    }

    /// Runs the search. Returns the fitted profile and the outcome for each parameter.
    ///
    /// # Errors
    /// Interrupted.
    pub fn run(mut self) -> anyhow::Result<(HddSpecification, Vec<Fitted>)> {
        self.workers.monitor.begin(0, "fitting");
        let left = self.take_all()?;
        self.drop_useless()?;
        self.round();
        let taken = self.uncertainties()?;
        self.workers.monitor.end();
        let mut fitted: Vec<Fitted> = Vec::new();
        for (index, parameter) in self.parameters.iter().enumerate() {
            let known = taken.iter().find(|(taken, _)| *taken == index);
            let (after, outcome) = match known {
                Some((_, outcome)) => (self.point[index], outcome.clone()),
                None => left[index].clone(),
            };
            let text = |value| text(parameter.kind, value);
            fitted.push(Fitted { key: parameter.key, before: text(self.first[index]), after: text(after), outcome });
        }
        Ok((self.candidate(&self.point).specification(), fitted))
    }

    fn candidate(&self, point: &[f64]) -> Candidate {
        let mut candidate = self.base.clone();
        for (index, parameter) in self.parameters.iter().enumerate() {
            if point[index].to_bits() != self.first[index].to_bits() {
                (parameter.set)(&mut candidate, point[index]);
            }
        }
        candidate
    }

    fn losses(&self, point: &[f64]) -> anyhow::Result<Losses> {
        self.workers.monitor.check()?;
        let losses = self.recording.losses(&self.candidate(point).specification());
        self.workers.monitor.progress(self.replays.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(losses)
    }

    /// The values to try for a parameter of a point, ascending.
    fn ladder(&self, point: &[f64], index: usize) -> Vec<f64> {
        match self.parameters[index].kind {
            Kind::Rule(names) => (0..names.len()).map(|rule| rule as f64).collect(),
            Kind::Number { scale, least, .. } => {
                let steps = STEPS.iter().flat_map(|step| [point[index] - step * scale, point[index] + step * scale]);
                let mut values: Vec<f64> = steps.chain([point[index], self.first[index]]).map(|value| value.max(least)).collect();
                values.sort_by(f64::total_cmp);
                values.dedup();
                values
            }
        }
    }

    /// Evaluates all values of a parameter's ladder in order.
    fn line(&self, point: &[f64], index: usize) -> anyhow::Result<Line> {
        let mut moved = point.to_vec();
        let mut rungs = Vec::new();
        for value in self.ladder(point, index) {
            moved[index] = value;
            rungs.push((value, self.losses(&moved)?));
        }
        Ok(Line { rungs })
    }

    /// Accepts parameters as long as one improves held-out requests. Returns the fitted value of each and why it was rejected.
    fn take_all(&mut self) -> anyhow::Result<Vec<(f64, Outcome)>> {
        let mut left: Vec<(f64, Outcome)> = self.first.iter().map(|&value| (value, Outcome::NoEffect)).collect();
        let mut open: Vec<usize> = (0..self.parameters.len()).collect();
        while !open.is_empty() {
            let now = self.losses(&self.point)?;
            let lines = self.workers.each(&open, |&index| self.line(&self.point, index))?;
            let mut best: Option<(f64, usize, f64)> = None;
            for (&index, line) in open.iter().zip(&lines) {
                let value = line.least(|losses| losses.all);
                let (gain, errors) = line.gain(&now);
                left[index] = (value, if line.is_flat() { Outcome::NoEffect } else { Outcome::Left { gain: errors } });
                if errors >= ENOUGH && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, index, value));
                }
            }
            let Some((_, index, value)) = best else { break };
            self.point[index] = self.rung(index, value);
            self.taken.push(index);
            open.retain(|&other| other != index);
            self.polish()?;
        }
        Ok(left)
    }

    /// Rounds a value of a rule, which has none between two.
    fn rung(&self, index: usize, value: f64) -> f64 {
        if matches!(self.parameters[index].kind, Kind::Rule(_)) { value.round() } else { value }
    }

    /// Refits all accepted parameters until the loss converges.
    fn polish(&mut self) -> anyhow::Result<()> {
        let mut loss = self.losses(&self.point)?.all;
        for _ in 0..PASSES {
            let before = loss;
            for index in self.taken.clone() {
                let line = self.line(&self.point, index)?;
                let mut moved = self.point.clone();
                let best = &line.rungs[line.best(|losses| losses.all)];
                moved[index] = self.rung(index, line.least(|losses| losses.all));
                let between = self.losses(&moved)?.all;
                if between >= best.1.all {
                    moved[index] = best.0;
                }
                loss = between.min(best.1.all);
                self.point = moved;
            }
            if loss > 0.999 * before {
                break;
            }
        }
        Ok(())
    }

    /// Drops parameters that no longer help, given the others.
    fn drop_useless(&mut self) -> anyhow::Result<()> {
        for index in self.taken.clone() {
            let mut without = self.point.clone();
            without[index] = self.first[index];
            let (_, errors) = self.line(&self.point, index)?.gain(&self.losses(&without)?);
            if errors < ENOUGH {
                self.taken.retain(|&other| other != index);
                self.point = without;
                self.polish()?;
            }
        }
        Ok(())
    }

    /// Rounds the accepted values to the resolution of a profile.
    fn round(&mut self) {
        for &index in &self.taken {
            if let Kind::Number { unit, .. } = self.parameters[index].kind {
                self.point[index] = rounded(self.point[index], unit);
            }
        }
    }

    /// The uncertainty of each value, by the jackknife over blocks. All accepted parameters are refitted together without each
    /// block, so that correlations between them count.
    fn uncertainties(&self) -> anyhow::Result<Vec<(usize, Outcome)>> {
        let blocks: Vec<usize> = (0..BLOCKS).collect();
        let refits = self.workers.each(&blocks, |&block| self.refit(block))?;
        let of = |&index: &usize| match self.parameters[index].kind {
            Kind::Rule(_) => {
                let same = refits.iter().filter(|refit| refit[index].to_bits() == self.point[index].to_bits());
                (index, Outcome::Rule { refits: same.count() })
            }
            Kind::Number { unit, .. } => {
                let blocks = BLOCKS as f64;
                let mean = statistics::mean(refits.iter().map(|refit| refit[index])).unwrap_or(f64::NAN);
                let squares: f64 = refits.iter().map(|refit| (refit[index] - mean) * (refit[index] - mean)).sum();
                let error = (squares * (blocks - 1.0) / blocks * self.recording.variance_factor()).sqrt();
                // At least two units: both the value and the times that it is fitted to are rounded.
                (
                    index,
                    Outcome::Number {
                        value: self.point[index],
                        uncertainty: (student::two_sided_95(BLOCKS - 1) * error).max(2.0 * unit),
                    },
                )
            }
        };
        Ok(self.taken.iter().map(of).collect())
    }

    /// The accepted values, refitted without one block.
    fn refit(&self, block: usize) -> anyhow::Result<Point> {
        let mut point = self.point.clone();
        for _ in 0..2 {
            for &index in &self.taken {
                let least = self.line(&point, index)?.least(|losses| losses.without[block]);
                point[index] = self.rung(index, least);
            }
        }
        Ok(point)
    }
}

fn text(kind: Kind, value: f64) -> String {
    match kind {
        Kind::Rule(names) => names.get(value as usize).copied().unwrap_or_default().to_owned(),
        Kind::Number { unit, .. } => format!("{}", rounded(value, unit)),
    }
}

/// Validates a specification and builds its model.
///
/// # Errors
/// The specification does not describe a disk.
pub fn model(spec: &HddSpecification) -> anyhow::Result<Arc<HddModel>> {
    Ok(Arc::new(HddModel::new(spec).map_err(anyhow::Error::msg).context("the profile")?))
}
