//! Counts events as the kernel counts requests (Linux `block/blk-mq.c`, `block/genhd.c`): from the time at which they have room in the
//! queue, so that no counter includes waits for room.

use std::collections::BTreeMap;

use block::{Nanos, Op, StreamId};
use observe::Event;
use observe::counters::{Done, Sample};

/// Simulated counters of one device.
#[derive(Clone, Debug)]
pub struct Counter {
    counted: Sample,
    max_sectors: u32,
    last: Nanos,
    /// The last completed request as known so far: merged parts complete together and are reported one after the other.
    open: Option<Open>,
    /// Requests in flight that had to wait for room, and the time at which they got it.
    had_to_wait: BTreeMap<(StreamId, u64, Nanos), Nanos>,
}

/// A completed request of which further parts may be reported.
#[derive(Clone, Copy, Debug)]
struct Open {
    op: Op,
    dispatched: Nanos,
    at: Nanos,
    from: u64,
    end: u64,
    arrival: Nanos,
    parts: u64,
}

impl Counter {
    /// Counters at zero. The queue splits requests larger than `max_sectors`.
    pub fn new(max_sectors: u32) -> Counter {
        Counter {
            counted: Sample::default(),
            max_sectors: max_sectors.max(1),
            last: Nanos::ZERO,
            open: None,
            had_to_wait: BTreeMap::new(),
        }
    }

    /// Counts an event.
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::Queued(request) => {
                // A request is reported when it has room.
                if self.last > request.arrival {
                    self.had_to_wait.insert((request.stream, request.lba, request.arrival), self.last);
                }
                self.until(request.arrival);
                self.counted.under_way += 1;
            }
            Event::Completed { request, dispatched, at } => {
                self.until(at);
                self.counted.under_way = self.counted.under_way.saturating_sub(1);
                let had_to_wait = self.had_to_wait.remove(&(request.stream, request.lba, request.arrival));
                let arrival = had_to_wait.unwrap_or(request.arrival);
                let part = Open { op: request.op, dispatched, at, from: request.lba, end: request.end(), arrival, parts: 1 };
                match &mut self.open {
                    Some(open) if open.takes(&part) => {
                        (open.from, open.end) = (open.from.min(part.from), open.end.max(part.end));
                        (open.arrival, open.parts) = (open.arrival.min(part.arrival), open.parts + 1);
                    }
                    _ => {
                        self.close();
                        self.open = Some(part);
                    }
                }
            }
            Event::Flushed { asked, at, .. } => {
                self.until(at);
                self.counted.flush.requests += 1;
                self.counted.flush.waited += at - asked;
            }
            Event::Called { .. } | Event::Returned { .. } => {}
        }
    }

    /// The counters at this time.
    pub fn sample(&mut self, at: Nanos) -> Sample {
        self.until(at);
        self.close();
        self.counted.at = at;
        self.counted
    }

    fn until(&mut self, now: Nanos) {
        if now > self.last {
            if self.counted.under_way > 0 {
                self.counted.busy += now - self.last;
            }
            self.last = now;
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let sectors = open.end - open.from;
        let requests = sectors.div_ceil(u64::from(self.max_sectors)).max(1);
        let done: &mut Done = match open.op {
            Op::Read => &mut self.counted.read,
            Op::Write => &mut self.counted.write,
            Op::Discard => &mut self.counted.discard,
        };
        done.requests += requests;
        done.merged += open.parts.saturating_sub(requests);
        done.sectors += sectors;
        done.waited += Nanos((open.at - open.arrival).0 * requests);
    }
}

impl Open {
    /// Whether `part` is another part of the same request.
    fn takes(&self, part: &Open) -> bool {
        (self.op, self.dispatched, self.at) == (part.op, part.dispatched, part.at)
            && (part.from == self.end || part.end == self.from)
    }
}

#[cfg(test)]
mod tests {
    use block::{Priority, Request};

    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn request(lba: u64, sectors: u32, arrival: Nanos) -> Request {
        Request { id: 0, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival }
    }

    #[test]
    fn merged_requests_are_one_that_waited_from_its_first_part() {
        let mut counter = Counter::new(2_560);
        let asked = [request(0, 8, MS(10)), request(8, 8, MS(12)), request(64, 8, MS(13))];
        asked.iter().for_each(|&request| counter.event(&Event::Queued(request)));
        for request in asked {
            let (dispatched, at) = if request.lba < 64 { (MS(14), MS(20)) } else { (MS(20), MS(30)) };
            counter.event(&Event::Completed { request, dispatched, at });
        }
        counter.event(&Event::Flushed { stream: 1, asked: MS(30), at: MS(35) });
        let sample = counter.sample(MS(50));
        assert_eq!(sample.read, Done { requests: 2, merged: 1, sectors: 24, waited: MS(10 + 17) });
        assert_eq!((sample.flush.requests, sample.flush.waited, sample.busy, sample.under_way), (1, MS(5), MS(20), 0));
    }

    #[test]
    fn a_request_that_waits_for_a_tag_is_counted_from_when_it_gets_one() {
        let mut counter = Counter::new(2_560);
        let (first, second) = (request(0, 8, MS(0)), request(640, 8, MS(1)));
        counter.event(&Event::Queued(first));
        counter.event(&Event::Completed { request: first, dispatched: MS(0), at: MS(10) });
        counter.event(&Event::Queued(second));
        counter.event(&Event::Completed { request: second, dispatched: MS(10), at: MS(15) });
        assert_eq!(counter.sample(MS(20)).read.waited, MS(10 + 5));
    }

    #[test]
    fn a_request_larger_than_the_limit_counts_as_several() {
        let mut counter = Counter::new(256);
        let request = request(0, 1_024, MS(0));
        counter.event(&Event::Queued(request));
        counter.event(&Event::Completed { request, dispatched: MS(1), at: MS(2) });
        assert_eq!(counter.sample(MS(3)).read, Done { requests: 4, merged: 0, sectors: 1_024, waited: MS(8) });
    }
}
