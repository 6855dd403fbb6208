//! A load as the model sees it: windows pooled into one row of numbers.

use observe::WindowOutcome;
use observe::description;
use observe::window::Features;

use crate::setting::Setting;

/// Least number of requests of a summary: with fewer it says too little of its load.
pub const MIN_REQUESTS: u64 = 30;

/// What is known besides the [description](observe::description). How fast the device serves, which the description leaves out so that loads
/// compare between devices; here many devices are known. How requests wait and arrive. And which scheduler was active, as the index in
/// [`SCHEDULERS`].
const MORE: [&str; 6] =
    ["service_s_log10", "fairness", "p99_by_response", "waited_by_response", "dispersion_320_ms_log10", "under"];

/// The schedulers that a load may have been seen under.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Names of the values of [`LoadSummary::row`], in order.
pub fn names() -> Vec<String> {
    description::names().into_iter().chain(MORE.map(str::to_owned)).collect()
}

/// The mean of windows under one setting, weighted by their requests.
///
/// Windows with few requests count as well, by these: a load of ten requests a second is known after three seconds.
#[derive(Clone, Debug, Default)]
pub struct LoadSummary {
    /// Sums of each value and of its weights.
    sums: Vec<(f64, f64)>,
    requests: u64,
}

impl LoadSummary {
    /// Adds a window. One without completed requests is ignored.
    pub fn add(&mut self, features: &Features, outcome: &WindowOutcome) {
        let weight = outcome.requests as f64;
        let more = [
            outcome.mean_service_s.log10(),
            outcome.fairness,
            outcome.p99_response_s / outcome.mean_response_s,
            outcome.waited_s / outcome.mean_response_s,
            features.get("dispersion_320_ms").unwrap_or(f64::NAN).log10(),
        ];
        let row: Vec<f64> = description::describe(features, outcome).into_iter().chain(more).collect();
        self.sums.resize(row.len(), (0.0, 0.0));
        for ((sum, whole), value) in self.sums.iter_mut().zip(row) {
            if value.is_finite() && weight > 0.0 {
                *sum += weight * value;
                *whole += weight;
            }
        }
        self.requests += outcome.requests;
    }

    /// Completed requests of its windows.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Its values in the order of [`names`], as seen under this setting; NaN where there is none. `None` with fewer than
    /// [`MIN_REQUESTS`].
    pub fn row(&self, under: &Setting) -> Option<Vec<f64>> {
        let index = SCHEDULERS.iter().position(|name| *name == under.spec.name);
        let values = self.sums.iter().map(|(sum, whole)| if *whole > 0.0 { sum / whole } else { f64::NAN });
        let row = values.chain([index.map_or(f64::NAN, |index| index as f64)]);
        (self.requests >= MIN_REQUESTS).then(|| row.collect())
    }
}
