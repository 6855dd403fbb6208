//! Detects changes of the load from window to window.

use std::collections::VecDeque;

use block::Nanos;

use crate::similarity::{ANOTHER, NOWHERE, Point, approach, load_distance};

/// Maximum number of windows in the mean position of a load. Choice: more follow a slow drift of the load late, fewer follow bursts;
/// not varied.
const MEMORY: f64 = 60.0;
/// Number of windows in the recent position, which is compared with that mean. Choice: more notice a change later, fewer take an outlying
/// window for one; not varied.
const RECENT: usize = 3;

/// The position of a load in the space of [similarity](crate::similarity), from windows under one setting.
///
/// ```
/// use block::Nanos;
/// use observe::load_tracker::LoadTracker;
/// use observe::similarity::NOWHERE;
///
/// let at = |second: u64| Nanos::from_millis(1_000 * second);
/// let mut tracker = LoadTracker::new(at(0));
/// let (mut reads, mut writes) = (NOWHERE, NOWHERE);
/// (reads[0], writes[0]) = (5.0, 0.0);
/// assert!((0..20).all(|second| tracker.add_window(at(second), reads).is_none()));
/// let change = (20..30).find_map(|second| tracker.add_window(at(second), writes));
/// assert!(change.is_some_and(|began| began >= at(18)));
/// // 20 windows of reads and one of writes, which is among the recent ones.
/// assert!((tracker.overall_point()[0] - 5.0 * 20.0 / 21.0).abs() < 1e-9 && tracker.mean_point()[0] == 5.0);
/// ```
#[derive(Clone, Debug)]
pub struct LoadTracker {
    /// When the load began.
    pub from: Nanos,
    /// The mean of the windows, and their mean squared distance from it.
    point: Point,
    spread: f64,
    windows: f64,
    /// The recent windows with their beginnings, not yet in the mean.
    recent: VecDeque<(Nanos, Point)>,
}

impl LoadTracker {
    /// A load that begins here, without any window.
    pub fn new(from: Nanos) -> LoadTracker {
        LoadTracker { from, point: NOWHERE, spread: 0.0, windows: 0.0, recent: VecDeque::new() }
    }

    /// Adds a window. If the load has changed, returns when the new one began.
    pub fn add_window(&mut self, from: Nanos, point: Point) -> Option<Nanos> {
        self.recent.push_back((from, point));
        if self.recent.len() <= RECENT {
            return None;
        }
        if let Some((_, point)) = self.recent.pop_front() {
            self.windows = (self.windows + 1.0).min(MEMORY);
            approach(&mut self.point, &point, 1.0, self.windows);
            self.spread += (load_distance(&self.point, &point) - self.spread) / self.windows;
        }
        // Bessel's correction: the spread of few windows around their own mean is too small.
        let spread = self.spread * self.windows / (self.windows - 1.0);
        let is_another = self.windows >= RECENT as f64 && load_distance(&self.point, &self.recent_point()) >= ANOTHER + spread;
        self.recent.front().filter(|_| is_another).map(|(from, _)| *from)
    }

    /// The mean of the recent windows.
    pub fn recent_point(&self) -> Point {
        self.with_recent(NOWHERE, 0.0)
    }

    /// The mean of all windows of the load, the recent ones included: less noisy than [`recent_point`](LoadTracker::recent_point) for a load
    /// that comes in bursts.
    pub fn overall_point(&self) -> Point {
        self.with_recent(self.point, self.windows)
    }

    /// The mean of this number of windows, extended by the recent ones.
    fn with_recent(&self, mut mean: Point, windows: f64) -> Point {
        let numbered = self.recent.iter().enumerate();
        numbered.for_each(|(number, (_, point))| approach(&mut mean, point, 1.0, windows + number as f64 + 1.0));
        mean
    }

    /// The mean without the recent windows, which may be of another load.
    pub fn mean_point(&self) -> Point {
        self.point
    }

    /// Starts over with the recent windows, those of a new load that began here.
    pub fn begin_load(&mut self, from: Nanos) {
        let recent = std::mem::take(&mut self.recent);
        *self = LoadTracker::new(from);
        recent.into_iter().for_each(|(from, point)| {
            self.add_window(from, point);
        });
    }

    /// Forgets the windows because the setting changed, which changes the requests too.
    pub fn reset(&mut self) {
        (self.point, self.spread, self.windows) = (NOWHERE, 0.0, 0.0);
        self.recent.clear();
    }
}
