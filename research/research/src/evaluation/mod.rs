//! Evaluation: controllers on loads and devices that nothing was trained or tuned on, compared with every constant policy.
//!
//! ```text
//! seed ─▶ questions (a load on a device of the reported world)
//!           ├─▶ every candidate by itself ─▶ key: correct settings in each phase, the best result
//!           └─▶ every controller ──────────▶ scores against the key
//! scores of all seeds ─▶ standings with intervals ─▶ better than the best constant policy, or not
//! ```
//! Optionally, every question is repeated with a knowledge base: see `memory`.

pub(crate) mod case;
pub mod ceiling;
pub mod counting;
mod cross_validation;
mod decided;
mod decisions;
pub mod fleet;
mod memory;
pub mod no_change;
pub mod processor_time;
pub(crate) mod run;
pub(crate) mod scores;
mod weighted_mean;
pub mod worth;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::report::evaluation::{
    CaseScores, DecisionScores, DecisionSpeed, DefaultComparison, ForecastScores, Interval, RegretFigures, Report, SCHEMA,
    Standing, Verdict,
};
use anyhow::{Context, ensure};
use control::Setting;
use control::controller::{ControllerChoice, ControllerInput, Fixed};
use control::experience::WINDOW;
use observe::Preference;
use observe::merit::TOLERANCE;
use testbed::pool::Workers;

pub use scores::WORTH_DECIDING;

use crate::worlds::{Which, worlds};
use case::{EvaluationCase, Extent};
use decisions::Judge;
use experiment::comparison::regime;
use experiment::experience;
use run::Run;
use scores::{Key, Scores};
use statistics::median;
use weighted_mean::weighted_mean;

/// The default controllers: the paper's schemes and ours.
const CONTROLLERS: &[&str] = &["round-robin", "feedback", "two-layer", "seekwise"];

/// Parameters of an evaluation.
#[derive(Clone, Debug)]
pub struct ControllerEvaluation {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// Controllers, as in `--controller`; empty for the defaults.
    pub controllers: Vec<String>,
    /// Candidate settings, as in `--candidates`.
    pub candidates: Vec<String>,
    /// The weights of merit.
    pub preference: Preference,
    /// Traces to replay additionally.
    pub traces: Vec<PathBuf>,
    /// Training data of controllers; `None` for the built-in ones.
    pub experience: Option<PathBuf>,
    /// The world to draw from.
    pub world: Which,
    /// Whether to run fewer and shorter loads.
    pub is_quick: bool,
    /// Run time of each load in seconds; `None` for the default.
    pub seconds: Option<u32>,
    /// Whether to measure processor time, the only figure that differs from run to run.
    pub measures_cpu: bool,
    /// Whether to evaluate also the effect of a knowledge base on the controller `seekwise`.
    pub examines_memory: bool,
}

/// A constant setting, or a controller.
enum Policy {
    Always(Setting),
    Chooses(ControllerChoice),
}

impl Policy {
    fn is_constant(&self) -> bool {
        matches!(self, Policy::Always(_))
    }

    fn label(&self) -> String {
        match self {
            Policy::Always(setting) => setting.to_string(),
            Policy::Chooses(chosen) => chosen.label(),
        }
    }
}

impl ControllerEvaluation {
    /// The policies for each question: every candidate and the default as constants, then the controllers.
    fn policies(&self, candidates: &[Setting]) -> anyhow::Result<Vec<Policy>> {
        let settings = regime::with_found(candidates.to_vec())?;
        let mut names: Vec<String> = self.controllers.clone();
        if names.is_empty() {
            names = CONTROLLERS.iter().map(|&name| name.to_owned()).collect();
            let learners = crate::model::ALL.iter().map(|learner| format!("two-layer:learner={}", learner.name()));
            names.extend(learners.filter(|_| !self.is_quick));
        }
        let mut policies: Vec<Policy> = settings.into_iter().map(Policy::Always).collect();
        for name in names {
            let chosen = regime::controller(&name, &crate::controller::all().collect::<Vec<_>>())?;
            // The default learner is already listed.
            if policies.iter().all(|policy| policy.label() != chosen.label()) {
                policies.push(Policy::Chooses(chosen));
            }
        }
        Ok(policies)
    }

    /// Runs the evaluation.
    ///
    /// # Errors
    /// A parameter is invalid, a run fails, or the work was interrupted.
    pub fn run(&self, workers: Workers) -> anyhow::Result<Report> {
        ensure!(self.seeds > 0, "--seeds 0: should be at least 1");
        let candidates = regime::candidates(&self.candidates)?;
        let policies = self.policies(&candidates)?;
        let remembers = self.examines_memory.then(|| who_remembers(&policies)).transpose()?;
        let purpose = self.world.purpose()?;
        let experience = experience::load(self.experience.as_deref())?;
        let usual = Extent::new(self.is_quick, self.traces.clone());
        let extent = Extent { seconds: self.seconds.unwrap_or(usual.seconds), ..usual };
        let questions = case::draw_all(purpose, &extent, self.seed, self.seeds, workers)?;
        let brief = ControllerInput {
            preference: self.preference,
            candidates,
            seed: self.seed,
            experience: experience.clone(),
            ..ControllerInput::default()
        };
        let runs: Vec<(&(u64, EvaluationCase), &Policy)> =
            questions.iter().flat_map(|question| policies.iter().map(move |policy| (question, policy))).collect();
        let results = workers.map("evaluating, runs:", &runs, |((seed, question), policy)| {
            let run = run(question, policy, &ControllerInput { seed: *seed, ..brief.clone() }, self.measures_cpu, workers);
            run.with_context(|| format!("{} under {}", question.name, policy.label()))
        })?;
        let scored: Vec<Vec<Scored>> = questions
            .iter()
            .zip(results.chunks(policies.len()))
            .filter_map(|((_, question), results)| self.scores(question, &policies, &brief.candidates, results))
            .collect();
        ensure!(scored.len() == questions.len(), "a load sent no requests to its device, so it cannot be scored");
        let standings = self.standings(&policies, &questions, &scored);
        let memory = remembers.map(|chosen| memory::examine(chosen, &questions, purpose, &extent, &brief, self.seed, workers));
        Ok(Report {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            setup: self.setup(&policies, questions.len(), &experience),
            verdicts: verdicts(&standings),
            standings,
            questions: questions
                .iter()
                .zip(&scored)
                .flat_map(|((seed, question), scores)| {
                    policies.iter().zip(scores).map(|(policy, scores)| row(*seed, question, policy, scores))
                })
                .collect(),
            memory: memory.transpose()?,
            cross_validation: if self.is_quick || self.world != Which::Report {
                Vec::new()
            } else {
                cross_validation::tables(&experience, &brief.candidates, &self.preference, workers)?
            },
        })
    }

    fn scores(
        &self,
        question: &EvaluationCase,
        policies: &[Policy],
        candidates: &[Setting],
        results: &[Run],
    ) -> Option<Vec<Scored>> {
        let left_alone = policies.iter().zip(results).filter(|(policy, _)| policy.is_constant());
        let fixed: BTreeMap<String, &Run> = left_alone.map(|(policy, result)| (policy.label(), result)).collect();
        let candidates: Vec<String> = candidates.iter().map(Setting::to_string).collect();
        let key = Key::new(question, &fixed, &candidates, regime::FOUND, 0.0, &self.preference)?;
        let judge = Judge::new(question, &fixed, &self.preference);
        let scored = policies.iter().zip(results).map(|(policy, run)| {
            let scores = key.score(run, &self.preference);
            let (decisions, forecasts) = if policy.is_constant() { (Vec::new(), Vec::new()) } else { judge.judge(run) };
            Scored { scores, decisions, forecasts, read_from_device: run.read_from_device }
        });
        Some(scored.collect())
    }

    fn standings(&self, policies: &[Policy], questions: &[(u64, EvaluationCase)], scored: &[Vec<Scored>]) -> Vec<Standing> {
        policies
            .iter()
            .enumerate()
            .map(|(number, policy)| {
                let all: Vec<&Scores> = scored.iter().map(|scored| &scored[number].scores).collect();
                let decided = scored.iter().map(|scored| (&scored[number].decisions[..], &scored[number].forecasts[..]));
                let decisions = (!policy.is_constant()).then(|| decisions::summary(decided));
                Standing { decisions, ..self.standing(policy, questions, &all) }
            })
            .collect()
    }

    fn standing(&self, policy: &Policy, questions: &[(u64, EvaluationCase)], all: &[&Scores]) -> Standing {
        let percent = |values: Vec<(f64, f64)>| weighted_mean(&values, self.seed);
        // Every question has the same weight, independent of its duration.
        let share = |part: f64, whole: f64| if whole > 0.0 { (100.0 * part / whole, 1.0) } else { (0.0, 0.0) };
        let regrets: Vec<(usize, f64)> =
            all.iter().enumerate().filter_map(|(number, scores)| Some((number, 100.0 * scores.regret?))).collect();
        let worst = regrets.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let over: Vec<f64> = all.iter().filter_map(|scores| Some(100.0 * scores.over_default?)).collect();
        let ratios: Vec<f64> = all.iter().filter_map(|scores| scores.worst_p99_ratio).collect();
        let decided: Vec<Option<f64>> = all.iter().flat_map(|scores| scores.decided_s.iter().copied()).collect();
        let count = |is: fn(&Scores) -> bool| all.iter().filter(|scores| is(scores)).count();
        Standing {
            policy: policy.label(),
            is_constant: policy.is_constant(),
            correct_percent: percent(all.iter().map(|scores| share(scores.correct_s, scores.judged_s)).collect()),
            deciding_percent: percent(all.iter().map(|scores| share(scores.deciding_correct_s, scores.deciding_s)).collect()),
            regret: RegretFigures {
                regret_mean_percent: percent(regrets.iter().map(|(_, regret)| (*regret, 1.0)).collect()),
                regret_median_percent: median(regrets.iter().map(|(_, regret)| *regret)),
                regret_worst_percent: worst.map(|(_, regret)| *regret),
                worst_question: worst.map_or(String::new(), |(number, _)| questions[*number].1.name.clone()),
            },
            over_default: DefaultComparison {
                over_default_mean_percent: percent(over.iter().map(|over| (*over, 1.0)).collect()),
                over_default_worst_percent: over.iter().copied().reduce(f64::min),
                below_default: over.iter().filter(|over| **over < -100.0 * TOLERANCE).count() as u64,
            },
            questions: all.len() as u64,
            starves: count(|scores| scores.starves) as u64,
            changes_mean: statistics::mean(all.iter().map(|scores| scores.changes as f64)).unwrap_or(0.0),
            speed: DecisionSpeed {
                decided_median_s: median(decided.iter().copied().flatten()),
                never_decided: decided.iter().filter(|decided| decided.is_none()).count() as u64,
                phases_worth_deciding: decided.len() as u64,
            },
            worst_p99_ratio_median: median(ratios.iter().copied()),
            worst_p99_ratio: ratios.iter().copied().reduce(f64::max),
            cpu_ns_per_request: median(all.iter().filter_map(|scores| scores.cpu_ns)),
            decisions: None,
        }
    }

    /// The command that reproduces the results; the number of threads does not affect them.
    fn command(&self) -> String {
        let mut text = format!("seekwise-lab evaluate --seed {} --seeds {}", self.seed, self.seeds);
        let mut add =
            |flag: &str, values: &[String]| values.iter().for_each(|value| text.push_str(&format!(" --{flag} \"{value}\"")));
        add("controllers", &self.controllers);
        add("candidates", &self.candidates);
        add("trace", &self.traces.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
        add("experience", &self.experience.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
        let quick = self.is_quick.then_some("--quick");
        let (cpu_time, memory) = (self.measures_cpu.then_some("--cpu-time"), self.examines_memory.then_some("--memory"));
        for flag in [self.world.flag(), quick, cpu_time, memory].into_iter().flatten() {
            text.push_str(&format!(" {flag}"));
        }
        if let Some(seconds) = self.seconds {
            text.push_str(&format!(" --seconds {seconds}"));
        }
        if self.preference != Preference::default() {
            text.push_str(&format!(" --preference {}", self.preference));
        }
        text
    }

    fn setup(&self, policies: &[Policy], questions: usize, experience: &control::experience::Experience) -> Vec<(String, String)> {
        let labels = |constant: bool| {
            let of = policies.iter().filter(|policy| policy.is_constant() == constant).map(Policy::label);
            of.collect::<Vec<_>>().join(", ")
        };
        let names = |get: fn(&control::experience::Case) -> &str| {
            let mut names: Vec<&str> = experience.cases.iter().map(get).collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        let world = self.world.about();
        let facts = [
            (
                "Questions",
                format!(
                    "{questions} loads drawn from seeds {} to {}, each on a device of the world {world} (`seekwise-lab worlds` lists them).",
                    self.seed,
                    self.seed + u64::from(self.seeds) - 1
                ),
            ),
            (
                "Training data",
                format!(
                    "{} cases of {} loads on {} devices of the training world, which shares no devices or families of loads with this one.",
                    experience.cases.len(),
                    names(|case| &case.workload),
                    names(|case| &case.device)
                ),
            ),
            ("Candidates", format!("{}; controllers start from {}", labels(true), regime::FOUND)),
            ("Controllers", labels(false)),
            (
                "Merit",
                format!(
                    "Throughput, response time and fairness, weighted {}. A setting that starves a stream ranks last: the \
                     stream's p99 response time is above {} times that under {}, and above {} s.",
                    self.preference,
                    observe::starvation::BOUND_FACTOR,
                    regime::FOUND,
                    observe::starvation::LEAST_BOUND_S
                ),
            ),
            (
                "Correct",
                format!(
                    "The share of time in which the active setting, run as a constant, is within {}% of the best candidate in that phase of \
                     the load. Decisive phases: the same over phases in which candidates differ by more than {}%.",
                    100.0 * TOLERANCE,
                    100.0 * WORTH_DECIDING
                ),
            ),
            (
                "Regret",
                "Loss in merit of the whole run relative to the best constant candidate; negative if it is better.".to_owned(),
            ),
            (
                "Decisions",
                "The gain of a change is what its setting gains as a constant in the rest of the phase over the one that would have stayed. \
                 The cost of a trial is the service lost in it and in its return, relative to the setting before as a constant in that time."
                    .to_owned(),
            ),
            ("Intervals", "95%, by bootstrap over the cases.".to_owned()),
        ];
        let memory = self.examines_memory.then_some(memory::ABOUT).map(|text| ("Memory", text.to_owned()));
        facts.into_iter().chain(memory).map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

/// The controller that `--memory` evaluates.
fn who_remembers(policies: &[Policy]) -> anyhow::Result<&ControllerChoice> {
    let chosen = policies.iter().find_map(|policy| match policy {
        Policy::Chooses(chosen) if chosen.spec.name == twin::controller::SPEC.name => Some(chosen),
        _ => None,
    });
    let name = twin::controller::SPEC.name;
    chosen.with_context(|| format!("--memory: evaluates the controller {name}; add it to --controllers"))
}

fn run(
    question: &EvaluationCase,
    policy: &Policy,
    brief: &ControllerInput,
    measures_cpu: bool,
    workers: Workers,
) -> anyhow::Result<Run> {
    match policy {
        Policy::Always(setting) => {
            let fixed = Box::new(Fixed::new(setting.clone(), WINDOW));
            Run::of(question, setting, fixed, measures_cpu, None, workers.monitor)
        }
        Policy::Chooses(chosen) => {
            let begins_with = regime::scheduler(regime::FOUND)?;
            Run::of(question, &begins_with, chosen.build(brief), measures_cpu, None, workers.monitor)
        }
    }
}

/// A run, scored.
struct Scored {
    scores: Scores,
    decisions: Vec<DecisionScores>,
    forecasts: Vec<ForecastScores>,
    read_from_device: Option<f64>,
}

fn row(seed: u64, question: &EvaluationCase, policy: &Policy, scored: &Scored) -> CaseScores {
    let scores = &scored.scores;
    let percent = |part: f64, whole: f64| (whole > 0.0).then(|| 100.0 * part / whole);
    CaseScores {
        seed,
        question: question.name.clone(),
        family: question.family.clone(),
        device: question.device.clone(),
        policy: policy.label(),
        correct_percent: percent(scores.correct_s, scores.judged_s),
        deciding_percent: percent(scores.deciding_correct_s, scores.deciding_s),
        regret_percent: scores.regret.map(|regret| 100.0 * regret),
        over_default_percent: scores.over_default.map(|over| 100.0 * over),
        changes: scores.changes as u64,
        worst_p99_ratio: scores.worst_p99_ratio,
        starves: scores.starves,
        read_from_device_percent: scored.read_from_device.map(|share| 100.0 * share),
        decisions: scored.decisions.clone(),
        forecasts: scored.forecasts.clone(),
    }
}

/// For each controller, whether it is better than the best constant policy.
fn verdicts(standings: &[Standing]) -> Vec<Verdict> {
    let constants = || standings.iter().filter(|standing| standing.is_constant);
    let value = |interval: &Option<Interval>| interval.map_or(f64::NEG_INFINITY, |interval| interval.value);
    let most_correct = constants().max_by(|a, b| value(&a.correct_percent).total_cmp(&value(&b.correct_percent)));
    let least_regret = constants().min_by(|a, b| {
        let of = |standing: &Standing| standing.regret.regret_mean_percent.map_or(f64::INFINITY, |interval| interval.value);
        of(a).total_cmp(&of(b))
    });
    let (Some(most_correct), Some(least_regret)) = (most_correct, least_regret) else { return Vec::new() };
    let judge = |standing: &Standing| {
        let compare = |ours: Option<Interval>, theirs: Option<Interval>, more_is_better: bool, policy: &str| {
            let (Some(ours), Some(theirs)) = (ours, theirs) else { return format!("not comparable with a constant {policy}") };
            match ours.overlaps(&theirs) {
                true => format!("no better than a constant {policy}"),
                false if (ours.value > theirs.value) == more_is_better => format!("better than a constant {policy}"),
                false => format!("worse than a constant {policy}"),
            }
        };
        Verdict {
            policy: standing.policy.clone(),
            correct: compare(standing.correct_percent, most_correct.correct_percent, true, &most_correct.policy),
            regret: compare(
                standing.regret.regret_mean_percent,
                least_regret.regret.regret_mean_percent,
                false,
                &least_regret.policy,
            ),
        }
    };
    standings.iter().filter(|standing| !standing.is_constant).map(judge).collect()
}

/// The worlds as text for display.
///
/// # Errors
/// None for the built-in file.
pub fn worlds_text() -> anyhow::Result<String> {
    let worlds = worlds()?;
    let mut text = String::new();
    let purposes = [
        ("learn: training data of controllers", &worlds.learn),
        ("build: for design choices during development", &worlds.build),
        ("report: only for reported results", &worlds.report),
    ];
    for (title, purpose) in purposes {
        text += &format!("{title}\n  devices  {}\n  loads    {}\n", purpose.devices.join(", "), purpose.loads.join(", "));
        if !purpose.training_devices.is_empty() {
            text += &format!("  more devices for tenants  {}\n", purpose.training_devices.join(", "));
        }
    }
    Ok(text)
}
