//! A device with a constant number of outstanding requests, and what it does in each second.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, Priority, Roster};
use progress::monitor::Interrupted;
use sim::host::Queue;
use sim::run::{Issue, Server};

use crate::synthetic::asks::{Draw, Drawn, Pattern};

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

/// What a device does in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Requests.
    pub requests: f64,
    /// Bytes.
    pub bytes: f64,
    /// Seconds of its units' work; 0 if it does not report work.
    pub work: f64,
}

impl Rates {
    /// Seconds of work for each request.
    pub fn work_each(&self) -> f64 {
        if self.requests > 0.0 { self.work / self.requests } else { 0.0 }
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
pub fn serve(
    mut queue: Queue,
    mut wanted: impl Wanted,
    depth: usize,
    extent: Extent,
    stop: &AtomicBool,
) -> Result<Rates, Interrupted> {
    queue.set_roster(&Roster::default());
    let least = FOR_EACH_OUTSTANDING * depth as u64;
    let (mut now, mut outstanding, mut finished) = (Nanos::ZERO, 0, Vec::new());
    let (mut requests, mut bytes, mut issued_sectors) = (0, 0, 0);
    let mut begin: Option<Count> = None;
    loop {
        while outstanding < depth {
            let Drawn { lba, sectors, op } = wanted.next();
            let (arrival, stream, priority) = (now, 0, Priority::DEFAULT);
            queue.admit(now, Issue { arrival, lba, sectors, op, sync: true, stream, priority, token: 0 });
            outstanding += 1;
            issued_sectors += if op == Op::Discard { 0 } else { u64::from(sectors) };
        }
        queue.dispatch(now);
        let Some(next) = queue.next_event() else { break };
        now = now.max(next);
        queue.advance(now, &mut finished);
        for done in finished.drain(..) {
            outstanding -= 1;
            requests += 1;
            bytes += done.transfer().map_or(0, |done| done.bytes);
        }
        if requests % LOOKS == 0 && stop.load(Ordering::Relaxed) {
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
    })
}

/// Nanoseconds for which the units worked.
fn work(queue: &Queue) -> u64 {
    queue.ledger().map_or(0, |ledger| ledger.work().0)
}
