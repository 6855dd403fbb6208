//! The twin as the rehearsal of a search: simulates a whole population at once, on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Limits, Nanos};
use control::search::Rehearsal;
use control::target::Bounds;
use control::{Setting, Target};
use observe::performance::Performance;
use observe::performance::TrialScore;
use observe::starvation;
use observe::starvation::Tails;
use observe::{Event, Preference};
use rayon::prelude::*;
use sim::profile::DeviceProfile;

use super::REFIT;
use crate::call_model::CallModel;
use crate::device::{self, Finding, MAX_FITTED};
use crate::forecast::{MAX_REPLAY_ERROR, MAX_TRIAL, MIN_REQUESTS, NR_REQUESTS, SwitchFrom, TrialRig, judged_requests};
use crate::load::Load;
use crate::recording::{ObservedRequest, Recording};
use crate::score_buckets::ScoreBuckets;
use crate::trial::{REQUESTS, TrialLength, TrialResult};

/// Minimum length of a trial, in seconds: some hundred requests on a slow disk. Choice: shorter trials show no expiry times and idling of
/// schedulers (up to seconds); not varied.
const MIN_TRIAL_S: f64 = 4.0;

/// The load on which settings are scored.
struct Rehearsed {
    load: Load,
    call_model: Option<CallModel>,
    bounds: Bounds,
    length: TrialLength,
    /// The setting before each live switch.
    active: Setting,
    /// p99 response times of streams under the active setting.
    tails: Tails,
}

/// The device, and the number of requests observed when it was fitted.
struct Device {
    profile: Arc<dyn DeviceProfile>,
    findings: Vec<Finding>,
    seen: usize,
}

/// Scores settings for a search.
pub struct Twin {
    preference: Preference,
    recording: Recording,
    buckets: ScoreBuckets,
    device: Option<Device>,
    rehearsed: Option<Rehearsed>,
    /// The scores of settings under this load, so that survivors of a generation are not simulated again.
    known: BTreeMap<String, Option<TrialScore>>,
}

impl Twin {
    /// A twin without observations.
    pub fn new(preference: Preference) -> Twin {
        let (recording, buckets) = (Recording::new(), ScoreBuckets::latest());
        Twin { preference, recording, buckets, device: None, rehearsed: None, known: BTreeMap::new() }
    }

    fn fit(&mut self, capacity_sectors: u64) -> Result<(), String> {
        let seen = self.recording.seen().len();
        if self.device.as_ref().is_some_and(|device| (seen as f64) < REFIT * device.seen as f64) {
            return Ok(());
        }
        let latest = self.recording.seen().skip(seen.saturating_sub(MAX_FITTED));
        let sample: Vec<ObservedRequest> = latest.chain(self.recording.flushes()).copied().collect();
        let fitted = device::fit(&sample, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        self.device = Some(Device { profile: fitted.profile(), findings: fitted.findings, seen });
        Ok(())
    }

    fn load(&self, (from, to): (Nanos, Nanos)) -> (Load, Option<CallModel>) {
        let from = from.max(self.recording.known_from());
        let under_way = |seen: &&ObservedRequest| seen.completed >= from && seen.request.arrival < to;
        let asked = || self.recording.seen().chain(self.recording.flushes());
        let waiting: Vec<ObservedRequest> = self.recording.in_flight().collect();
        let load = Load::infer(asked().chain(&waiting).filter(under_way), from, to);
        (load, CallModel::infer(self.recording.calls(), asked(), from, to))
    }
}

/// The result of a trial of a setting. A learning scheduler starts without knowledge of the device.
fn trial(rehearsed: &Rehearsed, device: &Device, setting: &Setting, from: Option<&Setting>) -> Option<TrialResult> {
    let Rehearsed { load, call_model, bounds, length, .. } = rehearsed;
    let rig = TrialRig { device: &*device.profile, bounds: *bounds, load, call_model: call_model.as_ref(), length: *length };
    let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
    rig.run(setting, from.map(SwitchFrom::new), &build, &mut |_| {})
}

fn rated(rehearsed: &Rehearsed, result: &TrialResult) -> Option<TrialScore> {
    let served = result.calls?;
    let wait_ratio = starvation::max_wait_ratio_of(&result.tails, &rehearsed.tails, judged_requests(rehearsed.length));
    Some(TrialScore { served, wait_ratio })
}

impl Rehearsal for Twin {
    fn event(&mut self, event: &Event) {
        self.recording.event(event);
        self.buckets.event(event);
    }

    fn prepare(&mut self, span: (Nanos, Nanos), active: &Setting, target: &dyn Target) -> Result<Vec<(String, String)>, String> {
        let bounds = target.bounds();
        self.known.clear();
        self.rehearsed = None;
        let (load, call_model) = self.load(span);
        if load.requests() < MIN_REQUESTS {
            return Err(format!("{} requests are too few", load.requests()));
        }
        self.fit(bounds.capacity_sectors)?;
        let device = self.device.as_ref().ok_or("no device was fitted")?;
        let rate = load.requests() as f64 / load.span().as_secs_f64();
        let lasts_s = (REQUESTS / rate).clamp(MIN_TRIAL_S, MAX_TRIAL.as_secs_f64());
        let max_requests = (2.0 * REQUESTS.max(rate * MIN_TRIAL_S)) as u64;
        let length = TrialLength::new(Nanos::from_secs_f64(lasts_s), max_requests);
        let mut rehearsed = Rehearsed { load, call_model, bounds, length, active: active.clone(), tails: Tails::new() };
        let now = trial(&rehearsed, device, active, None).ok_or("no request completed")?;
        rehearsed.tails.clone_from(&now.tails);
        let twin = now.calls.ok_or("no request completed")?;
        let measured = self.buckets.served(span.0.as_secs_f64(), span.1.as_secs_f64()).ok_or("no request completed")?;
        let replay_error = twin.score(&self.preference) - measured.score(&self.preference);
        let mut facts: Vec<(String, String)> =
            device.findings.iter().map(|finding| (finding.name.to_owned(), finding.text())).collect();
        facts.push(("twin".to_owned(), format!("{} under {active}; measured {}", text(&twin), text(&measured))));
        if replay_error.is_nan() || replay_error.abs() > MAX_REPLAY_ERROR {
            return Err(format!("the twin does not reproduce what was measured: {} instead of {}", text(&twin), text(&measured)));
        }
        self.rehearsed = Some(rehearsed);
        Ok(facts)
    }

    fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>> {
        let Twin { rehearsed: Some(rehearsed), device: Some(device), known, .. } = self else { return vec![None; settings.len()] };
        let mut new: BTreeMap<String, &Setting> = BTreeMap::new();
        for setting in settings {
            let name = setting.to_string();
            if !known.contains_key(&name) {
                new.insert(name, setting);
            }
        }
        let new: Vec<(String, &Setting)> = new.into_iter().collect();
        let rate = |setting: &Setting| rated(rehearsed, &trial(rehearsed, device, setting, Some(&rehearsed.active))?);
        let rated: Vec<Option<TrialScore>> = new.par_iter().with_max_len(1).map(|(_, setting)| rate(setting)).collect();
        known.extend(new.into_iter().map(|(name, _)| name).zip(rated));
        settings.iter().map(|setting| known.get(&setting.to_string()).copied().flatten()).collect()
    }

    fn can_try(&self, host_tunable: &str) -> bool {
        host_tunable == NR_REQUESTS
    }
}

fn text(served: &Performance) -> String {
    format!("{:.3} MB/s at {:.3} ms", f64::from(served.throughput) / 1e6, 1e3 * f64::from(served.response_s))
}
