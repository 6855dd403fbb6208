//! What candidates promise over all hypotheses that were kept.

use block::{Limits, Nanos};
use control::Setting;
use control::controller::{Evidence, Prediction};
use observe::Preference;
use observe::merit;
use rayon::prelude::*;

use super::counted::Counted;
use super::ensemble::{Ensemble, Kept, Unlike};
use super::hypothesis::Known;
use crate::ask::{Stage, can_be_tried, is_first, judged_requests};
use crate::device::SupposedDevice;
use crate::trial::{Extent, Tried};

/// Requests of a trial.
const OF_A_TRIAL: f64 = 3_000.0;
/// It lasts between these, in seconds.
const LASTS_S: (f64, f64) = (0.2, 40.0);
/// So many schedulers, the best, are tried with their tunings.
const TUNED: usize = 2;
/// What a model has wrong of all hypotheses alike: a share of the gain, as of a twin that is right under the setting in force
/// (`ask::GAIN_ERROR`), and a little by chance.
const GAIN_ERROR: f64 = 0.25;
const LEAST_ERROR: f64 = 0.02;
/// Hypotheses that were kept are fewer, and more alike, than all that count alike: errors are so many times as wide as their spread. 94% of
/// what requests gain lies within two of them then, and 97% of what processes do. From the world for choices:
/// `seekwise-lab counters --quick --seed 2 --seeds 2 --build-world`.
const WIDER: f64 = 1.7;
/// A candidate starves where more than this share of the hypotheses say so.
const MAY_STARVE: f64 = 0.05;
/// The error reaches at least down to what this share of the hypotheses gain less than.
const MAY_LOSE: f64 = 0.1;

/// What is asked of an ensemble.
pub struct Judges<'a> {
    /// What was counted.
    pub counted: &'a Counted,
    /// What is known of the device.
    pub known: &'a Known,
    /// What was in force.
    pub in_force: &'a Setting,
    /// What there is to choose from.
    pub candidates: &'a [Setting],
    /// What counts.
    pub preference: Preference,
}

/// What the hypotheses say.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What the candidates promise, what is in force included: the best first.
    pub promises: Vec<Prediction>,
    /// What the hypotheses have in common, and where they differ: names and values.
    pub facts: Vec<(String, String)>,
    /// How many were kept.
    pub hypotheses: usize,
    /// Requests that were simulated.
    pub requests: u64,
}

/// What came of one candidate on one hypothesis.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    gain: f64,
    throughput: f64,
    response_s: f64,
    wait_ratio: f64,
}

impl Judges<'_> {
    /// Tries all candidates on what the ensemble kept, on all cores.
    ///
    /// # Errors
    /// No hypothesis comes near to what was counted.
    pub fn judge(&self, ensemble: &Ensemble) -> Result<Judgement, Box<Unlike>> {
        let kept = ensemble.kept()?;
        let found: Vec<(&Kept, Tried)> =
            kept.par_iter().with_max_len(1).filter_map(|one| Some((one, self.tried(one, self.in_force)?))).collect();
        let mut requests = ensemble.requests() + found.iter().map(|(_, tried)| tried.requests).sum::<u64>();
        let mut promises = Vec::new();
        let mut try_all = |settings: &mut dyn Iterator<Item = &Setting>, promises: &mut Vec<Prediction>| {
            for setting in settings {
                let outcome = |(one, before): &(&Kept, Tried)| {
                    let tried = self.tried(one, setting);
                    (tried.as_ref().map_or(0, |tried| tried.requests), tried.and_then(|tried| self.outcome(before, &tried)))
                };
                let outcomes: Vec<(u64, Option<Outcome>)> = found.par_iter().with_max_len(1).map(outcome).collect();
                requests += outcomes.iter().map(|(requests, _)| requests).sum::<u64>();
                let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
                promises.extend(outcomes.filter(|all| !all.is_empty()).map(|outcomes| promise(setting, &outcomes)));
            }
        };
        let itself: Vec<Outcome> = found.iter().filter_map(|(_, tried)| self.outcome(tried, tried)).collect();
        if !itself.is_empty() {
            promises.push(Prediction { error: 0.0, ..promise(self.in_force, &itself) });
        }
        let others = || self.candidates.iter().filter(|&one| one != self.in_force && can_be_tried(one, self.in_force));
        try_all(&mut others().filter(|one| is_first(self.candidates, one)), &mut promises);
        promises.sort_by(Prediction::surest_first);
        let mut best: Vec<&str> = promises.iter().map(|promise| promise.setting.spec.name).collect();
        best.dedup();
        best.truncate(TUNED);
        try_all(&mut others().filter(|one| !is_first(self.candidates, one) && best.contains(&one.spec.name)), &mut promises);
        promises.sort_by(Prediction::surest_first);
        Ok(Judgement { promises, facts: facts(&kept), hypotheses: found.len(), requests })
    }

    fn tried(&self, kept: &Kept, setting: &Setting) -> Option<Tried> {
        let per_s = self.counted.read.asked_per_s() + self.counted.write.asked_per_s();
        let lasts = Nanos::from_secs_f64((OF_A_TRIAL / per_s).clamp(LASTS_S.0, LASTS_S.1));
        let extent = Extent::lasting(lasts, 2 * OF_A_TRIAL as u64);
        let stage = Stage { device: &*kept.device, bounds: self.known.bounds, load: &kept.load, above: None, extent };
        let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
        stage.tried(setting, None, &build, &mut |_| {})
    }

    fn outcome(&self, before: &Tried, tried: &Tried) -> Option<Outcome> {
        let (was, is) = (before.calls?, tried.calls?);
        let gain = is.score(&self.preference) - was.score(&self.preference);
        let judged = judged_requests(Extent::lasting(before.until, u64::MAX));
        gain.is_finite().then(|| Outcome {
            gain,
            throughput: is.throughput.into(),
            response_s: is.response_s.into(),
            wait_ratio: merit::max_wait_ratio_of(&tried.tails, &before.tails, judged),
        })
    }
}

/// What one candidate promises.
fn promise(setting: &Setting, outcomes: &[Outcome]) -> Prediction {
    let count = outcomes.len() as f64;
    let mean = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).sum::<f64>() / count;
    let sorted = |of: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let gain = mean(|one| one.gain);
    let spread = (outcomes.iter().map(|one| (one.gain - gain).powi(2)).sum::<f64>() / count).sqrt();
    let gains = sorted(|one| one.gain);
    // A few hypotheses that lose much weigh more than the standard deviation says: the mean less the error is below what a tenth of
    // them says.
    let low = gain - gains[(MAY_LOSE * (gains.len() - 1) as f64) as usize];
    let bounds = sorted(|one| one.wait_ratio);
    let starving = bounds[((1.0 - MAY_STARVE) * (bounds.len() - 1) as f64) as usize];
    let own = LEAST_ERROR + GAIN_ERROR * gain.abs();
    Prediction {
        setting: setting.clone(),
        throughput: mean(|one| one.throughput),
        response_s: mean(|one| one.response_s),
        p99_by_bound: starving,
        gain,
        error: WIDER * spread.max(low).hypot(own),
    }
}

/// What the hypotheses have in common, and how far they differ.
fn facts(kept: &[Kept]) -> Vec<(String, String)> {
    let count = kept.len().max(1) as f64;
    let disks = kept.iter().filter(|one| matches!(one.hypothesis.device, SupposedDevice::Disk(_))).count() as f64 / count;
    let range = |of: &dyn Fn(&Kept) -> f64| {
        let mut values: Vec<f64> = kept.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values.get((share * (values.len().saturating_sub(1)) as f64) as usize).copied().unwrap_or_default();
        (at(0.1), at(0.9))
    };
    let percent = |(low, high): (f64, f64)| format!("{:.0} to {:.0}%", 100.0 * low, 100.0 * high);
    let streams = range(&|one| one.hypothesis.streams().into());
    let fact = |name: &str, value: String| (name.to_owned(), value);
    vec![
        fact(
            "device",
            format!(
                "a hard disk or an array of them in {:.0}% of the hypotheses, flash in {:.0}%",
                100.0 * disks,
                100.0 * (1.0 - disks)
            ),
        ),
        fact("streams", format!("{:.0} to {:.0}", streams.0, streams.1)),
        fact("requests in order", percent(range(&|one| one.hypothesis.in_order()))),
        fact("requests that wait for answers", percent(range(&|one| one.hypothesis.waits()))),
    ]
}

impl Judgement {
    /// The best of what is surely better than what is in force.
    pub fn sure(&self, in_force: &Setting) -> Option<&Prediction> {
        self.promises.iter().find(|one| one.setting != *in_force && one.is_sure())
    }

    /// For people to check.
    pub fn evidence(&self) -> Evidence {
        Evidence { seen: self.facts.clone(), candidates: self.promises.clone() }
    }
}
