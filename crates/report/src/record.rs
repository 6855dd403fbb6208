//! What one run leaves behind: a file that says by itself what was run, on what, with what, and what came out.
//!
//! JSON has no word for a number that is not finite. Such a number is written as `null` and read back as not-a-number; the outputs
//! show it as missing.

mod file;
mod number_or_null;

pub use file::{FileError, SUFFIX, check_replaceable, destination, read, read_dir, replace, write};

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the record's layout. A reader refuses any other.
pub const SCHEMA: u32 = 3;

/// One run of one trace or job file on one disk under one scheduler, or under a controller that chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`] when it was written.
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// What was run.
    pub trace: TraceDigest,
    /// On what.
    pub disk: DiskDigest,
    /// Under which scheduler, or which controller.
    pub scheduler: SchedulerSetting,
    /// What the controller decided; `None` of a scheduler.
    pub steering: Option<Steering>,
    /// How.
    pub replay: Replay,
    /// What came out, in figures.
    pub figures: Figures,
    /// What came out, in curves.
    pub curves: Curves,
    /// What came out for each stream, busiest first.
    pub streams: Vec<StreamFigures>,
    /// What the reader must know before believing the figures; each a whole sentence.
    pub warnings: Vec<String>,
}

/// A trace or a job file, named so that another person can tell whether theirs is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceDigest {
    /// The file's name, without its folder.
    pub name: String,
    /// The format it was read as; `fio job file` is one.
    pub format: String,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub sha256: String,
    /// How many requests it holds; of a job file that is not known before it is run.
    pub requests: Option<u64>,
    /// Damaged lines that were passed over because the user said so.
    pub skipped_lines: u64,
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskDigest {
    /// The profile's name.
    pub name: String,
    /// SHA-256 of the profile's text.
    pub sha256: String,
    /// What the disk calls itself.
    pub description: String,
    /// Sectors of 512 bytes.
    pub capacity_sectors: u64,
    /// Requests it takes at once, as used.
    pub queue_depth: u32,
    /// The order in which it serves them, as used: `fifo`, `sstf`, `sptf`.
    pub queue_policy: String,
}

/// A scheduler or a controller with every tunable's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSetting {
    /// Its name.
    pub name: String,
    /// The label of its row: the name, and the tunables that were set.
    pub label: String,
    /// All its tunables with their values, in its own order.
    pub tunables: Vec<(String, Value)>,
}

/// A tunable's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// As most are.
    Number(i64),
    /// Of a tunable that is one of several words.
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

/// What a controller did in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steering {
    /// What it cared for: throughput, response time, fairness, with commas between.
    pub preference: String,
    /// What it could choose among; empty in a record that is older than this field.
    #[serde(default)]
    pub candidates: Vec<String>,
    /// Windows after which it was asked.
    pub windows: u64,
    /// Of these, the ones after which it kept what was.
    pub kept: u64,
    /// Decisions that changed something.
    pub changes: u64,
    /// Decisions that are not in the list, because it would be too long; those that changed nothing are left out first.
    pub left_out: u64,
    /// Its decisions in the order of time.
    pub decisions: Vec<Decision>,
}

/// Something that a controller decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// When, from the beginning of the run.
    #[serde(deserialize_with = "number_or_null::one")]
    pub at_s: f64,
    /// The number of the window it was made on; `None` of the first decision, which nothing came before.
    pub window: Option<u64>,
    /// What was in force: a scheduler with its tunables, and what is set of the host.
    pub from: String,
    /// What is in force since.
    pub to: String,
    /// The controller's own words.
    pub why: String,
    /// By how many per cent the controller's preference should be better served; `None` where it did not say.
    pub expected_gain_percent: Option<f64>,
    /// By how many per cent it was better served after than before; `None` where there was nothing to compare, or nothing changed.
    pub measured_gain_percent: Option<f64>,
    /// Why it could not be set, if so: `to` is `from` then.
    pub refused: Option<String>,
}

impl Decision {
    /// Whether something else is in force than before.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }
}

/// How the trace was replayed, or the jobs were run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// `open` (the trace's own times), `closed` (think times after completions) or `jobs` (what the job file says).
    pub mode: String,
    /// The trace's times are divided by this.
    #[serde(deserialize_with = "number_or_null::one")]
    pub speed: f64,
    /// `exact` (every request lies where it was) or `compact` (what the trace never touches is left out).
    pub fit: String,
    /// What the jobs draw their random numbers from.
    pub seed: Option<u64>,
    /// The host's tunables that bear on the run, under Linux's names, with their values.
    pub host: Vec<(String, i64)>,
}

/// The figures of the table. Response time is from arrival to completion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// From the first arrival to the last completion.
    #[serde(deserialize_with = "number_or_null::one")]
    pub duration_s: f64,
    /// 10^6 bytes a second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// 10^6 bytes read a second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub read_mb_s: f64,
    /// 10^6 bytes written a second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub write_mb_s: f64,
    /// Requests of the trace a second.
    #[serde(deserialize_with = "number_or_null::one")]
    pub iops: f64,
    /// All requests.
    pub response: ResponseFigures,
    /// Reads; `None` where there are none.
    pub read_response: Option<ResponseFigures>,
    /// Writes; `None` where there are none.
    pub write_response: Option<ResponseFigures>,
    /// Calls of fsync, which count nowhere else; `None` where there are none.
    pub sync_response: Option<ResponseFigures>,
    /// Jain's index over the streams' progress (response time alone on the disk over response time here, at most 1): 1 when all
    /// are slowed down alike, 1/n when one of n gets everything. Over the streams with at least 100 requests, or over all where
    /// fewer than two have so many; `None` with fewer than two streams.
    pub fairness_jain: Option<f64>,
    /// The largest slowdown of any of these streams: its mean response time here over the one it has alone on the disk.
    pub worst_slowdown: Option<f64>,
    /// That stream.
    pub worst_slowdown_stream: Option<u32>,
    /// Share of the duration in which the disk was at work, 0 to 1.
    #[serde(deserialize_with = "number_or_null::one")]
    pub disk_utilisation: f64,
    /// Mean cylinders crossed by requests that needed the mechanics; `None` of a device without an arm.
    pub mean_seek_cylinders: Option<f64>,
    /// Share of the duration in which the arm moved, 0 to 1; of an array the mean over its disks. `None` of a device without an arm.
    pub seek_time_share: Option<f64>,
    /// Requests at the device, after merging.
    pub device_requests: u64,
    /// The scheduler's own processor time per request of the trace, and the controller's where there is one, measured on the machine
    /// that ran it; `None` where that was
    /// not asked for. The one figure that is not the same in every run.
    pub scheduler_cpu_ns_per_request: Option<f64>,
    /// For an open replay the disk could not keep up with: the `speed` at which it would.
    pub sustainable_speed: Option<f64>,
    /// What went on inside a flash device; `None` of others.
    pub flash: Option<FlashFigures>,
    /// What the host's memory did; `None` where requests do not pass through it, as those of a block trace.
    pub memory: Option<MemoryFigures>,
}

/// What went on inside a flash device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashFigures {
    /// Bytes programmed for each byte the host wrote; `None` if it wrote none.
    pub write_amplification: Option<f64>,
    /// Share of look-ups in the mapping table that its cached part answered; `None` if the whole table is in memory.
    pub mapping_hit_ratio: Option<f64>,
    /// Time that dies or planes spent on garbage collection, added up.
    #[serde(deserialize_with = "number_or_null::one")]
    pub collection_s: f64,
    /// Pages that garbage collection moved.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// What the host's memory did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFigures {
    /// Share of the pages asked for in buffered reads and writes that were in memory; `None` if none was asked for.
    pub page_cache_hit_ratio: Option<f64>,
    /// Pages of 4 KiB read ahead of what was asked for.
    pub read_ahead_pages: u64,
    /// Of these, never used before they were dropped.
    pub read_ahead_wasted_pages: u64,
    /// Dirty pages written back.
    pub written_back_pages: u64,
    /// Time that writers were made to wait because too many pages were dirty, added up.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throttled_s: f64,
    /// Anonymous pages read from swap.
    pub swapped_in_pages: u64,
    /// Anonymous pages written to swap.
    pub swapped_out_pages: u64,
}

/// A distribution of response times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseFigures {
    /// How many requests.
    pub requests: u64,
    /// Mean.
    #[serde(deserialize_with = "number_or_null::one")]
    pub mean_ms: f64,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// (response time in ms, share of requests at most that), both rising.
    #[serde(deserialize_with = "number_or_null::pairs")]
    pub response_cdf: Vec<(f64, f64)>,
    /// Width of each of the bins below.
    #[serde(deserialize_with = "number_or_null::one")]
    pub bin_s: f64,
    /// 10^6 bytes completed a second, per bin.
    #[serde(deserialize_with = "number_or_null::many")]
    pub throughput_mb_s: Vec<f64>,
    /// Mean response time of the requests completed in each bin, ms; `None` where none was.
    pub response_mean_ms: Vec<Option<f64>>,
    /// Longest response time of the requests completed in each bin, ms.
    pub response_max_ms: Vec<Option<f64>>,
    /// A sample of requests for the scatter plots.
    pub sample: Vec<SamplePoint>,
}

/// One request of the sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplePoint {
    /// When the device took it.
    #[serde(deserialize_with = "number_or_null::one")]
    pub dispatched_s: f64,
    /// Where.
    pub lba: u64,
    /// How many sectors.
    pub sectors: u32,
    /// Read (true) or write.
    pub read: bool,
    /// Arrival to completion.
    #[serde(deserialize_with = "number_or_null::one")]
    pub response_ms: f64,
    /// Whose.
    pub stream: u32,
}

/// One stream's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamFigures {
    /// The stream.
    pub stream: u32,
    /// What the trace calls it (a program's name), where it does.
    pub name: Option<String>,
    /// Its requests.
    pub requests: u64,
    /// 10^6 bytes a second over the run's duration.
    #[serde(deserialize_with = "number_or_null::one")]
    pub throughput_mb_s: f64,
    /// Mean response time.
    #[serde(deserialize_with = "number_or_null::one")]
    pub mean_ms: f64,
    /// 99 of 100 are at most this.
    #[serde(deserialize_with = "number_or_null::one")]
    pub p99_ms: f64,
    /// Mean response time over the one it has alone on the disk; `None` where that was not run.
    pub slowdown: Option<f64>,
}
