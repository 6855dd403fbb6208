//! Observes the load under the original setting, for its fingerprint and its baseline.

use block::Nanos;

use super::keeping::RememberedLoad;
use super::{Phase, SearchTarget, Tuner, WatchedWindow, streams};
use crate::ab_test::Estimate;
use crate::search::fingerprint::Fingerprint;
use crate::search::ioperf::Pattern;
use crate::{Decision, Target, Window};
use observe::description::describe;
use observe::performance::{Performance, TrialScore};
use observe::similarity::{ANOTHER, Columns, NOWHERE, Point, approach, load_distance};

/// Number of windows before a search. The first is discarded, as it may include another load or setting. Choice: more delay the search,
/// fewer describe the load less exactly; not varied.
const WINDOWS: usize = 4;
/// Number of windows before a search in the twin, which has no other measurement of the original setting. Choice: twice [`WINDOWS`], as the
/// baseline is measured only then; not varied.
const WINDOWS_FOR_TWIN: usize = 2 * WINDOWS;
/// Maximum number of windows if the twin needs more; beyond it the twin is not used. Choice: twice [`WINDOWS_FOR_TWIN`], as the load may
/// have changed by then; not varied.
const MAX_WINDOWS_FOR_TWIN: usize = 2 * WINDOWS_FOR_TWIN;

/// Performance under the original setting.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    pub rated: TrialScore,
    /// Features of the load's fingerprint, and of its requests for comparison with known cases.
    pub point: Point,
    pub among_cases: Point,
    /// The last fingerprint as a row, for the gene pool; empty if no window had enough calls.
    pub row: Vec<f64>,
    pub pattern: Pattern,
    /// The score of its windows, and their number.
    pub score: Estimate,
    pub windows: u32,
    /// The longest wait, in seconds.
    pub longest_s: f64,
    /// Minimum number of active streams in a window.
    pub streams: f64,
}

impl Tuner {
    /// Ends a window under the original setting.
    pub(super) fn watch(&mut self, window: &Window, fingerprint: Option<Fingerprint>, target: &dyn Target) -> Decision {
        let Phase::Watching(windows) = &mut self.phase else { return Decision::keep("") };
        windows.push((window.clone(), fingerprint));
        let needed = if self.rehearsal.is_some() { WINDOWS_FOR_TWIN } else { WINDOWS };
        if windows.len() < needed {
            return Decision::keep("watching");
        }
        let windows = std::mem::take(windows);
        self.begin_load(windows, window.to, target)
    }

    fn baseline_of(&self, windows: &[WatchedWindow]) -> Option<Baseline> {
        let judged = windows.get(1..)?;
        let outcomes = || judged.iter().map(|(window, _)| &window.outcome);
        let served = Performance::of(outcomes())?;
        let (last, _) = judged.last()?;
        let (mut point, mut among_cases, mut known) = (NOWHERE, NOWHERE, 0.0);
        for (number, (window, fingerprint)) in judged.iter().enumerate() {
            let row = describe(&window.features, &window.outcome);
            let of_requests = Columns::described().point(|column| row.get(column).copied());
            if let Some(fingerprint) = fingerprint {
                known += 1.0;
                approach(&mut point, &fingerprint.point, 1.0, known);
            }
            approach(&mut among_cases, &of_requests, 1.0, number as f64 + 1.0);
        }
        Some(Baseline {
            rated: TrialScore { served, wait_ratio: 0.0 },
            point,
            among_cases,
            row: judged.iter().rev().find_map(|(_, fingerprint)| Some(fingerprint.as_ref()?.row.clone())).unwrap_or_default(),
            pattern: Pattern::of(&last.features),
            longest_s: outcomes().map(|outcome| outcome.max_response_s).fold(0.0, f64::max),
            score: Estimate::of_windows(judged.iter().map(|(window, _)| window), &self.preference)?,
            windows: judged.len() as u32,
            streams: judged.iter().map(|(window, _)| streams(window)).fold(f64::INFINITY, f64::min),
        })
    }

    /// Chooses how to serve the watched load: as a load of this run, as known loads of the device, or by a search.
    fn begin_load(&mut self, windows: Vec<WatchedWindow>, now: Nanos, target: &dyn Target) -> Decision {
        let Some(baseline) = self.baseline_of(&windows) else {
            self.phase = Phase::Watching(Vec::new());
            return Decision::keep("no request completed");
        };
        let (point, among_cases, pattern) = (baseline.point, baseline.among_cases, baseline.pattern);
        self.load.trials = vec![(self.original.clone(), baseline.rated)];
        self.load.baseline = Some(baseline);
        let distances = self.remembered.iter().map(|load| (load_distance(&load.point, &point), load));
        let near = distances.filter(|(distance, _)| *distance < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, RememberedLoad { setting, gain, .. })) = near {
            let (setting, gain) = (setting.clone(), *gain);
            let why = format!("a known load, which {setting} served better");
            return self.keep(setting, Some(gain), why);
        }
        let search_target = SearchTarget { span: (windows[1].0.from, now), pattern };
        self.load.pending_search = Some(search_target);
        self.load.challengers = self.predicted_challengers(&target.identity().device, &among_cases).into();
        if self.load.challengers.is_empty() {
            self.begin_search(search_target, Some(windows), target)
        } else {
            self.next_challenger("the best for other loads of this device".to_owned(), target)
        }
    }

    /// Whether the twin may have more windows.
    pub(super) fn may_watch_longer(windows: &[WatchedWindow]) -> bool {
        windows.len() < MAX_WINDOWS_FOR_TWIN
    }

    /// Whether a window under the original setting shows another load than the watched one. If the baseline has no fingerprint yet, it gets
    /// this one.
    pub(super) fn is_another_load(&mut self, fingerprint: Option<&Fingerprint>) -> bool {
        let Some((baseline, fingerprint)) = self.load.baseline.as_mut().zip(fingerprint) else { return false };
        if baseline.row.is_empty() {
            (baseline.point, baseline.row) = (fingerprint.point, fingerprint.row.clone());
        }
        load_distance(&baseline.point, &fingerprint.point) >= 2.0 * ANOTHER
    }

    /// Handles a change of the load: stores the gene pool of the old load, and returns to the original setting to watch the new one.
    pub(super) fn watch_new_load(&mut self, now: Nanos, target: &dyn Target, why: &str) -> Decision {
        self.remember_load(&target.identity().device);
        (self.load.chosen, self.load.baseline, self.load.began) = (None, None, now);
        self.load.trials.clear();
        self.load.challengers.clear();
        self.load.pending_search = None;
        self.facts.clear();
        self.loads += 1;
        self.phase = Phase::Watching(Vec::new());
        Decision::set(self.original.clone(), why)
    }
}
