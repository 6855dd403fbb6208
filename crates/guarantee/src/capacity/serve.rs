//! Serves requests at a constant queue depth and measures the rates.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, Priority, Roster, StreamId, Tenant};
use progress::monitor::Interrupted;
use sim::host::Queue;
use sim::run::{Issue, Server};
use statistics::Rank;
use testbed::chance;
use testbed::synthetic::{Draw, Drawn, Pattern, Places};

use super::need::Service;

/// An endless source of requests.
pub trait Wanted {
    /// The next request.
    fn next(&mut self) -> Drawn;
}

/// Requests of a pattern.
impl Wanted for (Draw, Pattern) {
    fn next(&mut self) -> Drawn {
        self.0.next(&self.1)
    }
}

/// Length of a measurement: ends at the first of both bounds, but has at least the minimum for its depth.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Maximum requests.
    pub requests: u64,
    /// Maximum sectors: a request of 1 MiB costs the flash simulator 256 pages.
    pub sectors: u64,
}

/// Enough for means within some percent: 1,500 random requests of a disk differ by a third from each other, their mean by 1%.
impl Default for Extent {
    fn default() -> Extent {
        Extent { requests: 2_000, sectors: 256 << 11 }
    }
}

/// The first 1/`WARM_UP` of the requests is not measured, while caches and queues fill.
const WARM_UP: u64 = 4;
/// Minimum number of requests for each outstanding one: with fewer, the filling of the queue would be measured.
const FOR_EACH_OUTSTANDING: u64 = 4;
/// Completions between checks for interruption.
const LOOKS: u64 = 256;

/// Service of a device: rates per second, and response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Requests per second.
    pub requests: f64,
    /// Bytes per second.
    pub bytes: f64,
    /// Seconds of its units' work per second; 0 if the device does not report work.
    pub work: f64,
    /// The 99th percentile of response times.
    pub p99: Nanos,
}

impl Rates {
    /// Seconds of work per request; 0 without requests.
    pub fn work_each(&self) -> f64 {
        if self.requests > 0.0 { self.work / self.requests } else { 0.0 }
    }

    /// The figures for a comparison with another device.
    pub fn service(&self) -> Service {
        Service { iops: self.requests, p99_s: self.p99.as_secs_f64() }
    }
}

/// Totals at a time.
#[derive(Clone, Copy)]
struct Count {
    at: Nanos,
    requests: u64,
    bytes: u64,
    work: u64,
}

/// Serves requests with `depth` of them outstanding at all times.
///
/// # Errors
/// The run was interrupted.
pub fn serve(queue: Queue, wanted: impl Wanted, depth: usize, extent: Extent, stop: &AtomicBool) -> Result<Rates, Interrupted> {
    serve_all(queue, wanted, depth, None, extent, stop)
}

/// Like [`serve`], with a neighbour with one random read of 4 KiB outstanding among the first `sectors` of the device, which moves an arm
/// away between requests. Only the requests of `wanted` are measured.
///
/// # Errors
/// The run was interrupted.
pub fn serve_with_neighbour(
    queue: Queue,
    wanted: impl Wanted,
    depth: usize,
    sectors: u64,
    extent: Extent,
    stop: &AtomicBool,
) -> Result<Rates, Interrupted> {
    let pattern = Pattern::Local { locality: 0.0, reads: 100, sizes: &[8], places: Places::Uniform };
    let neighbour = (Draw::new(0..sectors, chance::source("neighbour", 1, 0)), pattern);
    serve_all(queue, wanted, depth, Some(neighbour), extent, stop)
}

/// Streams of the measured requests and of the neighbour's.
const COUNTED: StreamId = 0;
const NEIGHBOUR: StreamId = 1;

fn serve_all(
    mut queue: Queue,
    mut wanted: impl Wanted,
    depth: usize,
    mut neighbour: Option<(Draw, Pattern)>,
    extent: Extent,
    stop: &AtomicBool,
) -> Result<Rates, Interrupted> {
    let tenants = vec![Tenant::new(""), Tenant::new("")];
    let streams = [(COUNTED, COUNTED as usize), (NEIGHBOUR, NEIGHBOUR as usize)];
    // A roster of two streams of two tenants cannot be contradictory.
    queue.set_roster(&Roster::new(tenants, Vec::new(), &streams, 1).unwrap_or_default());
    let least = FOR_EACH_OUTSTANDING * depth as u64;
    let (mut now, mut outstanding, mut finished) = (Nanos::ZERO, 0, Vec::new());
    let (mut requests, mut bytes, mut issued_sectors, mut looked) = (0, 0, 0, 0_u64);
    let mut neighbour_is_due = neighbour.is_some();
    let mut responses: Vec<Nanos> = Vec::new();
    let mut begin: Option<Count> = None;
    loop {
        let mut admit = |Drawn { lba, sectors, op }: Drawn, stream: StreamId| {
            queue.admit(now, Issue { arrival: now, lba, sectors, op, sync: true, stream, priority: Priority::DEFAULT, token: 0 });
        };
        while outstanding < depth {
            let drawn = wanted.next();
            admit(drawn, COUNTED);
            outstanding += 1;
            issued_sectors += if drawn.op == Op::Discard { 0 } else { u64::from(drawn.sectors) };
        }
        if let Some(neighbour) = neighbour.as_mut().filter(|_| neighbour_is_due) {
            admit(neighbour.next(), NEIGHBOUR);
            neighbour_is_due = false;
        }
        queue.dispatch(now);
        let Some(next) = queue.next_event() else { break };
        now = now.max(next);
        queue.advance(now, &mut finished);
        for done in finished.drain(..) {
            looked += 1;
            if done.stream() == NEIGHBOUR {
                neighbour_is_due = true;
                continue;
            }
            outstanding -= 1;
            requests += 1;
            bytes += done.transfer().map_or(0, |done| done.bytes);
            if begin.is_some() {
                responses.extend(done.transfer().map(|done| done.at - done.issue.arrival));
            }
        }
        if looked % LOOKS == 0 && stop.load(Ordering::Relaxed) {
            return Err(Interrupted);
        }
        let part = |of: u64| {
            let is_enough = requests >= extent.requests / of || issued_sectors >= extent.sectors / of;
            is_enough && requests >= least / of
        };
        if begin.is_none() && part(WARM_UP) {
            begin = Some(Count { at: now, requests, bytes, work: work(&queue) });
        } else if part(1) {
            break;
        }
    }
    let begin = begin.unwrap_or(Count { at: Nanos::ZERO, requests: 0, bytes: 0, work: 0 });
    let seconds = (now - begin.at).as_secs_f64();
    let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    Ok(Rates {
        requests: rate((requests - begin.requests) as f64),
        bytes: rate((bytes - begin.bytes) as f64),
        work: rate((work(&queue) - begin.work) as f64 / 1e9),
        p99: Rank::Above.of_ordered(&mut responses, 0.99).unwrap_or(Nanos::ZERO),
    })
}

/// Nanoseconds of the units' work for the measured requests.
fn work(queue: &Queue) -> u64 {
    queue.ledger().map_or(0, |ledger| ledger.work_of(COUNTED as usize).0)
}
