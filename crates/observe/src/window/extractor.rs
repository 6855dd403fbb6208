//! Accumulates events into sums, and computes the features from them at the end of a window.

use block::{Nanos, Op};

use super::arrival::{Arrival, History, RequestFeatures};
use super::bursts::Bursts;
use super::features::Features;
use super::moments::{Moments, log2};
use super::places::{Footprint, Recent};
use super::quantiles::Quantiles;
use crate::event::Event;

/// Accumulates events into features, in one pass and without allocating. State that spans windows is kept from one to the next: outstanding
/// requests, the last position of each stream, and the previous requests. Limited to 512 streams; see [`History`].
#[derive(Clone, Debug)]
pub struct Extractor {
    history: History,
    recent: Recent,
    sizes: Quantiles,
    sums: Sums,
}

/// Sums over the reads, the writes or the discards of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub requests: u64,
    pub sectors: u64,
    /// Within their streams.
    pub sequential: u64,
    /// Synchronous ones.
    pub sync: u64,
}

/// Sums over a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub requests: u64,
    /// In the order of [`Op`]'s variants: an index is cheaper than an unpredictable branch.
    kinds: [Kind; 3],
    pub aligned: u64,
    pub sequential_overall: u64,
    /// Sequential runs of streams in the window.
    pub runs: u64,
    pub repeats: u64,
    pub dependent: u64,
    pub streams: u64,
    /// Sum over the streams of the square of their number of requests.
    pub stream_squares: u64,
    /// Requests that have a predecessor.
    pub followers: u64,
    /// The number of them after a request of another stream.
    pub switches: u64,
    pub depths: u64,
    pub depth_max: u64,
    pub stream_depths: u64,
    pub idle_arrivals: u64,
    /// The lowest sector, and the first after the highest.
    pub span: Option<(u64, u64)>,
    pub gap_ns: Moments,
    pub think_ns: Moments,
    pub size_sectors: Moments,
    pub distance_log2: Moments,
    pub stream_distance_log2: Moments,
    pub bursts: Bursts,
    pub footprint: Footprint,
    /// Set when the window closes.
    pub size_p95_sectors: f64,
}

impl Extractor {
    /// An extractor without events.
    pub fn new() -> Extractor {
        let sizes = Quantiles::new(u64::from(u32::MAX), 1);
        Extractor { history: History::new(), recent: Recent::new(), sizes, sums: Sums::default() }
    }

    /// Adds an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => {
                let arrival = self.history.arrive(request);
                self.sums.add(&arrival);
                self.sizes.add(u64::from(request.sectors));
                self.sums.repeats += u64::from(self.recent.add(request.lba));
            }
            Event::Completed { request, at, .. } => self.history.completed(request, *at),
            Event::Flushed { .. } | Event::Called { .. } | Event::Returned { .. } => {}
        }
    }

    /// Requests queued since the window began.
    pub fn requests(&self) -> u64 {
        self.sums.requests
    }

    /// The features of the window that ends now after `duration`; begins the next one.
    pub fn close(&mut self, duration: Nanos) -> Features {
        self.sums.size_p95_sectors = self.sizes.quantile(0.95);
        let features = Features::of(&self.sums, duration);
        self.sums = Sums::default();
        self.sizes.clear();
        self.history.begin_period();
        features
    }
}

impl Default for Extractor {
    fn default() -> Extractor {
        Extractor::new()
    }
}

impl Sums {
    pub fn kind(&self, op: Op) -> &Kind {
        &self.kinds[op as usize]
    }

    pub fn sequential(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.sequential).sum()
    }

    pub fn sync(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.sync).sum()
    }

    #[inline]
    fn add(&mut self, arrival: &Arrival) {
        self.requests += 1;
        self.add_kind(&arrival.features);
        self.add_stream(arrival);
        self.add_time(&arrival.features);
        self.add_place(&arrival.features);
    }

    #[inline(always)]
    fn add_kind(&mut self, seen: &RequestFeatures) {
        let request = &seen.request;
        let (sectors, sequential) = (u64::from(request.sectors), u64::from(seen.is_sequential()));
        let kind = &mut self.kinds[request.op as usize];
        kind.requests += 1;
        kind.sectors += sectors;
        kind.sequential += sequential;
        kind.sync += u64::from(request.is_sync());
        self.size_sectors.add(f64::from(request.sectors));
        self.aligned += u64::from((request.lba | sectors).is_multiple_of(8));
    }

    #[inline(always)]
    fn add_stream(&mut self, arrival: &Arrival) {
        let Arrival { features: seen, before } = arrival;
        self.streams += u64::from(*before == 0);
        // The difference of two consecutive squares.
        self.stream_squares += 2 * before + 1;
        self.runs += u64::from(*before == 0 || !seen.is_sequential());
        self.dependent += u64::from(seen.is_dependent);
        if let Some(think) = seen.think {
            self.think_ns.add(think.0 as f64);
        }
        if let Some(end) = seen.stream_end {
            self.stream_distance_log2.add(log2(seen.request.lba.abs_diff(end).saturating_add(1)));
        }
        self.depths += seen.depth;
        self.depth_max = self.depth_max.max(seen.depth);
        self.stream_depths += seen.stream_depth;
        self.idle_arrivals += u64::from(seen.depth == 0);
    }

    #[inline(always)]
    fn add_time(&mut self, seen: &RequestFeatures) {
        if let Some(previous) = seen.previous[0] {
            self.followers += 1;
            self.switches += u64::from(previous.stream != seen.request.stream);
            self.gap_ns.add((seen.request.arrival - previous.arrival).0 as f64);
            self.distance_log2.add(log2(seen.request.lba.abs_diff(previous.end).saturating_add(1)));
        }
        self.bursts.add(seen.request.arrival);
    }

    #[inline(always)]
    fn add_place(&mut self, seen: &RequestFeatures) {
        let (first, end) = (seen.request.lba, seen.request.end());
        self.sequential_overall += u64::from(seen.is_sequential_overall());
        let (lowest, highest) = self.span.unwrap_or((first, end));
        self.span = Some((lowest.min(first), highest.max(end)));
        self.footprint.add(first, end.saturating_sub(1));
    }

    /// From the lowest sector to the end of the highest request; NaN without requests.
    pub fn span_sectors(&self) -> f64 {
        self.span.map_or(f64::NAN, |(lowest, highest)| (highest - lowest) as f64)
    }
}
