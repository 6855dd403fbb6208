//! What processes get of a load, from what its requests get.
//!
//! A block device sees requests, and what counts to a process are its calls: some are served from memory, some wait for several
//! requests, what was read ahead is waited for only as far as it is late, and a write waits for nothing unless too much is dirty. Where
//! calls were seen, too, the relation between the two is taken from what was seen, stream by stream, and carried over to a trial.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use observe::merit::Tail;
use observe::performance::Performance;
use sim::run::Responses;

use crate::recording::{Call, Seen};

/// A stream that is held back for a smaller share of its time goes at its own pace.
const HELD_BACK: f64 = 0.05;
/// So few requests in a trial are no measure of a stream.
const FEW: f64 = 3.0;

/// The relation between calls and requests.
#[derive(Clone, Debug)]
pub struct Above {
    streams: BTreeMap<StreamId, Stream>,
    /// Bytes a second that were written back.
    written_back: f64,
}

/// What the requests of a stream got in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Got {
    /// Requests that somebody may wait for.
    requests: u64,
    /// What calls waited for them.
    waited: Nanos,
    /// What they moved.
    bytes: u64,
    /// What others moved.
    beside: u64,
    /// Requests under way, since when there are any, and when they were queued or the trial began to be judged, summed up.
    under_way: u32,
    since: Nanos,
    queued_ns: u128,
}

impl Got {
    /// A request is queued; its time counts from when the judged part of the trial begins.
    pub fn queued(&mut self, request: &Request, from: Nanos) {
        if request.is_sync() {
            if self.under_way == 0 {
                self.since = request.arrival;
            }
            self.under_way += 1;
            self.queued_ns += u128::from(request.arrival.max(from).0);
        }
    }

    /// A request is done; it counts from when the judged part of the trial begins.
    pub fn completed(&mut self, request: &Request, at: Nanos, above: &Above, from: Nanos) {
        let counts = at >= from;
        if !request.is_sync() {
            self.beside += if counts { u64::from(request.sectors) * 512 } else { 0 };
            return;
        }
        self.under_way = self.under_way.saturating_sub(1);
        self.queued_ns = self.queued_ns.saturating_sub(u128::from(request.arrival.max(from).0));
        if !counts {
            return;
        }
        self.requests += 1;
        self.bytes += u64::from(request.sectors) * 512;
        let Some(stream) = above.streams.get(&request.stream) else { return };
        if stream.waits_for_each {
            self.waited += at - request.arrival.max(from) - stream.ahead;
        } else if self.under_way == 0 {
            self.waited += at - self.since.max(from) - stream.ahead;
        }
    }

    /// A flush that was asked for and done at these times; it counts from when the judged part of the trial begins.
    pub fn flushed(&mut self, (asked, at): (Nanos, Nanos), stream: StreamId, above: &Above, from: Nanos) {
        let Some(stream) = above.streams.get(&stream).filter(|_| at >= from) else { return };
        self.requests += 1;
        // What is under way beside it is waited for all the same.
        if stream.waits_for_each || self.under_way == 0 {
            self.waited += at - asked.max(from) - stream.ahead;
        }
    }

    /// The trial ends: what is under way has been waited for, too.
    pub fn close(&mut self, until: Nanos, stream: StreamId, above: &Above, from: Nanos) {
        let Some(stream) = above.streams.get(&stream).filter(|_| self.under_way > 0) else { return };
        if stream.waits_for_each {
            let under_way = u128::from(self.under_way);
            let waited_ns = (under_way * u128::from((until - stream.ahead).0)).saturating_sub(self.queued_ns);
            self.waited += Nanos(u64::try_from(waited_ns).unwrap_or(u64::MAX));
        } else {
            self.waited += until - self.since.max(from) - stream.ahead;
        }
    }
}

#[derive(Clone, Debug)]
struct Stream {
    /// Calls a second, what they waited each, and bytes each.
    calls: f64,
    wait_s: f64,
    bytes: f64,
    /// Requests for each call, and bytes of calls for each byte of requests; 0 if there were none.
    requests: f64,
    bytes_by_requests: f64,
    /// It has several calls under way, and each waits for its own requests. Else a call waits while any is under way.
    waits_for_each: bool,
    /// How long requests are under way before a call waits for them.
    ahead: Nanos,
    /// What a call waits for else, in seconds.
    beside_s: f64,
    /// It is held back by write-back rather than by its requests.
    is_held_back: bool,
}

fn bytes(seen: &Seen) -> u64 {
    u64::from(seen.request.sectors) * 512
}

impl Above {
    /// From the calls and requests that were done between `from` and `to`; `None` if no calls were seen.
    pub fn infer<'a>(
        calls: impl Iterator<Item = &'a Call>,
        seen: impl Iterator<Item = &'a Seen>,
        from: Nanos,
        to: Nanos,
    ) -> Option<Above> {
        let mut by_stream: BTreeMap<StreamId, (Vec<&Call>, Vec<&Seen>)> = BTreeMap::new();
        for call in calls.filter(|call| (from..to).contains(&call.returned)) {
            by_stream.entry(call.stream).or_default().0.push(call);
        }
        if by_stream.is_empty() {
            return None;
        }
        let mut written_back = 0;
        for seen in seen.filter(|seen| (from..to).contains(&seen.completed)) {
            if !seen.request.is_sync() {
                written_back += bytes(seen);
            } else if let Some((_, requests)) = by_stream.get_mut(&seen.request.stream) {
                requests.push(seen);
            }
        }
        let seconds = (to - from).as_secs_f64();
        let streams = by_stream.into_iter().map(|(stream, (calls, seen))| (stream, Stream::of(&calls, &seen, from, seconds)));
        Some(Above { streams: streams.collect(), written_back: written_back as f64 / seconds })
    }

    /// What the calls of a stream wait whose requests have these response times; `None` if fewer than one in a hundred waits for one.
    pub(crate) fn tail(&self, stream: StreamId, responses: &Responses) -> Option<Tail> {
        let of = self.streams.get(&stream).filter(|of| of.requests > 0.0)?;
        let quantile = 1.0 - 0.01 / of.requests.min(1.0);
        (quantile > 0.0).then(|| Tail {
            requests: (responses.count() as f64 / of.requests) as u64,
            p99_s: (responses.quantile(quantile) - of.ahead).as_secs_f64(),
        })
    }

    /// What processes get where their requests get this in a trial that `lasts` so long.
    pub(crate) fn served(&self, requests: &Performance, got: &BTreeMap<StreamId, Got>, lasts: Nanos) -> Performance {
        let seconds = lasts.as_secs_f64();
        let written_back = got.values().map(|got| got.beside).sum::<u64>() as f64 / seconds;
        let progress = if self.written_back > 0.0 { written_back / self.written_back } else { 1.0 };
        let (mut bytes, mut calls, mut wait_s) = (0.0, 0.0, 0.0);
        for (stream, of) in &self.streams {
            let got = got.get(stream).copied().unwrap_or_default();
            let (its_calls, its_wait_s, its_bytes) = of.served(&got, seconds, progress);
            calls += its_calls;
            wait_s += its_wait_s;
            bytes += its_bytes;
        }
        if calls <= 0.0 {
            return *requests;
        }
        Performance { throughput: (bytes / seconds) as f32, response_s: (wait_s / calls) as f32, ..*requests }
    }
}

impl Stream {
    fn of(calls: &[&Call], seen: &[&Seen], from: Nanos, seconds: f64) -> Stream {
        let count = calls.len().max(1) as f64;
        let mut completions: Vec<Nanos> = seen.iter().map(|seen| seen.completed).collect();
        completions.sort_unstable();
        let (mut for_requests_s, mut behind_s, mut for_else_s) = (0.0, 0.0, 0.0);
        for call in calls {
            let called = call.called.max(from);
            let last = completions.partition_point(|&at| at <= call.returned).checked_sub(1).map(|last| completions[last]);
            match last {
                // What comes behind its last request (a flush, copying) it waits for as well, however the requests are served.
                Some(last) if last >= call.called => {
                    for_requests_s += (last.max(called) - called).as_secs_f64();
                    behind_s += (call.returned - last.max(called)).as_secs_f64();
                }
                _ => for_else_s += (call.returned - called).as_secs_f64(),
            }
        }
        let wait_s = for_requests_s + behind_s + for_else_s;
        // In the order of their returns: one that was issued before the last one returned was under way beside it.
        let beside = calls.windows(2).filter(|pair| pair[1].called < pair[0].returned).count();
        let waits_for_each = 2 * beside > calls.len();
        let mut waits = if waits_for_each { seen.iter().map(|seen| seen.response()).collect() } else { busy(seen) };
        waits.sort_unstable();
        let ahead = ahead(&waits, for_requests_s);
        let explained_s: f64 = waits.iter().map(|&wait| (wait - ahead).as_secs_f64()).sum();
        let moved: u64 = seen.iter().map(|seen| bytes(seen)).sum();
        let bytes: u64 = calls.iter().map(|call| call.bytes).sum();
        Stream {
            calls: count / seconds,
            wait_s: wait_s / count,
            bytes: bytes as f64 / count,
            requests: seen.len() as f64 / count,
            bytes_by_requests: if moved > 0 { bytes as f64 / moved as f64 } else { 0.0 },
            waits_for_each,
            ahead,
            beside_s: (wait_s - explained_s).max(0.0) / count,
            is_held_back: for_else_s > for_requests_s && for_else_s > HELD_BACK * seconds,
        }
    }

    /// Calls, what they wait in seconds, and bytes, in so many seconds of a trial in which write-back makes this progress by what it made
    /// when the stream was seen.
    fn served(&self, got: &Got, seconds: f64, progress: f64) -> (f64, f64, f64) {
        if self.is_held_back {
            // What it does between two calls takes as long as it did.
            let between_s = (1.0 / self.calls - self.wait_s).max(1e-9);
            let calls = (self.calls * progress).min(1.0 / between_s) * seconds;
            return (calls, (seconds - calls * between_s).max(0.0), calls * self.bytes);
        }
        // A stream that has hardly any requests may have none in a trial, and goes on all the same. One that is served better has more.
        if (self.requests * self.calls * seconds).max(got.requests as f64) > FEW {
            let calls = got.requests as f64 / self.requests;
            return (calls, got.waited.as_secs_f64() + calls * self.beside_s, got.bytes as f64 * self.bytes_by_requests);
        }
        let calls = self.calls * seconds;
        (calls, calls * self.wait_s, calls * self.bytes)
    }
}

/// How long requests were under way without a break.
fn busy(seen: &[&Seen]) -> Vec<Nanos> {
    let mut seen: Vec<(Nanos, Nanos)> = seen.iter().map(|seen| (seen.request.arrival, seen.completed)).collect();
    seen.sort_unstable();
    let mut periods: Vec<(Nanos, Nanos)> = Vec::new();
    for (arrival, completed) in seen {
        match periods.last_mut() {
            Some(last) if arrival < last.1 => last.1 = last.1.max(completed),
            _ => periods.push((arrival, completed)),
        }
    }
    periods.into_iter().map(|(from, to)| to - from).collect()
}

/// By how much all these times, in ascending order, are shortened so that together they are as long as the wait.
fn ahead(times: &[Nanos], wait_s: f64) -> Nanos {
    let mut beyond_s: f64 = times.iter().map(|time| time.as_secs_f64()).sum();
    let mut before = Nanos::ZERO;
    for (number, &time) in times.iter().enumerate() {
        let longer = (times.len() - number) as f64;
        let next_s = beyond_s - longer * (time - before).as_secs_f64();
        if next_s <= wait_s {
            return before + Nanos::from_secs_f64(((beyond_s - wait_s) / longer).max(0.0));
        }
        (beyond_s, before) = (next_s, time);
    }
    before
}
