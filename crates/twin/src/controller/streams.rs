//! Streams in flight: detects starvation, and when the last stream of a load began.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use observe::merit;

/// A stream that is not served for this many times the bound of its p99 starves: one request in a hundred may wait longer than the bound.
const STARVED: f64 = 3.0;
/// Streams that are tracked. Beyond that, idle ones are forgotten: programs come and go for months.
const MAX_STREAMS: usize = 1 << 14;

/// Waits that are kept of a stream: they tell its p99 up to 800 requests, and something above it from then on.
const LONGEST: usize = 8;

/// Requests are counted as late beyond this share of the bound. Requests of one window wait alike, so the p99 of a run is off by as much, and a
/// setting is to be given up before the bound is exceeded.
const LATE_SHARE: f64 = 0.75;

/// A stream belongs to the load if it is busy for this share of its time.
const MIN_BUSY_SHARE: f64 = 0.5;

/// A stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// When its first request was queued.
    began: Nanos,
    /// Requests in flight, synchronous or not; since when there are any; and for how long there were before.
    in_flight: u32,
    busy_since: Nanos,
    was_busy: Nanos,
    /// Its synchronous requests, and the others: a process that writes through the page cache waits for those, too, once memory is full.
    waiting: [Waiting; 2],
}

impl Stream {
    fn new(began: Nanos) -> Stream {
        Stream { began, in_flight: 0, busy_since: began, was_busy: Nanos::ZERO, waiting: Default::default() }
    }

    fn queued(&mut self, request: &Request) {
        if self.in_flight == 0 {
            self.busy_since = request.arrival;
        }
        self.in_flight += 1;
        self.waiting[usize::from(!request.is_sync())].queued(request);
    }

    fn completed(&mut self, request: &Request, at: Nanos, measured_from: Option<Nanos>) {
        if self.in_flight == 1 {
            self.was_busy += at - self.busy_since;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.waiting[usize::from(!request.is_sync())].completed(request, at, measured_from);
    }

    fn belongs_to_load(&self, now: Nanos) -> bool {
        let is_busy = if self.in_flight > 0 { now - self.busy_since } else { Nanos::ZERO };
        (self.was_busy + is_busy).as_secs_f64() >= MIN_BUSY_SHARE * (now - self.began).as_secs_f64()
    }
}

/// The requests of a stream, synchronous or not.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// In flight.
    requests: u32,
    /// When the last one completed, or the first arrived.
    since: Nanos,
    /// The longest waits, or times without service, under the original setting, in order, and how many there were in all.
    longest: [Nanos; LONGEST],
    waits: u64,
    /// Requests that arrived and completed under the active setting, and those of them that were late.
    done: u32,
    late: u32,
}

impl Waiting {
    fn queued(&mut self, request: &Request) {
        if self.requests == 0 {
            self.since = request.arrival;
        }
        self.requests += 1;
    }

    fn completed(&mut self, request: &Request, at: Nanos, measured_from: Option<Nanos>) {
        match measured_from {
            None => self.waited(at - self.since.min(request.arrival)),
            Some(from) if request.arrival >= from => {
                self.done += 1;
                let waited_s = (at - request.arrival).as_secs_f64() / f64::from(request.response_weight());
                self.late += u32::from(waited_s > LATE_SHARE * self.bound_s());
            }
            Some(_) => {}
        }
        (self.requests, self.since) = (self.requests.saturating_sub(1), at);
    }

    fn waited(&mut self, wait: Nanos) {
        self.waits += 1;
        let place = self.longest.partition_point(|longer| *longer >= wait);
        if place < LONGEST {
            self.longest.copy_within(place..LONGEST - 1, place + 1);
            self.longest[place] = wait;
        }
    }

    /// The bound on its p99 response time, in seconds.
    fn bound_s(&self) -> f64 {
        let place = usize::try_from(self.waits / 100).unwrap_or(LONGEST).min(LONGEST - 1);
        merit::bound_s(self.longest[place].as_secs_f64())
    }

    /// Whether significantly more than one request in a hundred is late, and at least two.
    fn is_late(&self) -> bool {
        self.late > 1 && merit::are_too_many(self.late.into(), self.done.into())
    }
}

/// All streams of a device.
#[derive(Clone, Debug, Default)]
pub struct Streams(BTreeMap<StreamId, Stream>);

impl Streams {
    /// A request was queued.
    pub fn queued(&mut self, request: &Request) {
        if self.0.len() >= MAX_STREAMS {
            self.0.retain(|_, stream| stream.in_flight > 0);
        }
        self.0.entry(request.stream).or_insert_with(|| Stream::new(request.arrival)).queued(request);
    }

    /// A request completed. `measured_from`: since when the active setting serves the load; `None` if that is the original one.
    pub fn completed(&mut self, request: &Request, at: Nanos, measured_from: Option<Nanos>) {
        self.0.entry(request.stream).or_insert_with(|| Stream::new(request.arrival)).completed(request, at, measured_from);
    }

    /// When the last stream of a load began that began at `from`. Streams often begin one after another: as long as the next one follows
    /// within `within`, the load is not complete. Returns `from` if that goes on for `longest`: then the load is like that.
    pub fn complete_from(&self, from: Nanos, now: Nanos, within: Nanos, longest: Nanos) -> Nanos {
        let members = self.0.values().filter(|stream| stream.belongs_to_load(now));
        let mut began: Vec<Nanos> = members.map(|stream| stream.began.max(from)).collect();
        began.sort_unstable();
        let last = began.into_iter().fold(from, |last, next| if next <= last + within { next } else { last });
        if last < from + longest { last } else { from }
    }

    /// Another setting serves them from now on.
    pub fn restart_measurement(&mut self) {
        let all = self.0.values_mut().flat_map(|stream| &mut stream.waiting);
        all.for_each(|waiting| (waiting.done, waiting.late) = (0, 0));
    }

    /// A description of a stream that waits beyond its bound in a trial, which is not to make it starve; `None` if none does.
    pub fn overdue(&self, now: Nanos) -> Option<String> {
        self.unserved(now, 1.0)
    }

    /// The requests of each stream, by kind.
    fn waiting(&self) -> impl Iterator<Item = (StreamId, &Waiting)> {
        self.0.iter().flat_map(|(stream, of)| of.waiting.iter().map(|waiting| (*stream, waiting)))
    }

    /// A description of a stream that was not served for this many of its bounds.
    fn unserved(&self, now: Nanos, bounds: f64) -> Option<String> {
        self.waiting().find_map(|(stream, waiting)| {
            let waits_s = (now - waiting.since).as_secs_f64();
            let is_too_long = waiting.requests > 0 && waits_s > bounds * waiting.bound_s();
            is_too_long.then(|| format!("stream {stream} was not served for {waits_s:.1} s"))
        })
    }

    /// A description of a stream that starves; `None` if none does.
    pub fn starving(&self, now: Nanos) -> Option<String> {
        self.unserved(now, STARVED).or_else(|| self.late())
    }

    /// A description of a stream of which too many requests waited beyond its bound.
    fn late(&self) -> Option<String> {
        self.waiting().find_map(|(stream, waiting)| {
            let (Waiting { late, done, .. }, bound_s) = (waiting, waiting.bound_s());
            let late_s = LATE_SHARE * bound_s;
            waiting.is_late().then(|| format!("{late} of {done} requests of stream {stream} waited for more than {late_s:.1} s"))
        })
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;

    const MAX: Nanos = Nanos::from_millis(8_000);

    /// Streams that begin at these seconds and are always busy, or for a moment every second.
    fn began(at_s: &[(f64, bool)], until_s: f64) -> Streams {
        let mut streams = Streams::default();
        let mut events: Vec<(f64, StreamId, bool)> = Vec::new();
        for (stream, &(began_s, waits)) in (1..).zip(at_s) {
            let mut at = began_s;
            while at < until_s {
                events.push((at, stream, true));
                events.push((at + 0.01, stream, false));
                at += if waits { 0.011 } else { 1.0 };
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, stream, is_queued) in events {
            let at = Nanos::from_secs_f64(at);
            let (op, sync, priority) = (Op::Read, true, Priority::DEFAULT);
            let request = Request { id: 0, stream, op, sync, priority, sectors: 8, lba: 0, arrival: at };
            if is_queued { streams.queued(&request) } else { streams.completed(&request, at, None) }
        }
        streams
    }

    fn complete_from(at_s: &[(f64, bool)], until_s: f64) -> f64 {
        let (from, within) = (Nanos::from_millis(1_000), Nanos::from_millis(1_000));
        let now = Nanos::from_secs_f64(until_s);
        began(at_s, until_s).complete_from(from, now, within, MAX).as_secs_f64()
    }

    #[test]
    fn the_bound_of_a_stream_is_of_its_p99_and_not_of_its_longest_wait() {
        let mut waiting = Waiting::default();
        (0..3).for_each(|_| waiting.waited(Nanos::from_millis(5_000)));
        assert_eq!(waiting.bound_s(), 20.0);
        (0..300).for_each(|_| waiting.waited(Nanos::from_millis(500)));
        assert_eq!(waiting.bound_s(), 2.0, "three of 303 are one in a hundred");
    }

    #[test]
    fn a_load_is_complete_when_the_last_of_its_streams_has_begun() {
        let one_after_another = [(1.2, true), (1.9, true), (2.6, true), (3.3, true)];
        assert_eq!(complete_from(&one_after_another, 3.0), 2.6);
        assert_eq!(complete_from(&one_after_another, 6.0), 3.3);
        assert_eq!(complete_from(&[(0.1, true), (0.2, true)], 6.0), 1.0, "they were there before");
        assert_eq!(complete_from(&[(1.2, true), (4.0, true)], 6.0), 1.2, "a much later stream is not waited for");
        assert_eq!(complete_from(&[(1.2, true), (1.9, false)], 6.0), 1.2, "a stream that is mostly idle is no part of it");
        assert_eq!(complete_from(&[], 6.0), 1.0);
        let for_ever: Vec<(f64, bool)> = (0..20).map(|number| (1.2 + 0.7 * f64::from(number), true)).collect();
        assert_eq!(complete_from(&for_ever, 16.0), 1.0, "the load is like that");
    }
}
