//! Errors of a forecast.

use std::fmt;

use observe::performance::Performance;

/// Why a forecast failed.
#[derive(Clone, Debug, PartialEq)]
pub enum ForecastError {
    /// The load has only this number of requests, fewer than [`MIN_REQUESTS`](super::MIN_REQUESTS).
    TooFewRequests(usize),
    /// No request completed under the active setting, measured or simulated.
    NothingServed,
    /// The budget only allows trials that are too short for this scheduler, which became active during the load and takes time to settle.
    BudgetTooSmall(&'static str),
    /// The replay error under the active setting exceeds [`MAX_REPLAY_ERROR`](super::MAX_REPLAY_ERROR).
    ReplayError {
        /// The replayed performance.
        twin: Performance,
        /// The measured performance.
        measured: Performance,
        /// Number of simulated requests.
        requests: u64,
    },
}

impl fmt::Display for ForecastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForecastError::TooFewRequests(requests) => write!(f, "{requests} requests are too few"),
            ForecastError::NothingServed => write!(f, "no request completed"),
            ForecastError::BudgetTooSmall(scheduler) => write!(f, "CPU budget too small to simulate {scheduler}"),
            ForecastError::ReplayError { twin, measured, .. } => {
                let text = |served: &Performance| {
                    let (mb_s, ms) = (f64::from(served.throughput) / 1e6, 1e3 * f64::from(served.response_s));
                    format!("{mb_s:.3} MB/s, {ms:.3} ms, fairness {:.2}", served.fairness)
                };
                write!(f, "the twin does not reproduce what was measured: {} instead of {}", text(twin), text(measured))
            }
        }
    }
}
