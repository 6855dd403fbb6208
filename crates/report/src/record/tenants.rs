//! What each tenant of a disk was promised, and what it got.

use serde::{Deserialize, Serialize};

use super::{ResponseFigures, number_or_null};

/// The tenants of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenancy {
    /// The file that says who they are and what they were promised.
    pub contract: String,
    /// SHA-256 of the promises, in hexadecimal.
    pub sha256: String,
    /// In the file's order.
    pub tenants: Vec<TenantFigures>,
    /// Requests of no tenant in that file.
    pub others_requests: u64,
    /// Time in which all tenants had something outstanding: shares are measured over that.
    #[serde(deserialize_with = "number_or_null::one")]
    pub all_wanted_s: f64,
    /// Time in which the disk stood idle while requests waited that it could have served.
    #[serde(deserialize_with = "number_or_null::one")]
    pub idle_while_waiting_s: f64,
    /// Whether the disk can keep what was promised at all; `None` if no tenant has a reference disk.
    pub capacity: Option<CapacityFigures>,
}

/// Whether a disk can be as good as several reference disks at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityFigures {
    /// Seconds of work that it takes the disk, alone with each tenant in turn, to do what their reference disks do in a second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub needs_s_per_s: f64,
    /// The tenants' parts of that, in their order; `None` of one without a reference disk.
    pub needs_of_tenants_s_per_s: Vec<Option<f64>>,
}

/// What one tenant was promised, and what it got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantFigures {
    /// Its name.
    pub name: String,
    /// What it was promised.
    pub promised: GuaranteeFigures,
    /// Requests, and calls of fsync, that were done for it.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time in which it had something outstanding: what its rates are divided by.
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
    /// How long the disk worked for it; `None` if the disk does not tell.
    pub disk_time_s: Option<f64>,
    /// Its share of the disk's time next to its weight; `None` if no weights were written down, the disk does not tell, or not all tenants ever
    /// wanted something at once.
    pub share: Option<ShareFigures>,
    /// Compared with its reference disk; `None` without one.
    pub reference: Option<ReferenceFigures>,
    /// Which promises were broken, a sentence for each; none if all were kept.
    pub broken: Vec<String>,
    /// Throughput over time.
    pub curve: TenantCurve,
}

/// What a tenant was promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuaranteeFigures {
    /// Its weight.
    pub weight: u32,
    /// Whether the weight was written down.
    pub is_weighted: bool,
    /// The disk that it is never served worse than.
    pub reference: Option<String>,
    /// It gets what others leave.
    pub best_effort: bool,
    /// Requests a second at least.
    pub reservation_iops: Option<u64>,
    /// Requests a second at most.
    pub limit_iops: Option<u64>,
    /// 10^6 bytes a second at most.
    pub limit_mb_s: Option<f64>,
}

/// A share of the disk's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareFigures {
    /// Its weight by all tenants', in per cent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub promised_percent: f64,
    /// Its part of the time that the disk worked for tenants while all of them wanted something, in per cent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub got_percent: f64,
}

/// A tenant next to the same load alone on its reference disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFigures {
    /// The scheduler in front of the reference disk.
    pub scheduler: String,
    /// Time in which it has something outstanding there.
    #[serde(deserialize_with = "number_or_null::one")]
    pub wanted_s: f64,
    /// What it gets there: 10^6 bytes per second of that time.
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
    /// The most time that it lost over any stretch: by how much longer a part of its load took here than there.
    #[serde(deserialize_with = "number_or_null::one")]
    pub lost_s: f64,
    /// Windows of several lengths, the shortest first.
    pub windows: Vec<WindowFigures>,
    /// How it fared after idle periods.
    pub recovery: RecoveryFigures,
}

/// Windows of one length in which a tenant wanted something, compared with what its reference disk would have done in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowFigures {
    /// The length.
    #[serde(deserialize_with = "number_or_null::one")]
    pub window_s: f64,
    /// How many.
    pub windows: u64,
    /// Of these, in how many it got less than 95% of what the reference disk would have done.
    pub violated: u64,
    /// The least that it got in any, by what the reference disk would have done; `None` without windows.
    pub worst_ratio: Option<f64>,
}

/// How soon a tenant was served as well as by its reference disk, whenever it returned from a second of silence or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryFigures {
    /// Returns that lasted long enough to be judged.
    pub returns: u64,
    /// Of these, after how many it never was before it fell silent again.
    pub never: u64,
    /// The longest that it took, in time of its own, of those where it was.
    pub longest_s: Option<f64>,
}

/// A tenant's throughput over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
