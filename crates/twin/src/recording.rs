//! What was observed: the latest requests of a plant, in bounded memory.

use std::collections::VecDeque;

use block::{Nanos, Request};
use learn::Event;

/// What a recording may take: 64 MiB.
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
    /// From queued to completed.
    pub fn response(&self) -> Nanos {
        self.completed - self.request.arrival
    }

    /// From dispatched to completed. A request that was merged into one already at the device counts from when it was queued.
    pub fn service(&self) -> Nanos {
        self.completed - self.dispatched.max(self.request.arrival)
    }
}

/// A ring of the latest requests, in the order in which they completed.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    seen: VecDeque<Seen>,
}

impl Recording {
    /// With nothing in it.
    pub fn new() -> Recording {
        Recording::default()
    }

    /// Takes an event in; only completions are kept.
    pub fn event(&mut self, event: &Event) {
        let Event::Completed { request, dispatched, at } = *event else { return };
        if self.seen.len() >= MOST_BYTES / size_of::<Seen>() {
            self.seen.pop_front();
        }
        self.seen.push_back(Seen { request, dispatched, completed: at });
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// The requests, in the order in which they completed.
    pub fn seen(&self) -> impl DoubleEndedIterator<Item = &Seen> + ExactSizeIterator {
        self.seen.iter()
    }

    /// Those that were queued at or after `from`, in the order in which they were queued.
    pub fn queued_since(&self, from: Nanos) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self.seen.iter().filter(|seen| seen.request.arrival >= from).copied().collect();
        seen.sort_by_key(|seen| (seen.request.arrival, seen.completed));
        seen
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

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
        let [seen] = recording.queued_since(Nanos::ZERO)[..] else { panic!("one request was completed") };
        assert_eq!((seen.response(), seen.service()), (Nanos::from_millis(2), Nanos::from_millis(2)));
        assert!(recording.queued_since(Nanos::from_millis(11)).is_empty());
    }
}
