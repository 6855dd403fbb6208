//! Scores of a run: relative to every candidate as a constant setting, and to the default.
//!
//! *Correct.* In each phase of a load, every constant setting has a [merit](observe::merit). A decision is correct while its setting
//! ranks within two percent of the best one of the phase. The score is the share of time with a correct setting active.
//!
//! *Regret.* The distance of the whole run, including the cost of trials and switches, below the best constant candidate.

use std::collections::BTreeMap;

use observe::Preference;
use observe::merit;
use observe::merit::TOLERANCE;
use observe::starvation;
use observe::starvation::Tails;

use super::case::EvaluationCase;
use super::run::Run;

/// A phase is worth deciding if the best and the worst setting differ by more than this.
pub const WORTH_DECIDING: f64 = 0.05;

/// Results of a question's runs under fixed settings.
pub struct Key {
    /// Phases: start and end in seconds, and the ranking scores of the settings.
    phases: Vec<KeyPhase>,
    /// The score of the best candidate over the whole load.
    best: Option<f64>,
    /// For each fixed setting the score over the whole load, and whether it starves a stream.
    whole: Vec<(f64, bool)>,
    /// The score of the default, and response times of streams under it.
    default: Option<f64>,
    tails: Tails,
    end_s: f64,
}

struct KeyPhase {
    from_s: f64,
    to_s: f64,
    ranked: BTreeMap<String, f64>,
    best: f64,
    is_worth_deciding: bool,
}

/// The scores of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// Number of seconds judged, and of those with a correct setting active.
    pub judged_s: f64,
    /// See `judged_s`.
    pub correct_s: f64,
    /// The same in phases that are worth deciding.
    pub deciding_s: f64,
    /// See `deciding_s`.
    pub deciding_correct_s: f64,
    /// Distance below the best constant candidate, as a share; negative if better.
    pub regret: Option<f64>,
    /// Gain over the default, as a share.
    pub over_default: Option<f64>,
    /// Number of setting changes.
    pub changes: usize,
    /// For each phase worth deciding, seconds until the active setting was correct for good; `None` if it never was.
    pub decided_s: Vec<Option<f64>>,
    /// The largest ratio of a stream's p99 response time to that under the default.
    pub worst_p99_ratio: Option<f64>,
    /// Whether a stream starved.
    pub starves: bool,
    /// Processor time of scheduler and controller for each request, in nanoseconds.
    pub cpu_ns: Option<f64>,
}

impl Key {
    /// From the runs under each of the fixed settings, by name; `candidates` are the choices of controllers, and `default` the initial setting. The
    /// first `settles_s` seconds of each phase are not judged.
    pub fn new(
        question: &EvaluationCase,
        fixed: &BTreeMap<String, &Run>,
        candidates: &[String],
        default: &str,
        settles_s: f64,
        preference: &Preference,
    ) -> Option<Key> {
        let standard = fixed.get(default)?;
        let end_s = fixed.values().map(|run| run.ended_s).fold(0.0, f64::max);
        let scores = |from_s: f64, to_s: f64, phase: Option<usize>| -> Vec<(f64, bool)> {
            let standard = of_phase(question, &standard.tails, phase);
            let score = |run: &&Run| {
                let served = run.served(from_s, to_s);
                let score = served.map_or(f64::NEG_INFINITY, |served| served.score(preference));
                (score, starvation::starves(&of_phase(question, &run.tails, phase), &standard))
            };
            fixed.values().map(score).collect()
        };
        let named = |scores: &[(f64, bool)]| -> BTreeMap<String, f64> {
            fixed.keys().cloned().zip(merit::ranked(scores.iter().copied())).collect()
        };
        let of_candidates = |ranked: &BTreeMap<String, f64>| {
            candidates.iter().filter_map(|name| ranked.get(name).copied()).filter(|score| score.is_finite()).collect::<Vec<_>>()
        };
        let highest = |scores: &[f64]| scores.iter().copied().reduce(f64::max);
        let mut phases = Vec::new();
        let mut from_s = 0.0;
        for (number, &to_s) in question.phase_ends_s.iter().enumerate() {
            let to_s = to_s.min(end_s);
            let ranked = named(&scores(from_s + settles_s, to_s, Some(number)));
            let chosen_from = of_candidates(&ranked);
            if let Some(best) = highest(&chosen_from) {
                let worst = chosen_from.iter().copied().fold(best, f64::min);
                let is_worth_deciding = worst < best + (1.0 - WORTH_DECIDING).ln();
                phases.push(KeyPhase { from_s, to_s, ranked, best, is_worth_deciding });
            }
            from_s = to_s;
        }
        let whole = scores(0.0, end_s, None);
        let ranked = named(&whole);
        Some(Key {
            phases,
            best: highest(&of_candidates(&ranked)),
            whole,
            default: ranked.get(default).copied().filter(|score| score.is_finite()),
            tails: standard.tails.clone(),
            end_s,
        })
    }

    /// Each phase: start and end in seconds, and the ranking scores of the settings.
    pub fn phases(&self) -> impl Iterator<Item = (f64, f64, &BTreeMap<String, f64>)> {
        self.phases.iter().map(|phase| (phase.from_s, phase.to_s, &phase.ranked))
    }

    /// Scores a run.
    pub fn score(&self, run: &Run, preference: &Preference) -> Scores {
        let mut scores = Scores {
            judged_s: 0.0,
            correct_s: 0.0,
            deciding_s: 0.0,
            deciding_correct_s: 0.0,
            regret: None,
            over_default: None,
            changes: run.changes(),
            decided_s: Vec::new(),
            worst_p99_ratio: worst_ratio(&run.tails, &self.tails),
            starves: starvation::starves(&run.tails, &self.tails),
            cpu_ns: run.cpu_ns,
        };
        for phase in &self.phases {
            phase.score(run, &mut scores);
        }
        let score = run.served(0.0, self.end_s).map(|served| served.score(preference)).filter(|score| score.is_finite());
        // Ranked among the fixed settings: one that starves is behind all that do not.
        let rank = |score| merit::ranked(self.whole.iter().copied().chain([(score, scores.starves)])).pop();
        let score = score.and_then(rank);
        scores.regret = score.zip(self.best).map(|(score, best)| 1.0 - (score - best).exp());
        scores.over_default = score.zip(self.default).map(|(score, default)| (score - default).exp_m1());
        scores
    }
}

impl KeyPhase {
    fn is_correct(&self, setting: &str) -> bool {
        self.ranked.get(setting).is_some_and(|score| *score >= self.best + (1.0 - TOLERANCE).ln())
    }

    fn score(&self, run: &Run, scores: &mut Scores) {
        let length_s = self.to_s - self.from_s;
        // The time since when the setting has been correct without interruption.
        let (mut correct_s, mut since) = (0.0, None);
        for (from, to, setting) in run.pieces(self.from_s, self.to_s) {
            if self.is_correct(setting) {
                correct_s += to - from;
                since = since.or(Some(from - self.from_s));
            } else {
                since = None;
            }
        }
        scores.judged_s += length_s;
        scores.correct_s += correct_s;
        if self.is_worth_deciding {
            scores.deciding_s += length_s;
            scores.deciding_correct_s += correct_s;
            scores.decided_s.push(since);
        }
    }
}

/// The streams of a phase, or all streams for `None`.
pub(crate) fn of_phase(question: &EvaluationCase, tails: &Tails, phase: Option<usize>) -> Tails {
    let is_in = |stream: &block::StreamId| match (phase, question.phase_of.get(stream)) {
        (Some(phase), Some(of)) => *of == phase,
        _ => true,
    };
    tails.iter().filter(|(stream, _)| is_in(stream)).map(|(stream, tail)| (*stream, *tail)).collect()
}

/// Lower limit of p99 response times in ratios: ratios between values served from memory are meaningless.
const LEAST_P99_S: f64 = 1e-3;

/// The largest ratio of a stream's p99 to that under the default, over streams with enough requests.
fn worst_ratio(tails: &Tails, default: &Tails) -> Option<f64> {
    let judged = default.iter().filter(|(_, tail)| tail.requests >= starvation::LEAST_REQUESTS);
    let ratios =
        judged.filter_map(|(stream, default)| Some(tails.get(stream)?.p99_s.max(LEAST_P99_S) / default.p99_s.max(LEAST_P99_S)));
    ratios.reduce(f64::max)
}
