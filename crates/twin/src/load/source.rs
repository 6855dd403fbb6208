//! The load as a source of requests for the simulator.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Nanos, StreamId};
use sim::run::{Attributed, Finished, Issue, RunError, Source};

use super::{Load, Pace, Stream};

/// One request or flush of a load.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// A request.
    Transfer(Issue),
    /// A flush of the write cache on behalf of a stream, with its token.
    Flush(StreamId, u64),
}

impl Attributed for Asked {
    fn issuer(&self) -> Option<(StreamId, Option<u64>)> {
        match self {
            Asked::Transfer(issue) => issue.issuer(),
            Asked::Flush(stream, _) => Some((*stream, None)),
        }
    }
}

/// Issues the requests of a load until an end time or a number of requests.
pub struct Replayed<'a> {
    streams: Vec<Going<'a>>,
    /// Streams whose next request is ready, by time.
    ready: BinaryHeap<Reverse<(Nanos, usize)>>,
    capacity_sectors: u64,
    until: Nanos,
    /// Number of requests issued, and its limit.
    issued: u64,
    most: u64,
}

/// Replay state of a stream, which repeats its steps.
struct Going<'a> {
    stream: &'a Stream,
    /// Number of requests issued.
    issued: u64,
    last_issue: Nanos,
    /// Last issue of a request that is not a flush.
    last_transfer: Nanos,
    /// Times of the completions that later requests may wait for, and the index of the first of them.
    completions: VecDeque<Nanos>,
    first: u64,
    is_announced: bool,
}

impl Going<'_> {
    /// Arrival of the next request; `None` while the stream waits for a completion.
    fn next_at(&mut self) -> Option<Nanos> {
        let steps = &self.stream.steps;
        let number = (self.issued % steps.len() as u64) as usize;
        let step = &steps[number];
        let again = &self.stream.again;
        let is_first_time = self.issued < steps.len() as u64;
        let begins_again = number == 0 && !is_first_time;
        let since = if step.is_flush() { self.last_issue } else { self.last_transfer };
        let by_clock = since + step.gap + if begins_again { again.pause } else { Nanos::ZERO };
        if self.stream.pace == Pace::Open {
            return Some(by_clock);
        }
        let in_flight = if is_first_time { step.in_flight } else { step.in_flight.max(again.least_under_way) };
        let answered = match self.issued.saturating_sub(u64::from(in_flight)).checked_sub(1) {
            Some(last) => {
                let skip = last.saturating_sub(self.first).min(self.completions.len() as u64);
                self.completions.drain(..skip as usize);
                self.first += skip;
                *self.completions.front().filter(|_| self.first == last)?
            }
            None => Nanos::ZERO,
        };
        let thought = if begins_again { Some(again.thought) } else { step.thought };
        Some(match thought {
            Some(thought) if self.stream.pace == Pace::Closed || step.is_flush() => self.last_issue.max(answered) + thought,
            _ => by_clock.max(answered),
        })
    }
}

impl<'a> Replayed<'a> {
    /// Issues the load from its start, on a device of this capacity, until this time or this number of requests.
    pub fn new(load: &'a Load, capacity_sectors: u64, until: Nanos, most: u64) -> Replayed<'a> {
        let going = |stream: &'a Stream| Going {
            stream,
            issued: 0,
            last_issue: Nanos::ZERO,
            last_transfer: Nanos::ZERO,
            completions: VecDeque::new(),
            first: 0,
            is_announced: false,
        };
        let streams = load.streams.iter().map(going).collect();
        let mut replayed = Replayed { streams, ready: BinaryHeap::new(), capacity_sectors, until, issued: 0, most };
        (0..replayed.streams.len()).for_each(|index| replayed.announce(index));
        replayed
    }

    fn announce(&mut self, index: usize) {
        let going = &mut self.streams[index];
        if !going.is_announced
            && let Some(at) = going.next_at()
        {
            going.is_announced = true;
            if at < self.until {
                self.ready.push(Reverse((at, index)));
            }
        }
    }
}

impl Source for Replayed<'_> {
    type Work = Asked;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.ready.peek().filter(|_| self.issued < self.most).map(|Reverse((at, _))| *at))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Asked>, RunError> {
        let Some(Reverse((at, index))) = self.ready.pop() else { return Ok(None) };
        let going = &mut self.streams[index];
        let count = going.stream.steps.len() as u64;
        let number = (going.issued % count) as usize;
        let step = going.stream.steps[number];
        let lba = going.stream.places.lba(number, step.sectors, going.issued / count, self.capacity_sectors);
        going.issued += 1;
        // A clock continues while the queue is full; a process that waits for room does not.
        let issued = if going.stream.pace == Pace::Open { at } else { now };
        (going.last_issue, going.is_announced) = (issued, false);
        going.last_transfer = if step.is_flush() { going.last_transfer } else { issued };
        let arrival = if going.stream.waits_for_room { at } else { issued };
        let stream = going.stream.id;
        self.announce(index);
        // Measures sample by token, so tokens are unique.
        let token = self.issued * self.streams.len() as u64 + index as u64;
        self.issued += 1;
        if step.sectors == 0 {
            return Ok(Some(Asked::Flush(stream, token)));
        }
        Ok(Some(Asked::Transfer(Issue {
            arrival,
            lba,
            sectors: step.sectors,
            op: step.op,
            sync: step.sync,
            stream,
            priority: step.priority,
            token,
        })))
    }

    fn completed(&mut self, finished: &Finished) {
        let index = (finished.token() % self.streams.len().max(1) as u64) as usize;
        let going = &mut self.streams[index];
        if going.stream.pace != Pace::Open {
            going.completions.push_back(finished.at());
            self.announce(index);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::BTreeSet;

    use sim::run::{Flushed, Transferred};

    use super::*;
    use crate::recording::ObservedRequest;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    /// An observed read of 8 sectors.
    fn seen(stream: u32, lba: u64, arrival: Nanos, completed: Nanos) -> ObservedRequest {
        ObservedRequest::read(stream, (lba, 8), arrival, completed)
    }

    /// Two sequential readers with a response time of 4 ms and a think time of 6 ms.
    fn load() -> Load {
        let seen =
            |stream: u32, number: u64| seen(stream, u64::from(stream) * 10_000 + 8 * number, MS(10 * number), MS(10 * number + 4));
        let all: Vec<ObservedRequest> = (0..20).flat_map(|number| [seen(1, number), seen(2, number)]).collect();
        Load::infer(&all, Nanos::ZERO, MS(200))
    }

    fn issue(asked: Option<Asked>) -> Issue {
        let Some(Asked::Transfer(issue)) = asked else { unreachable!("nothing was flushed: {asked:?}") };
        issue
    }

    /// The requests issued until `until` with a response time of `response`.
    fn issued(load: &Load, response: Nanos, until: Nanos) -> Vec<Issue> {
        let mut source = Replayed::new(load, 1 << 20, until, u64::MAX);
        let mut in_flight: VecDeque<Issue> = VecDeque::new();
        let mut issued = Vec::new();
        loop {
            let arrival = source.next_at().unwrap();
            let done = in_flight.front().map(|issue| issue.arrival + response);
            match (arrival, done) {
                (Some(arrival), done) if done.is_none_or(|done| arrival < done) => {
                    let issue = issue(source.take(arrival).unwrap());
                    in_flight.push_back(issue);
                    issued.push(issue);
                }
                (_, Some(at)) => {
                    let issue = in_flight.pop_front().unwrap();
                    source.completed(&Finished::Transfer(Transferred {
                        issue,
                        bytes: issue.bytes(),
                        dispatched: issue.arrival,
                        at,
                    }));
                }
                (_, None) => return issued,
            }
        }
    }

    #[test]
    fn a_faster_device_gets_requests_sooner_and_runs_continue_beyond_the_recording() {
        let load = load();
        let issued = issued(&load, MS(1), MS(280));
        let of_one: Vec<&Issue> = issued.iter().filter(|issue| issue.stream == 1).collect();
        // 6 ms of think time and 1 ms of response time, also when the stream restarts.
        assert!((38..=41).contains(&of_one.len()), "{}", of_one.len());
        assert!(of_one.windows(2).all(|pair| pair[1].lba == pair[0].lba + 8), "{of_one:?}");
    }

    #[test]
    fn a_stream_that_was_never_idle_is_not_idle_when_it_repeats() {
        let all: Vec<ObservedRequest> = (0..20).map(|number| seen(1, 8 * number, MS(50 * number), MS(50 * number + 50))).collect();
        let issued = issued(&Load::infer(&all, Nanos::ZERO, MS(1000)), MS(1), MS(200));
        assert!((199..=201).contains(&issued.len()), "{}", issued.len());
    }

    #[test]
    fn a_stream_that_ended_repeats_with_its_idle_time() {
        // It existed before, reads for a tenth of the time, and ends.
        let all: Vec<ObservedRequest> = (0..22).map(|number| seen(1, 8 * number, MS(5 * number), MS(5 * number + 5))).collect();
        let issued = issued(&Load::infer(&all, MS(10), MS(1_010)), MS(5), MS(3_000));
        assert!((60..=63).contains(&issued.len()), "{}: 20 a second", issued.len());
    }

    #[test]
    fn from_now_drops_streams_that_ended_and_keeps_those_that_pause() {
        let reads = |stream: u32, begin: Nanos| {
            (0..20).map(move |number| seen(stream, 8 * number, begin + MS(5 * number), begin + MS(5 * number + 5)))
        };
        let rests = (0..2).flat_map(|turn| reads(2, MS(500 * turn)));
        let all: Vec<ObservedRequest> = reads(1, Nanos::ZERO).chain(rests).chain(reads(3, MS(900))).collect();
        let load = Load::infer(&all, Nanos::ZERO, MS(1_000)).from_now().unwrap();
        assert_eq!(load.streams().map(|stream| stream.stream).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn a_queue_stays_full_when_the_load_repeats() {
        // Queue depth 4: each completion, one every 10 ms, is followed by the next request.
        let begin = |number: u64| MS(10 * number.saturating_sub(3));
        let all: Vec<ObservedRequest> =
            (0..40).map(|number| seen(1, 999 * number % 10_000, begin(number), MS(10 * number + 10))).collect();
        let load = Load::infer(&all, Nanos::ZERO, MS(370));
        let mut source = Replayed::new(&load, 1 << 20, MS(10_000), u64::MAX);
        let mut in_flight: VecDeque<Issue> = VecDeque::new();
        for turn in 0..200 {
            let now = MS(turn);
            while source.next_at().unwrap().is_some_and(|at| at <= now) {
                in_flight.push_back(issue(source.take(now).unwrap()));
            }
            assert_eq!(in_flight.len(), 4, "at {now:?}");
            let Some(issue) = in_flight.pop_front() else { unreachable!("there are four") };
            source.completed(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: now, at: MS(turn + 1) }));
        }
    }

    #[test]
    fn a_sequential_reader_needs_one_completion_per_request_even_if_two_are_merged() {
        // Two requests are merged and complete together; the process issues another one after reading each half.
        let step = Nanos::from_micros(100);
        let mut all = Vec::new();
        for pair in 0..20_u64 {
            let answered = MS(10 * pair) + MS(10);
            let asked = if pair == 0 { Nanos::ZERO } else { MS(10 * pair) };
            all.push(seen(1, 16 * pair, asked + step, answered));
            all.push(seen(1, 16 * pair + 8, asked + step + step, answered));
        }
        let issued = issued(&Load::infer(&all, Nanos::ZERO, MS(200)), MS(1), MS(100));
        let apart = issued.windows(2).all(|pair| pair[1].arrival - pair[0].arrival >= step);
        assert!(apart, "{issued:?}");
    }

    #[test]
    fn a_flush_follows_its_write_and_does_not_hide_the_pace() {
        // A log: it writes, flushes, and then thinks for 20 ms, regardless of the flush's response time.
        let mut now = Nanos::ZERO;
        let mut all = Vec::new();
        for number in 0..30 {
            all.push(seen(1, 8 * number, now, now + MS(2)));
            let flushed = now + MS(2) + MS(3 + number * 7 % 11);
            all.push(ObservedRequest::flush(1, now + MS(2), flushed));
            now = flushed + MS(20);
        }
        let load = Load::infer(&all, Nanos::ZERO, now);
        assert!(load.streams().all(|stream| stream.pace == Pace::Closed && stream.thought <= Some(MS(20))));
        let mut source = Replayed::new(&load, 1 << 20, MS(500), u64::MAX);
        let (mut flushes, mut done) = (0, Nanos::ZERO);
        while let Some(at) = source.next_at().unwrap() {
            done = at + MS(1);
            match source.take(at).unwrap() {
                Some(Asked::Transfer(issue)) => {
                    source.completed(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: at, at: done }));
                }
                Some(Asked::Flush(stream, token)) => {
                    flushes += 1;
                    source.completed(&Finished::Flush(Flushed { arrival: at, stream, token, at: done }));
                }
                None => unreachable!("it was announced"),
            }
        }
        // 1 ms each for the write and the flush, and 20 ms of think time.
        assert!((22..=24).contains(&flushes), "{flushes} until {done:?}");
    }

    #[test]
    fn a_sequential_run_does_not_continue_into_another_file() {
        let of = |stream: u32| {
            (0..20).map(move |number| seen(stream, 1000 * u64::from(stream) + 8 * number, MS(10 * number), MS(10 * number + 10)))
        };
        let all: Vec<ObservedRequest> = of(1).chain(of(2)).collect();
        let issued = issued(&Load::infer(&all, Nanos::ZERO, MS(200)), MS(1), MS(1000));
        assert!(issued.iter().all(|issue| (issue.lba >= 2000) == (issue.stream == 2)), "{issued:?}");
        assert!(issued.iter().any(|issue| issue.stream == 2 && issue.lba > 3000));
    }

    #[test]
    fn no_two_requests_have_the_same_number() {
        let load = load();
        let issued = issued(&load, MS(3), MS(400));
        let numbers: BTreeSet<u64> = issued.iter().map(|issue| issue.token).collect();
        assert_eq!(numbers.len(), issued.len());
    }
}
