//! The table `[limits]` of a profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Limits;

/// Rate limits of a device, as of a cloud's block volume or a volume of a storage array. Requests that exceed them wait before the
/// device, in order of arrival; a flush does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsSpecification {
    /// Sustained rate of operations. A discard is one operation.
    #[schemars(range(min = 0.1, max = 1e9), extend("x-unit" = "operations/s"))]
    pub operations_per_second: Option<f64>,
    /// A request up to this size is one operation, a larger one several, as on Amazon's EBS (256 KiB on its flash volumes). Absent:
    /// every request is one.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub operation_kib: Option<u32>,
    /// Rate while there are credits.
    #[schemars(range(min = 0.1, max = 1e9), extend("x-unit" = "operations/s"))]
    pub burst_operations_per_second: Option<f64>,
    /// Maximum and initial number of credits, each for one operation. They are earned at `operations_per_second`.
    #[schemars(range(min = 1, max = 1e12), extend("x-unit" = "operations"))]
    pub burst_operations: Option<f64>,
    /// Sustained throughput.
    #[schemars(range(min = 0.001, max = 1e6))]
    pub mb_s: Option<f64>,
    /// Rate while there are credits.
    #[schemars(range(min = 0.001, max = 1e6))]
    pub burst_mb_s: Option<f64>,
    /// Maximum and initial credits in 10^6 bytes. They are earned at `mb_s`.
    #[schemars(range(min = 0.001, max = 1e9), extend("x-unit" = "MB"))]
    pub burst_mb: Option<f64>,
}

impl LimitsSpecification {
    /// Checks relations between several keys, whose values are within their ranges.
    ///
    /// # Errors
    /// Invalid values; the message names key, value and remedy.
    pub fn check(&self) -> Result<Limits, String> {
        let rate = "operations_per_second";
        let operations = (rate, self.operations_per_second);
        let burst = ("burst_operations_per_second", self.burst_operations_per_second);
        check_burst(operations, burst, ("burst_operations", self.burst_operations))?;
        check_burst(("mb_s", self.mb_s), ("burst_mb_s", self.burst_mb_s), ("burst_mb", self.burst_mb))?;
        match (self.operations_per_second, self.operation_kib, self.mb_s) {
            (None, Some(kib), _) => Err(format!("limits.operation_kib: {kib} without {rate}, the limit to which it belongs")),
            (None, None, None) => Err(format!("limits: {rate} or mb_s is required")),
            _ => Ok(Limits(self.clone())),
        }
    }
}

/// A key and its value.
type Given = (&'static str, Option<f64>);

fn check_burst((key, sustained): Given, (burst_key, burst): Given, (credits_key, credits): Given) -> Result<(), String> {
    match (sustained, burst, credits) {
        (Some(sustained), Some(burst), Some(_)) if burst <= sustained => {
            Err(format!("limits.{burst_key}: {burst} should be more than {sustained}, which is {key}"))
        }
        (_, None, None) | (Some(_), Some(_), Some(_)) => Ok(()),
        (None, Some(value), _) => Err(format!("limits.{burst_key}: {value} without {key}, the rate behind the burst")),
        (None, None, Some(value)) => Err(format!("limits.{credits_key}: {value} without {key}, the rate behind the burst")),
        (_, Some(value), None) => Err(format!("limits.{burst_key}: {value} without {credits_key}, how long it lasts")),
        (_, None, Some(value)) => Err(format!("limits.{credits_key}: {value} without {burst_key}, how fast they may be spent")),
    }
}
