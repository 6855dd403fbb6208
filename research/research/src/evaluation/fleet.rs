//! Evaluates the gain from a fleet on a machine with a load that it has not seen before, and the cost of a hostile fleet.
//!
//! ```text
//! a load at another pace and with other data ─▶ every candidate on five machines ─▶ their outcomes ┐
//!                                               a hostile fleet: the worst is said to be best      ┤
//!                                               a sly one: that of the worst only, and less        ┤
//!                                               an unrelated one: gains drawn at random            ┤
//! the sixth machine ─▶ controller alone, and with each of them ◀───────────────────────────────────┘
//! ```
//! Every load starts with the trust of a new machine, so the cost of a lying fleet recurs for each load instead of ending once it is detected.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use control::ab_test::Estimate;
use control::controller::{ControllerChoice, ControllerInput, Fixed};
use control::experience::WINDOW;
use control::fleet::{DeviceType, FleetKnowledge, FleetOutcome};
use control::{Controller, Setting};
use observe::Preference;
use observe::description::{describe, mean_by_name};
use observe::merit::{self, TOLERANCE};
use observe::starvation;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use testbed::pool::Workers;

use super::case::{self, EvaluationCase, Extent};
use super::run::Run;
use super::weighted_mean::weighted_mean;
use crate::worlds::Which;
use experiment::comparison::regime;
use experiment::experience;
use statistics::percent;

/// Number of machines that have measured the load before.
const MACHINES: u64 = 5;
/// The first setting tried within this many seconds counts as the starting one: no forecast is applied earlier unless the fleet prompts it.
const STARTS_S: f64 = 8.0;
/// Gain claimed by a hostile fleet, as a logarithm: far more than any setting gains.
const CLAIM: f64 = 1.0;
/// Gain claimed by a fleet that lies about one setting: as much as honest fleets measure.
const SLY_CLAIM: f64 = 0.25;
/// Standard deviation of the gains claimed by an unrelated fleet.
const UNRELATED: f64 = 0.3;
/// Windows of a load that describe it: those after its first second.
const DESCRIBED: std::ops::Range<usize> = 1..9;

/// Parameters of the evaluation.
#[derive(Clone, Debug)]
pub struct FleetEvaluation {
    /// The first seed.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// The simulated world.
    pub world: Which,
    /// Whether to run fewer and shorter loads.
    pub is_quick: bool,
    /// Run time of each load in seconds; `None` for the default.
    pub seconds: Option<u32>,
}

/// Results for a load on a device.
#[derive(Clone, Debug, Serialize)]
pub struct FleetCase {
    /// Its name.
    pub case: String,
    /// Best setting on the five machines.
    pub best_known: String,
    /// Its gain on those machines.
    pub best_known_percent: f64,
    /// Setting that the sixth machine started with.
    pub starts_with: String,
    /// Whether that is the best known setting or equally good.
    pub starts_with_best: bool,
    /// Gain of the whole run over the run without a fleet.
    pub gain_percent: f64,
    /// Gain of the best known setting over the run without a fleet if it is set from the start and never changed.
    pub fixed_percent: f64,
    /// Gain with a hostile fleet.
    pub hostile_percent: f64,
    /// Gain with a fleet that lies about one setting only: it claims a gain for the worst.
    pub sly_percent: f64,
    /// Gain with an unrelated fleet.
    pub unrelated_percent: f64,
    /// Setting changes with the hostile fleet, up to the end of the run: time in seconds and setting.
    pub with_hostile: Vec<(f64, String)>,
    /// Setting changes with the fleet that lies about one setting.
    pub with_sly: Vec<(f64, String)>,
}

/// A mean with its 95% confidence interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MeanPercent {
    /// The mean.
    pub mean_percent: f64,
    /// Lower bound of the interval.
    pub low_percent: f64,
    /// Upper bound of the interval.
    pub high_percent: f64,
}

/// Result of the evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct FleetReport {
    /// Share of cases in which the sixth machine starts with the best known setting.
    pub starts_with_best_percent: f64,
    /// Share among cases in which the best known setting is better than the original one by more than the tolerance.
    pub starts_with_best_of_changes_percent: Option<f64>,
    /// Gain from an honest fleet.
    pub gain: Option<MeanPercent>,
    /// Gain of the best known setting without a controller.
    pub fixed: Option<MeanPercent>,
    /// Gain from a hostile fleet; negative values are its cost.
    pub hostile: Option<MeanPercent>,
    /// Gain from a fleet that lies about one setting only.
    pub sly: Option<MeanPercent>,
    /// Gain from an unrelated fleet.
    pub unrelated: Option<MeanPercent>,
    /// All cases.
    pub cases: Vec<FleetCase>,
}

impl FleetReport {
    /// Formats the result as text.
    pub fn text(&self) -> String {
        let mean = |mean: &Option<MeanPercent>| {
            mean.map_or("-".to_owned(), |mean| {
                format!("{:+.2}% ({:+.2} to {:+.2})", mean.mean_percent, mean.low_percent, mean.high_percent)
            })
        };
        let of_changes = self.starts_with_best_of_changes_percent.map_or("-".to_owned(), |share| format!("{share:.0}%"));
        format!(
            "{} loads that five others have seen on like devices\n\
             starts with the best known setting  {:.0}%; {of_changes} of those where it is better than the one found\n\
             gain over no fleet                  {}\n\
             gain of the best known one, fixed   {}\n\
             gain by a hostile fleet             {}\n\
             gain by one that lies about one     {}\n\
             gain by an unrelated fleet          {}\n",
            self.cases.len(),
            self.starts_with_best_percent,
            mean(&self.gain),
            mean(&self.fixed),
            mean(&self.hostile),
            mean(&self.sly),
            mean(&self.unrelated)
        )
    }
}

impl FleetEvaluation {
    /// Runs the evaluation.
    ///
    /// # Errors
    /// A run fails, or the work was interrupted.
    pub fn run(&self, workers: Workers) -> anyhow::Result<FleetReport> {
        let usual = Extent::new(self.is_quick, Vec::new());
        let extent = Extent { seconds: self.seconds.unwrap_or(usual.seconds), ..usual };
        let questions = case::draw_all(self.world.purpose()?, &extent, self.seed, self.seeds, workers)?;
        let brief = ControllerInput {
            candidates: regime::with_found(regime::candidates(&[])?)?,
            experience: experience::load(None)?,
            ..ControllerInput::default()
        };
        let chosen = regime::controller("seekwise", &crate::controller::all().collect::<Vec<_>>())?;
        let cases = workers.map("fleets, cases:", &questions, |(seed, question)| {
            let subject = Subject { chosen: &chosen, brief: ControllerInput { seed: *seed, ..brief.clone() }, workers };
            subject.examine(*seed, question).with_context(|| format!("{}, fleet", question.name))
        })?;
        let cases: Vec<FleetCase> = cases.into_iter().flatten().collect();
        let mean = |of: &dyn Fn(&FleetCase) -> f64| {
            let values: Vec<(f64, f64)> = cases.iter().map(|case| (of(case), 1.0)).collect();
            weighted_mean(&values, self.seed).map(|mean| MeanPercent {
                mean_percent: mean.value,
                low_percent: mean.low,
                high_percent: mean.high,
            })
        };
        let share = |cases: &[&FleetCase]| {
            let best = cases.iter().filter(|case| case.starts_with_best).count();
            (!cases.is_empty()).then(|| 100.0 * best as f64 / cases.len() as f64)
        };
        let changes: Vec<&FleetCase> = cases.iter().filter(|case| case.best_known_percent > percent(TOLERANCE)).collect();
        Ok(FleetReport {
            starts_with_best_percent: share(&cases.iter().collect::<Vec<_>>()).unwrap_or_default(),
            starts_with_best_of_changes_percent: share(&changes),
            gain: mean(&|case| case.gain_percent),
            fixed: mean(&|case| case.fixed_percent),
            hostile: mean(&|case| case.hostile_percent),
            sly: mean(&|case| case.sly_percent),
            unrelated: mean(&|case| case.unrelated_percent),
            cases,
        })
    }
}

/// The evaluated controller.
struct Subject<'a> {
    chosen: &'a ControllerChoice,
    /// Input of the controller, without a fleet.
    brief: ControllerInput,
    workers: Workers<'a>,
}

impl Subject<'_> {
    /// `None` for a trace, which has no other draws, or if a run has no score.
    fn examine(&self, seed: u64, question: &EvaluationCase) -> anyhow::Result<Option<FleetCase>> {
        let device = DeviceType { kind: question.device.clone(), model: question.world.device(), firmware: String::new() };
        let mut honest = Vec::new();
        for machine in 1..=MACHINES {
            let Some(draw) = question.on_another_machine(seed ^ machine << 48)? else { return Ok(None) };
            honest.extend(self.outcomes(&draw, machine as u8, &device)?);
        }
        let Some(own) = question.on_another_machine(seed ^ (MACHINES + 1) << 48)? else { return Ok(None) };
        let found = regime::scheduler(regime::FOUND)?;
        let known = known_gains(&honest);
        let (best, best_gain) = known
            .iter()
            .map(|(setting, gain)| (setting.clone(), *gain))
            .chain([(found.to_string(), 0.0)])
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((found.to_string(), 0.0));
        let worst = known.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(setting, _)| setting.clone());
        let hostile: Vec<FleetOutcome> = honest
            .iter()
            .map(|one| {
                let claim = if Some(&one.to) == worst.as_ref() { CLAIM } else { -CLAIM };
                FleetOutcome { gain: Estimate { mean: claim, error: 0.01 }, ..one.clone() }
            })
            .collect();
        let sly: Vec<FleetOutcome> = honest
            .iter()
            .map(|one| match Some(&one.to) == worst.as_ref() {
                true => FleetOutcome { gain: Estimate { mean: SLY_CLAIM, error: 0.01 }, ..one.clone() },
                false => one.clone(),
            })
            .collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x0f1e);
        let unrelated: Vec<FleetOutcome> = honest
            .iter()
            .map(|one| {
                // Approximately normal: the sum of three uniform values of width two has a standard deviation of one.
                let normal: f64 = (0..3).map(|_| random.random_range(-1.0..1.0)).sum();
                FleetOutcome { gain: Estimate { mean: UNRELATED * normal, error: 0.05 }, ..one.clone() }
            })
            .collect();
        let default = self.run(&own, Box::new(Fixed::new(found.clone(), WINDOW)))?;
        let with = |outcomes: &[FleetOutcome]| {
            let fleet = Arc::new(FleetKnowledge::new(outcomes, [0; 16], &device, &self.brief.preference));
            self.run(&own, self.chosen.build(&ControllerInput { fleet, ..self.brief.clone() }))
        };
        let (without, with_honest, with_hostile) = (with(&[])?, with(&honest)?, with(&hostile)?);
        let fixed = self.run(&own, Box::new(Fixed::new(Setting::parse(&best)?, WINDOW)))?;
        let (with_sly, with_unrelated) = (with(&sly)?, with(&unrelated)?);
        let gain = |run: &Run| {
            let scores = [self.score(&default, &default)?, self.score(&without, &default)?, self.score(run, &default)?];
            let ranked = merit::ranked(scores);
            Some(percent(ranked[2] - ranked[1])).filter(|gain| gain.is_finite())
        };
        let first = with_honest.in_force.iter().find(|(at, setting)| *at <= STARTS_S && *setting != found.to_string());
        let starts_with = first.map_or(found.to_string(), |(_, setting)| setting.clone());
        let starts_gain = if starts_with == found.to_string() { Some(0.0) } else { known.get(&starts_with).copied() };
        let gains = [&with_honest, &fixed, &with_hostile, &with_sly, &with_unrelated].map(gain);
        let [Some(gain_percent), Some(fixed_percent), Some(hostile_percent), Some(sly_percent), Some(unrelated_percent)] = gains
        else {
            return Ok(None);
        };
        Ok(Some(FleetCase {
            case: question.name.clone(),
            best_known: best,
            best_known_percent: percent(best_gain),
            starts_with_best: starts_gain.is_some_and(|gain| gain >= best_gain - TOLERANCE),
            starts_with,
            gain_percent,
            fixed_percent,
            hostile_percent,
            sly_percent,
            unrelated_percent,
            with_hostile: changes(with_hostile),
            with_sly: changes(with_sly),
        }))
    }

    fn run(&self, question: &EvaluationCase, controller: Box<dyn Controller>) -> anyhow::Result<Run> {
        let found = regime::scheduler(regime::FOUND)?;
        Run::of(question, &found, controller, false, None, self.workers.monitor)
    }

    fn score(&self, run: &Run, default: &Run) -> Option<(f64, bool)> {
        let served = run.served(0.0, f64::INFINITY)?;
        Some((served.score(&self.brief.preference), starvation::starves(&run.tails, &default.tails)))
    }

    /// The gain of each candidate over the original setting that a machine with this draw would have measured.
    fn outcomes(&self, draw: &EvaluationCase, machine: u8, device: &DeviceType) -> anyhow::Result<Vec<FleetOutcome>> {
        let found = regime::scheduler(regime::FOUND)?;
        let fixed = |setting: &Setting| Box::new(Fixed::new(setting.clone(), WINDOW));
        let (default, steered) = Run::steered(draw, &found, fixed(&found), false, None, self.workers.monitor)?;
        let windows = steered.steering().windows();
        let described = windows.get(DESCRIBED.start..windows.len().min(DESCRIBED.end)).unwrap_or_default();
        let rows: Vec<Vec<f64>> = described.iter().map(|window| describe(&window.features, &window.outcome)).collect();
        let load = mean_by_name(rows.iter());
        let Some(of_default) = self.score(&default, &default) else { return Ok(Vec::new()) };
        let mut outcomes = Vec::new();
        for setting in self.brief.candidates.iter().filter(|setting| **setting != found) {
            let (run, _) = Run::steered(draw, setting, fixed(setting), false, None, self.workers.monitor)?;
            let Some(score) = self.score(&run, &default) else { continue };
            let ranked = merit::ranked([of_default, score]);
            let gain = (ranked[1] - ranked[0]).clamp(-control::fleet::MAX_MEASURED, control::fleet::MAX_MEASURED);
            outcomes.push(FleetOutcome {
                id: [machine; 16],
                machine: [machine; 16],
                writer: format!("agent {machine}"),
                day: 0,
                device: device.clone(),
                load: load.clone(),
                preference: Preference::to_string(&self.brief.preference),
                from: found.to_string(),
                to: setting.to_string(),
                gain: Estimate { mean: gain, error: 0.05 },
                program: "evaluation".to_owned(),
            });
        }
        Ok(outcomes)
    }
}

/// Times of setting changes, with the new setting.
fn changes(run: Run) -> Vec<(f64, String)> {
    let mut changes = run.in_force;
    changes.dedup_by(|next, last| next.1 == last.1);
    changes
}

/// Mean gain of each setting.
fn known_gains(outcomes: &[FleetOutcome]) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for one in outcomes {
        let sum = sums.entry(one.to.clone()).or_default();
        *sum = (sum.0 + one.gain.mean, sum.1 + 1.0);
    }
    sums.into_iter().map(|(setting, (sum, count))| (setting, sum / count)).collect()
}
