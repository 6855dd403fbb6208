//! The paper's measures: whether a decision is correct, and how long an application takes.
//!
//! "A self-learning scheduler makes a correct decision when the corresponding performance data is better than or equal to those of the
//! regular disk I/O scheduler" (section 5.2.1). Each setting is run by itself on the same workload; the performance data of a decision are
//! those of its setting in the phase of the workload (the jobs between two stonewalls) that runs when it is made.

use std::collections::BTreeMap;

use observe::{Preference, merit, starvation};

use super::plan::Load;
use super::runs::{Key, Phase, Store, Summary, Under};
use super::schemes::{FIVE, FOUND, SETTINGS};

/// Performance data for the bars: the paper's figures show the throughput of applications, and the schemes observe the same.
pub const JUDGED_BY: Data = Data::Calls;

/// One repetition of a workload on a disk.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// An index into the plan's disks.
    pub disk: usize,
    /// The workload.
    pub load: Load,
    /// Repetition, from 0.
    pub repeat: u32,
}

impl Repetition {
    /// Its run under a scheduler or scheme; `None` if that has not been run yet.
    pub fn run<'a>(&self, store: &'a Store, under: Under) -> Option<&'a Summary> {
        store.get(&Key { disk: self.disk, load: self.load.clone(), under, repeat: self.repeat })
    }
}

/// Source of performance data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Throughput of the jobs alone: the paper's rank with UP(3,2,2), and its figures of aggregated time.
    Throughput,
    /// Requests at the block layer, which the paper's schemes log (section 4.3).
    BlockLayer,
    /// Calls of the jobs, all taken together: those served from memory count as much as those that wait for the disk.
    Calls,
}

/// Score of a phase ([`merit::score`]).
pub fn score(phase: &Phase, data: Data) -> Option<f64> {
    let Phase { served, .. } = phase;
    let (bytes, seconds, waited_s, requests) = match data {
        Data::BlockLayer => (served.bytes, served.seconds, served.waited_s, served.requests),
        Data::Calls | Data::Throughput => (phase.bytes as f64, phase.seconds(), phase.waited_s, phase.calls as f64),
    };
    if bytes <= 0.0 || requests <= 0.0 || seconds <= 0.0 {
        return None;
    }
    if data == Data::Throughput {
        return Some((bytes / seconds).ln());
    }
    Some(merit::score(&Preference::default(), bytes / seconds, waited_s / requests, served.fairness()))
}

/// Scores of all settings in a phase, by which they are ranked. A setting that starves a stream ranks behind all others, except when only
/// throughput counts.
fn ranked(store: &Store, trial: &Repetition, number: usize, data: Data) -> BTreeMap<&'static str, f64> {
    let phase = |name: &&'static str| trial.run(store, Under::Fixed(name))?.phases.get(number)?.as_ref();
    let default = phase(&FOUND).map(|phase| &phase.tails);
    let scored: Vec<(&'static str, (f64, bool))> = SETTINGS
        .iter()
        .filter_map(|name| {
            let phase = phase(name)?;
            let starves = data != Data::Throughput && default.is_some_and(|default| starvation::starves(&phase.tails, default));
            Some((*name, (score(phase, data)?, starves)))
        })
        .collect();
    let names = scored.iter().map(|(name, _)| *name);
    names.zip(merit::ranked(scored.iter().map(|(_, scored)| *scored))).collect()
}

/// Rules by which decisions are counted as correct.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting {
    /// Source of performance data.
    pub data: Data,
    /// Relative difference up to which two performances count as equal.
    pub tolerance: f64,
    /// The baseline: the best of these has to be reached; all five, or only "the regular disk I/O scheduler", taken literally.
    pub against: &'static [&'static str],
    /// Counts only decisions in phases in which one scheduler is the best by more than `tolerance`; in other phases the best is chance.
    pub only_determined: bool,
}

impl Counting {
    /// The paper's rules: by throughput, against the best of the five.
    pub const PRINTED: Counting =
        Counting { data: Data::Throughput, tolerance: merit::TOLERANCE, against: FIVE, only_determined: false };
    /// Our rules: by merit.
    pub const MERIT: Counting = Counting { data: JUDGED_BY, ..Counting::PRINTED };
}

/// Number of judged decisions, and of correct ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Correct decisions.
    pub right: u64,
    /// All judged decisions.
    pub judged: u64,
}

impl Count {
    /// The sum of two counts.
    pub fn and(self, other: Count) -> Count {
        Count { right: self.right + other.right, judged: self.judged + other.judged }
    }

    /// Share of correct decisions in percent; `None` if none was judged.
    pub fn percent(self) -> Option<f64> {
        (self.judged > 0).then(|| 100.0 * self.right as f64 / self.judged as f64)
    }
}

/// Judges the decisions of a run by the fixed runs in the store; `None` until all of these have been run.
pub fn accuracy(store: &Store, trial: &Repetition, under: &Under, counting: Counting) -> Option<Count> {
    let Counting { data, tolerance, against, only_determined } = counting;
    let run = trial.run(store, under.clone());
    // Look up all before returning, so that the store notes every missing run at once.
    let fixed: Vec<Option<&Summary>> = SETTINGS.iter().map(|name| trial.run(store, Under::Fixed(name))).collect();
    let run = run?;
    fixed.into_iter().collect::<Option<Vec<_>>>()?;
    let mut count = Count::default();
    for (at_s, setting) in &run.decisions {
        let running = |phase: &Option<Phase>| phase.as_ref().is_some_and(|phase| (phase.from_s..phase.to_s).contains(at_s));
        let Some(number) = run.phases.iter().position(running) else { continue };
        let ranked = ranked(store, trial, number, data);
        let Some(best) = against.iter().filter_map(|name| ranked.get(name).copied()).max_by(f64::total_cmp) else { continue };
        let is_as_good = |score: f64| score >= best + (1.0 - tolerance).ln();
        if only_determined && against.iter().filter_map(|name| ranked.get(name)).filter(|score| is_as_good(**score)).count() > 1 {
            continue;
        }
        // A setting that was not measured cannot be judged.
        let Some(chosen) = ranked.get(setting.as_str()) else { continue };
        count.judged += 1;
        count.right += u64::from(is_as_good(*chosen));
    }
    Some(count)
}

/// The paper's aggregated response time in seconds: from an application's start to its end. Runs with a time limit differ in the work done
/// instead: so it is the time that the work done under deadline would take at the rate achieved here, phase by phase.
pub fn aggregated_s(run: &Summary, deadline: &Summary) -> Option<f64> {
    let mut sum = 0.0;
    for (here, there) in run.phases.iter().zip(&deadline.phases) {
        let (Some(here), Some(there)) = (here, there) else { continue };
        if there.bytes == 0 {
            continue;
        }
        if here.bytes == 0 {
            return None;
        }
        sum += here.seconds() * there.bytes as f64 / here.bytes as f64;
    }
    (sum > 0.0).then_some(sum)
}

/// Gain of one run over another by the preference, in percent. Phases are weighted by their duration in the other run.
pub fn gain_percent(run: &Summary, other: &Summary, data: Data) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (here, there) in run.phases.iter().zip(&other.phases) {
        let (Some(here), Some(there)) = (here, there) else { continue };
        if let (Some(ours), Some(theirs)) = (score(here, data), score(there, data)) {
            let seconds = there.seconds();
            sum += seconds * (ours - theirs);
            weight += seconds;
        }
    }
    (weight > 0.0).then(|| statistics::percent(sum / weight))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use observe::starvation::Tails;

    use observe::merit::TOLERANCE;

    use super::super::runs::Served;
    use super::*;

    fn phase(seconds: f64, bytes: u64, waited_s: f64) -> Option<Phase> {
        let served = Served { seconds, bytes: 3.0 * bytes as f64, requests: 1.0, waited_s, fairness_s: seconds };
        Some(Phase { from_s: 0.0, to_s: seconds, bytes, calls: 10, waited_s, served, tails: Tails::new() })
    }

    fn run(phases: Vec<Option<Phase>>) -> Summary {
        Summary::of_phases(phases)
    }

    #[test]
    fn a_run_bounded_by_work_takes_as_long_as_it_took() {
        let (fast, slow) =
            (run(vec![phase(10.0, 500, 1.0), phase(5.0, 50, 1.0)]), run(vec![phase(20.0, 500, 2.0), phase(5.0, 50, 1.0)]));
        assert_eq!(aggregated_s(&fast, &slow), Some(15.0));
        assert_eq!(aggregated_s(&slow, &slow), Some(25.0));
    }

    #[test]
    fn a_run_bounded_by_time_takes_as_long_as_the_others_work_would() {
        let (here, deadline) = (run(vec![phase(10.0, 500, 1.0)]), run(vec![phase(10.0, 1000, 1.0)]));
        assert_eq!(aggregated_s(&here, &deadline), Some(20.0));
        assert_eq!(aggregated_s(&run(vec![phase(10.0, 0, 0.0)]), &deadline), None);
    }

    #[test]
    fn twice_the_rate_at_half_the_response_time_is_a_gain_by_their_weights() {
        let (better, worse) = (run(vec![phase(10.0, 1000, 1.0), None]), run(vec![phase(10.0, 500, 2.0), None]));
        for data in [Data::BlockLayer, Data::Calls] {
            // Throughput and response time have five sixths of the weight.
            let twice = 2f64.powf(5.0 / 6.0);
            assert!((gain_percent(&better, &worse, data).unwrap() - 100.0 * (twice - 1.0)).abs() < 1e-9);
            assert!((gain_percent(&worse, &better, data).unwrap() - 100.0 * (1.0 / twice - 1.0)).abs() < 1e-9);
            assert_eq!(gain_percent(&run(vec![None]), &worse, data), None);
        }
    }

    /// Two phases of ten seconds each, this many bytes in each of them.
    fn two_phases(bytes: [u64; 2]) -> Summary {
        let mut phases = vec![phase(10.0, bytes[0], 1.0), phase(10.0, bytes[1], 1.0)];
        phases[1] = phases[1].take().map(|it| Phase { from_s: 10.0, to_s: 20.0, ..it });
        run(phases)
    }

    fn trial() -> Repetition {
        Repetition { disk: 0, load: Load::Of("mixed-2"), repeat: 0 }
    }

    fn key(under: Under) -> Key {
        Key { under, disk: 0, load: Load::Of("mixed-2"), repeat: 0 }
    }

    const OURS: Under = Under::Scheme(super::super::schemes::Scheme::SEEKWISE);

    fn counting(data: Data, tolerance: f64) -> Counting {
        Counting { data, tolerance, ..Counting::PRINTED }
    }

    #[test]
    fn a_decision_is_correct_if_its_setting_is_as_good_as_the_best_of_five_in_the_phase_in_which_it_is_made() {
        // cfq is the best of the first phase, noop of the second, deadline within two percent of either; clook is none of the five.
        let bytes = |name: &str| match name {
            "cfq" => [1000, 500],
            "noop" => [500, 1000],
            "deadline" => [990, 990],
            "clook" => [2000, 2000],
            _ => [100, 100],
        };
        let decided =
            [(1.0, "cfq"), (2.0, "noop"), (3.0, "deadline"), (11.0, "cfq"), (12.0, "noop"), (13.0, "clook"), (25.0, "sstf")];
        let decisions = decided.map(|(at_s, name)| (at_s, name.to_owned())).to_vec();
        let mut ours = two_phases([700, 700]);
        ours.decisions = decisions;
        let fixed = SETTINGS.iter().map(|name| (key(Under::Fixed(name)), two_phases(bytes(name))));
        let store = Store::of(fixed.chain([(key(OURS), ours)]));
        for data in [Data::BlockLayer, Data::Calls, Data::Throughput] {
            assert_eq!(accuracy(&store, &trial(), &OURS, counting(data, TOLERANCE)), Some(Count { right: 4, judged: 6 }));
            assert_eq!(
                accuracy(&store, &trial(), &OURS, counting(data, 0.0)),
                Some(Count { right: 3, judged: 6 }),
                "deadline is not the best"
            );
        }
        // The regular scheduler, anticipatory, has 100 in both phases: all six are better.
        let regular = Counting { against: &["anticipatory"], ..Counting::PRINTED };
        assert_eq!(accuracy(&store, &trial(), &OURS, regular), Some(Count { right: 6, judged: 6 }));
        // In the first phase deadline is as good as cfq, in the second as noop: in neither is one the best by more than 2%.
        let determined = Counting { only_determined: true, ..Counting::PRINTED };
        assert_eq!(accuracy(&store, &trial(), &OURS, determined), Some(Count::default()));
        assert_eq!(
            accuracy(&store, &trial(), &OURS, Counting { tolerance: 0.005, ..determined }),
            Some(Count { right: 3, judged: 6 }),
            "by more than 0.5% it is"
        );
        assert_eq!(store.asked_for(), [], "everything was there");
    }

    #[test]
    fn what_is_not_there_is_asked_for() {
        let store = Store::default();
        assert_eq!(accuracy(&store, &trial(), &OURS, Counting::MERIT), None);
        let fixed = SETTINGS.iter().map(|name| key(Under::Fixed(name)));
        let mut wanted: Vec<Key> = fixed.chain([key(OURS)]).collect();
        wanted.sort();
        assert_eq!(store.asked_for(), wanted);
    }

    #[test]
    fn shares_are_of_decisions_not_of_runs() {
        let count = Count { right: 1, judged: 1 }.and(Count { right: 0, judged: 3 });
        assert_eq!((count.percent(), Count::default().percent()), (Some(25.0), None));
    }
}
