//! Sums over the requests of a window, from which the features are computed.

use block::Op;

use super::arrival::{Arrival, RequestFeatures};
use super::bursts::Bursts;
use super::moments::{Moments, log2};
use super::places::Footprint;

/// Sums over the reads, the writes or the discards of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpSums {
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
    kinds: [OpSums; 3],
    /// Requests that begin in a block where a recent one began.
    pub repeats: u64,
    pub sizes: Sizes,
    pub streams: Streams,
    pub depths: Depths,
    pub followers: Followers,
    pub places: Places,
    pub bursts: Bursts,
}

/// Sums over sizes and alignment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    pub sectors: Moments,
    pub aligned: u64,
    /// Set when the window closes.
    pub p95_sectors: f64,
}

impl Sizes {
    #[inline(always)]
    fn add(&mut self, seen: &RequestFeatures) {
        let request = &seen.request;
        self.sectors.add(f64::from(request.sectors));
        self.aligned += u64::from((request.lba | u64::from(request.sectors)).is_multiple_of(8));
    }
}

/// Sums over streams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    pub streams: u64,
    /// Sum over the streams of the square of their number of requests.
    pub squares: u64,
    /// Sequential runs of streams in the window.
    pub runs: u64,
    pub dependent: u64,
    pub think_ns: Moments,
    pub distance_log2: Moments,
}

impl Streams {
    #[inline(always)]
    fn add(&mut self, arrival: &Arrival) {
        let Arrival { features: seen, before } = arrival;
        self.streams += u64::from(*before == 0);
        // The difference of two consecutive squares.
        self.squares += 2 * before + 1;
        self.runs += u64::from(*before == 0 || !seen.is_sequential());
        self.dependent += u64::from(seen.is_dependent);
        if let Some(think) = seen.think {
            self.think_ns.add(think.0 as f64);
        }
        if let Some(end) = seen.stream_end {
            self.distance_log2.add(log2(seen.request.lba.abs_diff(end).saturating_add(1)));
        }
    }
}

/// Sums over the numbers of outstanding requests at arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depths {
    pub sum: u64,
    pub max: u64,
    pub in_stream: u64,
    pub idle_arrivals: u64,
}

impl Depths {
    #[inline(always)]
    fn add(&mut self, seen: &RequestFeatures) {
        self.sum += seen.depth;
        self.max = self.max.max(seen.depth);
        self.in_stream += seen.stream_depth;
        self.idle_arrivals += u64::from(seen.depth == 0);
    }
}

/// Sums over requests that have a predecessor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followers {
    pub count: u64,
    /// The number of them after a request of another stream.
    pub switches: u64,
    pub gap_ns: Moments,
    pub distance_log2: Moments,
}

impl Followers {
    #[inline(always)]
    fn add(&mut self, seen: &RequestFeatures) {
        if let Some(previous) = seen.previous[0] {
            self.count += 1;
            self.switches += u64::from(previous.stream != seen.request.stream);
            self.gap_ns.add((seen.request.arrival - previous.arrival).0 as f64);
            self.distance_log2.add(log2(seen.request.lba.abs_diff(previous.end).saturating_add(1)));
        }
    }
}

/// Sums over the sectors of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub sequential_overall: u64,
    /// The lowest sector, and the first after the highest.
    span: Option<(u64, u64)>,
    pub footprint: Footprint,
}

impl Places {
    #[inline(always)]
    fn add(&mut self, seen: &RequestFeatures) {
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

impl Sums {
    pub fn kind(&self, op: Op) -> &OpSums {
        &self.kinds[op as usize]
    }

    pub fn sequential(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.sequential).sum()
    }

    pub fn sync(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.sync).sum()
    }

    #[inline]
    pub fn add(&mut self, arrival: &Arrival) {
        let seen = &arrival.features;
        self.requests += 1;
        self.add_kind(seen);
        self.sizes.add(seen);
        self.streams.add(arrival);
        self.depths.add(seen);
        self.followers.add(seen);
        self.bursts.add(seen.request.arrival);
        self.places.add(seen);
    }

    #[inline(always)]
    fn add_kind(&mut self, seen: &RequestFeatures) {
        let request = &seen.request;
        let sequential = u64::from(seen.is_sequential());
        let kind = &mut self.kinds[request.op as usize];
        kind.requests += 1;
        kind.sectors += u64::from(request.sectors);
        kind.sequential += sequential;
        kind.sync += u64::from(request.is_sync());
    }
}
