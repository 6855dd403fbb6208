//! Characterises a trace in one pass and bounded memory: operations, sizes, rates, sequentiality, footprint and streams.

mod footprint;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{Nanos, Op, SEQUENTIAL_GAP, StreamId};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::{RecordedDevice, TraceError, TraceReader, TraceRequest};
use block::keyed::Keyed;
use footprint::Footprint;

/// Limit on distinct streams, devices and sizes; the rest are counted together, and the result says so.
const STREAMS: usize = 1 << 18;
const DEVICES: usize = 1 << 16;
const SIZES: usize = 1 << 16;
/// Limit on requests in flight that are tracked.
const UNDER_WAY: usize = 1 << 20;

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
    /// Share of requests that begin there or at most [`SEQUENTIAL_GAP`] sectors after.
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
        if tally.requests.is_multiple_of(4096) && !progress(tally.requests) {
            return Ok(None);
        }
    }
    tally.footprint.settle();
    Ok(Some(tally.info(reader, top)))
}

/// Counts sequential requests.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    exact: u64,
    near: u64,
}

impl Order {
    fn see(&mut self, end: Option<u64>, lba: u64) {
        let Some(gap) = end.and_then(|end| lba.checked_sub(end)) else { return };
        self.exact += u64::from(gap == 0);
        self.near += u64::from(gap <= SEQUENTIAL_GAP);
    }

    fn shares(self, requests: u64) -> Sequential {
        Sequential { exact_share: share(self.exact, requests), near_share: share(self.near, requests) }
    }
}

/// Counters of one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    requests: u64,
    /// Reads and writes.
    transfers: u64,
    reads: u64,
    sync: u64,
    sectors: u64,
    order: Order,
    device: u32,
    end: u64,
}

/// Counters of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Device {
    end: Option<u64>,
}

/// Everything counted so far.
struct Tally {
    requests: u64,
    reads: u64,
    writes: u64,
    read_sectors: u64,
    write_sectors: u64,
    discard_sectors: u64,
    sync_known: u64,
    sync: u64,
    size: Histogram<u64>,
    sizes: Keyed<u32, u64>,
    interarrival: Histogram<u64>,
    interarrival_squares: f64,
    last: Nanos,
    second: u64,
    second_requests: u64,
    second_sectors: u64,
    peak_requests: u64,
    peak_sectors: u64,
    order: Order,
    order_in_stream: Order,
    first_lba: u64,
    end_lba: u64,
    footprint: Footprint,
    under_way: BinaryHeap<Reverse<Nanos>>,
    max_under_way: usize,
    response: Histogram<u64>,
    response_sum: f64,
    streams: Keyed<StreamId, Stream>,
    streams_complete: bool,
    devices: Keyed<u32, Device>,
}

/// For numbers up to 2^63, exact to three digits; about half a megabyte.
fn histogram() -> Histogram<u64> {
    // It refuses a maximum below 2 and more than five digits.
    #[expect(clippy::expect_used, reason = "both arguments are constants it takes")]
    Histogram::new_with_max(1 << 63, 3).expect("a maximum and digits it takes")
}

impl Tally {
    fn new() -> Tally {
        Tally {
            requests: 0,
            reads: 0,
            writes: 0,
            read_sectors: 0,
            write_sectors: 0,
            discard_sectors: 0,
            sync_known: 0,
            sync: 0,
            size: histogram(),
            sizes: Keyed::default(),
            interarrival: histogram(),
            interarrival_squares: 0.0,
            last: Nanos::ZERO,
            second: 0,
            second_requests: 0,
            second_sectors: 0,
            peak_requests: 0,
            peak_sectors: 0,
            order: Order::default(),
            order_in_stream: Order::default(),
            first_lba: u64::MAX,
            end_lba: 0,
            footprint: Footprint::default(),
            under_way: BinaryHeap::new(),
            max_under_way: 0,
            response: histogram(),
            response_sum: 0.0,
            streams: Keyed::default(),
            streams_complete: true,
            devices: Keyed::default(),
        }
    }

    fn see(&mut self, request: &TraceRequest) {
        self.requests += 1;
        self.see_kind(request);
        self.see_arrival(request);
        self.see_place(request);
        self.see_stream(request);
        if let Some(response) = request.response {
            self.see_response(request.arrival, response);
        }
        self.last = request.arrival;
    }

    fn see_kind(&mut self, request: &TraceRequest) {
        let sectors = u64::from(request.sectors);
        match request.op {
            Op::Read => {
                self.reads += 1;
                self.read_sectors = self.read_sectors.saturating_add(sectors);
            }
            Op::Write => {
                self.writes += 1;
                self.write_sectors = self.write_sectors.saturating_add(sectors);
            }
            Op::Discard => self.discard_sectors = self.discard_sectors.saturating_add(sectors),
        }
        self.sync_known += u64::from(request.sync.is_some());
        self.sync += u64::from(request.sync.is_some() && request.is_sync());
        if !request.op.transfers() {
            return;
        }
        self.size.saturating_record(sectors);
        if let Some(requests) = self.sizes.entry(request.sectors, SIZES) {
            *requests += 1;
        }
    }

    fn see_arrival(&mut self, request: &TraceRequest) {
        if self.requests > 1 {
            let pause = request.arrival - self.last;
            self.interarrival.saturating_record(pause.0);
            self.interarrival_squares += pause.as_secs_f64() * pause.as_secs_f64();
        }
        let second = request.arrival.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.second_requests, self.second_sectors) = (second, 0, 0);
        }
        self.second_requests += 1;
        self.second_sectors = self.second_sectors.saturating_add(transferred(request));
        self.peak_requests = self.peak_requests.max(self.second_requests);
        self.peak_sectors = self.peak_sectors.max(self.second_sectors);
    }

    fn see_place(&mut self, request: &TraceRequest) {
        let end = request.lba.saturating_add(request.sectors.into());
        self.first_lba = self.first_lba.min(request.lba);
        self.end_lba = self.end_lba.max(end);
        self.footprint.add(request.device, request.lba, end);
        let before = self.devices.entry(request.device, DEVICES).and_then(|device| device.end.replace(end));
        self.order.see(before, request.lba);
    }

    fn see_stream(&mut self, request: &TraceRequest) {
        let Some(stream) = self.streams.entry(request.stream, STREAMS) else {
            self.streams_complete = false;
            return;
        };
        let before = (stream.requests > 0 && stream.device == request.device).then_some(stream.end);
        stream.order.see(before, request.lba);
        self.order_in_stream.see(before, request.lba);
        stream.requests += 1;
        stream.reads += u64::from(request.op == Op::Read);
        stream.sync += u64::from(request.is_sync());
        stream.transfers += u64::from(request.op.transfers());
        stream.sectors = stream.sectors.saturating_add(transferred(request));
        stream.device = request.device;
        stream.end = request.lba.saturating_add(request.sectors.into());
    }

    fn see_response(&mut self, arrival: Nanos, response: Nanos) {
        self.response.saturating_record(response.0);
        self.response_sum += response.as_secs_f64();
        while self.under_way.peek().is_some_and(|&Reverse(done)| done <= arrival) {
            self.under_way.pop();
        }
        if self.under_way.len() < UNDER_WAY {
            self.under_way.push(Reverse(arrival + response));
        }
        self.max_under_way = self.max_under_way.max(self.under_way.len());
    }

    fn info(&self, reader: &dyn TraceReader, top: usize) -> Info {
        let duration = self.last.as_secs_f64();
        let per_second = |amount: f64| (duration > 0.0).then(|| amount / duration);
        let mb = megabytes(self.read_sectors.saturating_add(self.write_sectors));
        Info {
            requests: self.requests,
            omitted_records: reader.omitted(),
            skipped_records: reader.skipped(),
            duration_s: duration,
            read_share: share(self.reads, self.requests),
            read_mb: megabytes(self.read_sectors),
            write_share: share(self.writes, self.requests),
            written_mb: megabytes(self.write_sectors),
            discard_share: share(self.requests - self.reads - self.writes, self.requests),
            discarded_mb: megabytes(self.discard_sectors),
            sync_share: (self.sync_known > 0).then(|| share(self.sync, self.sync_known)),
            size: self.sizes(),
            interarrival: self.interarrivals(),
            rate: Rate {
                mean_iops: per_second(self.requests as f64),
                mean_mb_s: per_second(mb),
                peak_iops: self.peak_requests,
                peak_mb_s: megabytes(self.peak_sectors),
            },
            sequential: self.order.shares(self.requests),
            sequential_in_stream: self.order_in_stream.shares(self.requests),
            place: UsedRange {
                devices: self.devices.len() as u64,
                first_lba: if self.requests > 0 { self.first_lba } else { 0 },
                end_lba: self.end_lba,
                // Coarse units overestimate the footprint, at worst beyond the bytes requested.
                footprint_mb: megabytes(self.footprint.sectors()).min(mb + megabytes(self.discard_sectors)),
                footprint_granularity_bytes: self.footprint.granularity_sectors() * 512,
            },
            concurrency: (!self.response.is_empty())
                .then(|| Concurrency { mean: per_second(self.response_sum), max: self.max_under_way as u64 }),
            recorded_response: (!self.response.is_empty()).then(|| times(&self.response, self.response_sum)),
            recorded_device: reader.recorded_device().cloned(),
            stream_count: self.streams.len() as u64,
            streams_complete: self.streams_complete,
            streams: self.busiest(reader, top),
        }
    }

    fn sizes(&self) -> Sizes {
        let mean = |sectors: u64, requests: u64| (requests > 0).then(|| kilobytes(sectors) / requests as f64);
        let sectors = self.read_sectors.saturating_add(self.write_sectors);
        let mut common: Vec<CommonSize> = self.sizes.iter().map(|(sectors, &requests)| CommonSize { sectors, requests }).collect();
        common.sort_by_key(|size| (Reverse(size.requests), size.sectors));
        common.truncate(5);
        Sizes {
            mean_kb: mean(sectors, self.reads + self.writes).unwrap_or_default(),
            read_mean_kb: mean(self.read_sectors, self.reads),
            write_mean_kb: mean(self.write_sectors, self.writes),
            p50_kb: kilobytes(self.size.value_at_quantile(0.5)),
            p95_kb: kilobytes(self.size.value_at_quantile(0.95)),
            max_kb: kilobytes(self.sizes.iter().map(|(sectors, _)| sectors).max().unwrap_or_default().into()),
            common,
        }
    }

    fn interarrivals(&self) -> Option<Interarrival> {
        let pauses = self.requests.checked_sub(1).filter(|&pauses| pauses > 0)? as f64;
        let mean = self.last.as_secs_f64() / pauses;
        let variance = (self.interarrival_squares / pauses - mean * mean).max(0.0);
        let at = |quantile| Nanos(self.interarrival.value_at_quantile(quantile)).as_millis_f64();
        Some(Interarrival {
            mean_ms: mean * 1e3,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
        })
    }

    fn busiest(&self, reader: &dyn TraceReader, top: usize) -> Vec<StreamInfo> {
        let mut busiest: Vec<(StreamId, Stream)> = self.streams.iter().map(|(stream, &known)| (stream, known)).collect();
        busiest.sort_by_key(|&(stream, known)| (Reverse(known.requests), stream));
        busiest.truncate(top);
        let about = |(stream, known): (StreamId, Stream)| StreamInfo {
            stream,
            name: reader.stream_name(stream).map(str::to_owned),
            requests: known.requests,
            mb: megabytes(known.sectors),
            read_share: share(known.reads, known.requests),
            sync_share: share(known.sync, known.requests),
            sequential: known.order.shares(known.requests),
            mean_kb: kilobytes(known.sectors) / known.transfers.max(1) as f64,
        };
        busiest.into_iter().map(about).collect()
    }
}

/// Sectors by direction.
fn transferred(request: &TraceRequest) -> u64 {
    if request.op.transfers() { request.sectors.into() } else { 0 }
}

fn times(histogram: &Histogram<u64>, sum_s: f64) -> Times {
    let at = |quantile| Nanos(histogram.value_at_quantile(quantile)).as_millis_f64();
    Times {
        requests: histogram.len(),
        mean_ms: sum_s * 1e3 / histogram.len() as f64,
        p50_ms: at(0.5),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        max_ms: at(1.0),
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn megabytes(sectors: u64) -> f64 {
    sectors as f64 * 512.0 / 1e6
}

fn kilobytes(sectors: u64) -> f64 {
    sectors as f64 * 512.0 / 1e3
}
