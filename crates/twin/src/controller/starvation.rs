//! Streams in flight: detects starvation, and determines when the last stream of a load started.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use observe::{Event, starvation};

/// A stream starves if it is not served for this many times the bound of its p99, as one request in a hundred may exceed the bound.
/// Choice: ending a setting for a single long wait against a stream that starves for longer; not varied.
const STARVED: f64 = 3.0;
/// In a trial a stream is overdue from this fraction of its bound on: the check runs every half second, the bound is at least a second, and
/// with a hundred requests a single wait beyond the bound is the p99. Derived: it leaves half a second of the shortest bound until the next
/// check.
const OVERDUE: f64 = 0.5;
/// Maximum number of tracked streams. Beyond it, idle ones are dropped, as programs start and end for months. Choice: some megabytes; above
/// the processes of most machines; not varied.
const MAX_STREAMS: usize = 1 << 14;

/// Number of longest waits kept per stream: they give the p99 of up to 800 requests, and an upper bound beyond that. Derived: 1% of 800
/// requests.
const LONGEST: usize = 8;

/// Requests count as late from this fraction of the bound on. Requests of one window have similar waits, so the p99 of a run has about that
/// uncertainty, and a setting must be dropped before the bound is exceeded. Choice: early warning against false alarms; not varied.
const LATE_SHARE: f64 = 0.75;

/// A stream belongs to the load if it is busy for at least this fraction of its lifetime. Choice: excludes processes that rest mostly, such
/// as the start of a daemon; not varied.
const MIN_BUSY_SHARE: f64 = 0.5;

/// Requests and calls of one stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Arrival of its first request.
    began: Nanos,
    /// Number of requests in flight, synchronous or not; start of the current busy period; total length of earlier ones.
    in_flight: u32,
    busy_since: Nanos,
    was_busy: Nanos,
    /// Its synchronous requests, and the others: a process that writes through the page cache also waits for those once memory is full.
    waiting: [Waiting; 2],
    /// Its calls.
    calls: Waiting,
}

impl Stream {
    fn new(began: Nanos) -> Stream {
        Stream {
            began,
            in_flight: 0,
            busy_since: began,
            was_busy: Nanos::ZERO,
            waiting: Default::default(),
            calls: Waiting::default(),
        }
    }

    fn queued(&mut self, request: &Request) {
        if self.in_flight == 0 {
            self.busy_since = request.arrival;
        }
        self.in_flight += 1;
        self.waiting[usize::from(!request.is_sync())].queued(request.arrival);
    }

    fn completed(&mut self, request: &Request, at: Nanos, measured_from: Option<Nanos>) {
        if self.in_flight == 1 {
            self.was_busy += at - self.busy_since;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let waited = Waited { from: request.arrival, until: at, weight: request.response_weight() };
        self.waiting[usize::from(!request.is_sync())].completed(waited, measured_from);
    }

    fn belongs_to_load(&self, now: Nanos) -> bool {
        let is_busy = if self.in_flight > 0 { now - self.busy_since } else { Nanos::ZERO };
        (self.was_busy + is_busy).as_secs_f64() >= MIN_BUSY_SHARE * (now - self.began).as_secs_f64()
    }
}

/// A completed request or call.
#[derive(Clone, Copy, Debug)]
struct Waited {
    from: Nanos,
    until: Nanos,
    /// Divisor of its wait: the number of ordinary requests that it counts as.
    weight: u32,
}

/// Waits of a stream: of its synchronous requests, of its others, or of its calls.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    /// Number in flight.
    requests: u32,
    /// Completion time of the last one; before that, arrival of the first.
    since: Nanos,
    /// The longest waits, or gaps without service, under the original setting, longest first; and the total number of waits.
    longest: [Nanos; LONGEST],
    waits: u64,
    /// Number of requests that arrived and completed under the active setting, and the number of late ones among them.
    done: u32,
    late: u32,
}

impl Waiting {
    fn queued(&mut self, at: Nanos) {
        if self.requests == 0 {
            self.since = at;
        }
        self.requests += 1;
    }

    fn completed(&mut self, waited: Waited, measured_from: Option<Nanos>) {
        let Waited { from, until, weight } = waited;
        match measured_from {
            None => self.waited(until - self.since.min(from)),
            Some(measured_from) if from >= measured_from => {
                self.done += 1;
                let waited_s = (until - from).as_secs_f64() / f64::from(weight);
                self.late += u32::from(waited_s > LATE_SHARE * self.bound_s());
            }
            Some(_) => {}
        }
        (self.requests, self.since) = (self.requests.saturating_sub(1), until);
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
        self.bound_above(self.waits / 100)
    }

    /// The bound if one less wait had been that long: with few waits, the p99 of a run may be far below their maximum.
    fn least_bound_s(&self) -> f64 {
        self.bound_above(self.waits / 100 + 1)
    }

    /// The bound if `longer` waits may be longer than the p99.
    fn bound_above(&self, longer: u64) -> f64 {
        let place = usize::try_from(longer).unwrap_or(LONGEST).min(LONGEST - 1);
        starvation::bound_s(self.longest[place].as_secs_f64())
    }

    /// Whether significantly more than one request in a hundred is late, and at least two.
    fn is_late(&self) -> bool {
        self.late > 1 && starvation::are_too_many(self.late.into(), self.done.into())
    }
}

/// All streams of a device.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    all: BTreeMap<StreamId, Stream>,
    /// Whether calls are observed. If so, streams are judged by the waits of calls: a request may wait without any process waiting for it.
    pub sees_calls: bool,
}

impl Streams {
    /// Updates the stream of an event. `measured_from`: start of the measurement of the active setting; `None` if that is the original one.
    pub fn event(&mut self, event: &Event, measured_from: Option<Nanos>) {
        match event {
            Event::Queued(request) => self.stream(request.stream, request.arrival).queued(request),
            Event::Completed { request, at, .. } => {
                self.stream(request.stream, request.arrival).completed(request, *at, measured_from);
            }
            Event::Flushed { .. } => {}
            Event::Called { stream, at } => {
                self.sees_calls = true;
                self.stream(*stream, *at).calls.queued(*at);
            }
            Event::Returned { stream, called, at, .. } => {
                let waited = Waited { from: *called, until: *at, weight: 1 };
                self.stream(*stream, *called).calls.completed(waited, measured_from);
            }
        }
    }

    fn stream(&mut self, stream: StreamId, began: Nanos) -> &mut Stream {
        if self.all.len() >= MAX_STREAMS && !self.all.contains_key(&stream) {
            self.all.retain(|_, stream| stream.in_flight > 0 || stream.calls.requests > 0);
        }
        self.all.entry(stream).or_insert_with(|| Stream::new(began))
    }

    /// Start of the last stream of a load that began at `from`. Streams often start one after another: as long as the next one follows
    /// within `within`, the load is incomplete. Returns `from` if this lasts for `longest`: such a load has no complete state.
    pub fn complete_from(&self, from: Nanos, now: Nanos, within: Nanos, longest: Nanos) -> Nanos {
        let members = self.all.values().filter(|stream| stream.belongs_to_load(now));
        let mut began: Vec<Nanos> = members.map(|stream| stream.began.max(from)).collect();
        began.sort_unstable();
        let last = began.into_iter().fold(from, |last, next| if next <= last + within { next } else { last });
        if last < from + longest { last } else { from }
    }

    /// Discards the measurements, as another setting is active from now on.
    pub fn restart_measurement(&mut self) {
        let all = self.all.values_mut().flat_map(|stream| stream.waiting.iter_mut().chain([&mut stream.calls]));
        all.for_each(|waiting| (waiting.done, waiting.late) = (0, 0));
    }

    /// A description of a stream that has waited for nearly as long as its bound allows, so that a trial must end; `None` if there is none.
    pub fn overdue(&self, now: Nanos) -> Option<String> {
        self.unserved(now, |waiting| OVERDUE * waiting.least_bound_s())
    }

    /// The waits by which each stream is judged: those of its calls, or if these are not observed, those of its requests by kind.
    fn waiting(&self) -> impl Iterator<Item = (StreamId, &Waiting)> {
        self.all.iter().flat_map(|(stream, of)| {
            let waiting = if self.sees_calls { std::slice::from_ref(&of.calls) } else { &of.waiting };
            waiting.iter().map(|waiting| (*stream, waiting))
        })
    }

    /// A description of a stream that was not served for longer than its `longest_s`, in seconds; `None` if there is none.
    fn unserved(&self, now: Nanos, longest_s: impl Fn(&Waiting) -> f64) -> Option<String> {
        self.waiting().find_map(|(stream, waiting)| {
            let waits_s = (now - waiting.since).as_secs_f64();
            let is_too_long = waiting.requests > 0 && waits_s > longest_s(waiting);
            is_too_long.then(|| format!("stream {stream} was not served for {waits_s:.1} s"))
        })
    }

    /// A description of a stream that starves; `None` if none does.
    pub fn starving(&self, now: Nanos) -> Option<String> {
        self.unserved(now, |waiting| STARVED * waiting.bound_s()).or_else(|| self.late())
    }

    /// A description of a stream with too many requests that exceeded its bound; `None` if there is none.
    fn late(&self) -> Option<String> {
        self.waiting().find_map(|(stream, waiting)| {
            let (Waiting { late, done, .. }, bound_s) = (waiting, waiting.bound_s());
            let late_s = LATE_SHARE * bound_s;
            let what = if self.sees_calls { "calls" } else { "requests" };
            waiting.is_late().then(|| format!("{late} of {done} {what} of stream {stream} waited for more than {late_s:.1} s"))
        })
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;

    const MAX: Nanos = Nanos::from_millis(8_000);

    /// Streams that start at these times in seconds, and are always busy, or only for a moment every second.
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
            let event = if is_queued { Event::Queued(request) } else { Event::Completed { request, dispatched: at, at } };
            streams.event(&event, None);
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
    fn where_calls_are_seen_a_stream_waits_for_those_and_not_for_its_requests() {
        let ms = Nanos::from_millis;
        let mut streams = Streams::default();
        let (op, priority) = (Op::Write, Priority::DEFAULT);
        let request = Request { id: 0, stream: 1, op, sync: false, priority, sectors: 8, lba: 0, arrival: ms(100) };
        streams.event(&Event::Queued(request), None);
        assert!(streams.overdue(ms(5_000)).is_some());
        // The process writes to the page cache, which is fast.
        streams.event(&Event::Called { stream: 1, at: ms(200) }, None);
        streams.event(&Event::Returned { stream: 1, op, bytes: 4096, called: ms(200), at: ms(201) }, None);
        assert_eq!(streams.overdue(ms(5_000)), None);
        streams.event(&Event::Called { stream: 1, at: ms(300) }, None);
        assert_eq!(streams.overdue(ms(750)), None, "less than half a second");
        assert!(streams.overdue(ms(850)).is_some());
        streams.event(&Event::Returned { stream: 1, op, bytes: 4096, called: ms(300), at: ms(1_500) }, None);
        // Under another setting one call in ten is late.
        for number in 0..200 {
            let called = ms(2_000 + 10 * number);
            let at = called + if number % 10 == 0 { ms(4_000) } else { ms(1) };
            streams.event(&Event::Called { stream: 1, at: called }, Some(ms(1_600)));
            streams.event(&Event::Returned { stream: 1, op, bytes: 4096, called, at }, Some(ms(1_600)));
        }
        assert!(streams.starving(ms(5_000)).is_some_and(|why| why.contains("20 of 200 calls of stream 1")));
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
