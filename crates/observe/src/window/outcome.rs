//! The performance of a window's requests.

use block::{Nanos, Request};

use super::ahead::Ahead;
use super::quantiles::Quantiles;
use crate::event::Event;
use crate::merit;
use crate::preference::Preference;
use crate::stream_table::StreamTable;

/// Maximum response time in quantiles: an hour. Choice: a longer one costs memory by its logarithm; above every response time of a device
/// that works; not varied.
const LONGEST: Nanos = Nanos::from_millis(3_600_000);

/// Performance of the requests that completed in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowOutcome {
    /// Length of the window.
    pub duration: Nanos,
    /// Completed requests.
    pub requests: u64,
    /// Synchronous ones among them. Read-ahead counts as one request for every 128 KiB that a process used.
    pub waited_for: u64,
    /// Bytes transferred; for read-ahead only those that a process used (`Ahead`).
    pub bytes: u64,
    /// Mean response time of synchronous requests (of all if none is), in seconds; NaN without any.
    pub mean_response_s: f64,
    /// Time that such requests waited in the window, completed or not, divided by the number of completed ones, in seconds; NaN if none
    /// completed. In the long run that is the mean response time (Little's law), but it includes outstanding requests, so that delaying them is
    /// not rewarded.
    pub waited_s: f64,
    /// 99th percentile of their response times in seconds, to 1 percent, at most an hour; NaN without any.
    pub p99_response_s: f64,
    /// The longest response time in seconds; NaN without any.
    pub max_response_s: f64,
    /// Mean service time of all requests in seconds; NaN without any.
    pub mean_service_s: f64,
    /// Jain's index over the streams' progress: the service time of synchronous requests that completed in the window, divided by the time
    /// that such requests waited in it, completed or not. 1 is fair, 1/n if one of n gets everything; a stream that waited without progress
    /// counts. 1 for a single stream or none. Covers up to 512 streams; beyond that, a new one replaces the least recently used.
    pub fairness: f64,
    /// Outstanding requests when the window ended.
    pub unfinished: u64,
    /// Calls of processes; `None` if the target cannot observe them.
    pub calls: Option<Calls>,
}

/// Calls of processes that returned in a window. For buffered writes the block layer shows only asynchronous write-back, although processes may
/// be blocked by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    /// Calls that returned.
    pub done: u64,
    /// Bytes read and written for them.
    pub bytes: u64,
    /// Time that processes were blocked by calls in the window, returned or not, divided by the number of returned ones, in seconds; NaN if none
    /// returned.
    pub waited_s: f64,
}

impl WindowOutcome {
    /// Bytes per second; 0 in a window without length.
    pub fn throughput(&self) -> f64 {
        self.by_time(self.bytes)
    }

    /// Completed requests per second; 0 in a window without length.
    pub fn rate(&self) -> f64 {
        self.by_time(self.requests)
    }

    /// The values that are scored, of calls if these are observed: bytes per second, and the waiting time per request in seconds.
    pub fn judged(&self) -> (f64, f64) {
        match &self.calls {
            Some(calls) => (self.by_time(calls.bytes), calls.waited_s),
            None => (self.throughput(), self.waited_s),
        }
    }

    fn by_time(&self, count: u64) -> f64 {
        if self.duration == Nanos::ZERO { 0.0 } else { count as f64 / self.duration.as_secs_f64() }
    }

    /// The score ([`merit::score`]). Minus infinity if nothing was transferred or the window has no length; never NaN or plus infinity.
    pub fn score(&self, preference: &Preference) -> f64 {
        let (bytes_per_s, waited_s) = self.judged();
        merit::score(preference, bytes_per_s, waited_s, self.fairness)
    }
}

/// Mean number of outstanding synchronous requests over these windows (Little's law). Windows with calls count as 0: calls are observed in full.
pub fn depth<'a>(outcomes: impl IntoIterator<Item = &'a WindowOutcome>) -> f64 {
    let (mut waited_s, mut lasted_s) = (0.0, 0.0);
    for outcome in outcomes {
        let is_counted = outcome.calls.is_none() && outcome.waited_for > 0;
        waited_s += if is_counted { outcome.waited_s * outcome.waited_for as f64 } else { 0.0 };
        lasted_s += outcome.duration.as_secs_f64();
    }
    if lasted_s > 0.0 { waited_s / lasted_s } else { 0.0 }
}

/// Waiting and service time of a stream in the window. A table apart from that of [`History`](super::History), which keeps idle streams: here
/// those are dropped at the end of each window, so that all that waited in it have room.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Outstanding synchronous requests, and the time of the last change of their number.
    waiting: u32,
    since: Nanos,
    /// Waiting time of such requests in the window, completed or not.
    waited_s: f64,
    /// Service time of those that completed in the window.
    service_s: f64,
}

impl Progress {
    fn wait_until(&mut self, at: Nanos) {
        self.waited_s += f64::from(self.waiting) * (at - self.since).as_secs_f64();
        self.since = self.since.max(at);
    }

    /// Share of its waiting time during which the device served it; `None` if it had no requests.
    fn share(&self) -> Option<f64> {
        if self.waited_s > 0.0 {
            return Some((self.service_s / self.waited_s).min(1.0));
        }
        (self.service_s > 0.0).then_some(1.0)
    }
}

/// Response times of requests of one kind.
#[derive(Clone, Debug)]
struct Responses {
    /// Outstanding requests, the time of the last change of their number, and their waiting time in this window.
    waiting: u64,
    since: Nanos,
    waited_s: f64,
    requests: u64,
    sum_s: f64,
    longest: Nanos,
    quantiles: Quantiles,
}

impl Responses {
    fn new() -> Responses {
        Responses {
            waiting: 0,
            since: Nanos::ZERO,
            waited_s: 0.0,
            requests: 0,
            sum_s: 0.0,
            longest: Nanos::ZERO,
            quantiles: Quantiles::new(LONGEST.0, 2),
        }
    }

    fn queued(&mut self, at: Nanos) {
        self.wait_until(at);
        self.waiting += 1;
    }

    fn wait_until(&mut self, at: Nanos) {
        self.waited_s += self.waiting as f64 * (at - self.since).as_secs_f64();
        self.since = self.since.max(at);
    }

    fn over(&mut self, at: Nanos) {
        self.wait_until(at);
        self.waiting = self.waiting.saturating_sub(1);
        self.requests += 1;
    }

    fn completed(&mut self, at: Nanos, response: Nanos) {
        self.over(at);
        self.sum_s += response.as_secs_f64();
        self.longest = self.longest.max(response);
        self.quantiles.add(response.0);
    }

    fn clear(&mut self) {
        // Histograms are large, and in most windows one of them is empty.
        if self.requests > 0 {
            self.quantiles.clear();
        }
        (self.requests, self.sum_s, self.waited_s, self.longest) = (0, 0.0, 0.0, Nanos::ZERO);
    }
}

/// Accumulates completions into a [`WindowOutcome`], without allocating.
#[derive(Clone, Debug)]
pub struct Tally {
    waited_for: Responses,
    others: Responses,
    bytes: u64,
    /// See [`asynchronous_bytes`](Tally::asynchronous_bytes).
    asynchronous_bytes: u64,
    ahead: Ahead,
    service_s: f64,
    streams: StreamTable<Progress>,
    calls: Responses,
    call_bytes: u64,
    sees_calls: bool,
    from: Nanos,
}

impl Tally {
    /// A tally without events.
    pub fn new() -> Tally {
        Tally {
            waited_for: Responses::new(),
            others: Responses::new(),
            bytes: 0,
            asynchronous_bytes: 0,
            ahead: Ahead::new(),
            service_s: 0.0,
            streams: StreamTable::new(),
            calls: Responses::new(),
            call_bytes: 0,
            sees_calls: false,
            from: Nanos::ZERO,
        }
    }

    /// Sets the beginning of the first window; 0 by default.
    pub fn begin(&mut self, at: Nanos) {
        self.from = at;
    }

    /// Adds an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => {
                self.ahead.queued(request);
                if request.is_sync() {
                    let (progress, _) = self.streams.follow(request.stream);
                    progress.wait_until(request.arrival);
                    progress.waiting += 1;
                }
                self.of(request).queued(request.arrival);
            }
            Event::Completed { request, dispatched, at } => self.complete(request, *dispatched, *at),
            Event::Flushed { .. } => {}
            Event::Called { at, .. } => {
                self.sees_calls = true;
                self.calls.queued(*at);
            }
            Event::Returned { bytes, at, .. } => {
                self.call_bytes = self.call_bytes.saturating_add(*bytes);
                self.calls.over(*at);
            }
        }
    }

    fn complete(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        if request.op.transfers() && !self.ahead.completed(request) {
            self.bytes = self.bytes.saturating_add(u64::from(request.sectors) * 512);
        }
        // A request may be recorded as dispatched before it was queued: the device then worked on it all the time.
        let (response, service) = (at - request.arrival, at - dispatched.max(request.arrival));
        self.service_s += service.as_secs_f64();
        if request.is_sync() {
            let (progress, _) = self.streams.follow(request.stream);
            // It was queued before the stream was tracked.
            if progress.waiting == 0 {
                progress.waited_s += response.as_secs_f64();
            }
            progress.wait_until(at);
            progress.waiting = progress.waiting.saturating_sub(1);
            progress.service_s += service.as_secs_f64();
        } else {
            self.asynchronous_bytes += u64::from(request.sectors) * 512;
        }
        self.of(request).completed(at, response);
    }

    fn of(&mut self, request: &Request) -> &mut Responses {
        if request.is_sync() { &mut self.waited_for } else { &mut self.others }
    }

    /// Number of requests completed in the window.
    pub fn completed(&self) -> u64 {
        self.waited_for.requests + self.others.requests
    }

    /// Number of outstanding requests.
    pub fn unfinished(&self) -> u64 {
        self.waited_for.waiting + self.others.waiting
    }

    /// Number of outstanding asynchronous requests: write-back and discards.
    pub fn unfinished_asynchronous(&self) -> u64 {
        self.others.waiting
    }

    /// Bytes of all asynchronous requests that completed since the first window, discarded ones included.
    pub fn asynchronous_bytes(&self) -> u64 {
        self.asynchronous_bytes
    }

    /// The outcome of the window that ends now after `duration`; begins the next one.
    pub fn close(&mut self, duration: Nanos) -> WindowOutcome {
        self.from += duration;
        self.waited_for.wait_until(self.from);
        self.others.wait_until(self.from);
        self.calls.wait_until(self.from);
        let (done, bytes) = (self.calls.requests, self.call_bytes);
        let calls = self.sees_calls.then(|| Calls { done, bytes, waited_s: self.calls.waited_s / done as f64 });
        let judged = if self.waited_for.requests > 0 { &self.waited_for } else { &self.others };
        let requests = self.completed();
        let ahead = self.ahead.close();
        let waited_for = self.waited_for.requests + ahead.more_requests;
        let counted = judged.requests + if self.waited_for.requests > 0 { ahead.more_requests } else { 0 };
        let outcome = WindowOutcome {
            duration,
            requests,
            waited_for,
            bytes: self.bytes.saturating_add(ahead.bytes),
            mean_response_s: judged.sum_s / judged.requests as f64,
            waited_s: judged.waited_s / counted as f64,
            p99_response_s: judged.quantiles.quantile(0.99) / 1e9,
            max_response_s: if judged.requests > 0 { judged.longest.as_secs_f64() } else { f64::NAN },
            mean_service_s: self.service_s / requests as f64,
            fairness: self.close_streams(),
            unfinished: self.unfinished(),
            calls,
        };
        self.waited_for.clear();
        self.others.clear();
        self.calls.clear();
        self.call_bytes = 0;
        (self.bytes, self.service_s) = (0, 0.0);
        outcome
    }

    /// The fairness of the window that ends now. Streams with outstanding requests remain tracked.
    fn close_streams(&mut self) -> f64 {
        let (mut sum, mut squares, mut streams) = (0.0, 0.0, 0.0);
        let at = self.from;
        self.streams.retain(|progress| {
            progress.wait_until(at);
            if let Some(share) = progress.share() {
                sum += share;
                squares += share * share;
                streams += 1.0;
            }
            (progress.waited_s, progress.service_s) = (0.0, 0.0);
            progress.waiting > 0
        });
        // Rounding must not yield more than 1.
        if squares > 0.0 { (sum * sum / (streams * squares)).min(1.0) } else { 1.0 }
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};
    use proptest::prelude::*;

    use super::*;

    /// Length of the windows of these tests. Choice: the usual length of a window; not varied.
    const SECOND: Nanos = Nanos::from_millis(1000);

    fn done(stream: u32, op: Op, sync: bool, response_ms: u64, service_ms: u64) -> Event {
        let at = Nanos::from_millis(100_000);
        let (arrival, dispatched) = (at - Nanos::from_millis(response_ms), at - Nanos::from_millis(service_ms));
        let request = Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival };
        Event::Completed { request, dispatched, at }
    }

    fn outcome(events: &[Event]) -> WindowOutcome {
        let mut tally = Tally::new();
        events.iter().for_each(|event| tally.event(event));
        tally.close(SECOND)
    }

    #[test]
    fn response_times_are_those_of_synchronous_requests() {
        let outcome = outcome(&[
            done(1, Op::Read, false, 10, 5),
            done(1, Op::Write, true, 20, 5),
            done(2, Op::Write, false, 500, 5),
            done(2, Op::Discard, false, 700, 25),
        ]);
        assert_eq!((outcome.requests, outcome.waited_for, outcome.bytes), (4, 2, 3 * 4096));
        assert!((outcome.mean_response_s - 0.015).abs() < 1e-12 && (outcome.mean_service_s - 0.010).abs() < 1e-12);
        assert_eq!(outcome.max_response_s, 0.020);
        assert!((outcome.p99_response_s / 0.020 - 1.0).abs() < 0.01, "{}", outcome.p99_response_s);
        assert_eq!((outcome.throughput(), outcome.rate()), (3.0 * 4096.0, 4.0));
    }

    #[test]
    fn without_synchronous_requests_the_response_times_are_of_all() {
        let outcome = outcome(&[done(1, Op::Write, false, 10, 5), done(2, Op::Write, false, 30, 5)]);
        assert_eq!((outcome.waited_for, outcome.mean_response_s, outcome.max_response_s, outcome.fairness), (0, 0.020, 0.030, 1.0));
    }

    #[test]
    fn the_99th_of_a_hundred_is_between_the_median_and_the_longest() {
        let events: Vec<Event> = (1..=1000).map(|ms| done(0, Op::Read, true, ms, 1)).collect();
        let p99 = outcome(&events).p99_response_s;
        assert!((0.98..=0.99).contains(&p99), "{p99}");
    }

    #[test]
    fn streams_slowed_alike_are_served_fairly_and_others_are_not() {
        let fair = outcome(&[done(1, Op::Read, true, 10, 5), done(2, Op::Read, true, 100, 50)]);
        assert!((fair.fairness - 1.0).abs() < 1e-12, "{}", fair.fairness);
        let unfair = outcome(&[done(1, Op::Read, true, 10, 10), done(2, Op::Read, true, 1000, 10)]);
        assert!((0.5..0.52).contains(&unfair.fairness), "{}", unfair.fairness);
    }

    #[test]
    fn each_window_is_fair_or_not_by_itself() {
        let mut tally = Tally::new();
        tally.event(&done(1, Op::Read, true, 10, 10));
        tally.event(&done(2, Op::Read, true, 1000, 10));
        assert!(tally.close(SECOND).fairness < 0.6);
        tally.event(&done(1, Op::Read, true, 10, 10));
        assert_eq!(tally.close(SECOND).fairness, 1.0);
    }

    #[test]
    fn a_stream_that_waits_and_gets_nothing_counts_in_every_window() {
        let mut tally = Tally::new();
        let Event::Completed { request, .. } = done(1, Op::Read, true, 10, 10) else { unreachable!() };
        for stream in 2..=8 {
            tally.event(&Event::Queued(Request { stream, arrival: Nanos::ZERO, ..request }));
        }
        for second in 1..=3 {
            let (arrival, at) = (Nanos::from_millis(1000 * second - 10), Nanos::from_millis(1000 * second));
            let request = Request { arrival, ..request };
            tally.event(&Event::Queued(request));
            tally.event(&Event::Completed { request, dispatched: arrival, at });
            let outcome = tally.close(SECOND);
            assert!((outcome.fairness - 1.0 / 8.0).abs() < 1e-9 && outcome.unfinished == 7, "{outcome:?}");
        }
    }

    #[test]
    fn service_time_never_exceeds_response_time() {
        let outcome = outcome(&[done(1, Op::Read, true, 10, 500)]);
        assert_eq!((outcome.mean_service_s, outcome.fairness), (outcome.mean_response_s, 1.0));
    }

    #[test]
    fn requests_stay_outstanding_across_windows_until_they_complete() {
        let mut tally = Tally::new();
        let Event::Completed { request, .. } = done(1, Op::Read, true, 10, 5) else { unreachable!() };
        tally.event(&Event::Queued(request));
        tally.event(&Event::Queued(request));
        assert_eq!(tally.close(SECOND).unfinished, 2);
        tally.event(&done(1, Op::Read, true, 10, 5));
        let outcome = tally.close(SECOND);
        assert_eq!((outcome.unfinished, outcome.requests), (1, 1));
        let empty = tally.close(SECOND);
        assert_eq!((empty.unfinished, empty.requests, empty.bytes, empty.rate(), empty.fairness), (1, 0, 0, 0.0, 1.0));
        assert!(empty.mean_response_s.is_nan() && empty.p99_response_s.is_nan() && empty.max_response_s.is_nan());
        assert_eq!(empty.score(&Preference::default()), f64::NEG_INFINITY);
    }

    #[test]
    fn waiting_requests_count_as_much_as_completed_ones() {
        let served = done(1, Op::Read, true, 10, 5);
        let Event::Completed { request, .. } = served else { unreachable!() };
        let around = |events: &[Event]| {
            let mut tally = Tally::new();
            tally.begin(Nanos::from_millis(99_500));
            events.iter().for_each(|event| tally.event(event));
            tally.close(SECOND)
        };
        let alone = around(&[Event::Queued(request), served]);
        let next_to_another = around(&[Event::Queued(request), Event::Queued(Request { stream: 2, ..request }), served]);
        assert!((alone.waited_s - 0.01).abs() < 1e-9, "{}", alone.waited_s);
        assert!((next_to_another.waited_s - 0.01 - 0.51).abs() < 1e-9, "{}", next_to_another.waited_s);
        assert_eq!(alone.mean_response_s, next_to_another.mean_response_s);
    }

    #[test]
    fn a_tenth_of_the_response_time_is_worth_its_weight() {
        let of = |response_ms| {
            let done = done(1, Op::Read, true, response_ms, 1);
            let Event::Completed { request, .. } = done else { unreachable!() };
            outcome(&[Event::Queued(request), done]).score(&Preference::default())
        };
        assert!((of(10) - of(100) - 0.5 * 10.0_f64.ln()).abs() < 1e-9, "{}", of(10) - of(100));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_score_is_a_number_or_minus_infinity_for_every_outcome(
            counts in any::<[u64; 4]>(), numbers in any::<[f64; 6]>(), plain in any::<bool>(),
        ) {
            let [duration, requests, waited_for, bytes] = if plain { counts.map(|count| count % 3) } else { counts };
            let [mean_response_s, waited_s, p99_response_s, max_response_s, mean_service_s, fairness] = numbers;
            let outcome = WindowOutcome {
                duration: Nanos(duration), requests, waited_for, bytes, mean_response_s, waited_s, p99_response_s, max_response_s,
                mean_service_s, fairness, unfinished: 0, calls: None,
            };
            let score = outcome.score(&Preference::default());
            prop_assert!(score < f64::INFINITY, "{score}");
        }
    }
}
