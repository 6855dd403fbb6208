//! Errors of a model, by request and by time window (the paper's Fig. 5 and 7).

use block::Nanos;
use block::tenants::ServiceModel;
use serde::Serialize;

use super::served::Served;

/// Lengths of windows: the paper's two, and one second, as for tenants' service.
pub const WINDOWS: [Nanos; 3] = [Nanos::from_millis(40), Nanos::from_millis(80), Nanos::from_millis(1000)];
/// Bounds for the shares of small errors.
pub const WITHIN: [f64; 5] = [0.05, 0.1, 0.15, 0.2, 0.3];
/// Intervals between the quantiles of a distribution.
const POINTS: usize = 20;

/// A distribution of relative errors without sign.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of errors.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// The share of errors within 5, 10, 15, 20 and 30%.
    pub within: [f64; 5],
    /// Quantiles 0%, 5%, … 100%.
    pub quantiles: Vec<f64>,
}

/// Errors of a model on a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// By single requests that were served alone.
    pub requests: Distribution,
    /// By windows of requests that were served alone, of the lengths [`WINDOWS`].
    pub windows: [Distribution; 3],
    /// By windows of requests with others queued.
    pub queued: [Distribution; 3],
    /// Predicted total time divided by measured total time, minus 1.
    pub bias: f64,
}

impl Distribution {
    fn of(mut errors: Vec<f64>) -> Distribution {
        errors.sort_by(f64::total_cmp);
        let count = errors.len();
        if count == 0 {
            return Distribution::default();
        }
        let share = |limit: &f64| errors.partition_point(|error| error <= limit) as f64 / count as f64;
        Distribution {
            count,
            mean: statistics::mean(errors.iter().copied()).unwrap_or(0.0),
            within: WITHIN.each_ref().map(share),
            quantiles: (0..=POINTS).map(|point| errors[(count - 1) * point / POINTS]).collect(),
        }
    }
}

/// Accumulates errors over traces.
#[derive(Debug, Default)]
pub struct Judge {
    requests: Vec<f64>,
    windows: [Vec<f64>; 3],
    queued: [Vec<f64>; 3],
    took: f64,
    expected: f64,
}

impl Judge {
    /// Runs a model along a trace, from rest: it receives the start times of requests, never their service times. Only requests
    /// for which `is_judged` is true count.
    pub fn run(&mut self, model: &dyn ServiceModel, served: &[Served], is_judged: impl Fn(usize) -> bool) {
        let mut running = model.begin();
        let mut sums = [(0.0, 0.0); 3];
        for (number, one) in served.iter().enumerate() {
            let expected = running.service_time(one.start, &one.request, one.waiting).0 as f64;
            if !is_judged(number) {
                sums = [(0.0, 0.0); 3];
                continue;
            }
            let took = one.took.0 as f64;
            self.took += took;
            self.expected += expected;
            if one.waiting == 0 && took > 0.0 {
                self.requests.push((expected / took - 1.0).abs());
            }
            let windows = if one.waiting > 0 { &mut self.queued } else { &mut self.windows };
            for ((window, (took_sum, expected_sum)), length) in windows.iter_mut().zip(&mut sums).zip(WINDOWS) {
                *took_sum += took;
                *expected_sum += expected;
                if *took_sum >= length.0 as f64 {
                    window.push((*expected_sum / *took_sum - 1.0).abs());
                    (*took_sum, *expected_sum) = (0.0, 0.0);
                }
            }
        }
    }

    /// The accumulated errors.
    pub fn errors(self) -> Errors {
        Errors {
            requests: Distribution::of(self.requests),
            windows: self.windows.map(Distribution::of),
            queued: self.queued.map(Distribution::of),
            bias: if self.took > 0.0 { self.expected / self.took - 1.0 } else { 0.0 },
        }
    }
}
