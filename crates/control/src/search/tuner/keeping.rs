//! Keeps the chosen setting until the load changes, or until the setting scores lower than the original one did.

use std::collections::VecDeque;

use super::{Phase, Tuner};
use crate::ab_test::{Challenger, Estimate, percent};
use crate::experience::GenePool;
use crate::search::fingerprint::Fingerprint;
use crate::setting::Setting;
use crate::{Decision, Target, Window};
use observe::load_tracker::LoadTracker;
use observe::similarity::{ANOTHER, Point, load_distance};

/// Number of windows until the chosen setting is first compared with the baseline; it doubles with each comparison. Choice: fewer end a
/// setting by chance, more keep a loss longer; not varied.
const WINDOWS: usize = 16;
/// Maximum number of gene pools, and of loads, remembered per run; beyond it the oldest is dropped. Choice: bounds the memory; a pool takes
/// some KiB; not varied.
const MAX_REMEMBERED: usize = 64;

/// State while the chosen setting serves the load.
pub(super) struct Keeping {
    pub load: LoadTracker,
    pub is_settling: bool,
    /// Gain from a completed A/B test, until the baseline is derived from it: the original setting's score is that of the first windows
    /// minus this gain.
    pub proved: Option<f64>,
    /// The windows since the last comparison with the baseline.
    pub windows: Vec<Window>,
    /// Number of windows that the next comparison needs.
    pub needed: usize,
}

/// A load of this run, and the setting that served it better than the original one.
#[derive(Clone, Debug)]
pub(super) struct RememberedLoad {
    pub point: Point,
    pub setting: Setting,
    pub gain: Estimate,
}

impl Tuner {
    /// Applies and keeps a setting.
    pub(super) fn keep(&mut self, setting: Setting, gain: Option<Estimate>, why: String) -> Decision {
        self.load.chosen = Some((setting.clone(), gain));
        let load = LoadTracker::new(self.load.began);
        self.phase = Phase::Keeping(Keeping { load, is_settling: true, proved: None, windows: Vec::new(), needed: WINDOWS });
        Decision { expected_gain: gain.map(|gain| gain.mean), ..Decision::set(setting, why) }
    }

    /// Ends a window under the chosen setting.
    pub(super) fn continue_keeping(&mut self, window: &Window, fingerprint: Option<&Fingerprint>, target: &dyn Target) -> Decision {
        let Phase::Keeping(keeping) = &mut self.phase else { return Decision::keep("") };
        if std::mem::take(&mut keeping.is_settling) {
            return Decision::keep("kept");
        }
        if fingerprint.and_then(|fingerprint| keeping.load.add_window(window.from, fingerprint.point)).is_some() {
            return self.watch_new_load(window.to, target, "another load: its gene pool is kept");
        }
        keeping.windows.push(window.clone());
        if keeping.windows.len() < keeping.needed {
            return Decision::keep("kept");
        }
        let now = Estimate::of_windows(std::mem::take(&mut keeping.windows).iter(), &self.preference);
        let Some((now, baseline)) = now.zip(self.load.baseline.as_mut()) else { return Decision::keep("kept") };
        // The baseline may be that of a load that had just started with empty memory; also, fairness is lower over windows than over longer
        // turns.
        if let Some(gain) = keeping.proved.take() {
            baseline.score = Estimate { mean: now.mean - gain, ..now };
            return Decision::keep("kept");
        }
        keeping.needed *= 2;
        let gain = now.over(&baseline.score);
        match &self.load.chosen {
            Some((setting, expected)) if gain.is_significant_loss(0.0) && *setting != self.original => {
                self.load.challengers = VecDeque::from([Challenger { setting: setting.clone(), expected: *expected }]);
                self.next_challenger(format!("{} than the original setting", percent(gain.mean)), target)
            }
            _ => Decision::keep("kept"),
        }
    }

    /// Stores the current load: its gene pool, and the setting with a gain over the original one.
    pub(super) fn remember_load(&mut self, device: &str) {
        self.pools.extend(self.pool(device));
        if self.pools.len() > MAX_REMEMBERED {
            self.pools.remove(0);
        }
        let chosen = self.load.chosen.take().and_then(|(setting, gain)| Some((setting, gain?)));
        if let Some(((setting, gain), baseline)) = chosen.zip(self.load.baseline.as_ref()) {
            let point = baseline.point;
            self.remembered.retain(|load| load_distance(&load.point, &point) >= ANOTHER);
            self.remembered.push(RememberedLoad { point, setting, gain });
            if self.remembered.len() > MAX_REMEMBERED {
                self.remembered.remove(0);
            }
        }
    }

    /// The gene pool of the current load, the chosen setting first, then the others by score; `None` without trials.
    pub(super) fn pool(&self, device: &str) -> Option<GenePool> {
        let baseline = self.load.baseline.as_ref()?;
        let mut pool = GenePool::of(device, &baseline.row, &self.original, &self.load.trials, &self.preference);
        let chosen = self.load.chosen.as_ref().map(|(setting, _)| setting.to_string());
        pool.members.sort_by_key(|member| Some(&member.setting) != chosen.as_ref());
        Some(pool).filter(|pool| !pool.members.is_empty())
    }
}
