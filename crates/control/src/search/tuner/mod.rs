//! The controller that runs a search on a target.
//!
//! ```text
//!            ┌───────────── the load changed ◀────────────────────────────┐
//!            ▼                                                            │
//!  watching: the original setting, some seconds ──▶ trying ──▶ verifying ──▶ keeping
//!   fingerprint, pattern, baseline  │        a window each,   A/B test     the better
//!                                   │        or in the twin      ▲
//!                                   └─ best of known loads ──────┘
//! ```
//! * [`watching`] takes the load's fingerprint and its baseline under the original setting. The setting kept for a similar load of this run
//!   is applied at once; the gene pool of a similar load of this run or of the knowledge base is re-introduced.
//! * Known settings come first ([`known`]): those with a gain over the original one under known loads of this device are verified before
//!   any trial. Similar loads have a larger weight.
//! * [`trying`] gives each genome a window on the target, or a simulation in the twin ([`rehearsing`]); both count as one trial. If trials
//!   on the target are few, the twin ranks first and the best of each scheduler is tried first.
//! * [`verifying`] runs an A/B test of the best setting against the original one, because the best of many noisy trials is rarely as good
//!   as its score. If it is not significantly better, the next best is tested; if none is, the original setting stays. [`proving`] is
//!   shorter: the twin's choice is applied and compared with the baseline, and reverted if it is not clearly better.
//! * [`keeping`] checks the windows until the load changes. If they become worse than the baseline, another A/B test decides.
//!
//! Without a limit on trials the search never ends and nothing is verified, as in the genetic library.

mod keeping;
mod known;
mod proving;
mod ranking;
mod rehearsing;
mod trying;
mod verifying;
mod watching;

use std::collections::VecDeque;
use std::sync::Arc;

use block::Nanos;

use super::fingerprint::{Calls, Fingerprint};
use super::ioperf::Pattern;
use super::{Rehearsal, Search, Space, Start};
use crate::ab_test::{Challenger, Estimate};
use crate::controller::ControllerInput;
use crate::experience::{Experience, GenePool, WINDOW};
use crate::setting::Setting;
use crate::{Controller, Decision, Target};
use crate::{Window, WindowLength};
use keeping::{Keeping, RememberedLoad};
use observe::Event;
use observe::performance::Performance;
use observe::performance::TrialScore;
use observe::preference::Preference;
use observe::starvation;
use proving::Proving;
use trying::Trying;
use verifying::Verifying;
use watching::Baseline;

/// Settling time after a change, in which earlier requests are served and dirty memory reaches its new level. A setting that delays writes
/// looks good until memory is full. Choice: a shorter one judges memory that is still filling, a longer one lengthens each turn;
/// not varied.
const SETTLING: Nanos = Nanos::from_millis(4_000);
/// Maximum number of settings verified, one after the other, until one is better than the original setting. Choice: each takes up to five
/// pairs of turns, and the next one is less likely to be better; not varied.
const MAX_CHALLENGERS: usize = 2;

/// Creates a search.
pub type MakeSearch = Box<dyn Fn(Start) -> Box<dyn Search> + Send>;

/// Use of a search's rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RehearsalUse {
    /// To score settings; none is tried on the target.
    Fitness,
    /// To select the settings that are tried first on the target.
    Ranking,
}

/// Options of a search.
pub struct SearchOptions {
    /// The controller's name.
    pub name: &'static str,
    /// Length of a trial on the target.
    pub child: Nanos,
    /// Number of trials before the best setting is verified; 0 searches without end.
    pub trials: u32,
    /// Whether tunables of schedulers are genes.
    pub tunes: bool,
    /// The tunables of the host that are genes.
    pub host: &'static [&'static str],
    /// Length of a turn of an A/B test; a change settles for two thirds of that, at most 4 s.
    pub turn: Nanos,
    /// Use of the rehearsal, if there is one.
    pub rehearsal_use: RehearsalUse,
    /// Creates the search.
    pub make: MakeSearch,
}

enum Phase {
    Watching(Vec<WatchedWindow>),
    Trying(Trying),
    Proving(Proving),
    Verifying(Verifying),
    Keeping(Keeping),
}

/// A window under the original setting, with its fingerprint; `None` if it has too few calls.
type WatchedWindow = (Window, Option<Fingerprint>);

/// A load for which a better setting is searched.
#[derive(Clone, Copy, Debug)]
struct SearchTarget {
    /// Time span in which it was watched.
    span: (Nanos, Nanos),
    pattern: Pattern,
}

/// The state of the search under the current load.
#[derive(Default)]
struct CurrentLoad {
    began: Nanos,
    /// The setting that serves the load now, with its gain over the original one; the gain is `None` for the original one itself.
    chosen: Option<(Setting, Option<Estimate>)>,
    space: Option<Space>,
    baseline: Option<Baseline>,
    /// All trials under the load, in order.
    trials: Vec<(Setting, TrialScore)>,
    challengers: VecDeque<Challenger>,
    /// The search to start after the known settings have been verified.
    pending_search: Option<SearchTarget>,
}

/// Runs a search on a target.
pub struct Tuner {
    options: SearchOptions,
    preference: Preference,
    candidates: Vec<Setting>,
    experience: Arc<Experience>,
    seed: u64,
    rehearsal: Option<Box<dyn Rehearsal>>,
    phase: Phase,
    calls: Calls,
    /// The setting that was active at the beginning.
    original: Setting,
    load: CurrentLoad,
    pools: Vec<GenePool>,
    remembered: Vec<RememberedLoad>,
    /// Number of loads before the current one.
    loads: u64,
    /// The latest facts reported by the search.
    facts: Vec<(String, String)>,
    was_refused: bool,
}

impl Tuner {
    /// Searches according to `options`, among the schedulers of the input's candidates; in `rehearsal` if there is one.
    pub fn new(input: &ControllerInput, options: SearchOptions, rehearsal: Option<Box<dyn Rehearsal>>) -> Tuner {
        Tuner {
            options,
            preference: input.preference,
            candidates: input.candidates.clone(),
            experience: input.experience.clone(),
            seed: input.seed,
            rehearsal,
            phase: Phase::Watching(Vec::new()),
            calls: Calls::default(),
            // Replaced by the active setting in `begin`.
            original: Setting::of(block::ALL[0]),
            load: CurrentLoad::default(),
            pools: Vec::new(),
            remembered: Vec::new(),
            loads: 0,
            facts: Vec::new(),
            was_refused: false,
        }
    }

    fn settling(&self) -> Nanos {
        SETTLING.min(Nanos(self.options.turn.0 / 3 * 2))
    }

    fn space(&self, target: &dyn Target, is_rehearsed: bool) -> Space {
        let can_try = |name: &str| !is_rehearsed || self.rehearsal.as_ref().is_some_and(|rehearsal| rehearsal.can_try(name));
        let is_gene = |name: &str| self.options.host.contains(&name) && can_try(name);
        let candidates: Vec<Setting> = std::iter::once(&self.original).chain(&self.candidates).cloned().collect();
        Space::of(target, &candidates, self.options.tunes, is_gene)
    }

    /// The score of a trial over these windows, with its waits relative to the baseline's; `None` if no request completed.
    fn score(&self, windows: &[Window]) -> Option<TrialScore> {
        let served = Performance::of(windows.iter().map(|window| &window.outcome))?;
        let wait_ratio = self.load.baseline.as_ref().map_or(0.0, |baseline| {
            let longest_s = windows.iter().map(|window| window.outcome.max_response_s).fold(0.0, f64::max);
            let streams = windows.iter().map(streams).fold(f64::INFINITY, f64::min);
            let is_silent = streams <= baseline.streams - 1.0 && baseline.streams.is_finite();
            let waited = longest_s / starvation::bound_s(baseline.longest_s);
            // A stream that queues nothing while others are served still waits for an earlier request.
            if is_silent { waited.max(f64::from(1_u8) + f64::EPSILON) } else { waited }
        });
        Some(TrialScore { served, wait_ratio })
    }

    /// Whether a stream starves in a window, or no request completed.
    fn starves(&self, window: &Window) -> bool {
        self.score(std::slice::from_ref(window)).is_none_or(|rated| rated.starves())
    }
}

impl Controller for Tuner {
    fn name(&self) -> &'static str {
        self.options.name
    }

    fn begin(&mut self, now: Nanos, target: &dyn Target) -> Decision {
        (self.original, self.load.began) = (target.setting(), now);
        Decision::keep("no window yet")
    }

    fn window_length(&self) -> WindowLength {
        let time = match &self.phase {
            Phase::Proving(Proving { is_settling: true, .. }) | Phase::Keeping(Keeping { is_settling: true, .. }) => {
                self.settling()
            }
            Phase::Watching(_) | Phase::Proving(_) | Phase::Keeping(_) | Phase::Trying(Trying { is_settling: true, .. }) => WINDOW,
            Phase::Trying(_) => self.options.child,
            Phase::Verifying(verifying) if verifying.test.is_settling() => self.settling(),
            Phase::Verifying(_) => self.options.turn,
        };
        WindowLength { time: Some(time), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.calls.event(event);
        if let Some(rehearsal) = &mut self.rehearsal {
            rehearsal.event(event);
        }
        false
    }

    fn decide(&mut self, window: &Window, target: &dyn Target) -> Decision {
        let fingerprint = self.calls.close(window);
        match &self.phase {
            Phase::Watching(_) => self.watch(window, fingerprint, target),
            Phase::Trying(_) => self.end_trial(window, fingerprint.as_ref(), target),
            Phase::Proving(_) => self.continue_proving(window, target),
            Phase::Verifying(_) => self.end_turn(window, target),
            Phase::Keeping(_) => self.continue_keeping(window, fingerprint.as_ref(), target),
        }
    }

    fn refused(&mut self, _setting: &Setting, _reason: &str) {
        self.was_refused = true;
    }

    fn is_searching(&self) -> bool {
        !matches!(self.phase, Phase::Keeping(_))
    }

    fn final_setting(&self) -> Option<&Setting> {
        Some(match &self.phase {
            Phase::Keeping(_) => &self.load.chosen.as_ref()?.0,
            Phase::Verifying(verifying) if verifying.test.is_likely_better() => verifying.test.candidate(),
            Phase::Watching(_) | Phase::Trying(_) | Phase::Proving(_) | Phase::Verifying(_) => &self.original,
        })
    }

    fn overruled(&mut self, _now: Nanos, setting: &Setting, reason: &str) -> Decision {
        // The window continues under another setting, so its score must not count for the harmful one.
        self.was_refused = matches!(self.phase, Phase::Trying(_));
        Decision::set(setting.clone(), reason)
    }

    fn gene_pools(&self, device: &str) -> Vec<GenePool> {
        self.pools.iter().cloned().chain(self.pool(device)).collect()
    }
}

fn streams(window: &Window) -> f64 {
    window.features.get("streams").unwrap_or(f64::NAN)
}
