//! Features of a single request at its arrival, for learners that work per request.

use block::{Nanos, Op, Request, StreamId};

use super::table::{Feature, LOAD, SERVICE, described, feature};
use crate::stream_table::StreamTable;

/// Number of previous requests in the features: the paper's x, for single requests. Choice: more are features without a use for most
/// learners; "Self-Learning Disk Scheduling" names no value of x; not varied.
pub const PREVIOUS: usize = 3;

/// A power of two that holds as many. Derived: from [`PREVIOUS`].
const RING: usize = PREVIOUS.next_power_of_two();

/// A previous request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// Its stream.
    pub stream: StreamId,
    /// Its operation.
    pub op: Op,
    /// The first sector after it.
    pub end: u64,
    /// When it reached the queue.
    pub arrival: Nanos,
}

/// Features of a request at its arrival ("Self-Learning Disk Scheduling", Table 2, left column, and others).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestFeatures {
    /// The request itself.
    pub request: Request,
    /// The requests before it, of any stream, the last one first; `None` if there were fewer.
    pub previous: [Option<Previous>; PREVIOUS],
    /// The end of its stream's last request, in sectors; `None` if the stream is unknown.
    pub stream_end: Option<u64>,
    /// Whether it is synchronous and the only outstanding one of its stream: the next one may depend on it.
    pub is_dependent: bool,
    /// From the completion of its stream's last synchronous request to its arrival; `None` unless it
    /// [is dependent](RequestFeatures::is_dependent) and there was one (Iyer, Druschel, "Anticipatory scheduling", 2001).
    pub think: Option<Nanos>,
    /// Number of outstanding requests, excluding it.
    pub depth: u64,
    /// Number of outstanding requests in its stream, excluding it.
    pub stream_depth: u64,
    /// Number of streams with outstanding requests, including its own.
    pub streams: u64,
}

impl RequestFeatures {
    /// Whether it [follows](Request::follows) its stream's last request.
    pub fn is_sequential(&self) -> bool {
        self.stream_end.is_some_and(|end| self.request.follows(end))
    }

    /// Whether it [follows](Request::follows) the last request of any stream.
    pub fn is_sequential_overall(&self) -> bool {
        self.previous[0].is_some_and(|previous| self.request.follows(previous.end))
    }

    /// A number for each of [`REQUEST_FEATURES`]; NaN if undefined.
    pub fn values(&self) -> [f64; REQUEST_FEATURES.len()] {
        std::array::from_fn(|index| TABLE[index].1(self))
    }

    fn gap_s(&self, index: usize) -> f64 {
        self.previous[index].map_or(f64::NAN, |previous| (self.request.arrival - previous.arrival).as_secs_f64())
    }

    fn distance(&self, index: usize) -> f64 {
        self.previous[index].map_or(f64::NAN, |previous| signed_distance(previous.end, self.request.lba))
    }

    fn was_write(&self, index: usize) -> f64 {
        self.previous[index].map_or(f64::NAN, |previous| f64::from(previous.op.is_write()))
    }
}

fn signed_distance(end: u64, lba: u64) -> f64 {
    let distance = lba.abs_diff(end) as f64;
    if lba < end { -distance } else { distance }
}

/// Every number of [`RequestFeatures::values`], in order.
pub static REQUEST_FEATURES: &[Feature; TABLE.len()] = &described(TABLE);

type Row = (Feature, fn(&RequestFeatures) -> f64);

/// The features of a request. Source: Table 2 of "Self-Learning Disk Scheduling", left column; all further rows are choices.
const TABLE: &[Row] = &[
    (feature("write", "", LOAD, "1 if sectors are written or discarded, 0 if read."), |seen| f64::from(seen.request.op.is_write())),
    (feature("discard", "", LOAD, "1 if sectors are discarded."), |seen| f64::from(seen.request.op == Op::Discard)),
    (feature("sync", "", LOAD, "1 if it is synchronous."), |seen| f64::from(seen.request.is_sync())),
    (feature("size_bytes", "bytes", LOAD, "Its size."), |seen| f64::from(seen.request.sectors) * 512.0),
    (feature("lba_sectors", "sectors", LOAD, "Its first sector."), |seen| seen.request.lba as f64),
    (feature("sequential", "", LOAD, "1 if it begins where its stream's last request ended, or up to 32 KiB behind."), |seen| {
        f64::from(seen.is_sequential())
    }),
    (
        feature("sequential_overall", "", SERVICE, "1 if it begins where the last request of all ended, or up to 32 KiB behind."),
        |seen| f64::from(seen.is_sequential_overall()),
    ),
    (feature("stream_distance_sectors", "sectors", LOAD, "From the end of its stream's last request to its beginning."), |seen| {
        seen.stream_end.map_or(f64::NAN, |end| signed_distance(end, seen.request.lba))
    }),
    (feature("think_s", "s", LOAD, "Its stream's think time before it, if its stream waits for nothing else."), |seen| {
        seen.think.map_or(f64::NAN, Nanos::as_secs_f64)
    }),
    (feature("depth", "requests", SERVICE, "Requests queued and not done when it came."), |seen| seen.depth as f64),
    (feature("stream_depth", "requests", SERVICE, "Its stream's requests among them."), |seen| seen.stream_depth as f64),
    (feature("streams", "streams", SERVICE, "Streams with requests queued and not done, its own counted."), |seen| {
        seen.streams as f64
    }),
    (feature("previous_1_write", "", SERVICE, "1 if the request before was a write or discard."), |seen| seen.was_write(0)),
    (feature("previous_2_write", "", SERVICE, "1 if the one before that was."), |seen| seen.was_write(1)),
    (feature("previous_3_write", "", SERVICE, "1 if the one before that was."), |seen| seen.was_write(2)),
    (feature("previous_1_gap_s", "s", SERVICE, "Since the request before arrived."), |seen| seen.gap_s(0)),
    (feature("previous_2_gap_s", "s", SERVICE, "Since the one before that arrived."), |seen| seen.gap_s(1)),
    (feature("previous_3_gap_s", "s", SERVICE, "Since the one before that arrived."), |seen| seen.gap_s(2)),
    (feature("previous_1_distance_sectors", "sectors", SERVICE, "From the end of the request before to its beginning."), |seen| {
        seen.distance(0)
    }),
    (feature("previous_2_distance_sectors", "sectors", SERVICE, "From the end of the one before that."), |seen| seen.distance(1)),
    (feature("previous_3_distance_sectors", "sectors", SERVICE, "From the end of the one before that."), |seen| seen.distance(2)),
];

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    end: Option<u64>,
    /// When its last synchronous request completed.
    answered: Option<Nanos>,
    /// Outstanding requests.
    open: u32,
    /// Outstanding synchronous requests.
    waiting: u32,
    /// The period to which `requests` refers.
    period: u64,
    requests: u64,
}

/// Previous requests, of all streams together and of each of up to 512; beyond that, a new stream replaces the least recently used one. Does
/// not allocate after construction.
#[derive(Clone, Debug)]
pub struct History {
    streams: StreamTable<Stream>,
    /// The previous requests, the last of them at `last`: shifting them would cost a tenth of the total.
    ring: [Option<Previous>; RING],
    last: usize,
    depth: u64,
    /// Number of streams with `open` requests.
    busy: u64,
    period: u64,
}

/// A request at its arrival, and the number of earlier requests of its stream in this period.
pub(super) struct Arrival {
    pub features: RequestFeatures,
    pub before: u64,
}

impl History {
    /// An empty history.
    pub fn new() -> History {
        History { streams: StreamTable::new(), ring: [None; RING], last: 0, depth: 0, busy: 0, period: 0 }
    }

    /// Adds an arriving request and returns its features.
    #[inline]
    pub fn queued(&mut self, request: &Request) -> RequestFeatures {
        self.arrive(request).features
    }

    /// Resets the counts of requests by stream.
    pub(super) fn begin_period(&mut self) {
        self.period += 1;
    }

    #[inline]
    pub(super) fn arrive(&mut self, request: &Request) -> Arrival {
        let (stream, replaced) = self.streams.follow(request.stream);
        let newly_busy = u64::from(stream.open == 0);
        self.busy = self.busy + newly_busy - u64::from(replaced.is_some_and(|replaced| replaced.open > 0));
        let is_dependent = request.is_sync() && stream.waiting == 0;
        let features = RequestFeatures {
            request: *request,
            previous: std::array::from_fn(|back| self.ring[self.last.wrapping_sub(back) % RING]),
            stream_end: stream.end,
            is_dependent,
            think: if is_dependent { stream.answered.map(|answered| request.arrival - answered) } else { None },
            depth: self.depth,
            stream_depth: u64::from(stream.open),
            streams: self.busy,
        };
        let before = if stream.period == self.period { stream.requests } else { 0 };
        stream.period = self.period;
        stream.requests = before + 1;
        stream.end = Some(request.end());
        stream.open += 1;
        stream.waiting += u32::from(request.is_sync());
        self.depth += 1;
        let &Request { stream, op, arrival, .. } = request;
        self.last = self.last.wrapping_add(1);
        self.ring[self.last % RING] = Some(Previous { stream, op, end: request.end(), arrival });
        Arrival { features, before }
    }

    /// Records the completion of a queued request.
    #[inline]
    pub fn completed(&mut self, request: &Request, at: Nanos) {
        self.depth = self.depth.saturating_sub(1);
        let Some(stream) = self.streams.get_mut(request.stream) else { return };
        self.busy -= u64::from(stream.open == 1);
        stream.open = stream.open.saturating_sub(1);
        if request.is_sync() {
            stream.waiting = stream.waiting.saturating_sub(1);
            stream.answered = Some(at);
        }
    }

    /// Number of outstanding requests.
    pub fn depth(&self) -> u64 {
        self.depth
    }
}

impl Default for History {
    fn default() -> History {
        History::new()
    }
}
