//! Predictions of candidates over all accepted hypotheses.

use block::{Limits, Nanos};
use control::Setting;
use control::controller::{Evidence, Prediction};
use observe::Preference;
use observe::starvation;
use rayon::prelude::*;
use statistics::Rank;

use super::counted::Counted;
use super::ensemble::{Ensemble, Kept, Unlike};
use super::hypothesis::Known;
use crate::device::AssumedDevice;
use crate::forecast::{GAIN_ERROR, TrialRig, best_schedulers, is_first_of_scheduler, is_within_block_layer, judged_requests};
use crate::trial::{REQUESTS, TrialLength, TrialResult};

/// Bounds on the length of a trial, in seconds. Choice: at least some requests of a slow disk, at most the length of a load; not varied.
const LASTS_S: (f64, f64) = (0.2, 40.0);
/// Sampling error of a gain. The model error is [`GAIN_ERROR`], as of a twin without replay error. Choice: [`merit::TOLERANCE`], below
/// which settings count as equal; not varied.
const MIN_ERROR: f64 = 0.02;
/// Factor from the spread of the hypotheses to the error: accepted hypotheses are more alike than all that have these counters. With it,
/// 94% of the gains of requests are within two errors, and 97% of those of processes. Source: `seekwise-lab counters --quick --seed 2
/// --seeds 2 --build-world`, the world for choices.
const WIDER: f64 = 1.7;
/// A candidate counts as starving if it starves a stream under more than this fraction of the hypotheses. Choice: starvation is worse than
/// a missed gain, but a single outlier of 48 hypotheses should not decide; not varied.
const MAY_STARVE: f64 = 0.05;
/// The error bar reaches at least down to this quantile of the hypotheses' gains. Choice: a change that loses under more than one in ten
/// hypotheses is not sure; not varied.
const MAY_LOSE: f64 = 0.1;

/// Evaluates candidates by an ensemble.
pub struct Judges<'a> {
    /// The counters.
    pub counted: &'a Counted,
    /// The known properties of the device.
    pub known: &'a Known,
    /// The active setting.
    pub active: &'a Setting,
    /// The settings to compare.
    pub candidates: &'a [Setting],
    /// The optimisation target.
    pub preference: Preference,
}

/// The predictions of the hypotheses.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Predictions of the candidates and the active setting, the best first.
    pub predictions: Vec<Prediction>,
    /// Names and values of facts: the range of the hypotheses.
    pub facts: Vec<(String, String)>,
    /// Number of accepted hypotheses that were simulated.
    pub hypotheses: usize,
    /// Number of simulated requests.
    pub requests: u64,
}

/// The result of one candidate on one hypothesis.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    gain: f64,
    throughput: f64,
    response_s: f64,
    wait_ratio: f64,
}

impl Judges<'_> {
    /// Simulates all candidates on the accepted hypotheses, on all cores.
    ///
    /// # Errors
    /// No hypothesis is close enough to the counters.
    pub fn judge(&self, ensemble: &Ensemble) -> Result<Judgement, Box<Unlike>> {
        let kept = ensemble.kept()?;
        let found: Vec<(&Kept, TrialResult)> =
            kept.par_iter().with_max_len(1).filter_map(|one| Some((one, self.trial(one, self.active)?))).collect();
        let mut requests = ensemble.requests() + found.iter().map(|(_, result)| result.requests).sum::<u64>();
        let mut predictions = Vec::new();
        let mut try_all = |settings: &mut dyn Iterator<Item = &Setting>, predictions: &mut Vec<Prediction>| {
            for setting in settings {
                let outcome = |(one, before): &(&Kept, TrialResult)| {
                    let result = self.trial(one, setting);
                    (result.as_ref().map_or(0, |result| result.requests), result.and_then(|result| self.outcome(before, &result)))
                };
                let outcomes: Vec<(u64, Option<Outcome>)> = found.par_iter().with_max_len(1).map(outcome).collect();
                requests += outcomes.iter().map(|(requests, _)| requests).sum::<u64>();
                let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
                predictions.extend(outcomes.filter(|all| !all.is_empty()).map(|outcomes| prediction(setting, &outcomes)));
            }
        };
        let itself: Vec<Outcome> = found.iter().filter_map(|(_, result)| self.outcome(result, result)).collect();
        if !itself.is_empty() {
            predictions.push(Prediction { error: 0.0, ..prediction(self.active, &itself) });
        }
        let others = || self.candidates.iter().filter(|&one| one != self.active && is_within_block_layer(one, self.active));
        try_all(&mut others().filter(|one| is_first_of_scheduler(self.candidates, one)), &mut predictions);
        predictions.sort_by(Prediction::surest_first);
        let best = best_schedulers(&predictions);
        try_all(
            &mut others().filter(|one| !is_first_of_scheduler(self.candidates, one) && best.contains(&one.spec.name)),
            &mut predictions,
        );
        predictions.sort_by(Prediction::surest_first);
        Ok(Judgement { predictions, facts: facts(&kept), hypotheses: found.len(), requests })
    }

    fn trial(&self, kept: &Kept, setting: &Setting) -> Option<TrialResult> {
        let per_s = self.counted.read.asked_per_s() + self.counted.write.asked_per_s();
        let lasts = Nanos::from_secs_f64((REQUESTS / per_s).clamp(LASTS_S.0, LASTS_S.1));
        let length = TrialLength::new(lasts, 2 * REQUESTS as u64);
        let rig = TrialRig { device: &*kept.device, bounds: self.known.bounds, load: &kept.load, call_model: None, length };
        let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
        rig.run(setting, None, &build, &mut |_| {})
    }

    fn outcome(&self, before: &TrialResult, result: &TrialResult) -> Option<Outcome> {
        let (was, is) = (before.calls?, result.calls?);
        let gain = is.score(&self.preference) - was.score(&self.preference);
        let judged = judged_requests(TrialLength::new(before.until, u64::MAX));
        gain.is_finite().then(|| Outcome {
            gain,
            throughput: is.throughput.into(),
            response_s: is.response_s.into(),
            wait_ratio: starvation::max_wait_ratio_of(&result.tails, &before.tails, judged),
        })
    }
}

/// The prediction of one candidate.
fn prediction(setting: &Setting, outcomes: &[Outcome]) -> Prediction {
    let count = outcomes.len() as f64;
    let mean = |of: fn(&Outcome) -> f64| statistics::mean(outcomes.iter().map(of)).unwrap_or(f64::NAN);
    let sorted = |of: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = outcomes.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let gain = mean(|one| one.gain);
    let spread = (outcomes.iter().map(|one| (one.gain - gain).powi(2)).sum::<f64>() / count).sqrt();
    let gains = sorted(|one| one.gain);
    // A few hypotheses with large losses count for more than in the standard deviation: gain minus error is at most their 10% quantile.
    let low = gain - gains[(MAY_LOSE * (gains.len() - 1) as f64) as usize];
    let bounds = sorted(|one| one.wait_ratio);
    let starving = bounds[((1.0 - MAY_STARVE) * (bounds.len() - 1) as f64) as usize];
    let own = MIN_ERROR + GAIN_ERROR * gain.abs();
    Prediction {
        setting: setting.clone(),
        throughput: mean(|one| one.throughput),
        response_s: mean(|one| one.response_s),
        p99_by_bound: starving,
        gain,
        error: WIDER * spread.max(low).hypot(own),
    }
}

/// The ranges of the hypotheses, for display.
fn facts(kept: &[Kept]) -> Vec<(String, String)> {
    let count = kept.len().max(1) as f64;
    let disks = kept.iter().filter(|one| matches!(one.hypothesis.device, AssumedDevice::Disk(_))).count() as f64 / count;
    let range = |of: &dyn Fn(&Kept) -> f64| {
        let mut values: Vec<f64> = kept.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| Rank::Lower.of_sorted(&values, share).unwrap_or_default();
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
    /// The best setting that is significantly better than the active one; `None` if there is none.
    pub fn sure(&self, active: &Setting) -> Option<&Prediction> {
        self.predictions.iter().find(|one| one.setting != *active && one.is_sure())
    }

    /// The evidence, for display.
    pub fn evidence(&self) -> Evidence {
        Evidence { seen: self.facts.clone(), candidates: self.predictions.clone(), ..Evidence::default() }
    }
}
