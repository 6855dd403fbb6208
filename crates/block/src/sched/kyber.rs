//! Limits the requests in flight so that the device's own queue stays short enough for latency targets.
//!
//! ```text
//! domain     queue       limit in flight (tokens)
//! reads      FIFO        1 to 256    controlled: under congestion, a domain that meets its target easily gives up tokens,
//! writes     FIFO        1 to 128    and one that misses it gets more
//! discards   FIFO        1 to 64
//! ```
//! Domains take turns by batches. Nothing is sorted, as it is meant for devices whose speed does not depend on the order of requests.
//!
//! Linux also has a queue for each processor, and serves another one when the current one is empty. Requests of a process that has moved to
//! another processor are then passed over for a whole round; here each domain has one queue. Measured on Linux 6.18 with the block
//! tracepoints, 32 random reads in flight: 2% of them were queued on the other processor, and the 99th percentile was 264 to 308 ms,
//! compared to 201 with one queue.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, wake_batch};
use crate::queue::{Limits, Merging, Queue};
use crate::{Nanos, Op, Request, Tunable, Unit, tunables};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "kyber",
    summary: "first come, first served among reads and among writes; fewer of them at the device where latency targets are missed",
    source: "Linux 6.18 block/kyber-iosched.c",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Kyber::new(limits, values)),
};

tunables! {
    /// The tunables.
    struct Tunables {
        /// Latency target of reads.
        read_lat_nsec: Nanos = Tunable::new(Unit::Nanoseconds, 1_000..=10_000_000_000, 2_000_000).logarithmic(),
        /// Latency target of writes.
        write_lat_nsec: Nanos = Tunable::new(Unit::Nanoseconds, 1_000..=10_000_000_000, 10_000_000).logarithmic(),
    }
}

/// The domains, each with tokens and a lane of the queue. Linux has a fourth one for other requests such as flushes, which do not arrive
/// here.
const DOMAINS: usize = 3;
const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;

/// The initial and largest number of tokens of a domain (`kyber_depth`).
const DEPTH: [u32; DOMAINS] = [256, 128, 64];
/// Maximum requests of one domain in a row (`kyber_batch_size`).
const BATCH: [u32; DOMAINS] = [16, 8, 1];
/// The latency target of discards.
const DISCARD_TARGET: Nanos = Nanos::from_millis(5_000);
/// Percentage of the tags that asynchronous requests may use (`KYBER_ASYNC_PERCENT`); the rest is reserved for synchronous ones.
const ASYNC_PERCENT: u64 = 75;

fn async_depth(nr_requests: u32) -> u32 {
    (u64::from(nr_requests) * ASYNC_PERCENT / 100).max(1) as u32
}

/// Latencies are counted in quarters of their target, up to two targets and more (`KYBER_LATENCY_BUCKETS`).
const BUCKETS: usize = 8;
/// The number of buckets that meet the target.
const GOOD_BUCKETS: usize = 4;
/// Delay from a completion to the adjustment of tokens.
const ADJUSTMENT: Nanos = Nanos::from_millis(100);
/// A percentile needs this many samples, or after this time any number.
const MIN_SAMPLES: u32 = 500;
const MAX_SAMPLE_TIME: Nanos = Nanos::from_millis(1_000);

fn domain(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => DISCARD,
    }
}

/// Number of latencies in each bucket.
#[derive(Clone, Copy, Default)]
struct Histogram([u32; BUCKETS]);

impl Histogram {
    fn add(&mut self, latency: Nanos, target: Nanos) {
        // A bucket includes its upper bound (`add_latency_sample`).
        let quarters = latency.0.saturating_sub(1).saturating_mul(GOOD_BUCKETS as u64) / target.0.max(1);
        self.0[quarters.min(BUCKETS as u64 - 1) as usize] += 1;
    }

    fn count(&self) -> u32 {
        self.0.iter().sum()
    }

    fn percentile(&self, percent: u32) -> usize {
        let mut rest = (u64::from(self.count()) * u64::from(percent)).div_ceil(100);
        let before_last = self.0[..BUCKETS - 1].iter();
        let bucket = before_last.take_while(|&&count| {
            let goes_on = u64::from(count) < rest;
            rest = rest.saturating_sub(u64::from(count));
            goes_on
        });
        bucket.count()
    }
}

/// The latencies of a domain, and its tokens.
#[derive(Clone, Copy)]
struct Domain {
    target: Nanos,
    depth: u32,
    at_device: u32,
    /// Latencies from insertion.
    total: Histogram,
    /// Latencies at the device.
    device: Histogram,
    /// Time from which a percentile is taken of fewer than [`MIN_SAMPLES`] (`latency_timeout`); shared by both histograms.
    due: Option<Nanos>,
    /// The last known 99th percentile of the total latency, as a bucket; `None` once an adjustment under congestion has used it.
    p99: Option<usize>,
}

impl Domain {
    fn new(depth: u32) -> Domain {
        let (total, device) = (Histogram::default(), Histogram::default());
        Domain { target: Nanos::ZERO, depth, at_device: 0, total, device, due: None, p99: None }
    }

    /// A percentile as a bucket, which clears the histogram; `None` without enough samples (`calculate_percentile`).
    fn take_percentile(&mut self, now: Nanos, percent: u32, of: fn(&mut Domain) -> &mut Histogram) -> Option<usize> {
        let histogram = *of(self);
        if histogram.count() == 0 {
            return None;
        }
        let due = *self.due.get_or_insert(now + MAX_SAMPLE_TIME);
        if histogram.count() < MIN_SAMPLES && due > now {
            return None;
        }
        self.due = None;
        *of(self) = Histogram::default();
        Some(histogram.percentile(percent))
    }
}

struct Kyber {
    queue: Queue,
    domains: [Domain; DOMAINS],
    current: usize,
    batched: u32,
    /// When tokens are adjusted; `None` if no request has completed since the last adjustment.
    adjust_at: Option<Nanos>,
}

impl Kyber {
    fn new(limits: &Limits, values: &[i64]) -> Kyber {
        let queue = Queue::new(*limits, Merging { front: true, within_stream: false });
        let mut kyber = Kyber { queue, domains: DEPTH.map(Domain::new), current: READ, batched: 0, adjust_at: None };
        kyber.retune(values);
        kyber
    }

    /// Adjusts the tokens if Linux's timer would have fired (`kyber_timer_fn`). Its inputs do not change before the next call.
    fn adjust(&mut self, now: Nanos) {
        let Some(at) = self.adjust_at.filter(|&at| at <= now) else { return };
        self.adjust_at = None;
        let mut is_congested = false;
        for domain in &mut self.domains {
            let p90 = domain.take_percentile(at, 90, |domain| &mut domain.device);
            is_congested |= p90.is_some_and(|bucket| bucket >= GOOD_BUCKETS);
        }
        for (domain, most) in self.domains.iter_mut().zip(DEPTH) {
            let mut p99 = domain.take_percentile(at, 99, |domain| &mut domain.total);
            if is_congested {
                p99 = p99.or(domain.p99);
                domain.p99 = None;
            } else if p99.is_some() {
                domain.p99 = p99;
            }
            if let Some(p99) = p99
                && (is_congested || p99 >= GOOD_BUCKETS)
            {
                domain.depth = (domain.depth * (p99 as u32 + 1) / GOOD_BUCKETS as u32).clamp(1, most);
            }
        }
    }

    /// Takes the oldest request of the current domain; `None` if it has no request or no token.
    fn take(&mut self) -> Option<Request> {
        let domain = &mut self.domains[self.current];
        if domain.at_device >= domain.depth {
            return None;
        }
        let slot = self.queue.oldest(self.current)?;
        domain.at_device += 1;
        self.batched += 1;
        Some(self.queue.take(slot))
    }
}

impl Scheduler for Kyber {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        self.queue.insert(domain(request.op), Nanos::ZERO, request).into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.queue.is_empty() {
            return Pick::Empty;
        }
        self.adjust(now);
        if self.batched < BATCH[self.current]
            && let Some(request) = self.take()
        {
            return Pick::Go(request);
        }
        self.batched = 0;
        for _ in 0..DOMAINS {
            self.current = (self.current + 1) % DOMAINS;
            if let Some(request) = self.take() {
                return Pick::Go(request);
            }
        }
        Pick::WaitUntil(now + COMPLETION_BACKSTOP)
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.adjust(now);
        let domain = &mut self.domains[domain(request.op)];
        domain.at_device = domain.at_device.saturating_sub(1);
        domain.total.add(Nanos(now.0.saturating_sub(request.arrival.0)), domain.target);
        domain.device.add(service, domain.target);
        self.adjust_at.get_or_insert(now + ADJUSTMENT);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Tags { depth: room.nr_requests, wake_batch: wake_batch(async_depth(room.nr_requests)) })
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        if request.sync { depth } else { async_depth(depth) }
    }

    fn throttles_write_back(&self) -> bool {
        true
    }

    fn retune(&mut self, values: &[i64]) {
        let set = Tunables::of(values);
        let targets = [set.read_lat_nsec, set.write_lat_nsec, DISCARD_TARGET];
        for (domain, target) in self.domains.iter_mut().zip(targets) {
            domain.target = target;
        }
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}
