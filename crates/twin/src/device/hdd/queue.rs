//! Estimates the drive's queue depth, and whether it reorders requests.

use sim::device::hdd::spec::QueuePolicy;

use crate::device::access::Access;
use crate::device::findings::Finding;

use super::memory::Hits;

/// Minimum number of queued reads for an estimate of the order. Choice: two overtaken reads of 20 decide; not varied.
const MIN_COUNT: usize = 20;
/// Maximum queue depth. Source: `depth` of `HddQueue` in `crates/sim/src/device/hdd/spec.rs`.
const DEEPEST: u32 = 1_024;

/// The drive's queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Queue depth: the largest number of accesses in flight.
    pub depth: u32,
    /// Whether other requests waited at that depth, so that it is the drive's limit.
    pub is_full: bool,
    /// Order of service.
    pub policy: QueuePolicy,
    /// Number of accesses that the order is based on; 0 for a default.
    pub queued: usize,
}

impl Queue {
    /// The depth is the maximum number in flight. The drive reorders if media reads overtake other media reads; cache hits do not count.
    pub fn fit(accesses: &[Access], hits: &Hits) -> Queue {
        let depth = accesses.iter().map(|access| access.others + 1).max().unwrap_or(1).min(DEEPEST);
        let waited = |access: &&Access| access.others + 1 >= depth && access.dispatched > access.arrival + 1_000;
        let mut latest = 0;
        let (mut overtaken, mut queued) = (0, 0);
        for access in accesses.iter().filter(|access| !access.write && hits.misses(access)) {
            if access.others > 0 {
                queued += 1;
                overtaken += usize::from(access.dispatched < latest);
            }
            latest = latest.max(access.dispatched);
        }
        let reorders = queued >= MIN_COUNT && overtaken * 10 >= queued;
        Queue {
            depth,
            is_full: accesses.iter().any(|access| waited(&access)),
            policy: if reorders { QueuePolicy::Sptf } else { QueuePolicy::Fifo },
            queued: if queued >= MIN_COUNT { queued } else { 0 },
        }
    }

    /// The parameters as findings for display.
    pub fn findings(&self) -> Vec<Finding> {
        let depth = if self.is_full { self.depth.to_string() } else { format!("at least {}", self.depth) };
        vec![
            Finding::choice("queue depth", &depth, usize::from(self.depth > 1).max(self.queued)),
            Finding::choice("serves its queue by", self.policy.name(), self.queued),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObservedRequest;
    use crate::device::access;
    use crate::device::hdd::tracks::Tracks;
    use block::Nanos;

    /// Four sequential readers with queue depth 1 and this response time in ms. `next` selects the waiting request to serve, by its index;
    /// the first waits longest.
    fn policy(took_ms: f64, next: impl Fn(usize) -> usize) -> QueuePolicy {
        let mut now = Nanos::ZERO;
        let mut waiting: Vec<(u32, Nanos)> = (0..4).map(|stream| (stream, Nanos::ZERO)).collect();
        let mut places = [0_u64, 4_000_000, 8_000_000, 12_000_000];
        let seen: Vec<ObservedRequest> = (0..200)
            .map(|number| {
                let (stream, arrival) = waiting.remove(next(number));
                let lba = places[stream as usize];
                places[stream as usize] += 256;
                now += Nanos::from_secs_f64((took_ms + 0.01 * (number % 60) as f64) / 1e3);
                waiting.push((stream, now));
                ObservedRequest::read(stream, (lba, 256), arrival, now)
            })
            .collect();
        let accesses = access::accesses(&seen);
        Queue::fit(&accesses, &Hits::of(&accesses, &Tracks::usual(7_814_037_168), None)).policy
    }

    #[test]
    fn sequential_readers_that_overtake_each_other_show_a_reordering_drive() {
        assert_eq!(policy(8.0, |_| 0), QueuePolicy::Fifo, "each in its turn");
        assert_eq!(policy(8.0, |number| number % 3), QueuePolicy::Sptf);
        assert_eq!(policy(0.5, |number| number % 3), QueuePolicy::Fifo, "from memory what is there comes first");
    }
}
