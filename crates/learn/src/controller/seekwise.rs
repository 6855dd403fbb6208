//! The scheme `seekwise`: predicts gains from similar cases, runs bounded trials, measures, and remembers the results.
//!
//! ```text
//! window of 1 s ──▶ another workload? ──yes──▶ recall what served one like it
//!                     │ no
//!                     ▼
//!      gains expected from similar cases ──▶ worth a trial?  expected improvement × time left  >  expected loss + two switches
//!                     ▲                          │ yes, and the guard allows it
//!                     └──── back, or stay ◀── trial: four windows, measured against those before
//! ```
//! * *Gains, not classes.* The gain of each candidate is predicted from similar cases, with a standard deviation
//!   ([`similarity`](crate::similarity)), and verified by measurement.
//! * *Worth it.* A trial is worth its cost if the expected improvement (the mean of the positive part) over the remaining time of
//!   the workload exceeds the expected loss. A workload is expected to last as long again as it has lasted (Lindy's law).
//! * *Guarded.* The total loss of trials is bounded by a share of the time ([`ALLOWED_SHARE`]; conservative bandits: Wu, Shariff,
//!   Lattimore and Szepesvari, ICML 2016). A candidate that lets requests wait longer than [merit](crate::merit) allows is
//!   dropped at once.
//! * *Patient.* A candidate that lost is retried only after twice the time has passed, so the number of failures grows with the
//!   logarithm of time.
//! * *Remembered.* The setting that served a workload best is applied again when a similar workload returns.

use block::Nanos;

use super::{Controller, ControllerSpec, Decision};
use crate::description::describe;
use crate::experience::{Experience, FEWEST, WINDOW};
use crate::merit::{self, TOLERANCE};
use crate::plant::Plant;
use crate::preference::Preference;
use crate::setting::Setting;
use crate::similarity::{Expected, NOWHERE, Point, Similar, load_distance};
use crate::window::{Extent, Window};

/// What a person types.
pub(super) static SPEC: ControllerSpec = ControllerSpec {
    name: "seekwise",
    summary: "expects each candidate's gain from similar cases, tries what is worth it under guard, and remembers",
    source: "ours; its parts are named in the head of its file",
    tunables: &[],
    build: |brief, _| Box::new(Seekwise::new(brief.preference, brief.candidates.clone(), &brief.experience)),
};

/// Windows of a trial, and of the measurement before it: with four on each side, a difference of one standard deviation of a
/// window is one and a half of the mean's.
const TRIAL_WINDOWS: f64 = 4.0;
/// A difference of this many standard errors is significant (95%).
const SURE: f64 = 2.0;
/// Allowed loss of trials: one second of doing nothing, plus this share of the time.
const ALLOWED_S: f64 = 1.0;
const ALLOWED_SHARE: f64 = 0.01;
/// A workload is expected to last at least as long as two trials, in seconds.
const GOES_ON_S: f64 = 2.0 * TRIAL_WINDOWS;
/// Two windows in a row at this distance from the workload are another workload, by the definition of the aspects of a [`Point`].
const ANOTHER: f64 = 1.0;
/// Number of windows in a measurement: a minute.
const MEMORY: f64 = 60.0;
/// Number of workloads remembered.
const PAST: usize = 64;

/// Scores of the windows under one candidate in one workload.
#[derive(Clone, Copy, Debug, Default)]
struct ArmScores {
    windows: f64,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squares: f64,
    worst_p99_s: f64,
}

impl ArmScores {
    fn add(&mut self, window: &Window, score: f64) {
        if self.windows >= MEMORY {
            let keep = 1.0 - 1.0 / MEMORY;
            (self.windows, self.squares) = (self.windows * keep, self.squares * keep);
        }
        self.windows += 1.0;
        let apart = score - self.mean;
        self.mean += apart / self.windows;
        self.squares += apart * (score - self.mean);
        self.worst_p99_s = self.worst_p99_s.max(window.outcome.p99_response_s);
    }

    /// The difference to another arm's mean, and its standard error.
    fn over(&self, other: &ArmScores) -> (f64, f64) {
        let freedom = (self.windows + other.windows - 2.0).max(1.0);
        let variance = (self.squares + other.squares) / freedom;
        (self.mean - other.mean, (variance * (1.0 / self.windows + 1.0 / other.windows)).sqrt())
    }
}

/// A workload: its appearance and its best setting.
#[derive(Clone, Debug)]
struct Workload {
    from_s: f64,
    point: Point,
    windows: f64,
    /// Consecutive windows that did not match it.
    strange: u32,
    home: usize,
}

impl Workload {
    fn new(from_s: f64, home: usize) -> Workload {
        Workload { from_s, point: NOWHERE, windows: 0.0, strange: 0, home }
    }

    fn look(&mut self, point: &Point) {
        self.windows = (self.windows + 1.0).min(MEMORY);
        for (mean, &value) in self.point.iter_mut().zip(point) {
            *mean = if mean.is_nan() {
                value
            } else if value.is_nan() {
                *mean
            } else {
                *mean + (value - *mean) / self.windows
            };
        }
    }
}

/// A trial of another candidate.
#[derive(Clone, Copy, Debug)]
struct Trial {
    arm: usize,
    expected: Expected,
    measured: ArmScores,
}

/// The controller.
pub struct Seekwise {
    preference: Preference,
    arms: Vec<Setting>,
    similar: Similar,
    workload: Workload,
    past: Vec<Workload>,
    /// The home's windows in this workload.
    measured: ArmScores,
    /// Mean number of requests queued or in service in the last window (Little's law).
    outstanding: f64,
    trial: Option<Trial>,
    /// By arm: the time in seconds before which it is not retried.
    again_s: Vec<f64>,
    /// Loss of trials so far, in seconds of doing nothing.
    lost_s: f64,
    /// The window in which a change happened is not scored.
    is_settling: bool,
}

impl Seekwise {
    /// Chooses among `candidates`, without those that the plant cannot run. Begins with the setting in force, which is added to
    /// the candidates if missing.
    pub fn new(preference: Preference, candidates: Vec<Setting>, experience: &Experience) -> Seekwise {
        Seekwise {
            preference,
            similar: Similar::new(experience, &preference),
            arms: candidates,
            workload: Workload::new(0.0, 0),
            past: Vec::new(),
            measured: ArmScores::default(),
            outstanding: 0.0,
            trial: None,
            again_s: Vec::new(),
            lost_s: 0.0,
            is_settling: false,
        }
    }

    fn put(&mut self, arm: usize, why: String, expected_gain: Option<f64>) -> Decision {
        self.is_settling = true;
        Decision { setting: Some(self.arms[arm].clone()), why, expected_gain }
    }

    /// Starts another workload: applies the setting that served a similar one.
    fn begin_workload(&mut self, now_s: f64, point: &Point) -> Decision {
        let home = self.workload.home;
        let ended = std::mem::replace(&mut self.workload, Workload::new(now_s, home));
        self.past.retain(|past| load_distance(&past.point, &ended.point) >= ANOTHER);
        self.past.push(ended);
        if self.past.len() > PAST {
            self.past.remove(0);
        }
        self.measured = ArmScores::default();
        let was_trial = self.trial.take().is_some();
        let like = self.past.iter().map(|past| (load_distance(&past.point, point), past.home));
        let recalled = like.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(apart, _)| *apart < ANOTHER).map(|(_, home)| home);
        self.workload.look(point);
        match recalled.filter(|&recalled| recalled != home) {
            Some(recalled) => {
                self.workload.home = recalled;
                let name = self.arms[recalled].to_string();
                self.put(recalled, format!("another workload, like one before that {name} served in the end"), None)
            }
            None if was_trial => self.put(home, "another workload, in the middle of a trial: back".to_owned(), None),
            None => Decision::keep("another workload"),
        }
    }

    /// The arm most worth a trial, with its expected gain; `None` if none is worth it.
    fn worth_trying(&self, now_s: f64, plant: &dyn Plant) -> Option<(usize, Expected)> {
        let home = self.workload.home;
        let goes_on_s = (now_s - self.workload.from_s).max(GOES_ON_S);
        // Includes a window for each of the two switches.
        let trial_s = (TRIAL_WINDOWS + 2.0) * WINDOW.as_secs_f64();
        let allowed_s = ALLOWED_S + ALLOWED_SHARE * now_s - self.lost_s;
        let expected = self.similar.expect(&self.workload.point, &self.arms[home], &self.arms);
        let worth = |arm: usize| {
            let Expected { gain, deviation, .. } = expected[arm];
            // With fewer than two requests at a time there is nothing to reorder.
            if !expected[arm].is_known() && self.outstanding < 2.0 {
                return None;
            }
            let loss = partial_mean(-gain, deviation);
            let cost_s = trial_s * loss + 2.0 * plant.switching_time(&self.arms[home], &self.arms[arm]).as_secs_f64();
            let value_s = partial_mean(gain - TOLERANCE, deviation) * goes_on_s - cost_s;
            // A candidate with a negative expected gain is not tried, however uncertain the gain is.
            (gain >= 0.0 && value_s > 0.0 && cost_s <= allowed_s).then_some((value_s, arm))
        };
        let free = (0..self.arms.len()).filter(|&arm| arm != home && now_s >= self.again_s[arm]);
        let (_, arm) = free.filter_map(worth).max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((arm, expected[arm]))
    }

    /// Adds the loss of a window in a trial or in one of its switches.
    fn count_loss(&mut self, window: &Window, score: f64) {
        if self.measured.windows > 0.0 {
            self.lost_s += (1.0 - (score - self.measured.mean).exp()).max(0.0) * window.duration().as_secs_f64();
        }
    }

    fn judge(&mut self, mut trial: Trial, window: &Window, score: f64) -> Decision {
        let now_s = window.to.as_secs_f64();
        self.count_loss(window, score);
        let (tried, home) = (self.arms[trial.arm].to_string(), self.arms[self.workload.home].to_string());
        if !score.is_finite() {
            self.again_s[trial.arm] = 2.0 * now_s;
            return self.put(self.workload.home, format!("trial of {tried}: requests wait and none is done; back to {home}"), None);
        }
        trial.measured.add(window, score);
        let (gain, error) = trial.measured.over(&self.measured);
        let starves = trial.measured.worst_p99_s > merit::bound_s(self.measured.worst_p99_s);
        let is_over = trial.measured.windows >= TRIAL_WINDOWS;
        if is_over && !starves && gain > TOLERANCE.max(SURE * error) {
            (self.workload.home, self.measured, self.trial) = (trial.arm, trial.measured, None);
            return Decision::keep(format!("{tried} stays: {} than {home}", percent(gain)));
        }
        if is_over || starves || gain < -SURE * error {
            self.again_s[trial.arm] = 2.0 * now_s;
            self.trial = None;
            let what = if starves { "lets requests wait too long".to_owned() } else { format!("{} than {home}", percent(gain)) };
            let why = format!("trial of {tried}: {what}, {} was expected; back", percent(trial.expected.gain));
            return self.put(self.workload.home, why, Some(-gain));
        }
        self.trial = Some(trial);
        Decision::keep(format!("trial of {tried} goes on: {} so far", percent(gain)))
    }
}

/// Mean of the positive part of a normal variable (the expected improvement).
fn partial_mean(mean: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (mean * normal(z) + deviation * density).max(0.0)
}

/// The normal distribution function, to seven digits (Abramowitz and Stegun, 26.2.17).
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

/// Formats a difference of scores.
fn percent(gain: f64) -> String {
    let percent = gain.exp_m1() * 100.0;
    if percent >= 0.0 { format!("{percent:.0}% better") } else { format!("{:.0}% worse", -percent) }
}

impl Controller for Seekwise {
    fn name(&self) -> &'static str {
        "seekwise"
    }

    fn begin(&mut self, now: Nanos, plant: &dyn Plant) -> Decision {
        let found = plant.setting();
        let known = plant.schedulers();
        self.arms.retain(|arm| known.iter().any(|spec| spec.name == arm.spec.name));
        let home = self.arms.iter().position(|arm| *arm == found).unwrap_or_else(|| {
            self.arms.insert(0, found);
            0
        });
        self.workload = Workload::new(now.as_secs_f64(), home);
        self.again_s = vec![0.0; self.arms.len()];
        match self.similar.safest(&self.arms[home], &self.arms) {
            Some(arm) => {
                self.workload.home = arm;
                let name = self.arms[arm].to_string();
                self.put(
                    arm,
                    format!("nothing is known of the workload yet; {name} gained in most cases and hardly ever lost"),
                    None,
                )
            }
            None => Decision::keep("nothing is known of the workload yet"),
        }
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(WINDOW), requests: None }
    }

    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision {
        let score = window.outcome.score(&self.preference);
        if std::mem::take(&mut self.is_settling) {
            // Requests queued before the switch are served by another scheduler: part of the cost of a trial.
            self.count_loss(window, score);
            return Decision::keep("settling");
        }
        // Requests wait and none completes: no further measurement is needed.
        let is_stuck = self.trial.is_some() && window.outcome.unfinished > 0 && window.outcome.requests == 0;
        if window.outcome.requests < FEWEST && !is_stuck || self.trial.is_none() && !score.is_finite() {
            return Decision::keep("too little to judge by");
        }
        let (now_s, point) = (window.to.as_secs_f64(), self.similar.point(&describe(&window.features, &window.outcome)));
        let is_strange = self.workload.windows > 1.0 && load_distance(&point, &self.workload.point) >= ANOTHER;
        self.workload.strange = if is_strange { self.workload.strange + 1 } else { 0 };
        match self.workload.strange {
            0 => {}
            1 => return Decision::keep("does not look like the workload"),
            _ => return self.begin_workload(now_s, &point),
        }
        if let Some(trial) = self.trial.take() {
            return self.judge(trial, window, score);
        }
        self.outstanding = window.outcome.waited_s * window.outcome.waited_for as f64 / window.duration().as_secs_f64();
        self.measured.add(window, score);
        self.workload.look(&point);
        if self.measured.windows < TRIAL_WINDOWS {
            return Decision::keep("measuring what is in force");
        }
        let Some((arm, expected)) = self.worth_trying(now_s, plant) else { return Decision::keep("nothing better is expected") };
        self.trial = Some(Trial { arm, expected, measured: ArmScores::default() });
        let name = self.arms[arm].to_string();
        let why = if expected.is_known() {
            format!("trying {name}: {} expected, give or take {:.0}%", percent(expected.gain), 100.0 * expected.deviation)
        } else {
            format!("trying {name}: no similar case is known")
        };
        self.put(arm, why, Some(expected.gain))
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        if let Some(arm) = self.arms.iter().position(|arm| arm == setting) {
            self.again_s[arm] = f64::INFINITY;
        }
        (self.trial, self.is_settling) = (None, false);
    }
}
