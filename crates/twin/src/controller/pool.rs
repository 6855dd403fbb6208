//! Pools consecutive windows of few requests, so that a load of few large requests can also be described.

use block::Nanos;
use control::Window;
use control::experience::MIN_REQUESTS;
use observe::similarity::{NOWHERE, Point, approach};

/// Maximum time over which windows are pooled: over a longer one, a change of the load could remain unnoticed. Choice: 20 requests a minute
/// are enough for a description; not varied.
const MAX_POOLED: Nanos = Nanos::from_millis(60_000);

/// Pooled windows with too few requests so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    /// Their arm, and the start of the first of them.
    arm: usize,
    from: Nanos,
    requests: u64,
    /// Their mean features, weighted by requests.
    point: Point,
}

impl Pool {
    pub fn new() -> Pool {
        Pool { arm: 0, from: Nanos::ZERO, requests: 0, point: NOWHERE }
    }

    /// Adds a window with these features under this arm. Once there are enough requests, returns the start of the first window and the mean
    /// features, and clears the pool.
    pub fn add(&mut self, window: &Window, arm: usize, point: &Point) -> Option<(Nanos, Point)> {
        let requests = window.outcome.requests;
        if self.requests == 0 || self.arm != arm || window.to > self.from + MAX_POOLED {
            *self = Pool { arm, from: window.from, ..Pool::new() };
        }
        if requests > 0 {
            self.requests += requests;
            approach(&mut self.point, point, requests as f64, self.requests as f64);
        }
        (self.requests >= MIN_REQUESTS).then(|| {
            let Pool { from, point, .. } = std::mem::replace(self, Pool::new());
            (from, point)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::sync::Arc;

    use control::Setting;
    use observe::WindowOutcome;
    use observe::window::{Extractor, Tally};

    use super::*;

    fn window(second: u64, requests: u64) -> Window {
        let (from, duration) = (Nanos::from_millis(1000 * second), Nanos::from_millis(1000));
        let setting = Arc::new(Setting::of(block::find("deadline").unwrap()));
        let outcome = WindowOutcome { requests, ..Tally::new().close(duration) };
        Window { number: second, from, to: from + duration, setting, features: Extractor::new().close(duration), outcome }
    }

    #[test]
    fn windows_of_few_requests_are_described_together() {
        let (mut pool, at) = (Pool::new(), |value: f64| NOWHERE.map(|_| value));
        assert_eq!(pool.add(&window(0, 100), 0, &at(7.0)), Some((Nanos::ZERO, at(7.0))), "enough by itself");
        assert_eq!(pool.add(&window(1, 0), 0, &NOWHERE), None);
        assert_eq!(pool.add(&window(2, 10), 0, &at(1.0)), None);
        let (from, point) = pool.add(&window(3, 30), 0, &at(2.0)).unwrap();
        assert_eq!(from, Nanos::from_millis(2000), "an idle window is not part of it");
        assert!((point[0] - 1.75).abs() < 1e-12, "{point:?}");
    }

    #[test]
    fn windows_under_another_arm_or_of_long_ago_are_left_out() {
        let (mut pool, at) = (Pool::new(), |value: f64| NOWHERE.map(|_| value));
        assert_eq!(pool.add(&window(0, 15), 0, &at(1.0)), None);
        assert_eq!(pool.add(&window(1, 15), 1, &at(2.0)), None);
        assert_eq!(pool.add(&window(100, 15), 1, &at(3.0)), None);
        assert_eq!(pool.add(&window(101, 15), 1, &at(3.0)).map(|(from, _)| from), Some(Nanos::from_millis(100_000)));
    }
}
