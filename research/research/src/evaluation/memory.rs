//! Evaluates the effect of a knowledge base (`--kb`) on a controller.
//!
//! ```text
//! first draw ──▶ controller ──────────▶ base of its first run ───┐
//!             └▶ every candidate ─────▶ base of all schedulers ──┤
//!             └▶ the same, the best result under the worst one's name: a wrong base
//! other loads ─▶ both ────────────────▶ base of other loads ─────┤
//!                                                                ▼
//! second draw ─▶ controller, once without a base and once with each of them
//! ```
//! A base is written and read as with `--kb`. The second draw is the same job file with another seed, so locations and times differ. The gain
//! of a base is the difference between two runs of that draw, with and without it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::report::evaluation::{BaseScores, BaseStanding, Memory};
use anyhow::Context;
use control::controller::{ControllerChoice, ControllerInput, Fixed};
use control::experience::{Case, WINDOW};
use control::{Controller, Setting};
use observe::merit;
use observe::merit::TOLERANCE;
use observe::starvation;
use testbed::pool::Workers;

use super::case::{EvaluationCase, Extent};
use super::run::Run;
use super::weighted_mean::weighted_mean;
use crate::worlds::Purpose;
use experiment::comparison::{Remembered, RunHistory, regime, source};
use statistics::percent;

/// Number of other loads in a base.
const OTHERS: usize = 3;
/// Time in seconds at which the active setting counts as the initial one: a window of a second is needed to observe the load.
const BEGINS_S: f64 = 2.0;
/// Settings that were active for fewer seconds in the first run count as not observed.
const SEEN_S: f64 = 2.0;

/// Flips the seed for the second draw, so that it differs from all seeds that generate questions.
const AGAIN: u64 = 1 << 62;

/// Knowledge bases, named by the runs that filled them.
const BASES: [&str; 4] = ["its first run", "every scheduler", WRONG, "other loads"];
/// The base of every scheduler with its results inverted.
const WRONG: &str = "every scheduler, inverted";

/// Description in the setup of the report.
pub const ABOUT: &str = "Each load is run a second time with other draws (a trace: the same again), without a knowledge base and with one filled by \
    its first run, by a run under every scheduler, by these with the results inverted (the best setting's as the worst's), or by loads of 3 other families on the device under the controller and every scheduler. \
    As good: at most 2% worse in merit, compared with the same draw without the base, or with the first run by the gain over the default. \
    Starts with the best: 2 s after the start, the active setting is the best one in the runs that filled the base, or within 2% of it; \
    settings that starve a stream are excluded.";

/// Runs every case with and without knowledge bases under this controller, and compares.
///
/// # Errors
/// A run fails, a base cannot be written or read, or the work was interrupted.
pub fn examine(
    chosen: &ControllerChoice,
    questions: &[(u64, EvaluationCase)],
    purpose: &Purpose,
    extent: &Extent,
    brief: &ControllerInput,
    seed: u64,
    workers: Workers,
) -> anyhow::Result<Memory> {
    let scores = workers.map("knowledge bases, cases:", questions, |(seed, question)| {
        let subject = Subject { chosen, brief: ControllerInput { seed: *seed, ..brief.clone() }, workers };
        let others = question.others(purpose, extent, *seed, OTHERS)?;
        subject.examine(*seed, question, &others).with_context(|| format!("{}, memory", question.name))
    })?;
    let questions: Vec<BaseScores> = scores.into_iter().flatten().collect();
    let standing = |base: &&str| standing(base, questions.iter().filter(|scores| scores.base == *base).collect(), seed);
    Ok(Memory::new(chosen.label(), BASES.iter().map(standing).collect(), questions))
}

fn standing(base: &str, scores: Vec<&BaseScores>, seed: u64) -> BaseStanding {
    let share = |of: &dyn Fn(&BaseScores) -> Option<bool>| {
        let known: Vec<bool> = scores.iter().filter_map(|scores| of(scores)).collect();
        let yes = known.iter().filter(|is| **is).count();
        (!known.is_empty()).then(|| 100.0 * yes as f64 / known.len() as f64)
    };
    let is_as_good = |gain: Option<f64>| gain.map(|gain| gain >= -100.0 * TOLERANCE);
    let gains: Vec<(f64, f64)> = scores.iter().filter_map(|scores| Some((scores.gain_percent?, 1.0))).collect();
    let worst = scores.iter().filter(|scores| scores.gain_percent.is_some()).min_by(|a, b| {
        let gain = |scores: &BaseScores| scores.gain_percent.unwrap_or(f64::INFINITY);
        gain(a).total_cmp(&gain(b))
    });
    BaseStanding {
        base: base.to_owned(),
        questions: scores.len() as u64,
        as_good_percent: share(&|scores| is_as_good(scores.gain_percent)),
        as_good_as_first_percent: share(&|scores| is_as_good(scores.over_first_percent)),
        begins_with_best_percent: share(&|scores| scores.begins_with_best),
        gain_mean_percent: weighted_mean(&gains, seed),
        worse: scores.iter().filter(|scores| is_as_good(scores.gain_percent) == Some(false)).count() as u64,
        worst_percent: worst.and_then(|scores| scores.gain_percent),
        worst_question: worst.map_or(String::new(), |scores| scores.question.clone()),
    }
}

/// The evaluated controller.
struct Subject<'a> {
    chosen: &'a ControllerChoice,
    /// Its input without a base.
    brief: ControllerInput,
    workers: Workers<'a>,
}

/// Scores by setting.
type Scores = BTreeMap<String, f64>;

impl Subject<'_> {
    fn examine(&self, seed: u64, question: &EvaluationCase, others: &[EvaluationCase]) -> anyhow::Result<Vec<BaseScores>> {
        let folder = tempfile::tempdir().context("cannot create a folder for knowledge bases")?;
        let bases = BASES.map(|base| folder.path().join(if base == WRONG { BASES[1] } else { base }));
        let first = self.run(question, &self.brief, Some(&bases[0]))?;
        let alone = self.every_candidate(question, &bases[1])?;
        for other in others {
            self.run(other, &self.brief, Some(&bases[3]))?;
            self.every_candidate(other, &bases[3])?;
        }
        let again = question.drawn_again(seed ^ AGAIN)?;
        let second = again.as_ref().unwrap_or(question);
        let (first_default, default) = (self.default(question)?, self.default(second)?);
        let without = self.run(second, &self.brief, None)?;
        let begins = question.phase_ends_s.first().copied().unwrap_or(f64::INFINITY);
        let mut in_turn = self.in_turn(&first, begins);
        in_turn
            .retain(|setting, _| !alone.get(setting).is_some_and(|alone| starvation::starves(&alone.tails, &first_default.tails)));
        let served_before = [Some(in_turn), Some(self.ranked(&alone, &first_default, begins)), None, None];
        let over_default = |run: &Run, default: &Run| self.gain(run, default, default);
        let score = |(number, path): (usize, &PathBuf)| {
            let (brief, cases) = self.with_base(path, BASES[number] == WRONG, second)?;
            let run = self.run(second, &brief, None)?;
            let begins_with = run.setting_at(BEGINS_S).to_owned();
            let over_first = over_default(&run, &default).zip(over_default(&first, &first_default));
            Ok(BaseScores {
                seed,
                question: question.name.clone(),
                base: BASES[number].to_owned(),
                cases,
                served_best: served_before[number].as_ref().and_then(best),
                begins_with_best: served_before[number].as_ref().and_then(|scores| is_best(scores, &begins_with)),
                begins_with,
                gain_percent: self.gain(&run, &without, &default).map(percent),
                over_first_percent: over_first.map(|(second, first)| percent(second - first)),
            })
        };
        bases.iter().enumerate().map(score).collect()
    }

    /// Runs the controller, and stores the results in the base, if given.
    fn run(&self, question: &EvaluationCase, brief: &ControllerInput, base: Option<&Path>) -> anyhow::Result<Run> {
        let found = regime::scheduler(regime::FOUND)?;
        self.kept(question, &found, self.chosen.build(brief), self.chosen.label(), base)
    }

    fn default(&self, question: &EvaluationCase) -> anyhow::Result<Run> {
        self.fixed(question, &regime::scheduler(regime::FOUND)?, None)
    }

    fn fixed(&self, question: &EvaluationCase, setting: &Setting, base: Option<&Path>) -> anyhow::Result<Run> {
        let controller = Box::new(Fixed::new(setting.clone(), WINDOW));
        self.kept(question, setting, controller, setting.scheduler(), base)
    }

    fn every_candidate(&self, question: &EvaluationCase, base: &Path) -> anyhow::Result<BTreeMap<String, Run>> {
        let one = |setting: &Setting| Ok((setting.to_string(), self.fixed(question, setting, Some(base))?));
        self.brief.candidates.iter().map(one).collect()
    }

    fn kept(
        &self,
        question: &EvaluationCase,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        under: String,
        base: Option<&Path>,
    ) -> anyhow::Result<Run> {
        let (run, steered) = Run::steered(question, begins_with, controller, false, None, self.workers.monitor)?;
        if let Some(base) = base {
            let source = &source(&*question.load, &question.world);
            let (seed, preference) = (self.brief.seed, &self.brief.preference);
            let lived = RunHistory { source, seed, under, preference, steered: &steered };
            lived.write(base).map_err(|reason| anyhow::anyhow!("cannot write the knowledge base: {reason}"))?;
        }
        Ok(run)
    }

    /// The controller's input with this base, and the number of cases of the device in it.
    fn with_base(&self, base: &Path, is_inverted: bool, question: &EvaluationCase) -> anyhow::Result<(ControllerInput, u64)> {
        let remembered = Remembered::open(base, self.workers.monitor)?;
        let mut lived = remembered.experience().context("cannot read the knowledge base")?.clone();
        if is_inverted {
            lived.cases.iter_mut().for_each(|case| self.invert(case));
        }
        let device = question.world.device();
        let cases = lived.cases.iter().filter(|case| case.device == device).count() as u64;
        Ok((ControllerInput { experience: Arc::new(self.brief.experience.and(&lived)), ..self.brief.clone() }, cases))
    }

    /// Exchanges the results of the best and the worst setting, of the second and the last but one, and so on.
    fn invert(&self, case: &mut Case) {
        let ranked = case.ranked(&self.brief.preference);
        let mut order: Vec<(usize, f64)> =
            ranked.iter().enumerate().filter_map(|(place, score)| Some((place, (*score)?))).collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        let results = case.results.clone();
        for (one, other) in order.iter().zip(order.iter().rev()) {
            case.results[one.0] = results[other.0];
        }
    }

    /// Gain over another run of the same draw. A run that starves a stream ranks no higher than the default.
    fn gain(&self, run: &Run, than: &Run, default: &Run) -> Option<f64> {
        let score = |run: &Run| {
            let score = run.served(0.0, f64::INFINITY)?.score(&self.brief.preference);
            Some((score, starvation::starves(&run.tails, &default.tails)))
        };
        let ranked = merit::ranked([score(default)?, score(than)?, score(run)?]);
        Some(ranked[2] - ranked[1]).filter(|gain| gain.is_finite())
    }

    /// Scores of each setting while it was active in the run, up to `until_s`. Starvation is not detected, as it shows only in a separate run.
    fn in_turn(&self, run: &Run, until_s: f64) -> Scores {
        let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (from, to, setting) in run.pieces(WINDOW.as_secs_f64(), until_s.min(run.ended_s)) {
            if let Some(served) = run.served(from, to) {
                let sum = sums.entry(setting).or_default();
                *sum = (sum.0 + (to - from) * served.score(&self.brief.preference), sum.1 + to - from);
            }
        }
        let seen = sums.into_iter().filter(|(_, (_, seconds))| *seconds >= SEEN_S);
        seen.map(|(setting, (sum, seconds))| (setting.to_owned(), sum / seconds)).collect()
    }

    /// Scores of each setting from its separate run, up to `until_s`.
    fn ranked(&self, alone: &BTreeMap<String, Run>, default: &Run, until_s: f64) -> Scores {
        let score = |run: &Run| {
            let served = run.served(0.0, until_s);
            let score = served.map_or(f64::NEG_INFINITY, |served| served.score(&self.brief.preference));
            (score, starvation::starves(&run.tails, &default.tails))
        };
        alone.keys().cloned().zip(merit::ranked(alone.values().map(score))).collect()
    }
}

/// The setting with the highest score.
fn best(scores: &Scores) -> Option<String> {
    scores.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(setting, _)| setting.clone())
}

/// Whether this setting has the highest score, within the tolerance; `None` without scores.
fn is_best(scores: &Scores, setting: &str) -> Option<bool> {
    let best = scores.values().copied().reduce(f64::max)?;
    Some(scores.get(setting).is_some_and(|score| *score >= best - TOLERANCE))
}
