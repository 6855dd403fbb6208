//! Trials on the target ([`control::trials`]): which arm is tried, when a trial ends, and when its arm stays.

use std::sync::Arc;

use block::Nanos;
use control::ab_test::Estimate;
use control::controller::{Evidence, Prediction};
use control::trials::{Cost, Observation, SURE_DEVIATIONS, Trials, chance, chance_of, is_adopted, worth};
use control::{Decision, Ruling, Setting, Target, Test, Verdict, Window};
use observe::WindowOutcome;
use observe::merit::Scored;
use observe::performance::Performance;
use observe::window::depth;

use super::arm::{Arm, NEVER};
use super::background::Got;
use super::{MIN_LOAD_S, TwinController, WINDOW, percent};
use crate::forecast::{Forecast, is_first_of_scheduler};
use crate::trial::SWITCH_WARMUP;

/// Time that an arm of a trial is active before it is measured: bfq has decided by then, and requests that were queued before were served
/// by the other scheduler. Derived: [`SWITCH_WARMUP`].
pub(super) const SETTLING: Nanos = SWITCH_WARMUP;
/// Measured time of one turn, in seconds. Choice: precision of a turn against the loss by a bad arm, and scores are of the same length; not
/// varied.
const TURN_S: f64 = 2.0;
/// Windows of a trial: harm should be seen within half a second. Choice: shorter windows hold too few requests of a hard disk; not varied.
pub(super) const TRIAL_WINDOW: Nanos = Nanos::from_millis(500);
/// Turns after which an arm may stay. Choice: one alone may be a lucky moment; each further one costs a switch; not varied.
const MIN_TURNS: u32 = 2;
/// Turns without a sure gain after which an arm is given up under a load. Choice: a worthwhile gain is sure after four turns under most
/// loads, and each one disturbs; not varied.
const MAX_TURNS: u32 = 4;
/// Minimum probability of a worthwhile gain for a trial. Derived: above that of a forecast gain of 14%, of which few come
/// ([`expectation`]), and below that of a setting of which nothing is known. On 24 drawn loads of five minutes trials of settings forecast
/// to gain less found nothing that was kept.
pub(super) const POSSIBLE: f64 = 0.3;
/// The same after a trial that has shown nothing. Choice: more likely than not; not varied.
const LIKELY: f64 = 0.5;
/// A trial ends where the score of a window is below the expected score of the setting before by this much, and by [`HARM_ERRORS`] standard
/// errors. Derived: a loss of 1 − 1/√e for three seconds is 2% of the first minute of a load.
const HARM: f64 = 0.5;
/// Number of standard errors: see [`HARM`]. Choice: a trial has six windows, so noise ends hardly any; not varied.
const HARM_ERRORS: f64 = 4.0;
/// As [`HARM`], once it has settled, for an arm that is tried because other machines recommend it, which may be wrong or hostile. Choice: a
/// hostile fleet cost 3.0% before this and the refutation by one failure (commit efef4691); not varied.
const PROMPTED_HARM: f64 = 0.2;
/// A settling window counts for no greater loss than this. Choice: a factor of 20, as the logarithm of a window with hardly any requests is
/// unbounded; not varied.
const MAX_LOSS: f64 = 3.0;

/// What to expect of an arm whose gain is forecast: 345 forecasts of 120 drawn loads of the training and the validation world, made after four
/// seconds and compared with whole runs. Losses come as forecast. Gains are the largest of many forecasts, errors included: of those of 3 to 30%
/// three in ten came, and the mean was a loss of 3%; of larger ones two in three, and half of what was forecast. Errors grow with the forecast.
fn expectation(forecast: f64) -> Estimate {
    let forecast = forecast.clamp(-MAX_FORECAST, MAX_FORECAST);
    if forecast <= 0.0 {
        return Estimate { mean: LOSS_SLOPE * forecast, error: MIN_FORECAST_ERROR + LOSS_ERROR_SHARE * -forecast };
    }
    let mean = GAIN_SLOPE * forecast - forecast.min(GAIN_OFFSET);
    Estimate { mean, error: MIN_FORECAST_ERROR + GAIN_ERROR_SHARE * forecast }
}

/// Forecasts count up to a factor of e either way: of nine losses beyond that, under schedulers that were forecast to starve a stream,
/// seven came to nothing. Source: these nine (commit d3dcf15b).
const MAX_FORECAST: f64 = 1.0;
/// Mean of a loss, as a fraction of the forecast: see [`expectation`]. Source: the 345 forecasts there (commit 9cd3d5b2).
const LOSS_SLOPE: f64 = 0.9;
/// Error of a loss, as a fraction of the forecast. Source: as [`LOSS_SLOPE`].
const LOSS_ERROR_SHARE: f64 = 0.4;
/// Slope of the mean of a gain over its forecast, before [`GAIN_OFFSET`] is subtracted. Source: as [`LOSS_SLOPE`].
const GAIN_SLOPE: f64 = 0.5;
/// Reduction of the mean of a gain, but at most its forecast: see [`GAIN_SLOPE`]. Source: as [`LOSS_SLOPE`].
const GAIN_OFFSET: f64 = 0.1;
/// Error of a gain, as a fraction of the forecast. Source: as [`LOSS_SLOPE`].
const GAIN_ERROR_SHARE: f64 = 0.6;
/// Error of a forecast of 0. Source: as [`LOSS_SLOPE`].
const MIN_FORECAST_ERROR: f64 = 0.03;

/// Minimum time between an adoption and its confirmation. Choice: long enough to earn the cost of the turn, and short against the loads of
/// minutes that trials are made for; not varied.
pub(super) const CONFIRM_AFTER: Nanos = Nanos::from_millis(8_000);

/// Why a setting serves that is not confirmed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It won its trials.
    Trials,
    /// Measurements of earlier runs, which are evidence of their own.
    EarlierRuns,
    /// It served the load before.
    LoadBefore,
}

/// A setting that serves and is not confirmed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unconfirmed {
    /// The arm that served before, or would have.
    pub over: usize,
    /// Time from which on that may be tried.
    pub due: Nanos,
    /// Why it serves.
    pub origin: Origin,
    /// Number of confirmations that were unsure.
    pub unsure: u32,
}

impl Unconfirmed {
    /// An arm adopted at `now` by its turns.
    pub fn adopted(now: Nanos, over: usize) -> Unconfirmed {
        Unconfirmed { over, due: now + CONFIRM_AFTER, origin: Origin::Trials, unsure: 0 }
    }

    /// An arm that did not win trials under this load, to be compared with the original one before anything else is tried.
    pub fn at_once(original: usize, origin: Origin) -> Unconfirmed {
        Unconfirmed { over: original, due: Nanos::ZERO, origin, unsure: 0 }
    }
}

/// A trial under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArmTrial {
    /// The arm that was active before, which goes on if this one does not stay.
    pub from: usize,
    /// When it began, and since when the arm before had been measured.
    pub began: Nanos,
    pub measured_from: Nanos,
    /// It is to confirm the arm before, which was adopted over this one.
    pub confirms: bool,
    /// Number of windows of this arm that had been measured before.
    pub had: u32,
    /// It has ended, and the way back was refused: nothing is concluded from the time until it succeeds.
    pub is_over: bool,
}

/// What is tried, and what was learned by that.
#[derive(Debug)]
pub(super) struct Trying {
    pub trials: Trials,
    pub trial: Option<ArmTrial>,
    /// The one that has just ended.
    pub ended: Option<ArmTrial>,
    /// Turns of each arm under this load.
    turns: Vec<u32>,
    /// Arms that may be tried: those of which something is expected.
    may_be_tried: Vec<bool>,
    /// Arms that are forecast to starve a stream.
    may_starve: Vec<bool>,
    /// The forecast gain of each arm over the arm that was active then, and that arm.
    forecast_over: (usize, Vec<Option<f64>>),
    /// How the active arm, which was adopted or recalled, is to be confirmed; `None` if it need not be.
    pub unconfirmed: Option<Unconfirmed>,
    /// A forecast of this load was made, or could not be.
    is_forecast: bool,
    /// What the latest forecast of this load rests on; `None` if there was none.
    pub evidence: Option<Arc<Evidence>>,
    /// The largest mean number of outstanding requests under this load: scores of a queue that hides some are brought to that.
    deepest: f64,
    /// Windows under the active setting that are not scored yet: they are scored together, [`TURN_S`] at a time under every setting. The logarithm
    /// of a mean is not the mean of logarithms, so shorter windows would make an arm look better.
    unit: Vec<WindowOutcome>,
    /// What asynchronous requests got while they waited: under the setting that stays, and in this turn of a trial; `None` if none waited at
    /// some time of the turn.
    usual: Got,
    in_turn: Option<Got>,
    /// What each return from a trial cost, in seconds of the setting that was returned to: its loss of score while it settled.
    returns: Vec<f64>,
    /// What the present one has cost so far.
    returning: Option<f64>,
    /// The latest window that was measured: time waited for a request in seconds, mean number outstanding, streams.
    latest: Option<(f64, f64, f64)>,
}

impl Trying {
    pub fn new(arms: usize, original: usize) -> Trying {
        Trying {
            trials: Trials::new(arms, original),
            trial: None,
            ended: None,
            turns: vec![0; arms],
            may_be_tried: vec![false; arms],
            may_starve: vec![false; arms],
            forecast_over: (original, vec![None; arms]),
            unconfirmed: None,
            is_forecast: false,
            evidence: None,
            deepest: 0.0,
            unit: Vec::new(),
            usual: Got::default(),
            in_turn: None,
            returns: Vec::new(),
            returning: None,
            latest: None,
        }
    }

    /// The arms that were measured in whole turns, with their number.
    pub fn tried(&self) -> impl Iterator<Item = (usize, u32)> {
        self.turns.iter().copied().enumerate().filter(|(_, turns)| *turns > 0)
    }

    /// Whether a forecast of this load was made, or could not be.
    pub fn knows_of_forecast(&self) -> bool {
        self.is_forecast
    }

    /// Lets an arm be tried of which something is expected.
    pub fn allow(&mut self, arm: usize) {
        self.may_be_tried[arm] = true;
    }

    /// What is kept until the load returns: neither a trial nor windows that are not scored.
    pub fn interrupted(self) -> Trying {
        Trying { trial: None, ended: None, unit: Vec::new(), in_turn: None, returning: None, ..self }
    }

    /// What a switch that stops the device for this long costs, in seconds of service: the mean of what is expected and of what was measured
    /// under this load. Requests that come meanwhile wait for half of it in the mean, and there are no more of them than streams or than were
    /// outstanding. Where requests are served in a tenth of a millisecond and come far apart, a stop of 20 ms is what seconds of them wait.
    fn switch_costs_s(&self, stops_s: f64, of_response: f64) -> f64 {
        let waited = self.latest.map_or(0.0, |(waited_s, waiting, streams)| {
            (stops_s * stops_s / (2.0 * waited_s)).min(streams.max(waiting) * stops_s / waiting)
        });
        let expected = stops_s + of_response * if waited.is_finite() { waited } else { 0.0 };
        let mean = (expected + self.returns.iter().sum::<f64>()) / (self.returns.len() + 1) as f64;
        mean.max(stops_s)
    }
}

impl TwinController {
    /// Drops windows that are not scored yet: the load is served in another way from now on.
    pub(super) fn restart_unit(&mut self) {
        self.trying.unit.clear();
    }

    /// The arm that stays if control ends now.
    pub(super) fn incumbent(&self) -> usize {
        self.trying.trial.map_or(self.active, |trial| trial.from)
    }

    /// Forgets what was tried under another load.
    pub(super) fn forget_trials(&mut self) {
        self.trying = Trying::new(self.arms.len(), self.original);
    }

    /// What the forecast says of each arm becomes what is expected of it.
    pub(super) fn expect(&mut self, forecast: &Forecast) {
        self.trying.is_forecast = true;
        self.trying.evidence = Some(Arc::new(self.evidence_of(forecast)));
        let Some(over_original) = self.expected_over_original(&forecast.predictions) else { return };
        let of = |arm: &Arm| forecast.predictions.iter().find(|one| one.setting == arm.setting);
        let known: Vec<Option<&Prediction>> = self.arms.iter().map(of).collect();
        let gains: Vec<(usize, Estimate)> =
            known.iter().enumerate().filter_map(|(arm, known)| Some((arm, over_original((*known)?)))).collect();
        // Also one that is forecast to starve a stream may be tried: of 17 such arms 6 did. A trial ends where a stream waits too long.
        self.trying.may_be_tried = known.iter().map(Option::is_some).collect();
        self.trying.may_starve = known.iter().map(|known| known.is_some_and(Prediction::starves)).collect();
        let of_active = known[self.active].map_or(0.0, |active| active.gain);
        self.trying.forecast_over = (self.active, known.iter().map(|known| known.map(|one| one.gain - of_active)).collect());
        let gains = self.with_fleet(gains);
        self.trying.trials.expect(gains);
    }

    /// The probability that a tuning of the active scheduler is worthwhile, by the latest forecast of both: what the twin does not know about
    /// a scheduler applies to all its tunings, and cancels out. 1 for another scheduler, without such a forecast, or where other machines
    /// have measured it.
    fn chance_as_tuning(&self, arm: usize) -> f64 {
        let (over, gains) = &self.trying.forecast_over;
        let is_tuning =
            *over == self.active && !self.fleet_knows(arm) && self.arms[arm].setting.spec.name == self.setting().spec.name;
        gains[arm].filter(|_| is_tuning).map_or(1.0, |gain| chance_of(&expectation(gain)))
    }

    /// What to expect of the setting of each of these predictions: its gain over the original one. `None` if that was not predicted. Where
    /// the original read-ahead is not the active one, and the load shows no difference, the original scheduler with the active read-ahead
    /// stands for it: a forecast is of the active read-ahead then.
    pub(super) fn expected_over_original(&self, predictions: &[Prediction]) -> Option<impl Fn(&Prediction) -> Estimate + use<>> {
        let original = [self.original, self.with_active_read_ahead(self.original)].map(|arm| self.arms[arm].setting.clone());
        let of_original = original.iter().find_map(|setting| predictions.iter().find(|one| one.setting == *setting))?.gain;
        Some(move |one: &Prediction| match original.contains(&one.setting) {
            true => Estimate { mean: 0.0, error: 0.0 },
            false => expectation(one.gain - of_original),
        })
    }

    /// There is no forecast: each scheduler may be tried.
    pub(super) fn expect_nothing(&mut self) {
        if !std::mem::replace(&mut self.trying.is_forecast, true) {
            let settings: Vec<_> = self.arms.iter().map(|arm| arm.setting.clone()).collect();
            for (arm, setting) in settings.iter().enumerate() {
                self.trying.may_be_tried[arm] = is_first_of_scheduler(&settings, setting);
            }
        }
    }

    /// Takes in the score of a window in which the active arm served the load.
    pub(super) fn observe_score(&mut self, window: &Window, tags: u32) {
        if window.outcome.requests + window.outcome.unfinished > 0 {
            self.trying.unit.push(window.outcome);
        }
        let seconds = self.trying.unit.iter().map(|outcome| outcome.duration.as_secs_f64()).sum();
        if seconds >= TURN_S {
            let depth = depth(&self.trying.unit);
            let score = Performance::of(&self.trying.unit).map_or(f64::NEG_INFINITY, |served| served.score(&self.preference));
            let scored = Scored::of(score, depth, tags);
            self.trying.deepest = self.trying.deepest.max(depth);
            let deepest = Scored { score: 0.0, depth: self.trying.deepest, is_hidden: false };
            self.note_score(window.to, seconds, scored.over(&deepest, &self.preference));
            self.trying.unit.clear();
        }
        if self.trying.trial.is_none() {
            let streams = window.features.get("streams").unwrap_or(1.0);
            let (_, waited_s) = window.outcome.judged();
            let done = window.outcome.calls.map_or(window.outcome.waited_for, |calls| calls.done);
            let waiting = waited_s * done as f64 / window.duration().as_secs_f64();
            self.trying.latest = Some((waited_s, waiting, streams)).filter(|(_, waiting, _)| *waiting > 0.0);
        }
    }

    fn switch_costs_s(&self, target: &dyn Target, from: usize, to: usize) -> f64 {
        let [_, of_response, _] = self.preference.weights();
        let stops = target.switching_time(&self.arms[from].setting, &self.arms[to].setting);
        self.trying.switch_costs_s(stops.as_secs_f64(), of_response)
    }

    /// Takes in what asynchronous requests got in a window.
    pub(super) fn observe_background(&mut self, got: Option<Got>) {
        if self.trying.trial.is_none() {
            got.into_iter().for_each(|got| self.trying.usual.add(got));
            return;
        }
        self.trying.in_turn = self.trying.in_turn.zip(got).map(|(mut turn, got)| {
            turn.add(got);
            turn
        });
    }

    /// Takes in a window in which a change settles.
    pub(super) fn observe_settling(&mut self, window: &Window, is_last: bool) {
        let Some(cost) = self.trying.returning else { return };
        let seconds = window.duration().as_secs_f64();
        let level = self.trying.trials.posterior().level(self.active, seconds).mean;
        let loss = (level - window.outcome.score(&self.preference)).clamp(-MAX_LOSS, MAX_LOSS);
        let cost = cost + if window.outcome.requests > 0 { loss * seconds } else { 0.0 };
        self.trying.returning = (!is_last).then_some(cost);
        if is_last {
            self.trying.returns.push(cost);
        }
    }

    fn note_score(&mut self, at: Nanos, seconds: f64, score: f64) {
        self.trying.trials.observe(Observation { arm: self.active, at_s: at.as_secs_f64(), seconds, score });
    }

    /// Ends the trial if a stream waits beyond its bound, or this window is far worse than what the arm before would have done. Also while it
    /// settles: then the window counts for its arm all the same, as the harm is done.
    pub(super) fn end_harmful_trial(&mut self, window: &Window, now: Nanos, target: &dyn Target) -> Option<Decision> {
        let trial = self.trying.trial.filter(|trial| !trial.is_over)?;
        let seconds = window.duration().as_secs_f64();
        let level = self.trying.trials.posterior().level(trial.from, seconds);
        let score = window.outcome.score(&self.preference);
        let (tried, from) = (self.setting().to_string(), self.arms[trial.from].setting.to_string());
        if let Some(overdue) = self.seen.streams.overdue(now) {
            // A stream that starves is as bad as a loss that ends a trial, whatever the others got.
            self.note_score(window.to, seconds, score.max(level.mean - 2.0 * HARM).min(level.mean - HARM));
            self.judge_fleet(self.active, trial.from, Some(-HARM));
            self.note_harmful_trial(trial, now, true);
            return Some(self.end_trial(trial, now, format!("{overdue} under {tried}: back to {from}")));
        }
        let had_something_to_do = window.outcome.requests + window.outcome.unfinished > 0;
        // The switch itself is no fault of the arm.
        let switch = if self.phase.is_settling() { self.switch_costs_s(target, trial.from, self.active) } else { 0.0 };
        let harm = if !self.phase.is_settling() && self.is_tried_for_fleet() { PROMPTED_HARM } else { HARM };
        let allowed = harm.max(HARM_ERRORS * level.error) + switch / seconds;
        if !had_something_to_do || score >= level.mean - allowed {
            return None;
        }
        if self.phase.is_settling() {
            self.note_score(window.to, seconds, score.max(level.mean - 2.0 * HARM));
        }
        self.judge_fleet(self.active, trial.from, Some((score - level.mean).max(-2.0 * HARM)));
        if trial.confirms {
            return Some(self.confirm_by_loss(trial, now));
        }
        self.note_harmful_trial(trial, now, false);
        // Half a second, chosen because it was bad, is no measurement: there is no verdict.
        let why = format!("{tried} is far worse than {from} in its first moments: back to {from}");
        Some(self.end_trial(trial, now, why))
    }

    /// The verdict on an arm by this gain over another one, measured in turns.
    pub(super) fn verdict_of_turns(&self, [arm, over]: [usize; 2], gain: Estimate, ruling: Ruling) -> Verdict {
        Verdict {
            setting: self.arms[arm].setting.clone(),
            over: self.arms[over].setting.clone(),
            gain,
            critical: SURE_DEVIATIONS,
            samples: [arm, over].map(|arm| self.trying.trials.windows(arm)),
            by: Test::Trial,
            ruling,
        }
    }

    /// The active arm has just done harm in a trial. It may be tried once more after as long again: a moment may have been bad; not if the
    /// harm, a starving stream, was forecast. If the arm before was to be confirmed, it is.
    fn note_harmful_trial(&mut self, trial: ArmTrial, now: Nanos, is_starved: bool) {
        if trial.confirms {
            self.trying.unconfirmed = None;
            return;
        }
        self.timeline.be_quiet(now);
        let lasted_s = self.lasted_s(now);
        let arm = &mut self.arms[self.active];
        let is_known = arm.blocked_until > Nanos::ZERO || is_starved && self.trying.may_starve[self.active];
        arm.blocked_until = if is_known { NEVER } else { now + Nanos::from_secs_f64(lasted_s) };
    }

    /// Ends the trial when its turn is over: the arm stays, or the one before goes on.
    pub(super) fn continue_trial(&mut self, now: Nanos) -> Option<Decision> {
        let trial = self.trying.trial?;
        if trial.is_over {
            let from = &self.arms[trial.from].setting;
            return Some(self.end_trial(trial, now, format!("the trial is over: back to {from}")));
        }
        let measured_s = (now - self.timeline.measured_from).as_secs_f64();
        if measured_s < TURN_S {
            return Some(Decision::keep(format!("trying {}", self.setting())));
        }
        if trial.confirms {
            return Some(self.end_confirmation(trial, now));
        }
        self.trying.turns[self.active] += 1;
        let turns = self.trying.turns[self.active];
        let posterior = self.trying.trials.posterior();
        let gain = posterior.gain(self.active, trial.from);
        let is_open = chance(posterior, self.active, trial.from) >= POSSIBLE;
        let of_turn = self.trying.trials.last_gain_over(trial.from);
        self.judge_fleet(self.active, trial.from, of_turn);
        let is_kept = turns >= MIN_TURNS && is_adopted(&gain);
        let is_multiple = gain.mean > 0.0 && self.is_multiple(&trial, now);
        let verdict =
            self.verdict_of_turns([self.active, trial.from], gain, if is_kept { Ruling::Kept } else { Ruling::NotAdopted });
        let (tried, from) = (self.setting().to_string(), self.arms[trial.from].setting.to_string());
        let result = format!("{} ± {:.0}% than {from} in {}", percent(gain.mean), 100.0 * gain.error, counted(turns));
        // Where calls are seen, it is seen whether anything waits for write-back.
        if !self.seen.streams.sees_calls && self.trying.in_turn.is_some_and(|turn| turn.starves_after(&self.trying.usual)) {
            self.arms[self.active].blocked_until = NEVER;
            let why = format!("{tried} is {result}, and leaves write-back too little: back to {from}");
            let verdict = Verdict { ruling: Ruling::NotAdopted, ..verdict };
            return Some(self.end_trial(trial, now, why).with_verdict(verdict));
        }
        if is_kept || is_multiple {
            self.stay_with_tried();
            if !is_kept {
                self.expect_multiple();
            }
            self.trying.unconfirmed = Some(Unconfirmed::adopted(now, trial.from));
            let decision = match is_kept {
                true => Decision::keep(format!("{tried} stays: {result}")).with_verdict(verdict),
                false => Decision::keep(format!("{tried} stays for now: each half second was better by half than any before")),
            };
            return Some(Decision { expected_gain: Some(gain.mean), ..decision });
        }
        let is_measured = self.is_measured(&trial);
        let is_last = turns >= MAX_TURNS && !self.timeline.tries_everything;
        if !is_open || !is_measured || is_last {
            self.timeline.be_quiet(now);
        }
        if !is_measured || is_last {
            self.arms[self.active].blocked_until = NEVER;
        }
        if !is_measured {
            return Some(self.end_trial(trial, now, format!("too few requests to measure {tried}: back to {from}")));
        }
        let why = if is_adopted(&gain) { "which has to be seen twice" } else { "which is not sure" };
        let why = format!("{tried} is {result}, {why}: back to {from}");
        Some(self.end_trial(trial, now, why).with_verdict(verdict))
    }

    /// Whether the turn of this trial was measured: windows without requests are not.
    pub(super) fn is_measured(&self, trial: &ArmTrial) -> bool {
        self.trying.trials.windows(self.active) > trial.had
    }

    /// The tried arm goes on.
    pub(super) fn stay_with_tried(&mut self) {
        self.trying.trial = None;
        self.trying.usual = Got::default();
        self.present.load.reset();
    }

    pub(super) fn end_trial(&mut self, trial: ArmTrial, now: Nanos, why: String) -> Decision {
        let decision = self.change_to(now, trial.from, why);
        (self.trying.trial, self.trying.ended) = (None, Some(trial));
        self.trying.returning = Some(0.0);
        decision
    }

    /// A change was refused. If it was the way back from a trial, the trial goes on, and the way back is tried again.
    pub(super) fn resume_trial_if_refused(&mut self, setting: &Setting) {
        let ended = self.trying.ended.take().filter(|trial| self.arms[trial.from].setting == *setting);
        if let Some(trial) = ended {
            self.arms[trial.from].blocked_until = Nanos::ZERO;
        }
        self.trying.trial = ended.map(|trial| ArmTrial { is_over: true, ..trial });
    }

    /// Begins the trial that is worth most, if any is worth its cost; after a recall from earlier runs that of the original setting, as the
    /// stored result may be wrong, or of another machine.
    pub(super) fn begin_trial(&mut self, now: Nanos, target: &dyn Target) -> Option<Decision> {
        let lasted_s = self.lasted_s(now);
        // Without a score of the active arm under this load there is nothing to compare with.
        let is_measured =
            (now - self.timeline.measured_from).as_secs_f64() >= TURN_S && self.trying.trials.windows(self.active) > 0;
        let is_known =
            self.trying.evidence.is_some() || self.trying.is_forecast && lasted_s >= MIN_LOAD_S || self.fleet_recommends();
        let before = self.to_confirm(now);
        if self.trying.unconfirmed.is_some_and(|one| one.due > now) {
            return None;
        }
        if !is_measured
            || !is_known && before.is_none()
            || self.phase.pending().is_some()
            || self.seen.streams.overdue(now).is_some()
        {
            return None;
        }
        let can_be = |arm: &usize| {
            *arm != self.active
                && self.arms[*arm].blocked_until <= now
                && (self.trying.may_be_tried[*arm] || *arm == self.original || self.timeline.tries_everything)
                && self.read_ahead_of(*arm) == self.read_ahead_of(self.active)
        };
        let posterior = self.trying.trials.posterior();
        let is_quiet = now < self.timeline.quiet_until;
        let may_gain = |arm: &usize| {
            let least = match (is_quiet, self.trying.turns[*arm]) {
                (false, _) => self.timeline.least_chance,
                (true, 0) => LIKELY,
                (true, _) => POSSIBLE,
            };
            self.timeline.tries_everything || chance(posterior, *arm, self.active).min(self.chance_as_tuning(*arm)) >= least
        };
        let others = (0..self.arms.len()).filter(can_be).filter(may_gain);
        let lasts_s = lasted_s.max(MIN_LOAD_S);
        let worths = others.map(|arm| {
            if self.timeline.tries_everything {
                return (1.0 / f64::from(1 + self.trying.turns[arm]), arm);
            }
            let switching_s = self.switch_costs_s(target, self.active, arm) + self.switch_costs_s(target, arm, self.active);
            let cost = Cost { measured_s: TURN_S, settling_s: SETTLING.as_secs_f64(), switching_s };
            (worth(posterior, arm, self.active, lasts_s, &cost), arm)
        });
        let is_silent = now < self.timeline.silent_until;
        let arm = before.or_else(|| if is_silent { None } else { most_worth(worths) })?;
        if self.must_wait_for_streams(&self.arms[arm].setting, now) {
            return None;
        }
        let expected = posterior.gain(arm, self.active);
        let seconds = TURN_S + SETTLING.as_secs_f64();
        let why = format!(
            "trying {} for {seconds:.0} s: expected {} ± {:.0}%",
            self.arms[arm].setting,
            percent(expected.mean),
            100.0 * expected.error
        );
        let why = if before.is_some() { format!("{why}, to confirm {}", self.setting()) } else { why };
        let measured_from = self.timeline.measured_from;
        let (from, had) = (self.active, self.trying.trials.windows(arm));
        self.trying.trial = Some(ArmTrial { from, began: now, measured_from, confirms: before.is_some(), had, is_over: false });
        self.trying.in_turn = Some(Got::default());
        let evidence = self.trying.evidence.clone();
        Some(Decision { expected_gain: Some(expected.mean), evidence, ..self.change_to(now, arm, why) })
    }

    /// The active arm does harm: it is not tried again under this load. Returns the arm to go back to.
    pub(super) fn give_up_active(&mut self, now: Nanos) -> usize {
        self.note_harm();
        self.arms[self.active].blocked_until = NEVER;
        self.timeline.next_forecast = now + WINDOW;
        self.trying.trial.take().map(|trial| trial.from).filter(|from| *from != self.active).unwrap_or(self.original)
    }
}

/// The arm whose trial is worth most; `None` if none is worth its cost. Forecasts of multiples are worth the same, as they count up to
/// [`MAX_FORECAST`]: then the first arm is tried, as a scheduler with its defaults comes before its tunings.
fn most_worth(worths: impl Iterator<Item = (f64, usize)>) -> Option<usize> {
    let better = |best: (f64, usize), one: (f64, usize)| if one.0 > best.0 { one } else { best };
    worths.filter(|(worth, _)| *worth > 0.0).reduce(better).map(|(_, arm)| arm)
}

/// A number of turns in words.
pub(super) fn counted(turns: u32) -> String {
    if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_trials_that_are_worth_the_same_the_first_is_chosen() {
        assert_eq!(most_worth([(1.0, 3), (2.0, 4), (2.0, 5)].into_iter()), Some(4));
        assert_eq!(most_worth([(-1.0, 3), (0.0, 4), (f64::NAN, 5)].into_iter()), None);
    }

    #[test]
    fn a_forecast_loss_is_believed_and_a_small_gain_is_not() {
        let (loss, nothing, gain, large) = (expectation(-0.3), expectation(0.0), expectation(0.1), expectation(0.8));
        assert!(loss.mean + loss.error < -0.1 && nothing.mean == 0.0 && nothing.error == MIN_FORECAST_ERROR);
        assert!(gain.mean < 0.0 && gain.mean + gain.error > 0.0, "{gain:?}");
        assert!((large.mean - 0.3).abs() < 1e-9 && large.error > large.mean, "{large:?}");
        assert_eq!(expectation(-5.0), expectation(-1.0));
    }
}
