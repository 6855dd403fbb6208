//! The latest observed requests, flushes and calls, in bounded memory.

use std::collections::{BTreeSet, VecDeque};

use block::{Nanos, Op, Priority, Request, StreamId};
use observe::Event;
use sim::trace::TraceRequest;

/// Default memory of a recording: 64 MiB, a third each for requests, calls and flushes. Choice: memory of the daemon against the length of
/// the recording, some 45 s of 10,000 requests a second; not varied.
const MAX_BYTES: usize = 64 << 20;

/// The time of an event that has not occurred.
const NEVER: Nanos = Nanos(u64::MAX);

/// A request that was queued, dispatched and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// As queued, before any merge or split. Its id has no meaning.
    pub request: Request,
    /// Dispatch time of its last part.
    pub dispatched: Nanos,
    /// Completion time of its last part.
    pub completed: Nanos,
}

impl ObservedRequest {
    /// A request of a trace with its response time. In traces without service times it counts as dispatched at once.
    pub fn recorded(request: &TraceRequest, response: Nanos) -> ObservedRequest {
        let TraceRequest { arrival, lba, sectors, op, stream, priority, .. } = *request;
        // Reads are synchronous unless the trace marks them as read-ahead.
        let sync = request.sync.unwrap_or(op == Op::Read);
        let queued = Request { id: 0, stream, op, sync, priority, sectors, lba, arrival };
        let completed = arrival + response;
        let dispatched = request.service.map_or(arrival, |service| (completed - service).max(arrival));
        ObservedRequest { request: queued, dispatched, completed }
    }

    /// A flush: a request of no sectors, as in Linux.
    pub fn flush(stream: StreamId, asked: Nanos, at: Nanos) -> ObservedRequest {
        let (op, priority) = (Op::Write, Priority::DEFAULT);
        let request = Request { id: 0, stream, op, sync: true, priority, sectors: 0, lba: 0, arrival: asked };
        ObservedRequest { request, dispatched: asked, completed: at }
    }

    /// A synchronous read that is dispatched at once.
    #[cfg(test)]
    pub fn read(stream: StreamId, (lba, sectors): (u64, u32), arrival: Nanos, completed: Nanos) -> ObservedRequest {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        let request = Request { id: 0, stream, op, sync: true, priority, sectors, lba, arrival };
        ObservedRequest { request, dispatched: arrival, completed }
    }

    /// Whether it is a flush.
    pub fn is_flush(&self) -> bool {
        self.request.sectors == 0
    }

    /// Time from queued to completed.
    pub fn response(&self) -> Nanos {
        self.completed - self.request.arrival
    }

    /// Time from dispatched to completed, or from queued if the request was merged into one already in flight.
    pub fn service(&self) -> Nanos {
        self.completed - self.dispatched.max(self.request.arrival)
    }
}

/// A system call that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The calling process.
    pub stream: StreamId,
    /// Direction; an fsync counts as a write of 0 bytes.
    pub op: Op,
    /// Bytes read or written.
    pub bytes: u64,
    /// Issue time.
    pub called: Nanos,
    /// Return time.
    pub returned: Nanos,
}

/// Maximum number of tracked requests in flight. Beyond it the oldest are dropped, whose completion was probably not reported.
/// Choice: above the tags of most devices, and less than a megabyte; not varied.
const MAX_UNDER_WAY: usize = 1 << 14;

/// Rings of the latest requests, flushes and calls, in order of completion.
///
/// ```
/// use block::{Nanos, Op, Priority, Request};
/// use observe::Event;
/// use twin::{Load, Recording};
///
/// let mut recording = Recording::new();
/// for number in 0..100 {
///     let arrival = Nanos::from_millis(10 * number);
///     let (op, priority, lba) = (Op::Read, Priority::DEFAULT, 8 * number);
///     let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival };
///     recording.event(&Event::Queued(request));
///     recording.event(&Event::Completed { request, dispatched: arrival, at: arrival + Nanos::from_millis(4) });
/// }
/// let load = Load::infer(recording.seen(), recording.known_from(), Nanos::from_millis(1_000));
/// let stream = load.streams().next().unwrap();
/// assert_eq!((stream.in_flight, stream.rate.round()), (1, 100.0));
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    /// Memory of each ring.
    ring_bytes: usize,
    seen: VecDeque<ObservedRequest>,
    /// Queued, but not completed.
    in_flight: VecDeque<Request>,
    flushes: VecDeque<ObservedRequest>,
    calls: VecDeque<Call>,
    /// See [`known_from`](Recording::known_from).
    known_from: Nanos,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording::new()
    }
}

impl Recording {
    /// An empty recording of 64 MiB.
    pub fn new() -> Recording {
        Recording::within(MAX_BYTES)
    }

    /// An empty recording with at most this memory in bytes.
    pub fn within(bytes: usize) -> Recording {
        Recording {
            ring_bytes: bytes / 3,
            seen: VecDeque::new(),
            in_flight: VecDeque::new(),
            flushes: VecDeque::new(),
            calls: VecDeque::new(),
            known_from: Nanos::ZERO,
        }
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::Completed { request, dispatched, at } => {
                let is_it =
                    |other: &Request| (other.arrival, other.stream, other.lba) == (request.arrival, request.stream, request.lba);
                if let Some(place) = self.in_flight.iter().position(is_it) {
                    self.in_flight.remove(place);
                }
                let forgotten = push(&mut self.seen, self.ring_bytes, ObservedRequest { request, dispatched, completed: at });
                self.forgets(forgotten.map(|seen| seen.completed));
            }
            Event::Flushed { stream, asked, at } => {
                let forgotten = push(&mut self.flushes, self.ring_bytes, ObservedRequest::flush(stream, asked, at));
                self.forgets(forgotten.map(|flush| flush.completed));
            }
            Event::Returned { stream, op, bytes, called, at } => {
                let forgotten = push(&mut self.calls, self.ring_bytes, Call { stream, op, bytes, called, returned: at });
                self.forgets(forgotten.map(|call| call.returned));
            }
            Event::Queued(request) => {
                if self.in_flight.len() >= MAX_UNDER_WAY {
                    self.in_flight.pop_front();
                }
                self.in_flight.push_back(request);
            }
            Event::Called { .. } => {}
        }
    }

    /// Updates `known_from` after the ring dropped an item that completed at this time.
    fn forgets(&mut self, at: Option<Nanos>) {
        self.known_from = at.map_or(self.known_from, |at| self.known_from.max(at));
    }

    /// Time after which all completions are kept; earlier ones were dropped from a full ring.
    pub fn known_from(&self) -> Nanos {
        self.known_from
    }

    /// The requests, in order of completion.
    pub fn seen(&self) -> impl DoubleEndedIterator<Item = &ObservedRequest> + ExactSizeIterator {
        self.seen.iter()
    }

    /// Requests queued or in flight, with `dispatched` and `completed` unset. They show streams that are not being served.
    pub fn in_flight(&self) -> impl Iterator<Item = ObservedRequest> {
        self.in_flight.iter().map(|&request| ObservedRequest { request, dispatched: NEVER, completed: NEVER })
    }

    /// Number of streams whose first known request arrived at or after this time.
    pub fn newcomers(&self, since: Nanos) -> usize {
        let is_late = |request: &&Request| request.arrival >= since;
        let seen = || self.seen.iter().rev().map(|seen| &seen.request);
        // Any request that completed before `since` also arrived before.
        let late = self.seen.iter().rev().take_while(|seen| seen.completed >= since).map(|seen| &seen.request);
        let mut newcomers: BTreeSet<StreamId> = late.chain(&self.in_flight).filter(is_late).map(|request| request.stream).collect();
        for early in self.in_flight.iter().chain(seen()).filter(|request| request.arrival < since) {
            if newcomers.is_empty() {
                break;
            }
            newcomers.remove(&early.stream);
        }
        newcomers.len()
    }

    /// Number of requests that completed before this time.
    pub fn done_before(&self, at: Nanos) -> usize {
        self.seen.partition_point(|seen| seen.completed < at)
    }

    /// The flushes, in order of completion.
    pub fn flushes(&self) -> impl DoubleEndedIterator<Item = &ObservedRequest> + ExactSizeIterator {
        self.flushes.iter()
    }

    /// The calls, in order of return; none if calls cannot be observed.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> + ExactSizeIterator {
        self.calls.iter()
    }
}

/// Appends an item; returns the oldest one if the ring was full.
fn push<T>(ring: &mut VecDeque<T>, bytes: usize, last: T) -> Option<T> {
    let most = bytes / size_of::<T>();
    let forgotten = if ring.len() >= most { ring.pop_front() } else { None };
    // Doubling the capacity could take almost twice the memory.
    if ring.len() == ring.capacity() {
        ring.reserve_exact((most - ring.len()).min(ring.len()).max(64));
    }
    ring.push_back(last);
    forgotten
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;

    #[test]
    fn a_queued_request_is_in_flight_until_it_completes() {
        let request = |stream, lba| Request {
            id: 0,
            stream,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba,
            arrival: Nanos::from_millis(10),
        };
        let mut recording = Recording::new();
        let requests = [request(1, 64), request(2, 64), request(1, 72)];
        requests.iter().for_each(|&request| recording.event(&Event::Queued(request)));
        recording.event(&Event::Completed { request: requests[1], dispatched: Nanos::from_millis(11), at: Nanos::from_millis(12) });
        let in_flight: Vec<Request> = recording.in_flight().map(|seen| seen.request).collect();
        assert_eq!(in_flight, [requests[0], requests[2]]);
        // A stream without completions belongs to the load as well.
        let waiting: Vec<ObservedRequest> = recording.in_flight().collect();
        let load = Load::infer(recording.seen().chain(&waiting), Nanos::ZERO, Nanos::from_millis(20));
        assert_eq!(load.streams().map(|stream| (stream.stream, stream.requests)).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
    }

    #[test]
    fn a_newcomer_has_no_earlier_request() {
        let ms = Nanos::from_millis;
        let mut recording = Recording::new();
        let mut read = |stream, arrival, done| {
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let request = Request { id: 0, stream, op, sync: true, priority, sectors: 8, lba: 64, arrival };
            recording.event(&Event::Queued(request));
            if done {
                recording.event(&Event::Completed { request, dispatched: arrival, at: arrival + ms(5) });
            }
        };
        read(1, ms(10), true);
        read(2, ms(498), true);
        read(1, ms(510), true);
        read(3, ms(520), true);
        read(4, ms(530), false);
        assert_eq!(recording.newcomers(ms(500)), 2, "the third and the fourth; of the second, what was late is the end");
        assert_eq!(recording.newcomers(ms(0)), 4);
        assert_eq!(recording.newcomers(ms(600)), 0);
    }

    #[test]
    fn requests_dropped_by_a_full_ring_are_no_part_of_the_load() {
        let mut recording = Recording::within(3 * 100 * size_of::<ObservedRequest>());
        for number in 1..=1_000 {
            let arrival = Nanos::from_millis(number);
            let (op, lba) = (Op::Read, 8 * (number * 7_919 % 1_000));
            let request = Request { id: 0, stream: 1, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival };
            recording.event(&Event::Completed { request, dispatched: arrival, at: arrival + Nanos(500_000) });
        }
        assert_eq!(recording.known_from(), Nanos(900_500_000));
        let load = Load::infer(recording.seen(), recording.known_from(), Nanos::from_millis(1_000));
        let rates: Vec<f64> = load.streams().map(|stream| stream.rate).collect();
        assert!((rates[0] / 1_000.0 - 1.0).abs() < 0.02, "one each millisecond, and not {rates:?} a second");
    }

    #[test]
    fn a_merged_request_is_at_the_device_from_its_arrival() {
        let request = Request {
            id: 0,
            stream: 1,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba: 64,
            arrival: Nanos::from_millis(10),
        };
        let mut recording = Recording::new();
        recording.event(&Event::Queued(request));
        // Merged into a request that had been dispatched at 4 ms.
        recording.event(&Event::Completed { request, dispatched: Nanos::from_millis(4), at: Nanos::from_millis(12) });
        let Some(seen) = recording.seen().next() else { panic!("one request was completed") };
        assert_eq!((seen.response(), seen.service()), (Nanos::from_millis(2), Nanos::from_millis(2)));
    }
}
