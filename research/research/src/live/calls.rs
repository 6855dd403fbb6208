//! Infers processes' calls, which are not visible at the block layer, if their size is known.
//!
//! The latency of a call differs from that of its requests. Under `none` a process without a free tag waits before the rest of its call becomes
//! visible; under another scheduler the same requests wait where they are visible: on a disk with four tags a call of 2,020 KiB is
//! four requests of 14 ms there and of 28 ms here, and yet the call takes 9% longer there. So settings are compared by calls.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use observe::Event;

/// Detects calls by counting the bytes of each stream. Each process must have one direct call outstanding, all of the same size.
pub struct Calls {
    bytes: u64,
    under_way: BTreeMap<StreamId, (Nanos, u64)>,
}

impl Calls {
    /// Calls of this many bytes each.
    pub fn of(bytes: u64) -> Calls {
        Calls { bytes, under_way: BTreeMap::new() }
    }

    /// Discards all calls in progress, after events were lost.
    pub fn lost(&mut self) {
        self.under_way.clear();
    }

    /// The start or end of a call that a request's event implies; `None` if neither.
    pub fn event(&mut self, event: &Event) -> Option<Event> {
        match event {
            Event::Queued(request) if !self.under_way.contains_key(&request.stream) => {
                self.under_way.insert(request.stream, (request.arrival, 0));
                Some(Event::Called { stream: request.stream, at: request.arrival })
            }
            Event::Completed { request, at, .. } => {
                let (called, done) = self.under_way.get_mut(&request.stream)?;
                *done += 512 * u64::from(request.sectors);
                let (called, is_whole) = (*called, *done >= self.bytes);
                if !is_whole {
                    return None;
                }
                self.under_way.remove(&request.stream);
                Some(Event::Returned { stream: request.stream, op: request.op, bytes: self.bytes, called, at: *at })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority, Request};

    use super::*;

    #[test]
    fn a_call_lasts_from_its_first_request_to_its_last_even_where_the_second_is_seen_after_the_first_is_done() {
        let ms = Nanos::from_millis;
        let part = |stream, sectors, arrival| Request {
            id: 0,
            stream,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors,
            lba: 0,
            arrival,
        };
        let done = |request, at| Event::Completed { request, dispatched: at, at };
        let mut calls = Calls::of(1 << 20);
        let (first, second, other) = (part(1, 1_024, ms(1)), part(1, 1_024, ms(6)), part(2, 2_048, ms(2)));
        assert_eq!(calls.event(&Event::Queued(first)), Some(Event::Called { stream: first.stream, at: ms(1) }));
        assert_eq!(calls.event(&Event::Queued(other)), Some(Event::Called { stream: other.stream, at: ms(2) }));
        assert_eq!(calls.event(&done(first, ms(5))), None);
        assert_eq!(calls.event(&Event::Queued(second)), None);
        let returned = |stream, called, at| Some(Event::Returned { stream, op: Op::Read, bytes: 1 << 20, called, at });
        assert_eq!(calls.event(&done(second, ms(9))), returned(1, ms(1), ms(9)));
        assert_eq!(calls.event(&done(other, ms(10))), returned(2, ms(2), ms(10)));
        calls.event(&Event::Queued(first));
        calls.lost();
        assert_eq!(calls.event(&done(first, ms(20))), None);
    }
}
