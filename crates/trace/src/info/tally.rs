//! Counts of a trace's requests, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::keyed::Keyed;
use block::{Nanos, Op, SEQUENTIAL_GAP, StreamId};
use hdrhistogram::Histogram;

use super::footprint::Footprint;
use super::{CommonSize, Concurrency, Info, Interarrival, Rate, Sequential, Sizes, StreamInfo, Times, UsedRange};
use crate::{TraceReader, TraceRequest};

/// Limit on distinct streams, devices and sizes; the rest are counted together, and the result says so.
const STREAMS: usize = 1 << 18;
const DEVICES: usize = 1 << 16;
const SIZES: usize = 1 << 16;
/// Limit on requests in flight that are tracked.
const UNDER_WAY: usize = 1 << 20;

/// Everything counted so far.
pub(super) struct Tally {
    requests: u64,
    last: Nanos,
    amounts: Amounts,
    sizes: SizeTally,
    pauses: Pauses,
    rate: Seconds,
    places: Places,
    streams: Streams,
    responses: Responses,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally {
            requests: 0,
            last: Nanos::ZERO,
            amounts: Amounts::default(),
            sizes: SizeTally { distribution: histogram(), counts: Keyed::default() },
            pauses: Pauses { distribution: histogram(), squares: 0.0 },
            rate: Seconds::default(),
            places: Places {
                order: Order::default(),
                first_lba: u64::MAX,
                end_lba: 0,
                footprint: Footprint::default(),
                devices: Keyed::default(),
            },
            streams: Streams { order: Order::default(), known: Keyed::default(), is_complete: true },
            responses: Responses { distribution: histogram(), sum_s: 0.0, under_way: BinaryHeap::new(), max_under_way: 0 },
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn see(&mut self, request: &TraceRequest) {
        if self.requests > 0 {
            self.pauses.see(request.arrival - self.last);
        }
        self.requests += 1;
        self.last = request.arrival;
        self.amounts.see(request);
        self.sizes.see(request);
        self.rate.see(request);
        self.places.see(request);
        self.streams.see(request);
        if let Some(response) = request.response {
            self.responses.see(request.arrival, response);
        }
    }

    /// The characteristics of the requests, with the `top` busiest streams.
    pub(super) fn info(mut self, reader: &dyn TraceReader, top: usize) -> Info {
        self.places.footprint.settle();
        let duration = self.last.as_secs_f64();
        let per_second = |amount: f64| (duration > 0.0).then(|| amount / duration);
        let amounts = &self.amounts;
        let mb = megabytes(amounts.transferred());
        let has_responses = !self.responses.distribution.is_empty();
        Info {
            requests: self.requests,
            omitted_records: reader.omitted(),
            skipped_records: reader.skipped(),
            duration_s: duration,
            read_share: share(amounts.reads, self.requests),
            read_mb: megabytes(amounts.read_sectors),
            write_share: share(amounts.writes, self.requests),
            written_mb: megabytes(amounts.write_sectors),
            discard_share: share(self.requests - amounts.reads - amounts.writes, self.requests),
            discarded_mb: megabytes(amounts.discard_sectors),
            sync_share: (amounts.sync_known > 0).then(|| share(amounts.sync, amounts.sync_known)),
            size: self.sizes.sizes(amounts),
            interarrival: self.pauses.interarrival(self.requests, self.last),
            rate: Rate {
                mean_iops: per_second(self.requests as f64),
                mean_mb_s: per_second(mb),
                peak_iops: self.rate.peak_requests,
                peak_mb_s: megabytes(self.rate.peak_sectors),
            },
            sequential: self.places.order.shares(self.requests),
            sequential_in_stream: self.streams.order.shares(self.requests),
            place: self.places.used(amounts),
            concurrency: has_responses
                .then(|| Concurrency { mean: per_second(self.responses.sum_s), max: self.responses.max_under_way as u64 }),
            recorded_response: has_responses.then(|| self.responses.times()),
            recorded_device: reader.recorded_device().cloned(),
            stream_count: self.streams.known.len() as u64,
            streams_complete: self.streams.is_complete,
            streams: self.streams.busiest(reader, top),
        }
    }
}

/// For numbers up to 2^63, exact to three digits; about half a megabyte.
fn histogram() -> Histogram<u64> {
    // It refuses a maximum below 2 and more than five digits.
    #[expect(clippy::expect_used, reason = "both arguments are constants it takes")]
    Histogram::new_with_max(1 << 63, 3).expect("a maximum and digits it takes")
}

/// Numbers and sectors by operation.
#[derive(Default)]
struct Amounts {
    reads: u64,
    writes: u64,
    read_sectors: u64,
    write_sectors: u64,
    discard_sectors: u64,
    /// Requests of known synchrony, and the synchronous ones among them.
    sync_known: u64,
    sync: u64,
}

impl Amounts {
    fn see(&mut self, request: &TraceRequest) {
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
    }

    /// Sectors read and written.
    fn transferred(&self) -> u64 {
        self.read_sectors.saturating_add(self.write_sectors)
    }
}

/// Sizes of reads and writes, in sectors.
struct SizeTally {
    distribution: Histogram<u64>,
    counts: Keyed<u32, u64>,
}

impl SizeTally {
    fn see(&mut self, request: &TraceRequest) {
        if !request.op.transfers() {
            return;
        }
        self.distribution.saturating_record(request.sectors.into());
        if let Some(requests) = self.counts.entry(request.sectors, SIZES) {
            *requests += 1;
        }
    }

    fn sizes(&self, amounts: &Amounts) -> Sizes {
        let mean = |sectors: u64, requests: u64| (requests > 0).then(|| kilobytes(sectors) / requests as f64);
        let mut common: Vec<CommonSize> = self.counts.iter().map(|(sectors, &requests)| CommonSize { sectors, requests }).collect();
        common.sort_by_key(|size| (Reverse(size.requests), size.sectors));
        common.truncate(5);
        Sizes {
            mean_kb: mean(amounts.transferred(), amounts.reads + amounts.writes).unwrap_or_default(),
            read_mean_kb: mean(amounts.read_sectors, amounts.reads),
            write_mean_kb: mean(amounts.write_sectors, amounts.writes),
            p50_kb: kilobytes(self.distribution.value_at_quantile(0.5)),
            p95_kb: kilobytes(self.distribution.value_at_quantile(0.95)),
            max_kb: kilobytes(self.counts.iter().map(|(sectors, _)| sectors).max().unwrap_or_default().into()),
            common,
        }
    }
}

/// Times between arrivals.
struct Pauses {
    distribution: Histogram<u64>,
    squares: f64,
}

impl Pauses {
    fn see(&mut self, pause: Nanos) {
        self.distribution.saturating_record(pause.0);
        self.squares += pause.as_secs_f64() * pause.as_secs_f64();
    }

    /// The distribution over `requests` requests, the last of which arrived at `last`; `None` with fewer than two.
    fn interarrival(&self, requests: u64, last: Nanos) -> Option<Interarrival> {
        let pauses = requests.checked_sub(1).filter(|&pauses| pauses > 0)? as f64;
        let mean = last.as_secs_f64() / pauses;
        let variance = (self.squares / pauses - mean * mean).max(0.0);
        let at = |quantile| Nanos(self.distribution.value_at_quantile(quantile)).as_millis_f64();
        Some(Interarrival {
            mean_ms: mean * 1e3,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
        })
    }
}

/// Requests and sectors of the current second, and of the busiest ones.
#[derive(Default)]
struct Seconds {
    current: u64,
    requests: u64,
    sectors: u64,
    peak_requests: u64,
    peak_sectors: u64,
}

impl Seconds {
    fn see(&mut self, request: &TraceRequest) {
        let second = request.arrival.0 / 1_000_000_000;
        if second != self.current {
            (self.current, self.requests, self.sectors) = (second, 0, 0);
        }
        self.requests += 1;
        self.sectors = self.sectors.saturating_add(transferred(request));
        self.peak_requests = self.peak_requests.max(self.requests);
        self.peak_sectors = self.peak_sectors.max(self.sectors);
    }
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

/// Counters of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Device {
    end: Option<u64>,
}

/// The addresses used, and their order on each device.
struct Places {
    order: Order,
    first_lba: u64,
    end_lba: u64,
    footprint: Footprint,
    devices: Keyed<u32, Device>,
}

impl Places {
    fn see(&mut self, request: &TraceRequest) {
        let end = request.lba.saturating_add(request.sectors.into());
        self.first_lba = self.first_lba.min(request.lba);
        self.end_lba = self.end_lba.max(end);
        self.footprint.add(request.device, request.lba, end);
        let before = self.devices.entry(request.device, DEVICES).and_then(|device| device.end.replace(end));
        self.order.see(before, request.lba);
    }

    fn used(&self, amounts: &Amounts) -> UsedRange {
        let requested = megabytes(amounts.transferred()) + megabytes(amounts.discard_sectors);
        UsedRange {
            devices: self.devices.len() as u64,
            first_lba: if self.end_lba > 0 { self.first_lba } else { 0 },
            end_lba: self.end_lba,
            // Coarse units overestimate the footprint, at worst beyond the bytes requested.
            footprint_mb: megabytes(self.footprint.sectors()).min(requested),
            footprint_granularity_bytes: self.footprint.granularity_sectors() * 512,
        }
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

/// The streams up to the limit.
struct Streams {
    /// Sequentiality within each, summed over all.
    order: Order,
    known: Keyed<StreamId, Stream>,
    is_complete: bool,
}

impl Streams {
    fn see(&mut self, request: &TraceRequest) {
        let Some(stream) = self.known.entry(request.stream, STREAMS) else {
            self.is_complete = false;
            return;
        };
        let before = (stream.requests > 0 && stream.device == request.device).then_some(stream.end);
        stream.order.see(before, request.lba);
        self.order.see(before, request.lba);
        stream.requests += 1;
        stream.reads += u64::from(request.op == Op::Read);
        stream.sync += u64::from(request.is_sync());
        stream.transfers += u64::from(request.op.transfers());
        stream.sectors = stream.sectors.saturating_add(transferred(request));
        stream.device = request.device;
        stream.end = request.lba.saturating_add(request.sectors.into());
    }

    fn busiest(&self, reader: &dyn TraceReader, top: usize) -> Vec<StreamInfo> {
        let mut busiest: Vec<(StreamId, Stream)> = self.known.iter().map(|(stream, &known)| (stream, known)).collect();
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

/// Response times, and requests in flight.
struct Responses {
    distribution: Histogram<u64>,
    sum_s: f64,
    /// Completions of the requests in flight at the last arrival.
    under_way: BinaryHeap<Reverse<Nanos>>,
    max_under_way: usize,
}

impl Responses {
    fn see(&mut self, arrival: Nanos, response: Nanos) {
        self.distribution.saturating_record(response.0);
        self.sum_s += response.as_secs_f64();
        while self.under_way.peek().is_some_and(|&Reverse(done)| done <= arrival) {
            self.under_way.pop();
        }
        if self.under_way.len() < UNDER_WAY {
            self.under_way.push(Reverse(arrival + response));
        }
        self.max_under_way = self.max_under_way.max(self.under_way.len());
    }

    fn times(&self) -> Times {
        let at = |quantile| Nanos(self.distribution.value_at_quantile(quantile)).as_millis_f64();
        Times {
            requests: self.distribution.len(),
            mean_ms: self.sum_s * 1e3 / self.distribution.len() as f64,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            max_ms: at(1.0),
        }
    }
}

/// Sectors read or written.
fn transferred(request: &TraceRequest) -> u64 {
    if request.op.transfers() { request.sectors.into() } else { 0 }
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
