//! A device with a constant number of outstanding requests, and what it does in each second.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, Priority, Roster, StreamId, Tenant};
use progress::monitor::Interrupted;
use sim::host::Queue;
use sim::run::{Issue, Server};

use super::need::Service;
use crate::chance;
use crate::synthetic::asks::{Draw, Drawn, Pattern, Places};

/// Where requests come from, one after the other without end.
pub trait Wanted {
    /// The next one.
    fn next(&mut self) -> Drawn;
}

/// Requests of a pattern.
impl Wanted for (Draw, Pattern) {
    fn next(&mut self) -> Drawn {
        self.0.next(&self.1)
    }
}

/// How much is served: whichever bound comes first, but at least what the depth needs.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Requests.
    pub requests: u64,
    /// Sectors: a request of 1 MiB costs the simulator of flash 256 pages.
    pub sectors: u64,
}

/// Enough for means within some percent: 1,500 random requests of a disk differ by a third from each other, their mean by 1%.
impl Default for Extent {
    fn default() -> Extent {
        Extent { requests: 2_000, sectors: 256 << 11 }
    }
}

/// This part of the requests is not measured: caches and queues fill.
const WARM_UP: u64 = 4;
/// Requests measured for each one outstanding, at least: less would measure how the queue fills.
const FOR_EACH_OUTSTANDING: u64 = 4;
/// How often it is looked whether to stop, in completions.
const LOOKS: u64 = 256;

/// What a device does in a second, and how long it takes for a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Requests.
    pub requests: f64,
    /// Bytes.
    pub bytes: f64,
    /// Seconds of its units' work; 0 if it does not report work.
    pub work: f64,
    /// The 99th percentile of response times.
    pub p99: Nanos,
}

impl Rates {
    /// Seconds of work for each request.
    pub fn work_each(&self) -> f64 {
        if self.requests > 0.0 { self.work / self.requests } else { 0.0 }
    }

    /// For a comparison with another device.
    pub fn service(&self) -> Service {
        Service { iops: self.requests, p99_s: self.p99.as_secs_f64() }
    }
}

/// What was done by some time.
#[derive(Clone, Copy)]
struct Count {
    at: Nanos,
    requests: u64,
    bytes: u64,
    work: u64,
}

/// Serves requests with `depth` of them outstanding all the time.
///
/// # Errors
/// It was interrupted.
pub fn serve(queue: Queue, wanted: impl Wanted, depth: usize, extent: Extent, stop: &AtomicBool) -> Result<Rates, Interrupted> {
    serve_all(queue, wanted, depth, None, extent, stop)
}

/// The same beside a neighbour with one random read of 4 KiB outstanding, anywhere among the first `sectors` of the device: it moves an arm
/// away between requests. Only the requests of `wanted` count.
///
/// # Errors
/// It was interrupted.
pub fn serve_beside(
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

/// The streams of the requests that count and of the neighbour's.
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
    // Two streams of two tenants have nothing to contradict.
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
    responses.sort_unstable();
    Ok(Rates {
        requests: rate((requests - begin.requests) as f64),
        bytes: rate((bytes - begin.bytes) as f64),
        work: rate((work(&queue) - begin.work) as f64 / 1e9),
        p99: responses.get(responses.len() * 99 / 100).copied().unwrap_or(Nanos::ZERO),
    })
}

/// Nanoseconds for which the units worked for the requests that count.
fn work(queue: &Queue) -> u64 {
    queue.ledger().map_or(0, |ledger| ledger.work_of(COUNTED as usize).0)
}
