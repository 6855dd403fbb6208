//! Features of a load for the model: windows pooled into one row.

use observe::WindowOutcome;
use observe::description;
use observe::window::Features;

use crate::setting::Setting;

/// Minimum number of requests of a summary.
pub const MIN_REQUESTS: u64 = 30;

/// Features besides the [description](observe::description). Service time and fairness: the description omits them so that loads can be
/// compared between devices, but the model covers many devices. How requests wait and arrive. And the active scheduler, as its index in
/// [`SCHEDULERS`].
const MORE: [&str; 6] =
    ["service_s_log10", "fairness", "p99_by_response", "waited_by_response", "dispersion_320_ms_log10", "under"];

/// The schedulers under which a load may have been observed.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// Names of the features in [`LoadSummary::row`], in order.
pub fn names() -> Vec<String> {
    description::names().into_iter().chain(MORE.map(str::to_owned)).collect()
}

/// Means over windows under one setting, weighted by requests.
///
/// Windows with few requests also count: a load of ten requests per second has a summary after three seconds.
#[derive(Clone, Debug, Default)]
pub struct LoadSummary {
    /// For each feature, the sum of weighted values, and of weights.
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

    /// Number of completed requests of its windows.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The features in the order of [`names`], as observed under this setting; NaN for missing ones. `None` with fewer than
    /// [`MIN_REQUESTS`].
    pub fn row(&self, under: &Setting) -> Option<Vec<f64>> {
        let index = SCHEDULERS.iter().position(|name| *name == under.spec.name);
        let values = self.sums.iter().map(|(sum, whole)| if *whole > 0.0 { sum / whole } else { f64::NAN });
        let row = values.chain([index.map_or(f64::NAN, |index| index as f64)]);
        (self.requests >= MIN_REQUESTS).then(|| row.collect())
    }
}
