//! Characterises a trace in one pass and bounded memory: operations, sizes, rates, sequentiality, footprint and streams.

mod footprint;
mod tally;

use block::StreamId;
use serde::Serialize;

use super::{RecordedDevice, TraceError, TraceReader};
use tally::Tally;

/// A trace's characteristics. Shares are from 0 to 1; MB are 10^6 bytes, KB 10^3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Requests: reads, writes and discards.
    pub requests: u64,
    /// Valid records that cover no sectors: flushes.
    pub omitted_records: u64,
    /// Damaged records skipped on request.
    pub skipped_records: u64,
    /// From the first arrival to the last.
    pub duration_s: f64,
    /// Share of reads among the requests.
    pub read_share: f64,
    /// Data read.
    pub read_mb: f64,
    /// Share of writes among the requests.
    pub write_share: f64,
    /// Data written.
    pub written_mb: f64,
    /// Share of discards among the requests.
    pub discard_share: f64,
    /// Data discarded.
    pub discarded_mb: f64,
    /// Share of synchronous requests among those of known synchrony; `None` if there are none.
    pub sync_share: Option<f64>,
    /// Sizes of reads and writes.
    pub size: Sizes,
    /// Interarrival times; `None` with fewer than two requests.
    pub interarrival: Option<Interarrival>,
    /// Arrival rates.
    pub rate: Rate,
    /// Sequentiality on the device, across all streams.
    pub sequential: Sequential,
    /// Sequentiality within each stream, summed over all.
    pub sequential_in_stream: Sequential,
    /// The addresses used.
    pub place: UsedRange,
    /// Requests in flight at once when the trace was recorded, if it has completions.
    pub concurrency: Option<Concurrency>,
    /// Response times on the disk the trace was recorded on, if it has them.
    pub recorded_response: Option<Times>,
    /// The recorded device, if the trace describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_device: Option<RecordedDevice>,
    /// Number of streams; a lower bound if [`Info::streams_complete`] is false.
    pub stream_count: u64,
    /// False if there were more streams than the limit; the rest are in none of [`Info::streams`].
    pub streams_complete: bool,
    /// The busiest streams, most requests first.
    pub streams: Vec<StreamInfo>,
}

/// Sizes of reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Mean of all.
    pub mean_kb: f64,
    /// Mean of reads; `None` without any.
    pub read_mean_kb: Option<f64>,
    /// Mean of writes; `None` without any.
    pub write_mean_kb: Option<f64>,
    /// Median, exact within 0.1%, as are the other quantiles.
    pub p50_kb: f64,
    /// 95 of 100 are at most this.
    pub p95_kb: f64,
    /// The largest.
    pub max_kb: f64,
    /// The most common sizes, most requests first.
    pub common: Vec<CommonSize>,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommonSize {
    /// 512-byte sectors.
    pub sectors: u32,
    /// Requests of that size.
    pub requests: u64,
}

/// Distribution of interarrival times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interarrival {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99 of 100 are at most this.
    pub p99_ms: f64,
    /// The longest pause.
    pub max_ms: f64,
    /// Standard deviation over mean: 0 for a metronome, 1 for independent arrivals, more for bursts.
    pub coefficient_of_variation: f64,
}

/// Arrival rates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Requests per second over the whole duration; `None` if that is zero.
    pub mean_iops: Option<f64>,
    /// 10^6 bytes per second over the whole duration.
    pub mean_mb_s: Option<f64>,
    /// Requests in the busiest second, counted from the first arrival.
    pub peak_iops: u64,
    /// 10^6 bytes in the second with the most bytes.
    pub peak_mb_s: f64,
}

/// Sequentiality.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sequential {
    /// Share of requests that begin where the previous one ended.
    pub exact_share: f64,
    /// Share of requests that begin there or at most [`SEQUENTIAL_GAP`](block::SEQUENTIAL_GAP) sectors after.
    pub near_share: f64,
}

/// The used range of the devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsedRange {
    /// Number of devices, or a lower bound.
    pub devices: u64,
    /// The lowest sector.
    pub first_lba: u64,
    /// The first sector after the highest request on any device: the disk must be at least this large.
    pub end_lba: u64,
    /// Distinct bytes touched, 10^6; an upper bound if the granularity is more than 512 bytes.
    pub footprint_mb: f64,
    /// The footprint is counted in units of this size. 512 is exact; widely scattered traces need larger units.
    pub footprint_granularity_bytes: u64,
}

/// Requests in flight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Concurrency {
    /// Mean over the duration (Little's law: the sum of response times over the duration); `None` if that is zero.
    pub mean: Option<f64>,
    /// Maximum at any arrival, the arriving request included.
    pub max: u64,
}

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Number of requests with a response time.
    pub requests: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95 of 100 are at most this.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// One stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamInfo {
    /// Its number.
    pub stream: StreamId,
    /// The trace's name for it.
    pub name: Option<String>,
    /// Its requests.
    pub requests: u64,
    /// 10^6 bytes read and written.
    pub mb: f64,
    /// Share of reads among its requests.
    pub read_share: f64,
    /// Share of synchronous requests; unknown ones are classified by Linux's rule.
    pub sync_share: f64,
    /// Sequentiality of its own requests.
    pub sequential: Sequential,
    /// Mean size.
    pub mean_kb: f64,
}

/// Reads a trace to its end and characterises it. `top` streams are listed. `progress` is called with the number of requests
/// read so far, now and then; when it returns false, the result is `Ok(None)`.
///
/// # Errors
/// The reader's errors only. A trace without requests is an `Info` of zeros.
pub fn characterise(
    reader: &mut dyn TraceReader,
    top: usize,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Option<Info>, TraceError> {
    let mut tally = Tally::new();
    while let Some(request) = reader.next_request() {
        tally.see(&request?);
        if tally.requests().is_multiple_of(4096) && !progress(tally.requests()) {
            return Ok(None);
        }
    }
    Ok(Some(tally.info(reader, top)))
}
