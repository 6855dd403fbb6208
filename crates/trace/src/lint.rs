//! Looks for faults of a trace: order, units, gaps, duplicates, completions, flushes, places. One pass, bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use block::{Nanos, Op, StreamId};
use serde::Serialize;

use super::{Noticed, TraceError, TraceReader, TraceRequest};

/// Requests and times below which units are not judged.
const ENOUGH: u64 = 100;
/// More requests per second than any device serves.
const MAX_IOPS: f64 = 20e6;
/// More bytes per second than any device transfers.
const MAX_BYTES_PER_SECOND: f64 = 500e9;
/// A median pause between requests, and median response times, that point to another unit.
const MEDIAN_PAUSE: Nanos = Nanos::from_millis(100);
const MIN_MEDIAN_RESPONSE: Nanos = Nanos(1_000);
const MAX_MEDIAN_RESPONSE: Nanos = Nanos::from_millis(10_000);
/// A pause is a gap if it is this long, and this many times the median pause.
const GAP: Nanos = Nanos::from_millis(60_000);
const GAP_TIMES: u64 = 10_000;
/// Requests at the same time that are compared with each other.
const SAME_TIME: usize = 1 << 16;
/// Where all times are multiples of this, equal requests at the same time may be different ones.
const COARSE_CLOCK: u64 = 1_000_000;
/// Synchronous writes of a file system after which there should have been a flush.
const SYNC_WRITES: u64 = 1_000;

/// Facts about the trace other than its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// The size of the device it is for; the recorded device's if the trace has one.
    pub capacity_sectors: Option<u64>,
    /// Whether the format has flushes.
    pub has_flushes: bool,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Requests that arrive before the one before them in the file.
    Order,
    /// Times that are too long to be in this unit.
    TimesTooLong,
    /// Times that are too short to be in this unit.
    TimesTooShort,
    /// Response times that are too long or too short for theirs.
    ResponseUnit,
    /// Long pauses.
    Gaps,
    /// Equal requests at the same time.
    Duplicates,
    /// Completions of requests that were not seen.
    CompletionsAlone,
    /// Times at the device that begin before the request arrives.
    ServiceBeforeArrival,
    /// Synchronous writes without any flush.
    NoFlushes,
    /// Requests of no sectors.
    Empty,
    /// Requests beyond the device's end.
    BeyondEnd,
    /// Records that cannot be read.
    Damaged,
}

/// Where a finding is seen first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// As in `line 7`, where the format has such.
    pub place: Option<String>,
    /// The request's number in the file, from 1.
    pub request: Option<u64>,
    /// Its arrival since the file's first request; below 0 if it is out of order.
    pub time_s: Option<f64>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FaultKind,
    /// The fault, in a sentence without the number.
    pub what: String,
    /// How many requests it concerns.
    pub count: u64,
    /// The first.
    pub first: Option<Place>,
}

/// Reads a trace opened with [`Order::OfTheFile`](super::Order::OfTheFile) to its end. Returns the number of its requests and its faults, worst
/// first. `progress` is called with the number of requests read so far, now and then; when it returns false, the result is
/// `Ok(None)`.
///
/// # Errors
/// The reader's errors only.
pub fn lint(
    reader: &mut dyn TraceReader,
    known: Known,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Option<(u64, Vec<Finding>)>, TraceError> {
    let recorded = reader.recorded_device().and_then(|device| device.capacity_sectors);
    let mut check = Check { capacity: known.capacity_sectors.or(recorded), ..Check::default() };
    while let Some(request) = reader.next_request() {
        check.see(&request?, reader);
        if check.requests.is_multiple_of(4096) && !progress(check.requests) {
            return Ok(None);
        }
    }
    Ok(Some((check.requests, check.findings(reader, known))))
}

/// How many, and the first.
#[derive(Default)]
struct Tally {
    count: u64,
    first: Option<Place>,
}

/// Counts of times by powers of two.
#[derive(Default)]
struct Spread {
    counts: BTreeMap<u32, u64>,
    total: u64,
}

impl Spread {
    fn see(&mut self, time: Nanos) {
        *self.counts.entry(64 - time.0.leading_zeros()).or_default() += 1;
        self.total += 1;
    }

    /// The median, rounded down to a power of two; `None` with too few.
    fn median(&self) -> Option<Nanos> {
        let mut below = 0;
        let (bucket, _) = self.counts.iter().find(|(_, count)| {
            below += **count;
            below * 2 >= self.total
        })?;
        (self.total >= ENOUGH).then_some(Nanos(bucket.checked_sub(1).map_or(0, |bit| 1 << bit)))
    }
}

type Identity = (u32, u64, u32, u8, StreamId);

/// The arrivals of a file.
#[derive(Default)]
struct Arrivals {
    /// The first one in the file, the earliest, the latest so far.
    first: Nanos,
    earliest: Nanos,
    latest: Nanos,
    /// Their greatest common divisor.
    clock: u64,
    pauses: Spread,
    /// Pauses from [`GAP`] on, up to [`LONG_PAUSES`].
    long_pauses: Vec<(Nanos, Place)>,
}

impl Arrivals {
    fn begin(&mut self, arrival: Nanos) {
        (self.first, self.earliest, self.latest) = (arrival, arrival, arrival);
    }

    /// Time since the first arrival in the file in seconds; exact where the clock counts from long ago.
    fn since_first_s(&self, arrival: Nanos) -> f64 {
        (i128::from(arrival.0) - i128::from(self.first.0)) as f64 / 1e9
    }

    /// Adds a pause, if the arrival is not earlier than the one before.
    fn see_pause(&mut self, arrival: Nanos, place: impl FnOnce() -> Place) {
        let pause = arrival - self.latest;
        self.pauses.see(pause);
        if pause >= GAP && self.long_pauses.len() < LONG_PAUSES {
            self.long_pauses.push((pause, place()));
        }
    }

    fn see(&mut self, arrival: Nanos) {
        (self.earliest, self.latest) = (self.earliest.min(arrival), self.latest.max(arrival));
        self.clock = gcd(self.clock, arrival.0.abs_diff(self.first.0));
    }

    fn span(&self) -> Nanos {
        self.latest - self.earliest
    }

    /// The number of gaps, the first, and the longest; `None` if pauses as a rule are too long to tell or there is none.
    fn gaps(&self) -> Option<(u64, Place, Nanos)> {
        let pause = self.pauses.median().filter(|pause| *pause < MEDIAN_PAUSE)?;
        let is_gap = |&&(length, _): &&(Nanos, Place)| length.0 >= pause.0.max(1).saturating_mul(GAP_TIMES);
        let gaps = || self.long_pauses.iter().filter(is_gap);
        let (_, first) = gaps().next()?;
        let longest = gaps().map(|(length, _)| *length).max().unwrap_or_default();
        Some((gaps().count() as u64, first.clone(), longest))
    }
}

#[derive(Default)]
struct Check {
    capacity: Option<u64>,
    requests: u64,
    bytes: u64,
    sync_writes: u64,
    arrivals: Arrivals,
    responses: Spread,
    now: BTreeSet<Identity>,
    order: Tally,
    duplicates: Tally,
    service: Tally,
    beyond: Tally,
}

/// Pauses of that length that are remembered.
const LONG_PAUSES: usize = 1 << 16;

impl Check {
    fn see(&mut self, request: &TraceRequest, reader: &dyn TraceReader) {
        self.requests += 1;
        let is_first = self.requests == 1;
        if is_first {
            self.arrivals.begin(request.arrival);
        }
        let time_s = self.arrivals.since_first_s(request.arrival);
        let number = self.requests;
        let place = || Place { place: reader.position(), request: Some(number), time_s: Some(time_s) };
        if request.arrival < self.arrivals.latest {
            self.order.see(place);
        } else if !is_first {
            self.arrivals.see_pause(request.arrival, place);
        }
        if request.arrival != self.arrivals.latest || is_first {
            self.now.clear();
        }
        let identity = (request.device, request.lba, request.sectors, request.op as u8, request.stream);
        if self.now.len() < SAME_TIME && !self.now.insert(identity) {
            self.duplicates.see(place);
        }
        self.arrivals.see(request.arrival);
        self.bytes = self.bytes.saturating_add(u64::from(request.sectors) * 512);
        self.sync_writes += u64::from(request.op == Op::Write && request.sync == Some(true));
        if let Some(response) = request.response {
            self.responses.see(response);
            if request.service.is_some_and(|service| service > response) {
                self.service.see(place);
            }
        }
        if self.capacity.is_some_and(|capacity| request.lba + u64::from(request.sectors) > capacity) {
            self.beyond.see(place);
        }
    }

    fn findings(self, reader: &dyn TraceReader, known: Known) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut add = |kind, count: u64, first: Option<Place>, what: String| {
            if count > 0 {
                findings.push(Finding { kind, what, count, first });
            }
        };
        let at = |noticed: Noticed| noticed.first.map(|place| Place { place: Some(place), request: None, time_s: None });
        add(FaultKind::Damaged, reader.skipped(), None, "that cannot be read, skipped".into());
        let late = "out of order: earlier than the one before in the file".to_owned();
        self.times(&mut add);
        add(FaultKind::Order, self.order.count, self.order.first, late);
        let unmatched = reader.unmatched_completions();
        let alone = "of requests that were never queued: events are missing".to_owned();
        add(FaultKind::CompletionsAlone, unmatched.count, at(unmatched), alone);
        let before = "with more time at the device than in all: begun before the arrival".to_owned();
        add(FaultKind::ServiceBeforeArrival, self.service.count, self.service.first, before);
        if self.arrivals.clock < COARSE_CLOCK {
            let twice = "equal to another in time, place, size, direction and stream".to_owned();
            add(FaultKind::Duplicates, self.duplicates.count, self.duplicates.first, twice);
        }
        let flushes = reader.omitted() - reader.empty().count;
        if known.has_flushes && flushes == 0 && self.sync_writes >= SYNC_WRITES {
            let what = "are synchronous, as of a file system's journal, without any flush: either the disk has no volatile cache, or the \
                        recording left flushes out";
            add(FaultKind::NoFlushes, self.sync_writes, None, what.into());
        }
        let end = self.capacity.map(|sectors| format!("beyond the end of the device's {sectors} sectors")).unwrap_or_default();
        add(FaultKind::BeyondEnd, self.beyond.count, self.beyond.first, end);
        let empty = reader.empty();
        add(FaultKind::Empty, empty.count, at(empty), "of no sectors".into());
        findings
    }

    /// Units and gaps.
    fn times(&self, add: &mut impl FnMut(FaultKind, u64, Option<Place>, String)) {
        let lasts = self.arrivals.span().as_secs_f64();
        let (iops, bytes) = (self.requests as f64 / lasts, self.bytes as f64 / lasts);
        if self.requests >= ENOUGH && (iops > MAX_IOPS || bytes > MAX_BYTES_PER_SECOND) {
            let what = if lasts == 0.0 {
                "arrive at the same time: the clock is too coarse, or the times are missing".to_owned()
            } else {
                format!(
                    "come at {iops:.0} per second and {bytes:.0} bytes per second, beyond any device: the times are in a coarser unit"
                )
            };
            add(FaultKind::TimesTooShort, self.requests, None, what);
        }
        if let Some(pause) = self.arrivals.pauses.median().filter(|pause| *pause >= MEDIAN_PAUSE) {
            let what = format!("come one every {pause} or more as a rule: the times are in a finer unit");
            add(FaultKind::TimesTooLong, self.requests, None, what);
        }
        if let Some(median) =
            self.responses.median().filter(|median| *median < MIN_MEDIAN_RESPONSE || *median > MAX_MEDIAN_RESPONSE)
        {
            let unit = if median < MIN_MEDIAN_RESPONSE { "coarser" } else { "finer" };
            let what = format!("take {median} as a rule: the response times are in a {unit} unit, or are none");
            add(FaultKind::ResponseUnit, self.responses.total, None, what);
        }
        if let Some((count, first, longest)) = self.arrivals.gaps() {
            add(FaultKind::Gaps, count, Some(first), format!("after a gap, the longest of {longest}"));
        }
    }
}

impl Tally {
    fn see(&mut self, place: impl FnOnce() -> Place) {
        self.count += 1;
        self.first.get_or_insert_with(place);
    }
}

/// Of 0 and a number it is the number.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
