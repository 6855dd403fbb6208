//! Predicts the performance of a load's calls from that of its requests.
//!
//! A block device sees requests, but a process waits for its calls: some are served from memory, some wait for several requests, read-ahead
//! is waited for only if it is late, and a write does not wait unless too much memory is dirty. If calls were observed, their relation to
//! the requests is measured per stream, and applied to trials.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use observe::performance::Performance;
use observe::starvation::Tail;
use sim::run::Responses;

use crate::recording::{Call, ObservedRequest};

/// A stream counts as throttled by write-back if it waits for write-back for more than this share of its time. Choice: less is within the
/// errors of the call model, and a throttled writer waits for most of its time; not varied.
const THROTTLED: f64 = 0.05;
/// A stream with at most this number of requests in a trial is not judged by its requests. Choice: the mean wait of three requests is
/// mostly chance; a larger number would leave more streams unjudged; not varied.
const FEW_REQUESTS: f64 = 3.0;

/// The relation between calls and requests, per stream.
#[derive(Clone, Debug)]
pub struct CallModel {
    streams: BTreeMap<StreamId, Stream>,
    /// Bytes written back per second.
    written_back: f64,
}

/// Totals of a stream's requests in a trial so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamProgress {
    /// Number of completed synchronous requests.
    requests: u64,
    /// Total time that calls waited for them.
    waited: Nanos,
    /// Bytes of completed synchronous requests.
    bytes: u64,
    /// Bytes of completed asynchronous requests.
    async_bytes: u64,
    /// Synchronous requests in flight: their number, the start of the busy period, and the sum of their start times, each clamped to the
    /// judged part.
    in_flight: u32,
    since: Nanos,
    queued_ns: u128,
}

impl StreamProgress {
    /// Records a queued request. `from`: start of the judged part, from which on waits count.
    pub fn queued(&mut self, request: &Request, from: Nanos) {
        if request.is_sync() {
            if self.in_flight == 0 {
                self.since = request.arrival;
            }
            self.in_flight += 1;
            self.queued_ns += u128::from(request.arrival.max(from).0);
        }
    }

    /// Records a completed request. It counts if it completed in the judged part, from `from` on.
    pub fn completed(&mut self, request: &Request, at: Nanos, model: &CallModel, from: Nanos) {
        let counts = at >= from;
        if !request.is_sync() {
            self.async_bytes += if counts { u64::from(request.sectors) * 512 } else { 0 };
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        self.queued_ns = self.queued_ns.saturating_sub(u128::from(request.arrival.max(from).0));
        if !counts {
            return;
        }
        self.requests += 1;
        self.bytes += u64::from(request.sectors) * 512;
        let Some(stream) = model.streams.get(&request.stream) else { return };
        if stream.waits_for_each {
            self.waited += at - request.arrival.max(from) - stream.ahead;
        } else if self.in_flight == 0 {
            self.waited += at - self.since.max(from) - stream.ahead;
        }
    }

    /// Records a flush with its times of issue and completion. It counts if it completed in the judged part, from `from` on.
    pub fn flushed(&mut self, (asked, at): (Nanos, Nanos), stream: StreamId, model: &CallModel, from: Nanos) {
        let Some(stream) = model.streams.get(&stream).filter(|_| at >= from) else { return };
        self.requests += 1;
        // A wait that overlaps requests in flight is counted with those.
        if stream.waits_for_each || self.in_flight == 0 {
            self.waited += at - asked.max(from) - stream.ahead;
        }
    }

    /// Ends the trial, and adds the waits for requests that are still in flight.
    pub fn close(&mut self, until: Nanos, stream: StreamId, model: &CallModel, from: Nanos) {
        let Some(stream) = model.streams.get(&stream).filter(|_| self.in_flight > 0) else { return };
        if stream.waits_for_each {
            let in_flight = u128::from(self.in_flight);
            let waited_ns = (in_flight * u128::from((until - stream.ahead).0)).saturating_sub(self.queued_ns);
            self.waited += Nanos(u64::try_from(waited_ns).unwrap_or(u64::MAX));
        } else {
            self.waited += until - self.since.max(from) - stream.ahead;
        }
    }
}

#[derive(Clone, Debug)]
struct Stream {
    /// Calls per second, and mean wait and bytes per call.
    calls: f64,
    wait_s: f64,
    bytes: f64,
    /// Requests per call, and bytes of calls per byte of requests; 0 without requests.
    requests: f64,
    bytes_by_requests: f64,
    /// Whether calls overlap and each waits for its own requests. Otherwise a call waits while any request is in flight.
    waits_for_each: bool,
    /// Time for which requests are in flight before a call waits for them (read-ahead).
    ahead: Nanos,
    /// Mean wait of a call for anything else, in seconds.
    other_s: f64,
    /// Whether it is throttled by write-back rather than by its requests.
    is_throttled: bool,
}

fn bytes(seen: &ObservedRequest) -> u64 {
    u64::from(seen.request.sectors) * 512
}

impl CallModel {
    /// Measures the calls and requests that completed between `from` and `to`; `None` if there were no calls.
    pub fn infer<'a>(
        calls: impl Iterator<Item = &'a Call>,
        seen: impl Iterator<Item = &'a ObservedRequest>,
        from: Nanos,
        to: Nanos,
    ) -> Option<CallModel> {
        let mut by_stream: BTreeMap<StreamId, (Vec<&Call>, Vec<&ObservedRequest>)> = BTreeMap::new();
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
        Some(CallModel { streams: streams.collect(), written_back: written_back as f64 / seconds })
    }

    /// The p99 of a stream's calls, from the response times of its requests; `None` if less than one call in a hundred waits for a request.
    pub(crate) fn tail(&self, stream: StreamId, responses: &Responses) -> Option<Tail> {
        let of = self.streams.get(&stream).filter(|of| of.requests > 0.0)?;
        let quantile = 1.0 - 0.01 / of.requests.min(1.0);
        (quantile > 0.0).then(|| Tail {
            requests: (responses.count() as f64 / of.requests) as u64,
            p99_s: (responses.quantile(quantile) - of.ahead).as_secs_f64(),
        })
    }

    /// Predicted performance of calls in a trial, from that of its requests. `judged`: length of the judged part.
    pub(crate) fn served(
        &self,
        requests: &Performance,
        progress: &BTreeMap<StreamId, StreamProgress>,
        judged: Nanos,
    ) -> Performance {
        let seconds = judged.as_secs_f64();
        let written_back = progress.values().map(|one| one.async_bytes).sum::<u64>() as f64 / seconds;
        let write_back_ratio = if self.written_back > 0.0 { written_back / self.written_back } else { 1.0 };
        let (mut bytes, mut calls, mut wait_s) = (0.0, 0.0, 0.0);
        for (stream, of) in &self.streams {
            let progress = progress.get(stream).copied().unwrap_or_default();
            let (its_calls, its_wait_s, its_bytes) = of.served(&progress, seconds, write_back_ratio);
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
    fn of(calls: &[&Call], seen: &[&ObservedRequest], from: Nanos, seconds: f64) -> Stream {
        let count = calls.len().max(1) as f64;
        let mut completions: Vec<Nanos> = seen.iter().map(|seen| seen.completed).collect();
        completions.sort_unstable();
        let (mut for_requests_s, mut behind_s, mut for_other_s) = (0.0, 0.0, 0.0);
        for call in calls {
            let called = call.called.max(from);
            let last = completions.partition_point(|&at| at <= call.returned).checked_sub(1).map(|last| completions[last]);
            match last {
                // Time after its last request (a flush, copying) is the same under any setting.
                Some(last) if last >= call.called => {
                    for_requests_s += (last.max(called) - called).as_secs_f64();
                    behind_s += (call.returned - last.max(called)).as_secs_f64();
                }
                _ => for_other_s += (call.returned - called).as_secs_f64(),
            }
        }
        let wait_s = for_requests_s + behind_s + for_other_s;
        // Calls are in order of return: one that was issued before the previous one returned overlaps it.
        let overlapping = calls.windows(2).filter(|pair| pair[1].called < pair[0].returned).count();
        let waits_for_each = 2 * overlapping > calls.len();
        let mut waits = if waits_for_each { seen.iter().map(|seen| seen.response()).collect() } else { busy_periods(seen) };
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
            other_s: (wait_s - explained_s).max(0.0) / count,
            is_throttled: for_other_s > for_requests_s && for_other_s > THROTTLED * seconds,
        }
    }

    /// Number of calls, their total wait in seconds, and bytes, in a trial of `seconds`. `write_back_ratio`: the rate of write-back
    /// relative to the observed one.
    fn served(&self, progress: &StreamProgress, seconds: f64, write_back_ratio: f64) -> (f64, f64, f64) {
        if self.is_throttled {
            // Think time between calls does not change.
            let between_s = (1.0 / self.calls - self.wait_s).max(1e-9);
            let calls = (self.calls * write_back_ratio).min(1.0 / between_s) * seconds;
            return (calls, (seconds - calls * between_s).max(0.0), calls * self.bytes);
        }
        // A stream with few requests may have none in a trial, so its calls are taken to be as observed.
        if (self.requests * self.calls * seconds).max(progress.requests as f64) > FEW_REQUESTS {
            let calls = progress.requests as f64 / self.requests;
            return (calls, progress.waited.as_secs_f64() + calls * self.other_s, progress.bytes as f64 * self.bytes_by_requests);
        }
        let calls = self.calls * seconds;
        (calls, calls * self.wait_s, calls * self.bytes)
    }
}

/// Lengths of the periods with requests in flight.
fn busy_periods(seen: &[&ObservedRequest]) -> Vec<Nanos> {
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

/// The time by which each of these ascending times must be shortened (to 0 at least) to make their sum `wait_s`.
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
