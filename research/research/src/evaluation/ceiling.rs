//! Upper bound of a twin's accuracy in ranking settings: a recording under the default is replayed under every candidate, and the predictions
//! are compared with real runs. Errors with the true device model are errors in the model of the load; additional errors with a fitted one
//! are errors in the model of the device.
//!
//! ```text
//! question ─▶ run under the default ──▶ recording ─▶ load ─▶ tried under each candidate ──▶ promised ──┐
//!          └▶ run under each candidate ─────────────────────────────────────────────────▶ measured ──┴▶ pairs ranked alike
//! ```

use std::collections::BTreeMap;

use crate::report::twin::{Outcome, Pairs, PredictionFigures, Ranking, Report, SCHEMA, Stream};
use block::Nanos;
use control::Setting;
use control::controller::Fixed;
use control::experience::WINDOW;
use observe::Preference;
use observe::merit;
use observe::performance::Performance;
use observe::starvation;
use observe::starvation::Tails;
use sim::device::Device;
use sim::host::Queue;
use sim::profile::DeviceOptions;
use testbed::pool::Workers;
use twin::load::Understood;
use twin::{CallModel, Load, ObservedRequest, Recording, TrialResult};

use super::case::{self, EvaluationCase, Extent};
use super::run::Run;
use super::scores::{Key, WORTH_DECIDING};
use crate::worlds::Which;
use experiment::comparison::regime;

/// Start-up of a load, which is excluded: all files are opened at once, and all queues and caches are empty.
const SETTLES: Nanos = Nanos::from_millis(2000);

/// Parameters of the evaluation.
#[derive(Clone, Debug)]
pub struct Ceiling {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// The world to draw from.
    pub world: Which,
    /// Whether to run fewer and shorter loads.
    pub is_quick: bool,
    /// Whether the device is fitted to observed requests instead of using its true model.
    pub fits_device: bool,
    /// The settings to rank, as for an evaluation, including the original one.
    pub candidates: Vec<String>,
}

impl Ceiling {
    /// Runs the twin and all real runs, and compares them.
    ///
    /// # Errors
    /// A run fails, or the work was interrupted.
    pub fn measure(&self, workers: Workers) -> anyhow::Result<Report> {
        let extent = Extent::new(self.is_quick, Vec::new());
        let questions = case::draw_all(self.world.purpose()?, &extent, self.seed, self.seeds, workers)?;
        let candidates = regime::with_found(regime::candidates(&self.candidates)?)?;
        let loads = workers.map("forecasts, loads:", &questions, |(_, question)| {
            Asked::new(question, &candidates, workers)?.rankings(self.fits_device, workers)
        })?;
        Ok(Report {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            setup: self.setup(questions.len()),
            without_twin: loads.iter().flatten().filter_map(|one| one.as_ref().err().cloned()).collect(),
            loads: loads.into_iter().flatten().flatten().collect(),
        })
    }

    fn command(&self) -> String {
        let mut text = format!("seekwise-lab twin --seed {} --seeds {}", self.seed, self.seeds);
        for flag in [self.world.flag(), self.is_quick.then_some("--quick"), self.fits_device.then_some("--fit-device")]
            .into_iter()
            .flatten()
        {
            text += &format!(" {flag}");
        }
        for candidates in &self.candidates {
            text += &format!(" --candidates \"{candidates}\"");
        }
        text
    }

    fn setup(&self, questions: usize) -> Vec<(String, String)> {
        let last = self.seed + u64::from(self.seeds) - 1;
        let facts = [
            (
                "Loads",
                format!(
                    "{questions}, drawn from seeds {} to {last}, each on a device of the world {}.",
                    self.seed,
                    self.world.about()
                ),
            ),
            (
                "Twin",
                format!(
                    "It observes each load under {} and simulates it under every candidate on {}. Real runs and trials are judged without \
                     their first {} s.",
                    regime::FOUND,
                    if self.fits_device { "a device fitted to the observed requests" } else { "the true model of the device" },
                    SETTLES.as_secs_f64()
                ),
            ),
            (
                "Pairs",
                format!(
                    "Pairs of candidates that differ by more than {}% in real runs: by requests, and by merit, which is measured by processes \
                     and ranks settings that starve a stream last.",
                    100.0 * WORTH_DECIDING
                ),
            ),
        ];
        facts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

/// A load that was run under every candidate.
struct Asked<'a> {
    question: &'a EvaluationCase,
    candidates: &'a [Setting],
    /// Real runs by candidate.
    runs: BTreeMap<String, Run>,
    /// The twin's input.
    recording: Recording,
    preference: Preference,
}

impl<'a> Asked<'a> {
    fn new(question: &'a EvaluationCase, candidates: &'a [Setting], workers: Workers) -> anyhow::Result<Asked<'a>> {
        let mut recording = Recording::new();
        let mut runs = BTreeMap::new();
        for setting in candidates {
            let name = setting.to_string();
            let fixed = Box::new(Fixed::new(setting.clone(), WINDOW));
            let keep = (name == regime::FOUND).then_some(&mut recording);
            runs.insert(name, Run::of(question, setting, fixed, false, keep, workers.monitor)?);
        }
        Ok(Asked { question, candidates, runs, recording, preference: Preference::default() })
    }

    /// Rankings by phase of the load; for a phase without a twin its name and the reason.
    fn rankings(&self, fits_device: bool, workers: Workers) -> anyhow::Result<Vec<Result<Ranking, (String, String)>>> {
        let names: Vec<String> = self.runs.keys().cloned().collect();
        let fixed = self.runs.iter().map(|(name, run)| (name.clone(), run)).collect();
        let key = Key::new(self.question, &fixed, &names, regime::FOUND, SETTLES.as_secs_f64(), &self.preference);
        let Some(key) = key else { return Ok(Vec::new()) };
        let seen: Vec<ObservedRequest> = self.recording.seen().copied().collect();
        let mut rankings = Vec::new();
        for (from_s, to_s, merits) in key.phases() {
            let (from, to) = (Nanos::from_secs_f64(from_s), Nanos::from_secs_f64(to_s));
            let load = Load::infer(seen.iter().chain(self.recording.flushes()), from, to);
            if load.requests() > 0 && to - from > SETTLES {
                let world = &self.question.world;
                let fitted = fits_device.then(|| {
                    let asked = seen.iter().chain(self.recording.flushes());
                    let until: Vec<ObservedRequest> = asked.filter(|seen| seen.completed < to).copied().collect();
                    twin::fit(&until, Some(world.profile.capacity_sectors()))
                });
                let tried = match fitted.transpose() {
                    Ok(None) => self.tried(&load, (from, to), || world.profile.build(world.device), workers)?,
                    Ok(Some(fitted)) => {
                        let profile = fitted.profile();
                        self.tried(&load, (from, to), || profile.build(DeviceOptions::default()), workers)?
                    }
                    Err(error) => {
                        rankings.push(Err((self.name((from_s, to_s)), error.to_string())));
                        continue;
                    }
                };
                rankings.extend(self.ranking(&tried, merits, (from_s, to_s), &load).map(Ok));
            }
        }
        Ok(rankings)
    }

    fn name(&self, (from_s, to_s): (f64, f64)) -> String {
        let phase = if self.question.phase_ends_s.len() > 1 { format!(", {from_s:.0} to {to_s:.0} s") } else { String::new() };
        format!("{}{phase}", self.question.name)
    }

    fn tried(
        &self,
        load: &Load,
        (from, to): (Nanos, Nanos),
        device: impl Fn() -> Box<dyn Device>,
        workers: Workers,
    ) -> anyhow::Result<BTreeMap<String, TrialResult>> {
        let call_model =
            CallModel::infer(self.recording.calls(), self.recording.seen().chain(self.recording.flushes()), from + SETTLES, to);
        let watch = workers.watch();
        let world = &self.question.world;
        let extent = twin::trial::TrialLength { warmup: SETTLES, judged: load.span() - SETTLES, max_requests: u64::MAX };
        let one = |setting: &Setting| {
            let queue = Queue::new(world.scheduler(setting), device(), world.host.queue());
            let tried = twin::trial::run(load, (queue, None), extent, call_model.as_ref(), &watch, &mut |_| ());
            workers.monitor.check()?;
            Ok((setting.to_string(), tried?))
        };
        self.candidates.iter().map(one).collect()
    }

    fn ranking(
        &self,
        tried: &BTreeMap<String, TrialResult>,
        merits: &BTreeMap<String, f64>,
        (from_s, to_s): (f64, f64),
        load: &Load,
    ) -> Option<Ranking> {
        let standard = (&self.runs.get(regime::FOUND)?.tails, &tried.get(regime::FOUND)?.tails);
        let score = |served: Option<Performance>| served.map_or(f64::NEG_INFINITY, |served| served.score(&self.preference));
        let with_starving = tried.values().map(|one| (score(one.calls), starvation::starves(&one.tails, standard.1)));
        let promised: Vec<f64> = merit::ranked(with_starving);
        let (mut by_requests, mut by_merit, mut settings) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, tried), promised) in tried.iter().zip(promised) {
            let run = self.runs.get(name)?;
            let after_s = from_s + SETTLES.as_secs_f64();
            let (measured, requests) = (run.served(after_s, to_s), run.requests(after_s, to_s));
            by_requests.push((score(requests), score(tried.served)));
            by_merit.push((*merits.get(name)?, promised));
            settings.push(PredictionFigures {
                setting: name.clone(),
                requests_measured: outcome(requests),
                requests_promised: outcome(tried.served),
                measured: outcome(measured),
                promised: outcome(tried.calls),
                p99_by_bound_measured: finite(&run.tails, standard.0),
                p99_by_bound_promised: finite(&tried.tails, standard.1),
            });
        }
        Some(Ranking {
            load: self.name((from_s, to_s)),
            requests: load.requests() as u64,
            streams: load.streams().map(|stream| understood(&stream)).collect(),
            by_requests: pairs(&by_requests),
            by_merit: pairs(&by_merit),
            regret_percent: 100.0 * regret(&by_merit),
            settings,
        })
    }
}

fn understood(stream: &Understood) -> Stream {
    Stream {
        stream: stream.stream,
        pace: stream.pace.name(),
        requests: stream.requests as u64,
        in_flight: stream.in_flight,
        thought_ms: stream.thought.map(Nanos::as_millis_f64),
    }
}

/// The largest ratio of a wait to its bound; limited to the range of JSON, as it is infinite for a stream that was never served.
fn finite(tails: &Tails, standard: &Tails) -> f64 {
    starvation::max_wait_ratio(tails, standard).min(f64::MAX)
}

fn outcome(served: Option<Performance>) -> Outcome {
    let of = |get: fn(&Performance) -> f32| served.as_ref().map_or(0.0, |served| f64::from(get(served)));
    Outcome {
        mb_s: of(|served| served.throughput) / 1e6,
        response_ms: 1e3 * of(|served| served.response_s),
        fairness: of(|served| served.fairness),
    }
}

/// Agreement on pairs with given measured and predicted scores; only pairs whose measured scores differ by more than 5% count.
fn pairs(scores: &[(f64, f64)]) -> Pairs {
    let worth = -(1.0 - WORTH_DECIDING).ln();
    let all = scores.iter().enumerate().flat_map(|(number, a)| scores[..number].iter().map(move |b| (a, b)));
    let differ = all.filter(|(a, b)| (a.0 - b.0).abs() > worth);
    differ.fold(Pairs::default(), |sum, (a, b)| Pairs {
        differ: sum.differ + 1,
        alike: sum.alike + u64::from((a.0 > b.0) == (a.1 > b.1) && a.1 != b.1),
    })
}

/// Distance of the setting with the highest prediction below the best.
fn regret(scores: &[(f64, f64)]) -> f64 {
    let best = scores.iter().map(|(measured, _)| *measured).fold(f64::NEG_INFINITY, f64::max);
    let chosen = scores.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    chosen.map_or(0.0, |(measured, _)| 1.0 - (measured - best).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_hardly_differ_are_not_counted_and_a_tie_is_no_ranking() {
        let scores = [(1.0, 5.0), (1.01, 4.0), (2.0, 5.0), (3.0, 6.0)];
        // 1 and 1.01 do not differ; the twin rates 1 and 2 equal.
        assert_eq!(pairs(&scores), Pairs { differ: 5, alike: 4 });
    }

    #[test]
    fn regret_is_the_distance_of_the_choice_from_the_best() {
        let half = 0.5_f64.ln();
        assert_eq!(regret(&[(0.0, 1.0), (half, 2.0)]), 0.5);
        assert_eq!(regret(&[(0.0, 2.0), (half, 1.0)]), 0.0);
    }
}
