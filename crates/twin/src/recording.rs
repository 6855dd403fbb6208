//! What was observed: the latest requests of a plant, in bounded memory.

use std::collections::VecDeque;

use block::{Nanos, Op, Priority, Request, StreamId};
use learn::Event;
use sim::trace::TraceRequest;

/// What a recording may take: 64 MiB, a third each for requests, calls and flushes.
const MOST_BYTES: usize = 64 << 20;

/// A request that was queued, dispatched and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// As it was queued, before any merge or split. Its id has no meaning.
    pub request: Request,
    /// When its last part was dispatched to the device.
    pub dispatched: Nanos,
    /// When its last part completed.
    pub completed: Nanos,
}

impl Seen {
    /// A request of a trace that was answered in this time. A trace does not say when it was dispatched: as far as it tells, at once.
    pub fn recorded(request: &TraceRequest, response: Nanos) -> Seen {
        let TraceRequest { arrival, lba, sectors, op, stream, priority, .. } = *request;
        let queued = Request { id: 0, stream, op, sync: request.is_sync(), priority, sectors, lba, arrival };
        Seen { request: queued, dispatched: arrival, completed: arrival + response }
    }

    /// A flush: a request of no sectors, as Linux has it.
    pub fn flush(stream: StreamId, asked: Nanos, at: Nanos) -> Seen {
        let (op, priority) = (Op::Write, Priority::DEFAULT);
        let request = Request { id: 0, stream, op, sync: true, priority, sectors: 0, lba: 0, arrival: asked };
        Seen { request, dispatched: asked, completed: at }
    }

    /// Whether it is a flush.
    pub fn is_flush(&self) -> bool {
        self.request.sectors == 0
    }

    /// From queued to completed.
    pub fn response(&self) -> Nanos {
        self.completed - self.request.arrival
    }

    /// From dispatched to completed. A request that was merged into one already at the device counts from when it was queued.
    pub fn service(&self) -> Nanos {
        self.completed - self.dispatched.max(self.request.arrival)
    }
}

/// A call of a process that returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The process.
    pub stream: StreamId,
    /// Whether it read or wrote; an fsync counts as a write of nothing.
    pub op: Op,
    /// The data read or written.
    pub bytes: u64,
    /// When it was issued.
    pub called: Nanos,
    /// When it returned.
    pub returned: Nanos,
}

/// Rings of the latest requests and calls, in the order in which they were done.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    seen: VecDeque<Seen>,
    flushes: VecDeque<Seen>,
    calls: VecDeque<Call>,
}

impl Recording {
    /// With nothing in it.
    pub fn new() -> Recording {
        Recording::default()
    }

    /// Takes an event in; what is not done is not kept.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::Completed { request, dispatched, at } => {
                push(&mut self.seen, Seen { request, dispatched, completed: at });
            }
            Event::Flushed { stream, asked, at } => push(&mut self.flushes, Seen::flush(stream, asked, at)),
            Event::Returned { stream, op, bytes, called, at } => {
                push(&mut self.calls, Call { stream, op, bytes, called, returned: at });
            }
            Event::Queued(_) | Event::Called(_) => {}
        }
    }

    /// The requests, in the order in which they completed.
    pub fn seen(&self) -> impl DoubleEndedIterator<Item = &Seen> + ExactSizeIterator {
        self.seen.iter()
    }

    /// How many of the requests were done before this time.
    pub fn done_before(&self, at: Nanos) -> usize {
        self.seen.partition_point(|seen| seen.completed < at)
    }

    /// The flushes, in the order in which they were done.
    pub fn flushes(&self) -> impl DoubleEndedIterator<Item = &Seen> + ExactSizeIterator {
        self.flushes.iter()
    }

    /// The calls, in the order in which they returned; none where calls cannot be seen.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> + ExactSizeIterator {
        self.calls.iter()
    }
}

fn push<T>(ring: &mut VecDeque<T>, last: T) {
    if ring.len() >= MOST_BYTES / 3 / size_of::<T>() {
        ring.pop_front();
    }
    ring.push_back(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_as_under_way_from_when_it_could_be_served() {
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
