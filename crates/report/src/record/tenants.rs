//! The guarantee of each tenant of a disk, and its service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ResponseFigures, number_or_null};
use crate::number::three_digits;

/// The tenants of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenancy {
    /// The file with tenants and guarantees.
    pub contract: String,
    /// SHA-256 of the guarantees, in hexadecimal.
    pub sha256: String,
    /// In the file's order.
    pub tenants: Vec<TenantFigures>,
    /// Requests of no tenant in that file.
    pub others_requests: u64,
    /// Seconds in which all tenants were active; shares are measured over them.
    #[serde(deserialize_with = "number_or_null::one")]
    pub all_wanted_s: f64,
    /// Seconds in which the disk was idle while it could have served waiting requests.
    #[serde(deserialize_with = "number_or_null::one")]
    pub idle_while_waiting_s: f64,
    /// Result of the capacity check; `None` if no tenant has a reference disk.
    pub capacity: Option<CapacityFigures>,
}

/// Capacity check: the need of all guarantees of reference disks together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacityFigures {
    /// Share of the disk in percent; above 100 they do not fit.
    #[serde(deserialize_with = "number_or_null::one")]
    pub needs_percent: f64,
    /// Its parts.
    pub parts: NeedParts,
    /// Share of the disk for each tenant; `None` without a reference disk.
    pub needs_of_tenants_percent: Vec<Option<f64>>,
}

/// The need of guarantees for a disk, in three parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeedParts {
    /// The largest of them.
    pub largest: NeedKind,
    /// Share of the disk's work, each request with its cost between others'.
    #[serde(deserialize_with = "number_or_null::one")]
    pub work_percent: f64,
    /// Share of the disk's time while tenants are active: their p99 response times and rates alone here relative to those on their reference
    /// disks.
    #[serde(deserialize_with = "number_or_null::one")]
    pub time_percent: f64,
    /// Share of the allowed p99 response time that a tenant's own requests take, and one request of a neighbour; of the tenant with the
    /// largest.
    #[serde(deserialize_with = "number_or_null::one")]
    pub wait_percent: f64,
}

/// A part of the need of guarantees: work, time, or the wait for one request of a neighbour.
#[expect(missing_docs, reason = "the enumeration says it, and schemas list variants without texts")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NeedKind {
    Work,
    Time,
    Wait,
}

impl NeedParts {
    /// The largest part, as the end of a sentence: "by …".
    pub fn cause(&self) -> &'static str {
        match self.largest {
            NeedKind::Work => "work",
            NeedKind::Time => "time",
            NeedKind::Wait => "the wait for one request of a neighbour",
        }
    }

    /// The three parts as text.
    pub fn text(&self) -> String {
        format!(
            "work {}%, time {}%, wait for one request of a neighbour {}%",
            three_digits(self.work_percent),
            three_digits(self.time_percent),
            three_digits(self.wait_percent)
        )
    }
}

/// Guarantee and results of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantFigures {
    /// Its name.
    pub name: String,
    /// Its guarantee.
    pub promised: GuaranteeFigures,
    /// Number of completed requests and fsync calls.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds in which it was active (had requests outstanding); rates are per active time.
    #[serde(deserialize_with = "number_or_null::one")]
    pub wanted_s: f64,
    /// 10^6 bytes per second of that time.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Requests per second of that time.
    #[serde(deserialize_with = "number_or_null::one")]
    pub iops: f64,
    /// Response times.
    pub response: ResponseFigures,
    /// Seconds that the disk worked for it; `None` if the disk does not account that.
    pub disk_time_s: Option<f64>,
    /// Its share of the disk's time and its weight; `None` if no weights are set, the disk does not account its time, or the tenants were
    /// never all active.
    pub share: Option<ShareFigures>,
    /// Compared with its reference disk; `None` without one.
    pub reference: Option<ReferenceFigures>,
    /// One sentence for each broken guarantee; empty if all were kept.
    pub broken: Vec<String>,
    /// Throughput over time.
    pub curve: TenantCurve,
}

/// The guarantee of a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuaranteeFigures {
    /// Its weight.
    pub weight: u32,
    /// Whether the weight was set explicitly.
    pub is_weighted: bool,
    /// The reference disk: the tenant is served at least as fast as by this disk alone.
    pub reference: Option<String>,
    /// Whether it only gets the remaining capacity.
    pub best_effort: bool,
    /// Minimum requests per second.
    pub reservation_iops: Option<u64>,
    /// Minimum 10^6 bytes per second.
    #[serde(default)]
    pub reservation_mb_s: Option<f64>,
    /// Maximum requests per second.
    pub limit_iops: Option<u64>,
    /// Maximum 10^6 bytes per second.
    pub limit_mb_s: Option<f64>,
    /// Maximum reads per second.
    #[serde(default)]
    pub limit_read_iops: Option<u64>,
    /// Maximum writes per second.
    #[serde(default)]
    pub limit_write_iops: Option<u64>,
    /// Maximum 10^6 bytes of reads per second.
    #[serde(default)]
    pub limit_read_mb_s: Option<f64>,
    /// Maximum 10^6 bytes of writes per second.
    #[serde(default)]
    pub limit_write_mb_s: Option<f64>,
    /// Seconds for which an unused limit is saved up; `None`: one request.
    #[serde(default)]
    pub limit_burst_s: Option<f64>,
    /// KiB that count as one request; larger requests count as several.
    #[serde(default)]
    pub io_unit_kib: u64,
    /// Maximum p99 response time in milliseconds.
    #[serde(default)]
    pub latency_p99_ms: Option<f64>,
}

/// A share of the disk's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShareFigures {
    /// Its weight relative to the sum of all weights, in percent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub promised_percent: f64,
    /// Its share of the disk's working time while all tenants were active, in percent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub got_percent: f64,
}

/// A tenant compared with the same load alone on its reference disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFigures {
    /// The scheduler of the reference disk.
    pub scheduler: String,
    /// Seconds in which it is active there.
    #[serde(deserialize_with = "number_or_null::one")]
    pub wanted_s: f64,
    /// Throughput there: 10^6 bytes per active second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Response times there.
    pub response: ResponseFigures,
    /// Throughput here by throughput there.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_ratio: f64,
    /// p99 response time here by p99 response time there.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ratio: f64,
    /// The least that this ratio is by the confidence intervals of both quantiles, at 1%.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ratio_at_least: f64,
    /// Number of windows of 1 s so far below the reference disk's work that chance does not explain them.
    pub certainly_violated: u64,
    /// The shortfall in these windows together, in windows of the reference disk's work.
    pub certainly_missing: f64,
    /// How much the reference disk differs from itself by chance.
    pub chance: ChanceFigures,
    /// Maximum delay relative to the reference disk over any period, in seconds.
    #[serde(deserialize_with = "number_or_null::one")]
    pub lost_s: f64,
    /// Windows of several lengths, the shortest first.
    pub windows: Vec<WindowFigures>,
    /// How it fared after idle periods.
    pub recovery: RecoveryFigures,
}

/// Two runs of the same load on the reference disk that differ by chance alone, compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChanceFigures {
    /// Throughput of the slower one by that of the other.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_ratio: f64,
    /// The longer p99 response time by the other.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ratio: f64,
    /// Number of windows of 1 s.
    pub windows: u64,
    /// Number of these with less than 95% of the other run's work.
    pub violated: u64,
    /// Standard deviation of a window's work relative to the other run's.
    #[serde(deserialize_with = "number_or_null::one")]
    pub window_deviation: f64,
}

/// Windows of one length in which a tenant was active, compared with the reference disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowFigures {
    /// The length.
    #[serde(deserialize_with = "number_or_null::one")]
    pub window_s: f64,
    /// Number of windows.
    pub windows: u64,
    /// Number of windows with less than 95% of the reference disk's work.
    pub violated: u64,
    /// Minimum work in a window relative to the reference disk; `None` without windows.
    pub worst_ratio: Option<f64>,
}

/// Recovery after idle periods of at least 1 s: time until the tenant was as fast as on its reference disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoveryFigures {
    /// Number of active periods after an idle one that are long enough to judge.
    pub returns: u64,
    /// Number of these without recovery.
    pub never: u64,
    /// Longest recovery in active seconds; `None` if there was none.
    pub longest_s: Option<f64>,
}

/// A tenant's throughput over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantCurve {
    /// Width of a bin.
    #[serde(deserialize_with = "number_or_null::one")]
    pub bin_s: f64,
    /// 10^6 bytes per second, per bin.
    #[serde(deserialize_with = "number_or_null::many")]
    pub throughput_mb_s: Vec<f64>,
    /// The same alone on its reference disk; empty without one.
    #[serde(deserialize_with = "number_or_null::many")]
    pub reference_mb_s: Vec<f64>,
}
