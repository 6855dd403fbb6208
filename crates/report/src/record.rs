//! The record of one run: a self-contained file with the load, the disk, the scheduler or controller, and the results.
//!
//! JSON cannot express numbers that are not finite. They are written as `null`, read back as not-a-number and shown as missing.

mod file;
mod number_or_null;
mod tenants;
pub mod unfinished;

pub use file::{FileError, SUFFIX, check_replaceable, destination, read, read_dir, replace, write};
pub use tenants::{
    CapacityFigures, ChanceFigures, GuaranteeFigures, NeedKind, NeedParts, RecoveryFigures, ReferenceFigures, ShareFigures,
    Tenancy, TenantCurve, TenantFigures, WindowFigures,
};

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the layout of records, and of what `simulate`, `compare` and `advise` print as JSON: they share their parts. It rises
/// when a key goes, is renamed or changes its meaning, not when one is added. Readers of records reject any other.
pub const SCHEMA: u32 = 4;

/// Which of the documents one is, by the command that prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Kind {
    /// One run: a [`Record`].
    Simulate,
    /// Several runs side by side.
    Compare,
    /// Advice for a load.
    Advise,
}

impl Kind {
    /// The kind of records from before this field.
    fn of_a_record() -> Kind {
        Kind::Simulate
    }
}

/// One run of one trace or job file on one disk under one scheduler, or under a controller that chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Simulate")]
pub struct Record {
    /// Version of the layout.
    pub schema: u32,
    /// `simulate`, also for the records that `compare` writes.
    #[serde(default = "Kind::of_a_record")]
    #[schemars(extend("const" = "simulate"))]
    pub kind: Kind,
    /// The program's version.
    pub seekwise_version: String,
    /// The load.
    pub trace: TraceDigest,
    /// The disk.
    pub disk: DiskDigest,
    /// Its row in the comparison that it comes from, from 0: the order in which schedulers and controllers were listed.
    pub position: u32,
    /// The scheduler or controller.
    pub scheduler: SchedulerSetting,
    /// The controller's decisions; `None` for a scheduler.
    pub steering: Option<ControlRecord>,
    /// How the load was replayed.
    pub replay: Replay,
    /// Results as figures.
    pub figures: Figures,
    /// Results as curves.
    pub curves: Curves,
    /// Results by stream, busiest first.
    pub streams: Vec<StreamFigures>,
    /// Results of a job file's jobs in its order, those of a group as one where it asks for that (`group_reporting`); empty for a
    /// trace.
    pub jobs: Vec<JobsFigures>,
    /// Totals of a job file's groups (`stonewall` and `new_group` begin one); empty for a trace.
    pub groups: Vec<JobsFigures>,
    /// Guarantees and results of tenants; `None` if there are none, and in records from before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Tenancy>,
    /// Warnings about the figures, each a whole sentence.
    pub warnings: Vec<String>,
}

/// A trace or a job file, identified so that others can tell whether theirs is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceDigest {
    /// The file's name, without its folder.
    pub name: String,
    /// The format it was read as; `fio job file` is one.
    pub format: String,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// Number of requests; unknown for a job file.
    pub requests: Option<u64>,
    /// Damaged lines skipped at the user's request.
    pub skipped_lines: u64,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskDigest {
    /// The profile's name.
    pub name: String,
    /// SHA-256 of the profile's text.
    pub sha256: String,
    /// The profile's description.
    pub description: String,
    /// Capacity in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Queue depth, as used.
    pub queue_depth: u32,
    /// Order in which queued requests are served, as used: `fifo`, `sstf`, `sptf`.
    pub queue_policy: String,
}

/// A scheduler or a controller with every tunable's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSetting {
    /// Its name.
    pub name: String,
    /// The label of its row: the name, and the tunables that were set.
    pub label: String,
    /// All its tunables with their values, in order of declaration.
    pub tunables: Vec<(String, Value)>,
    /// The host's tunables that differ from those of the replay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<(String, i64)>,
}

/// A tunable's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TunableValue")]
pub enum Value {
    /// A number.
    Number(i64),
    /// A word, for a tunable that is one of several.
    Word(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Word(word) => word.fmt(f),
        }
    }
}

/// A controller's decisions in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRecord {
    /// Its preference: weights of throughput, response time, fairness, separated by commas.
    pub preference: String,
    /// Its candidates; empty in a record older than this field.
    #[serde(default)]
    pub candidates: Vec<String>,
    /// Windows after which it was asked for a decision.
    pub windows: u64,
    /// Windows after which it kept the setting.
    pub kept: u64,
    /// Decisions that changed something.
    pub changes: u64,
    /// Decisions omitted from the list to limit its length; those that changed nothing are omitted first.
    pub left_out: u64,
    /// Its decisions in order of time.
    pub decisions: Vec<Decision>,
}

/// A decision of a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// Time since the beginning of the run.
    #[serde(deserialize_with = "number_or_null::one")]
    pub at_s: f64,
    /// The number of the window it was based on; `None` for the first decision, which has none.
    pub window: Option<u64>,
    /// The setting before: a scheduler with its tunables, and the host's tunables.
    pub from: String,
    /// The setting after.
    pub to: String,
    /// The controller's reason.
    pub why: String,
    /// Expected improvement of merit in percent; `None` if the controller gave none.
    pub expected_gain_percent: Option<f64>,
    /// Measured improvement of merit by `to` in percent, by the comparison that decided; `None` if no measurement decided.
    pub measured_gain_percent: Option<f64>,
    /// Why the setting could not be applied, if so: `to` is `from` then.
    pub refused: Option<String>,
    /// Its evidence; `None` if the controller has none, and in records from before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// Evidence for a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Facts with their names: the load, the device, how well both reproduce the observations.
    pub seen: Vec<(String, String)>,
    /// The prediction for each candidate, the best first; empty if there was none.
    pub candidates: Vec<PredictionFigures>,
    /// The contribution of each source of knowledge: its name (`memory`, `twin`, `model`, `trials`), and a sentence. Empty if the controller has no such
    /// sources, and in records from before this field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<(String, String)>,
}

/// The prediction for a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictionFigures {
    /// The setting.
    pub setting: String,
    /// 10^6 bytes per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Mean response time in milliseconds.
    #[serde(deserialize_with = "number_or_null::one")]
    pub response_ms: f64,
    /// The longest p99 response time of a stream relative to its bound; above 1 the stream starves.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_by_bound: f64,
    /// Predicted gain in merit over the active setting, in percent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub gain_percent: f64,
    /// Its standard error, in percent.
    #[serde(deserialize_with = "number_or_null::one")]
    pub error_percent: f64,
}

impl Decision {
    /// Whether the setting changed.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }

    /// The prediction for the applied setting; `None` without evidence.
    pub fn prediction(&self) -> Option<&PredictionFigures> {
        self.evidence.as_ref()?.candidates.iter().find(|promise| promise.setting == self.to)
    }
}

/// How the trace was replayed, or the jobs were run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// `open` (recorded times), `closed` (think times after completions) or `jobs` (as the job file says).
    pub mode: String,
    /// The trace's times are divided by this.
    #[serde(deserialize_with = "number_or_null::one")]
    pub speed: f64,
    /// `exact` (requests keep their addresses) or `compact` (areas that the trace never touches are left out).
    pub fit: String,
    /// Seed of the jobs' random numbers.
    pub seed: Option<u64>,
    /// The host's tunables that affect the run, under Linux's names, with their values.
    pub host: Vec<(String, i64)>,
}

/// The figures of the table. Response time is from arrival to completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// From the first arrival to the last completion.
    #[serde(deserialize_with = "number_or_null::one")]
    pub duration_s: f64,
    /// 10^6 bytes per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// 10^6 bytes read per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub read_mb_s: f64,
    /// 10^6 bytes written per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub write_mb_s: f64,
    /// Requests of the trace per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub iops: f64,
    /// All requests.
    pub response: ResponseFigures,
    /// Reads; `None` if there are none.
    pub read_response: Option<ResponseFigures>,
    /// Writes; `None` if there are none.
    pub write_response: Option<ResponseFigures>,
    /// Calls of fsync, which are counted only here; `None` if there are none.
    pub sync_response: Option<ResponseFigures>,
    /// Jain's index of the streams' progress (response time alone on the disk over response time here, at most 1): 1 if all are
    /// slowed down equally, 1/n if one of n gets everything. Over the streams with at least 100 requests, or over all if fewer
    /// than two have that many; `None` with fewer than two streams.
    pub fairness_jain: Option<f64>,
    /// The largest slowdown of any of these streams: its mean response time here over the one it has alone on the disk.
    pub worst_slowdown: Option<f64>,
    /// That stream.
    pub worst_slowdown_stream: Option<u32>,
    /// Share of the duration in which the disk was busy, 0 to 1.
    #[serde(deserialize_with = "number_or_null::one")]
    pub disk_utilisation: f64,
    /// Mean seek distance in cylinders of requests that needed mechanical access; `None` for a device without an arm.
    pub mean_seek_cylinders: Option<f64>,
    /// Share of the duration in which the arm moved, 0 to 1; for an array, the mean over its disks. `None` for a device without
    /// an arm.
    pub seek_time_share: Option<f64>,
    /// Mean number of requests in the queue and at the device, after merging: `aqu-sz` of iostat(1).
    #[serde(deserialize_with = "number_or_null::one")]
    pub queue_size_mean: f64,
    /// Requests at the device, after merging.
    pub device_requests: u64,
    /// Processor time of the scheduler, and of the controller if there is one, per request of the trace, on the machine that ran
    /// it; `None` if it was not measured. The only figure that differs from run to run.
    pub scheduler_cpu_ns_per_request: Option<f64>,
    /// For an open replay that the disk could not keep up with: the `speed` at which it served a full queue.
    pub sustainable_speed: Option<f64>,
    /// Internals of a flash device; `None` for others.
    pub flash: Option<FlashFigures>,
    /// The host's memory; `None` if requests bypass it, as in a block trace.
    pub memory: Option<MemoryFigures>,
}

/// Internals of a flash device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashFigures {
    /// Bytes programmed per byte the host wrote; `None` if it wrote none.
    pub write_amplification: Option<f64>,
    /// Hit ratio of the cached mapping table; `None` if the whole table is in memory.
    pub mapping_hit_ratio: Option<f64>,
    /// Total time that dies or planes spent on garbage collection.
    #[serde(deserialize_with = "number_or_null::one")]
    pub collection_s: f64,
    /// Pages that garbage collection moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// Activity of the host's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryFigures {
    /// Share of the pages of buffered reads and writes found in the page cache; `None` without buffered I/O.
    pub page_cache_hit_ratio: Option<f64>,
    /// Pages of 4 KiB read ahead.
    pub read_ahead_pages: u64,
    /// Pages read ahead but dropped unused.
    pub read_ahead_wasted_pages: u64,
    /// Dirty pages written back.
    pub written_back_pages: u64,
    /// Total time that writers were throttled because too many pages were dirty.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throttled_s: f64,
    /// Anonymous pages read from swap.
    pub swapped_in_pages: u64,
    /// Anonymous pages written to swap.
    pub swapped_out_pages: u64,
}

/// A distribution of response times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseFigures {
    /// Number of requests.
    pub requests: u64,
    /// Mean.
    #[serde(deserialize_with = "number_or_null::one")]
    pub mean_ms: f64,
    /// Standard deviation.
    #[serde(deserialize_with = "number_or_null::one")]
    pub stdev_ms: f64,
    /// The shortest.
    #[serde(deserialize_with = "number_or_null::one")]
    pub min_ms: f64,
    /// Median.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p50_ms: f64,
    /// 95 of 100 are at most this.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p95_ms: f64,
    /// 99 of 100.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ms: f64,
    /// 999 of 1,000.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p999_ms: f64,
    /// The longest.
    #[serde(deserialize_with = "number_or_null::one")]
    pub max_ms: f64,
}

/// Curves for the page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// (response time in ms, share of requests at most that), both rising.
    #[serde(deserialize_with = "number_or_null::pairs")]
    pub response_cdf: Vec<(f64, f64)>,
    /// Width of each of the bins below.
    #[serde(deserialize_with = "number_or_null::one")]
    pub bin_s: f64,
    /// 10^6 bytes completed per second, per bin.
    #[serde(deserialize_with = "number_or_null::many")]
    pub throughput_mb_s: Vec<f64>,
    /// Mean response time of the requests completed in each bin, ms; `None` if none was.
    pub response_mean_ms: Vec<Option<f64>>,
    /// Longest response time of the requests completed in each bin, ms.
    pub response_max_ms: Vec<Option<f64>>,
    /// A sample of requests for the scatter plots.
    pub sample: Vec<SamplePoint>,
}

/// Requests of the sample come in stretches of this many that were issued one after another: numbers from a multiple of it to the
/// next. `sim::run::STRETCH`.
pub const STRETCH: u64 = 64;

/// One request of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplePoint {
    /// Its number in the order of issue: [`STRETCH`] successive ones are neighbours.
    pub number: u64,
    /// When it was dispatched to the device.
    #[serde(deserialize_with = "number_or_null::one")]
    pub dispatched_s: f64,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Read (true) or write.
    pub read: bool,
    /// Arrival to completion.
    #[serde(deserialize_with = "number_or_null::one")]
    pub response_ms: f64,
    /// The stream.
    pub stream: u32,
}

/// One stream's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamFigures {
    /// The stream.
    pub stream: u32,
    /// Its name in the trace (a program's name), if any.
    pub name: Option<String>,
    /// Its requests.
    pub requests: u64,
    /// 10^6 bytes per second of its own time, [`ServiceFigures::duration_s`].
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Requests per second of its own time.
    #[serde(deserialize_with = "number_or_null::one")]
    pub iops: f64,
    /// Mean response time in milliseconds.
    #[serde(deserialize_with = "number_or_null::one")]
    pub mean_ms: f64,
    /// 99 of 100 are at most this.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ms: f64,
    /// Mean response time over the one it has alone on the disk; `None` if that was not run.
    pub slowdown: Option<f64>,
    /// Its service, reads and writes apart.
    pub service: ServiceFigures,
}

/// Results of one job of a job file, or of several together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsFigures {
    /// The job's name; of several the first one's.
    pub name: String,
    /// The number of the group, from 0.
    pub group: u32,
    /// How many jobs.
    pub jobs: u32,
    /// Their service.
    pub service: ServiceFigures,
}

/// The service of one stream, or of several together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceFigures {
    /// From the first request issued to the last one completed, without ramp times: the divisor of all rates here.
    #[serde(deserialize_with = "number_or_null::one")]
    pub duration_s: f64,
    /// Reads, writes and discards together; quantiles of these and the following are exact to 5%.
    pub all: DirectionFigures,
    /// Reads; `None` if there are none.
    pub reads: Option<DirectionFigures>,
    /// Writes; `None` if there are none.
    pub writes: Option<DirectionFigures>,
    /// Discards; `None` if there are none.
    pub discards: Option<DirectionFigures>,
    /// Calls of fsync; `None` if there are none.
    pub syncs: Option<DirectionFigures>,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectionFigures {
    /// Bytes moved.
    pub bytes: u64,
    /// 10^6 bytes per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Requests per second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub iops: f64,
    /// Response times.
    pub response: ResponseFigures,
}
