//! What streams wait for: to notice one that gets nothing, or too late, and when those that make up a load are all there.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use observe::merit;

/// A stream that gets nothing for so many times the bound of its p99 starves: one in a hundred may wait for longer than that.
const SILENT: f64 = 3.0;
/// Streams that are known. Where programs come and go for months, those that wait for nothing are forgotten.
const MOST_STREAMS: usize = 1 << 14;

/// A stream that waits for so much of its time since it began is one of those that make up the load: others ask now and then.
const MAKES_UP: f64 = 0.5;

/// A stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// When its first request was queued.
    began: Nanos,
    /// Requests that are under way, whether somebody waits for them or not, since when there are any, and for how long there were before.
    under_way: u32,
    is_busy_since: Nanos,
    was_busy: Nanos,
    waiting: Waiting,
}

impl Stream {
    fn new(began: Nanos) -> Stream {
        Stream { began, under_way: 0, is_busy_since: began, was_busy: Nanos::ZERO, waiting: Waiting::default() }
    }

    fn queued(&mut self, request: &Request) {
        if self.under_way == 0 {
            self.is_busy_since = request.arrival;
        }
        self.under_way += 1;
        if request.is_sync() {
            self.waiting.queued(request);
        }
    }

    fn completed(&mut self, request: &Request, at: Nanos, evidence: Option<Nanos>) {
        if self.under_way == 1 {
            self.was_busy += at - self.is_busy_since;
        }
        self.under_way = self.under_way.saturating_sub(1);
        if request.is_sync() {
            self.waiting.completed(request, at, evidence);
        }
    }

    fn makes_up_the_load(&self, now: Nanos) -> bool {
        let is_busy = if self.under_way > 0 { now - self.is_busy_since } else { Nanos::ZERO };
        (self.was_busy + is_busy).as_secs_f64() >= MAKES_UP * (now - self.began).as_secs_f64()
    }
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    requests: u32,
    /// When the last one was done, or the first came.
    since: Nanos,
    /// The longest that it ever got nothing, or waited, under the default.
    longest: Nanos,
    /// Requests that came and were done under what is in force, and those of them that waited beyond the bound.
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

    fn completed(&mut self, request: &Request, at: Nanos, evidence: Option<Nanos>) {
        match evidence {
            None => self.longest = self.longest.max(at - self.since.min(request.arrival)),
            Some(evidence) if request.arrival >= evidence => {
                self.done += 1;
                let waited_s = (at - request.arrival).as_secs_f64() / f64::from(request.response_weight());
                self.late += u32::from(waited_s > self.bound_s());
            }
            Some(_) => {}
        }
        (self.requests, self.since) = (self.requests.saturating_sub(1), at);
    }

    /// The bound on its p99 response time, in seconds.
    fn bound_s(&self) -> f64 {
        merit::bound_s(self.longest.as_secs_f64())
    }

    /// Significantly more than one in a hundred were late; not one alone.
    fn is_late(&self) -> bool {
        self.late > 1 && merit::are_too_many(self.late.into(), self.done.into())
    }
}

/// All streams.
#[derive(Clone, Debug, Default)]
pub struct Streams(BTreeMap<StreamId, Stream>);

impl Streams {
    /// A request was queued.
    pub fn queued(&mut self, request: &Request) {
        if self.0.len() >= MOST_STREAMS {
            self.0.retain(|_, stream| stream.under_way > 0);
        }
        self.0.entry(request.stream).or_insert_with(|| Stream::new(request.arrival)).queued(request);
    }

    /// It is done. `evidence`: from when on what is in force served the load; `None` where that is the default.
    pub fn completed(&mut self, request: &Request, at: Nanos, evidence: Option<Nanos>) {
        self.0.entry(request.stream).or_insert_with(|| Stream::new(request.arrival)).completed(request, at, evidence);
    }

    /// When the last of those began that make up a load which began at `from`. They often begin one after another: as long as the next one
    /// follows within `within`, they are not all there. Where that goes on for `longest`, it is how the load is, and `from` is the answer.
    pub fn all_there(&self, from: Nanos, now: Nanos, within: Nanos, longest: Nanos) -> Nanos {
        let make_up = self.0.values().filter(|stream| stream.makes_up_the_load(now));
        let mut began: Vec<Nanos> = make_up.map(|stream| stream.began.max(from)).collect();
        began.sort_unstable();
        let last = began.into_iter().fold(from, |last, next| if next <= last + within { next } else { last });
        if last < from + longest { last } else { from }
    }

    /// Something else serves them from now on.
    pub fn are_served_anew(&mut self) {
        self.0.values_mut().for_each(|stream| (stream.waiting.done, stream.waiting.late) = (0, 0));
    }

    /// One that waits beyond its bound and gets nothing, and for how long.
    pub fn starving(&self, now: Nanos) -> Option<String> {
        self.0.iter().find_map(|(stream, Stream { waiting, .. })| {
            let waits_s = (now - waiting.since).as_secs_f64();
            let bound_s = waiting.bound_s();
            if waiting.requests > 0 && waits_s > SILENT * bound_s {
                return Some(format!("stream {stream} got nothing for {waits_s:.1} s"));
            }
            let Waiting { late, done, .. } = waiting;
            waiting.is_late().then(|| format!("{late} of {done} requests of stream {stream} waited for more than {bound_s:.1} s"))
        })
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;

    const LONGEST: Nanos = Nanos::from_millis(8_000);

    /// Streams that begin at these seconds and ask again at once for as long, or for a moment every second.
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

    fn all_there(at_s: &[(f64, bool)], until_s: f64) -> f64 {
        let (from, within) = (Nanos::from_millis(1_000), Nanos::from_millis(1_000));
        let now = Nanos::from_secs_f64(until_s);
        began(at_s, until_s).all_there(from, now, within, LONGEST).as_secs_f64()
    }

    #[test]
    fn a_load_is_there_when_the_last_of_its_streams_has_begun() {
        let one_after_another = [(1.2, true), (1.9, true), (2.6, true), (3.3, true)];
        assert_eq!(all_there(&one_after_another, 3.0), 2.6);
        assert_eq!(all_there(&one_after_another, 6.0), 3.3);
        assert_eq!(all_there(&[(0.1, true), (0.2, true)], 6.0), 1.0, "they were there before");
        assert_eq!(all_there(&[(1.2, true), (4.0, true)], 6.0), 1.2, "who comes much later is not waited for");
        assert_eq!(all_there(&[(1.2, true), (1.9, false)], 6.0), 1.2, "who asks now and then is no part of it");
        assert_eq!(all_there(&[], 6.0), 1.0);
        let for_ever: Vec<(f64, bool)> = (0..20).map(|number| (1.2 + 0.7 * f64::from(number), true)).collect();
        assert_eq!(all_there(&for_ever, 16.0), 1.0, "that is how the load is");
    }
}
