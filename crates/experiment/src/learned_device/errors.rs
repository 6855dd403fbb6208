//! How far a model is off: by request, and by window of time (the paper's Fig. 5 and 7).

use block::Nanos;
use block::tenants::ServiceModel;
use serde::Serialize;

use super::served::Served;

/// Windows: the paper's, and one as long as those in which tenants see what they get.
pub const WINDOWS: [Nanos; 3] = [Nanos::from_millis(40), Nanos::from_millis(80), Nanos::from_millis(1000)];
/// Errors that shares are counted within.
pub const WITHIN: [f64; 5] = [0.05, 0.1, 0.15, 0.2, 0.3];
/// Points of a distribution.
const POINTS: usize = 20;

/// Relative errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many.
    pub count: usize,
    /// Their mean, without sign.
    pub mean: f64,
    /// The share of them within 5, 10, 15, 20 and 30%.
    pub within: [f64; 5],
    /// Quantiles: 0%, 5%, … 100% are at most this.
    pub quantiles: Vec<f64>,
}

/// How far a model is off on a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Of single requests that were served alone.
    pub requests: Distribution,
    /// Of [`WINDOWS`] of them.
    pub windows: [Distribution; 3],
    /// Of [`WINDOWS`] with several before the device.
    pub queued: [Distribution; 3],
    /// What is expected of all requests by what they took, less 1.
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
            mean: errors.iter().sum::<f64>() / count as f64,
            within: WITHIN.each_ref().map(share),
            quantiles: (0..=POINTS).map(|point| errors[(count - 1) * point / POINTS]).collect(),
        }
    }
}

/// Sums up errors of traces.
#[derive(Debug, Default)]
pub struct Judge {
    requests: Vec<f64>,
    windows: [Vec<f64>; 3],
    queued: [Vec<f64>; 3],
    took: f64,
    expected: f64,
}

impl Judge {
    /// Runs a model along a trace, from rest: it receives when requests begin, never their service times. Those `is_judged` count.
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

    /// All of them.
    pub fn errors(self) -> Errors {
        Errors {
            requests: Distribution::of(self.requests),
            windows: self.windows.map(Distribution::of),
            queued: self.queued.map(Distribution::of),
            bias: if self.took > 0.0 { self.expected / self.took - 1.0 } else { 0.0 },
        }
    }
}
