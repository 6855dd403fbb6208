//! The scheme `seekwise`: expects, tries under guard, measures, and remembers.
//!
//! ```text
//! slice of 250 ms ──▶ another workload? ──yes──▶ new segment: recall one like it, or begin with what similar cases say
//!                       │ no
//!                       ▼
//!        measured under what is in force ──▶ worth trying another?  expected improvement x time left  >  loss + switch
//!                       ▲                       │ yes, and the guard allows the loss
//!                       └──── back, or stay ◀── trial: measured against what was before, ended as soon as it is clear
//! ```
//! Beyond the paper's schemes:
//!
//! * *Begun on trust.* Before anything is known of the workload, what gained several times as much as it lost over all cases is put in
//!   force, if there is such a setting. Where no case is like the workload that trust goes on, and nothing is tried: on a bursty load one
//!   slice against another says more of the load than of the scheduler.
//! * *Gains, not classes.* What each candidate would bring is expected from similar cases, with a standard deviation
//!   ([`similarity`](crate::similarity)), and replaced by what is measured as soon as it is.
//! * *Worth it.* A candidate is tried if a gain is expected, not only possible, and if the improvement that a trial may show (the knowledge
//!   gradient: Frazier, Powell, Dayanik, 2008) over the time that the workload should go on exceeds what the trial, two switches and the
//!   disturbance that they are cost. How long it goes on is taken from how long it has lasted (Lindy's law: as long again). What failed is
//!   tried again at the earliest when twice the time has passed, whatever the workload, so that the number of failures grows with the
//!   logarithm of time.
//! * *What was found in force* is tried, now and then, on less: that nothing should be expected to gain over it, yet it may.
//! * *Windows as long as the workload.* Slices are joined until a cumulative sum of their distances (Page, Continuous inspection
//!   schemes, 1954) says that the workload is another one.
//! * *Guarded.* Trials may cost a fixed share of the time, and half of what was gained over the baseline, so that the regret against the
//!   baseline stays below [`ALLOWED_S`] for each workload and [`ALLOWED_SHARE`] of the time, but for one slice and what is nearly sure
//!   (conservative bandits: Wu, Shariff, Lattimore, Szepesvari, ICML 2016). A trial that is clearly worse ends at its next slice.
//! * *Remembered.* What served a segment in the end is put in force when a workload like it comes back.

use block::Nanos;

use super::{Controller, ControllerSpec, Decision};
use crate::experience::{Experience, describe};
use crate::plant::Plant;
use crate::preference::Preference;
use crate::setting::Setting;
use crate::similarity::{Expected, NOWHERE, Point, Similar, distance};
use crate::window::{Extent, Window};

/// What a person types.
pub(super) static SPEC: ControllerSpec = ControllerSpec {
    name: "seekwise",
    summary: "expects each candidate's gain from similar cases, tries what is worth it under guard, and remembers",
    source: "ours; its parts are named in the head of its file",
    tunables: &[],
    build: |brief, _| Box::new(Seekwise::new(brief.preference, brief.candidates.clone(), &brief.experience)),
};

/// Length of a slice, of one in a trial, and of the time after a change that is not judged, besides the change itself.
const SLICE: Nanos = Nanos::from_millis(250);
const TRIAL_SLICE: Nanos = Nanos::from_millis(150);
const SETTLE: Nanos = Nanos::from_millis(200);
/// What a scheduler that learns by itself is given when it is put in force for the first time.
const LEARNING: Nanos = Nanos::from_millis(900);
/// Half of a mean wait is given to what was queued before, and is the length of a slice, at most this.
const LONGEST_TURNOVER: Nanos = Nanos::from_millis(1_000);
/// Slices of the home before the first trial in a segment.
const FIRST_SLICES: f64 = 3.0;
/// A slice with fewer requests done says nothing.
const FEWEST: u64 = 12;
/// Where little is done slices become longer, up to so many times.
const LONGEST_STRETCH: u64 = 8;
/// Slices of a trial: before it may be won, and at most.
const TRIAL_SLICES: (f64, f64) = (2.0, 6.0);
/// So many standard deviations of gain end a trial early, and so many win it in the end.
const SURE: f64 = 2.0;
const LIKELY: f64 = 1.2;
/// A gain below this is none: switching for it is not worth explaining.
const LEAST_GAIN: f64 = 0.01;
/// What trials may cost against the baseline: seconds, and a share of the time.
const ALLOWED_S: f64 = 0.25;
const ALLOWED_SHARE: f64 = 0.005;
/// What trials of something that is nearly sure to gain may cost besides.
const TRUSTED_S: f64 = 2.0;
/// What a trial costs besides, in seconds in which nothing is done: what waits is served in another's order, what was learned of who comes
/// back is stale, write-back falls behind. Measured: three trials in a minute cost 2 to 6% of it, on three simulated devices. Who knows
/// nothing at all must look all the same.
const DISTURBANCE_S: f64 = 1.0;
/// So many standard deviations of hope make a candidate worth a look.
const DARING: f64 = 0.8;
/// So many standard deviations of gain expected are no hope, but a reason.
const CLEARLY: f64 = 1.0;
/// What was found in force is tried although so many standard deviations of loss are expected.
const DOUBT: f64 = 0.25;
/// With fewer cases like this one half of that hope must do: who knows nothing should not bet on luck.
const FEW_CASES: f64 = 0.5;
/// Fewer requests than this at a time are no crowd.
const CROWD: f64 = 1.5;
/// So much worse is a disaster: one slice is enough.
const DISASTER: f64 = -0.5;
/// A workload is expected to go on for at least this long, in seconds.
const GOES_ON_S: f64 = 10.0;
/// Slices differ by at least this much, as a standard deviation of scores.
const LEAST_NOISE: f64 = 0.05;
/// Slices of the past that count in what is measured.
const MEMORY: f64 = 40.0;
/// Squared distances of slices beyond this add up; at this sum the workload is another one.
const DRIFT: f64 = 1.0;
const CHANGED: f64 = 2.4;
/// No slice counts for more than this, so that a burst of write-back, which comes and goes, is not another workload.
const STRANGEST: f64 = 1.9;
const MOST_UNREST: f64 = 1.5;
/// Segments that are remembered, and how near one must be to be recalled.
const SEGMENTS: usize = 64;
const ALIKE: f64 = 1.0;
/// The aspects of a [`Point`] that do not depend on how fast the device serves.
const OF_LOAD: std::ops::Range<usize> = 0..5;

/// What was measured of one candidate in a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    slices: f64,
    score_sum: f64,
    square_sum: f64,
    last_s: f64,
    /// Before this it is not tried again.
    again_s: f64,
}

impl Measured {
    fn add(&mut self, score: f64, at_s: f64) {
        if self.slices >= MEMORY {
            let keep = 1.0 - 1.0 / MEMORY;
            (self.slices, self.score_sum, self.square_sum) = (self.slices * keep, self.score_sum * keep, self.square_sum * keep);
        }
        self.slices += 1.0;
        self.score_sum += score;
        self.square_sum += score * score;
        self.last_s = at_s;
    }

    fn mean(&self) -> f64 {
        self.score_sum / self.slices
    }

    fn squares_about_mean(&self) -> f64 {
        (self.square_sum - self.score_sum * self.score_sum / self.slices.max(1.0)).max(0.0)
    }
}

/// A stretch of one workload.
#[derive(Clone, Debug)]
struct Segment {
    from_s: f64,
    /// Mean of its slices' points as seen under what was in force, and how many.
    point: Point,
    points: f64,
    drift: f64,
    /// Mean distance of its slices from that point: how much this workload changes by itself.
    unrest: f64,
    measured: Vec<Measured>,
    /// What served it at its end.
    home: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The home is in force and serves.
    Home,
    /// Another one is, to be measured.
    Trial { arm: usize, expected: Expected, slices: f64 },
}

/// The controller.
pub struct Seekwise {
    preference: Preference,
    arms: Vec<Setting>,
    similar: Similar,
    /// The arm that the guard measures against.
    baseline: usize,
    home: usize,
    state: State,
    segment: Segment,
    past: Vec<Segment>,
    /// What was in force began then; until it has settled nothing is judged.
    settled_at: Nanos,
    /// The scheduler that learns by itself has had its time to do so.
    learner_was_in_force: bool,
    /// Requests that wait or are served at a time, lately.
    crowd: f64,
    /// How long requests wait, lately.
    turnover: Nanos,
    spent_s: f64,
    credit_s: f64,
    /// Slices are so many times as long, because in shorter ones too little was done.
    stretch: u64,
    /// Time of a trial that is not accounted for yet.
    settling_s: f64,
    /// By arm: before this it is not tried again, whatever the workload, unless it is nearly sure to gain.
    again_s: Vec<f64>,
}

impl Seekwise {
    /// Chooses among `candidates`; those that the plant cannot run are left out. What similar cases say is asked of `experience`.
    /// What it finds in force is where it begins, and what the guard measures against; it becomes a candidate if it is none.
    pub fn new(preference: Preference, candidates: Vec<Setting>, experience: &Experience) -> Seekwise {
        let segment = Segment::new(0.0, candidates.len());
        Seekwise {
            preference,
            similar: Similar::new(experience, &preference),
            arms: candidates,
            baseline: 0,
            home: 0,
            state: State::Home,
            segment,
            past: Vec::new(),
            settled_at: Nanos::ZERO,
            learner_was_in_force: false,
            turnover: Nanos::ZERO,
            crowd: 0.0,
            spent_s: 0.0,
            credit_s: 0.0,
            stretch: 1,
            settling_s: 0.0,
            again_s: Vec::new(),
        }
    }

    fn in_force(&self) -> usize {
        match self.state {
            State::Home => self.home,
            State::Trial { arm, .. } => arm,
        }
    }

    /// The standard deviation of a slice's score, from all that were measured in this segment.
    fn noise(&self) -> f64 {
        let (squares, freedom) = self
            .segment
            .measured
            .iter()
            .filter(|measured| measured.slices > 1.0)
            .fold((0.0, 0.0), |(a, b), m| (a + m.squares_about_mean(), b + m.slices - 1.0));
        // Two slices' worth of a guess, 6%, until more is known.
        ((squares + 2.0 * 0.0036) / (freedom + 2.0)).sqrt().max(LEAST_NOISE)
    }

    /// The score of an arm and its variance: what is expected against the home, and what was measured, each by its precision.
    fn belief(&self, arm: usize, expected: &[Expected], now_s: f64) -> (f64, f64) {
        let noise = self.noise();
        let measured = |arm: usize| {
            let measured = &self.segment.measured[arm];
            let aged = 0.02_f64.powi(2) * (now_s - measured.last_s) / 30.0;
            (measured.mean(), noise * noise / measured.slices + aged)
        };
        let home = measured(self.home);
        if arm == self.home {
            return home;
        }
        let prior = (home.0 + expected[arm].gain, home.1 + expected[arm].deviation.powi(2));
        if self.segment.measured[arm].slices == 0.0 {
            return prior;
        }
        let (mean, variance) = measured(arm);
        let precision = 1.0 / prior.1 + 1.0 / variance;
        ((prior.0 / prior.1 + mean / variance) / precision, 1.0 / precision)
    }

    /// The arm most worth a trial, with what is expected of it; `None` if none is worth it.
    fn worth_trying(&self, now: Nanos, expected: &[Expected], plant: &dyn Plant) -> Option<(usize, Expected)> {
        let now_s = now.as_secs_f64();
        let (home, home_variance) = self.belief(self.home, expected, now_s);
        let goes_on_s = (now_s - self.segment.from_s).max(GOES_ON_S);
        let trial_s = (SETTLE + TRIAL_SLICE + TRIAL_SLICE).as_secs_f64();
        let mut best: Option<(f64, usize, Expected)> = None;
        for arm in (0..self.arms.len()).filter(|&arm| arm != self.home) {
            let measured = &self.segment.measured[arm];
            let (score, variance) = self.belief(arm, expected, now_s);
            let (gain, deviation) = (score - home, (variance + home_variance).sqrt());
            // What a trial can change in what is believed: little where slices differ much by themselves.
            let noise = self.noise();
            let learnable = variance / (variance + noise * noise / TRIAL_SLICES.1).sqrt();
            let is_unknown = expected[arm].cases < FEW_CASES;
            // Where hardly anything waits there is nothing to put into order. And where cases are known, but none like this, what was begun
            // with is trusted: what is measured here, one slice against another, may be the load's doing.
            if is_unknown && (self.crowd < CROWD || expected[arm].is_known()) {
                continue;
            }
            // Where something is known, hope alone is no reason. What was found in force should not be better all along: that it may be is
            // reason enough, now and then.
            let reason = if arm == self.baseline { -DOUBT * deviation } else { f64::max(2.0 * LEAST_GAIN, CLEARLY * deviation) };
            let is_hope = expected[arm].is_known() && gain < reason || now_s < self.again_s[arm] && gain < deviation;
            let daring = if is_unknown && measured.slices == 0.0 { DARING / 2.0 } else { DARING };
            if is_hope || gain + daring * learnable < 3.0 * LEAST_GAIN || now_s < measured.again_s {
                continue;
            }
            let switching_s = plant.switching_time(&self.arms[self.home], &self.arms[arm]).as_secs_f64();
            let (improvement, worsening) = (partial_mean(gain - 2.0 * LEAST_GAIN, learnable), partial_mean(-gain, deviation));
            let cost_s = trial_s * (1.0 - (-worsening).exp()) + 2.0 * switching_s + disturbance_s(&expected[arm]);
            let value_s = improvement * goes_on_s - cost_s;
            // What is nearly sure to gain is no gamble.
            let trust_s = if gain > 1.5 * deviation { TRUSTED_S } else { 0.0 };
            let allowed_s = ALLOWED_S + ALLOWED_SHARE * now_s + self.credit_s + trust_s - self.spent_s;
            if value_s > 0.0 && cost_s <= allowed_s && best.as_ref().is_none_or(|(value, ..)| value_s > *value) {
                best = Some((value_s, arm, Expected { gain, deviation, cases: expected[arm].cases }));
            }
        }
        best.map(|(_, arm, expected)| (arm, expected))
    }

    /// Puts an arm in force.
    fn put(&mut self, now: Nanos, arm: usize, plant: &dyn Plant, why: String, expected_gain: Option<f64>) -> Decision {
        let switching = plant.switching_time(&plant.setting(), &self.arms[arm]);
        let is_new = self.arms[arm].spec.learns() && !std::mem::replace(&mut self.learner_was_in_force, true);
        // What was queued before must have left before anything is judged.
        self.settled_at = now + switching + if is_new { LEARNING } else { SETTLE } + self.turnover;
        Decision { setting: Some(self.arms[arm].clone()), why, expected_gain }
    }

    /// Ends a trial that was not won: the arm has to wait for as long again as the workload has lasted, and all have: so many trials in all
    /// as the time has doublings.
    fn lose(&mut self, arm: usize, now: Nanos) {
        let now_s = now.as_secs_f64();
        self.state = State::Home;
        self.again_s[arm] = 2.0 * now_s;
        self.segment.measured[arm].again_s = 2.0 * now_s - self.segment.from_s;
    }

    fn judge_trial(&mut self, now: Nanos, plant: &dyn Plant) -> Decision {
        let State::Trial { arm, expected, slices } = self.state else { return Decision::keep("no trial") };
        let noise = self.noise();
        let (tried, home) = (self.segment.measured[arm], self.segment.measured[self.home]);
        let gain = tried.mean() - home.mean();
        let variance = noise * noise * (1.0 / tried.slices.max(1.0) + 1.0 / home.slices.max(1.0));
        // What was expected counts on, as far as it was sure and this is not.
        let prior = expected.deviation.powi(2);
        let gain = (gain / variance + expected.gain / prior) / (1.0 / variance + 1.0 / prior);
        let deviation = (1.0 / (1.0 / variance + 1.0 / prior)).sqrt();
        let (tried_name, home_name) = (self.arms[arm].to_string(), self.arms[self.home].to_string());
        let is_over = slices >= TRIAL_SLICES.1;
        let is_judged = slices >= TRIAL_SLICES.0;
        // Away from the baseline only chance leads, where neither similar cases nor what is measured are sure.
        let enough = if expected.cases < FEW_CASES && arm != self.baseline { SURE } else { LIKELY };
        let is_sure = is_judged && gain > LEAST_GAIN.max(deviation * SURE);
        if is_sure || is_over && gain > LEAST_GAIN.max(deviation * enough) {
            (self.home, self.state) = (arm, State::Home);
            return Decision::keep(format!("{tried_name} stays: {} than {home_name}", percent(gain)));
        }
        if gain < DISASTER || is_judged && gain + deviation < 0.0 || is_over {
            self.lose(arm, now);
            let why =
                format!("trial of {tried_name}: {} than {home_name}, {} was expected; back", percent(gain), percent(expected.gain));
            return self.put(now, self.home, plant, why, Some(-gain));
        }
        Decision::keep(format!("trial of {tried_name} goes on: {} so far", percent(gain)))
    }

    /// Begins another segment if this slice does not belong to the one that goes on. What it says then.
    fn change(&mut self, now: Nanos, point: &Point) -> Option<String> {
        if self.segment.points < 2.0 {
            return None;
        }
        // A workload that changes all the time by itself must change by more to be another one.
        let apart = load_distance(point, &self.segment.point);
        let rest = 1.0 + 2.0 * self.segment.unrest;
        self.segment.unrest += (apart.min(MOST_UNREST) - self.segment.unrest) / self.segment.points.clamp(8.0, MEMORY);
        let apart = apart / rest;
        self.segment.drift = (self.segment.drift + apart.min(STRANGEST) - DRIFT).max(0.0);
        if self.segment.drift < CHANGED {
            return None;
        }
        // Another workload deserves a trial, if the last one was not a flicker.
        if now.as_secs_f64() - self.segment.from_s >= GOES_ON_S {
            self.credit_s += ALLOWED_S;
        }
        let mut ended = std::mem::replace(&mut self.segment, Segment::new(now.as_secs_f64(), self.arms.len()));
        ended.home = self.home;
        self.past.retain(|past| load_distance(&past.point, &ended.point) >= ALIKE / 4.0);
        self.past.push(ended);
        if self.past.len() > SEGMENTS {
            self.past.remove(0);
        }
        Some("the workload is another one".to_owned())
    }

    /// The first slice of a segment: recalls a past one like it.
    fn recall(&self, point: &Point) -> Option<usize> {
        let like = self.past.iter().map(|past| (load_distance(&past.point, point), past));
        let (apart, like) = like.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (apart < ALIKE).then_some(like.home)
    }
}

impl Segment {
    fn new(from_s: f64, arms: usize) -> Segment {
        Segment { from_s, point: NOWHERE, points: 0.0, drift: 0.0, unrest: 0.0, measured: vec![Measured::default(); arms], home: 0 }
    }

    /// Takes a slice's point into the mean.
    fn add(&mut self, point: &Point) {
        self.points += 1.0;
        let share = 1.0 / self.points.min(MEMORY);
        for (mean, &value) in self.point.iter_mut().zip(point) {
            if mean.is_nan() {
                *mean = value;
            } else if !value.is_nan() {
                *mean += share * (value - *mean);
            }
        }
    }
}

/// What a trial of something of which this is expected disturbs, in seconds.
fn disturbance_s(expected: &Expected) -> f64 {
    if expected.is_known() { DISTURBANCE_S } else { 0.0 }
}

/// Distance in what does not depend on the device.
fn load_distance(a: &Point, b: &Point) -> f64 {
    let only_load = |point: &Point| {
        let mut only = NOWHERE;
        only[OF_LOAD].copy_from_slice(&point[OF_LOAD]);
        only
    };
    distance(&only_load(a), &only_load(b), f64::INFINITY)
}

/// The mean of what is above zero of a normal variable (the expected improvement).
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

/// A difference of scores for a person.
fn percent(gain: f64) -> String {
    let percent = (gain.exp() - 1.0) * 100.0;
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
        self.baseline = self.arms.iter().position(|arm| *arm == found).unwrap_or_else(|| {
            self.arms.insert(0, found);
            0
        });
        self.home = self.baseline;
        self.segment = Segment::new(now.as_secs_f64(), self.arms.len());
        self.again_s = vec![0.0; self.arms.len()];
        self.settled_at = now;
        match self.similar.safest(&self.arms[self.baseline], &self.arms) {
            Some(arm) => {
                self.home = arm;
                let name = self.arms[arm].to_string();
                let why = format!("nothing is known of the workload yet; {name} gained in most cases and hardly ever lost");
                self.put(now, arm, plant, why, None)
            }
            None => Decision::keep("nothing is known yet"),
        }
    }

    fn extent(&self) -> Extent {
        let least = if matches!(self.state, State::Trial { .. }) { TRIAL_SLICE } else { SLICE };
        let time = Nanos(least.max(self.turnover).0 * self.stretch);
        Extent { time: Some(time), requests: None }
    }

    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision {
        let now = window.to;
        if window.from + SETTLE < self.settled_at {
            return Decision::keep("settling");
        }
        if window.outcome.requests < FEWEST {
            return self.too_little(window, plant);
        }
        self.stretch = 1;
        let crowd = window.outcome.waited_s * window.outcome.waited_for as f64 / window.duration().as_secs_f64();
        self.crowd += 0.2 * (crowd - self.crowd);
        self.turnover = Nanos::from_millis((window.outcome.waited_s * 500.0) as u64).min(LONGEST_TURNOVER);
        let row = describe(&window.features, &window.outcome);
        let point = self.similar.point(&row);
        let changed = self.change(now, &point);
        if changed.is_some() && self.in_force() != self.home {
            // A trial on the old workload says nothing of the new one, and was a gamble already.
            self.lose(self.in_force(), now);
            return self.put(now, self.home, plant, "the workload is another one, in the middle of a trial; back".to_owned(), None);
        }
        let (now_s, score) = (now.as_secs_f64(), window.outcome.score(&self.preference));
        if !score.is_finite() {
            return Decision::keep("too little to judge by");
        }
        let arm = self.in_force();
        self.segment.measured[arm].add(score, now_s);
        if let State::Trial { slices, .. } = &mut self.state {
            *slices += 1.0;
            let home = self.segment.measured[self.home].mean();
            // The time in which it settled cost as much, though it is not judged.
            let lasted_s = window.duration().as_secs_f64() + std::mem::take(&mut self.settling_s);
            self.spent_s += (1.0 - (score - home).exp()).max(0.0) * lasted_s;
            return self.judge_trial(now, plant);
        }
        let is_new = self.segment.points == 0.0;
        self.segment.add(&point);
        let expected = self.similar.expect(&self.segment.point, &self.arms[self.home], &self.arms);
        self.count_credit(window, &expected, now_s);
        if is_new
            && let Some(best) = self.recall(&point)
            && best != self.home
        {
            self.home = best;
            let why = format!(
                "{}like one before, which {} served in the end",
                changed.map_or(String::new(), |why| why + ", "),
                self.arms[best]
            );
            return self.put(now, best, plant, why, None);
        }
        let may_try = self.segment.measured[self.home].slices >= FIRST_SLICES;
        match self.worth_trying(now, &expected, plant).filter(|_| may_try) {
            Some((arm, hoped)) => {
                let switching = plant.switching_time(&self.arms[self.home], &self.arms[arm]);
                self.spent_s += 2.0 * switching.as_secs_f64() + disturbance_s(&expected[arm]);
                self.settling_s = (SETTLE + self.turnover).as_secs_f64();
                self.state = State::Trial { arm, expected: hoped, slices: 0.0 };
                let why = self.reason(arm, &hoped, changed);
                self.put(now, arm, plant, why, Some(hoped.gain))
            }
            None => Decision::keep(changed.unwrap_or_else(|| "nothing better is expected".to_owned())),
        }
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        // It is not asked for again in this segment.
        if let Some(arm) = self.arms.iter().position(|arm| arm == setting) {
            self.segment.measured[arm].again_s = f64::INFINITY;
        }
        self.state = State::Home;
    }
}

impl Seekwise {
    /// A slice with hardly anything done. In a trial, while requests wait, that says enough.
    fn too_little(&mut self, window: &Window, plant: &dyn Plant) -> Decision {
        let State::Trial { arm, expected, .. } = self.state else {
            self.stretch = (2 * self.stretch).min(LONGEST_STRETCH);
            return Decision::keep("too little to judge by");
        };
        if window.outcome.unfinished == 0 {
            return Decision::keep("too little to judge by");
        }
        self.spent_s += window.duration().as_secs_f64() + std::mem::take(&mut self.settling_s);
        self.lose(arm, window.to);
        let name = self.arms[arm].to_string();
        let why = format!("trial of {name}: hardly anything is done, {} was expected; back", percent(expected.gain));
        self.put(window.to, self.home, plant, why, None)
    }

    /// Half of what is gained over the baseline may be spent on trials.
    fn count_credit(&mut self, window: &Window, expected: &[Expected], now_s: f64) {
        let (home, _) = self.belief(self.home, expected, now_s);
        let (baseline, _) = self.belief(self.baseline, expected, now_s);
        let gained = 1.0 - (baseline - home).exp();
        self.credit_s += 0.5 * gained.max(0.0) * window.duration().as_secs_f64();
    }

    fn reason(&self, arm: usize, expected: &Expected, changed: Option<String>) -> String {
        let begin = changed.map_or(String::new(), |why| why + "; ");
        let name = &self.arms[arm];
        if self.segment.measured[arm].slices > 0.0 {
            return format!(
                "{begin}trying {name} again: {} expected, give or take {:.0}%",
                percent(expected.gain),
                100.0 * expected.deviation
            );
        }
        let deviation = 100.0 * expected.deviation;
        match expected.cases {
            cases if cases >= 1.0 => {
                format!(
                    "{begin}trying {name}: {} in {cases:.0} similar cases, give or take {deviation:.0}%",
                    percent(expected.gain)
                )
            }
            _ => format!("{begin}trying {name}: no similar case is known"),
        }
    }
}
