//! The CPU time that may be spent on the twin.

use block::Nanos;

/// Processor time of an observed request, in nanoseconds. Source: perf of `seekwise-agent watch`, 0.5% of a core at 10,000 requests a
/// second (commit a9de788d).
const OBSERVED_REQUEST_NS: f64 = 500.0;
/// Seconds of budget that are banked by default. The bank starts full, because the first decisions bring the most. Choice: a first decision
/// sooner against a longer burst of processor time; 60 before commit 0fc8a835.
pub(super) const BANKED_S: i64 = 30;
/// Share of the budget that remains for trials where observing alone exceeds it. Choice: forecasts on busy devices against exceeding the
/// budget by a tenth; not varied.
const MIN_TRIAL_SHARE: f64 = 0.1;

/// CPU time that is earned as time passes, and spent on fits and simulations.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuBudget {
    /// Share of a core.
    pub share: f64,
    /// CPU time that can be banked, in seconds of the budget.
    pub banked_s: f64,
    /// Banked CPU time, in nanoseconds.
    pub credit_ns: f64,
}

impl CpuBudget {
    /// A full bank of this budget in thousandths of a core.
    pub fn new(permille: i64) -> CpuBudget {
        CpuBudget { share: permille as f64 / 1000.0, banked_s: 0.0, credit_ns: 0.0 }.with_banked_seconds(BANKED_S)
    }

    /// The same budget with this number of seconds in the bank, which is full.
    pub fn with_banked_seconds(self, banked_s: i64) -> CpuBudget {
        let banked_s = banked_s as f64;
        CpuBudget { banked_s, credit_ns: self.share * banked_s * 1e9, ..self }
    }

    /// Adds the budget of this time, less the time spent on observing its requests.
    pub fn earn(&mut self, duration: Nanos, requests: u64) {
        let earned_ns = self.share * duration.0 as f64;
        let left_ns = (earned_ns - requests as f64 * OBSERVED_REQUEST_NS).max(MIN_TRIAL_SHARE * earned_ns);
        self.credit_ns = (self.credit_ns + left_ns).min(self.share * self.banked_s * 1e9);
    }
}
