//! The twin as a rehearsal: a whole population is tried at once, on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Limits, Nanos};
use control::search::Rehearsal;
use control::target::Bounds;
use control::{Setting, Target};
use observe::merit;
use observe::merit::Tails;
use observe::performance::Performance;
use observe::performance::TrialScore;
use observe::{Event, Preference};
use rayon::prelude::*;
use sim::profile::DeviceProfile;

use crate::above::Above;
use crate::ask::{LEAST_REQUESTS, MOST_OFF, NR_REQUESTS, Stage, TakeOver, judged_requests};
use crate::device::{self, Finding};
use crate::load::Load;
use crate::recording::{Recording, Seen};
use crate::trial::{Extent, Slots, Tried};

/// A device is fitted to at most so many of the latest requests, and anew where so many times as many were seen.
const MOST_FITTED: usize = 4_000;
const MORE: usize = 2;
/// Requests of a trial, about: enough to tell settings apart by two percent, few enough that a population costs a second.
const OF_A_TRIAL: f64 = 3_000.0;
/// Trials are at most this long: loads do not stay the same for longer.
const LONGEST_S: f64 = 20.0;
/// And at least as long: of a slow disk that is some hundred requests.
const SHORTEST_S: f64 = 4.0;

/// The load that is rehearsed.
struct Scene {
    load: Load,
    above: Option<Above>,
    bounds: Bounds,
    extent: Extent,
    /// What is tried takes over from that.
    in_force: Setting,
    /// What streams wait under what is in force.
    tails: Tails,
}

/// What is known of the device, and the number of requests by which it is.
struct Device {
    profile: Arc<dyn DeviceProfile>,
    findings: Vec<Finding>,
    seen: usize,
}

/// The twin of a plant.
pub struct Twin {
    preference: Preference,
    recording: Recording,
    slots: ScoreBuckets,
    device: Option<Device>,
    scene: Option<Scene>,
    /// What was tried of this scene: survivors of a generation are not tried again.
    known: BTreeMap<String, Option<TrialScore>>,
}

impl Twin {
    /// Which has seen nothing yet.
    pub fn new(preference: Preference) -> Twin {
        let (recording, slots) = (Recording::new(), Slots::latest());
        Twin { preference, recording, slots, device: None, scene: None, known: BTreeMap::new() }
    }

    fn fit(&mut self, capacity_sectors: u64) -> Result<(), String> {
        let seen = self.recording.seen().len();
        if self.device.as_ref().is_some_and(|device| seen < MORE * device.seen) {
            return Ok(());
        }
        let latest = self.recording.seen().skip(seen.saturating_sub(MOST_FITTED));
        let sample: Vec<Seen> = latest.chain(self.recording.flushes()).copied().collect();
        let fitted = device::fit(&sample, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        self.device = Some(Device { profile: fitted.profile(), findings: fitted.findings, seen });
        Ok(())
    }

    fn load(&self, (from, to): (Nanos, Nanos)) -> (Load, Option<Above>) {
        let from = from.max(self.recording.known_from());
        let under_way = |seen: &&Seen| seen.completed >= from && seen.request.arrival < to;
        let asked = || self.recording.seen().chain(self.recording.flushes());
        let waiting: Vec<Seen> = self.recording.under_way().collect();
        let load = Load::infer(asked().chain(&waiting).filter(under_way), from, to);
        (load, Above::infer(self.recording.calls(), asked(), from, to))
    }
}

/// A trial of a setting; what its scheduler could have learned of the device it does not know.
fn tried(scene: &Scene, device: &Device, setting: &Setting, from: Option<&Setting>) -> Option<Tried> {
    let Scene { load, above, bounds, extent, .. } = scene;
    let stage = Stage { device: &*device.profile, bounds: *bounds, load, above: above.as_ref(), extent: *extent };
    let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
    stage.tried(setting, from.map(TakeOver::from), &build, &mut |_| {})
}

fn rated(scene: &Scene, tried: &Tried) -> Option<TrialScore> {
    let served = tried.calls?;
    let wait_ratio = merit::max_wait_ratio_of(&tried.tails, &scene.tails, judged_requests(scene.extent));
    Some(TrialScore { served, wait_ratio })
}

impl Rehearsal for Twin {
    fn event(&mut self, event: &Event) {
        self.recording.event(event);
        self.slots.event(event);
    }

    fn prepare(&mut self, span: (Nanos, Nanos), in_force: &Setting, plant: &dyn Target) -> Result<Vec<(String, String)>, String> {
        let bounds = plant.bounds();
        self.known.clear();
        self.scene = None;
        let (load, above) = self.load(span);
        if load.requests() < LEAST_REQUESTS {
            return Err(format!("{} requests tell too little", load.requests()));
        }
        self.fit(bounds.capacity_sectors)?;
        let device = self.device.as_ref().ok_or("no device was fitted")?;
        let rate = load.requests() as f64 / load.span().as_secs_f64();
        let lasts_s = (OF_A_TRIAL / rate).clamp(SHORTEST_S, LONGEST_S);
        let extent = Extent::lasting(Nanos::from_secs_f64(lasts_s), (2.0 * OF_A_TRIAL.max(rate * SHORTEST_S)) as u64);
        let mut scene = Scene { load, above, bounds, extent, in_force: in_force.clone(), tails: Tails::new() };
        let now = tried(&scene, device, in_force, None).ok_or("nothing was done")?;
        scene.tails.clone_from(&now.tails);
        let twin = now.calls.ok_or("nothing was done")?;
        let measured = self.slots.served(span.0.as_secs_f64(), span.1.as_secs_f64()).ok_or("nothing was done")?;
        let off = twin.score(&self.preference) - measured.score(&self.preference);
        let mut facts: Vec<(String, String)> =
            device.findings.iter().map(|finding| (finding.name.to_owned(), finding.text())).collect();
        facts.push(("twin".to_owned(), format!("{} under {in_force}; measured were {}", text(&twin), text(&measured))));
        if off.is_nan() || off.abs() > MOST_OFF {
            return Err(format!("it does not reproduce what was measured: {} and not {}", text(&twin), text(&measured)));
        }
        self.scene = Some(scene);
        Ok(facts)
    }

    fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>> {
        let Twin { scene: Some(scene), device: Some(device), known, .. } = self else { return vec![None; settings.len()] };
        let mut new: BTreeMap<String, &Setting> = BTreeMap::new();
        for setting in settings {
            let name = setting.to_string();
            if !known.contains_key(&name) {
                new.insert(name, setting);
            }
        }
        let new: Vec<(String, &Setting)> = new.into_iter().collect();
        let rate = |setting: &Setting| tried(scene, device, setting, Some(&scene.in_force)).and_then(|tried| rated(scene, &tried));
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
