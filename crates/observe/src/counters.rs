//! Counters of a device, as a kernel keeps them where single requests may not be watched, and the rates between two looks.
//!
//! They know no single request: no stream, no sector, no order, and of sizes and response times only the mean. What waits in the scheduler's
//! queue and what is at the device are one number (Linux `Documentation/block/stat.rst`).

use block::Nanos;

/// What was done of one kind since the device is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Requests that were completed, merged ones as one.
    pub requests: u64,
    /// Requests that were merged into others.
    pub merged: u64,
    /// 512-byte sectors.
    pub sectors: u64,
    /// From when each began to queue to its completion, added up.
    pub waited: Nanos,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When they were read.
    pub at: Nanos,
    /// Reads.
    pub read: Done,
    /// Writes.
    pub write: Done,
    /// Discards; nothing where the kernel (before 4.18) does not count them.
    pub discard: Done,
    /// Flushes of the write cache, which have no sectors; nothing where the kernel (before 5.5) does not count them.
    pub flush: Done,
    /// Requests that are queued or at the device now.
    pub under_way: u64,
    /// For how long any was.
    pub busy: Nanos,
}

/// What happened between two samples, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests per second, merged ones as one.
    pub requests_per_s: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Of those that were asked, the share that was merged into others.
    pub merged_share: f64,
    /// The mean size in bytes; `None` without requests.
    pub mean_bytes: Option<f64>,
    /// The mean time from queued to completed; `None` without requests. The kernel counts it in milliseconds: of few and short ones it is no
    /// more than a hint.
    pub mean_response: Option<Nanos>,
}

/// What happened between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// From the first to the second.
    pub lasts: Nanos,
    /// Reads.
    pub read: Rate,
    /// Writes.
    pub write: Rate,
    /// Discards.
    pub discard: Rate,
    /// Flushes of the write cache.
    pub flush: Rate,
    /// Requests queued or at the device, on average.
    pub mean_under_way: f64,
    /// The share of the time in which there was any. A device that serves several at once can be busy all the time and far from its limit.
    pub busy_share: f64,
}

impl Sample {
    /// The difference to an earlier one. Counters that went backwards, as those of a device that was replaced, count as no change.
    pub fn since(&self, earlier: &Sample) -> Rates {
        let lasts = self.at - earlier.at;
        let seconds = lasts.as_secs_f64().max(1e-9);
        let done = |of: fn(&Sample) -> Done| rate(&of(self), &of(earlier), seconds);
        let waited = |of: &Sample| [of.read, of.write, of.discard, of.flush].iter().map(|done| done.waited.0).sum::<u64>();
        Rates {
            lasts,
            read: done(|sample| sample.read),
            write: done(|sample| sample.write),
            discard: done(|sample| sample.discard),
            flush: done(|sample| sample.flush),
            mean_under_way: Nanos(waited(self).saturating_sub(waited(earlier))).as_secs_f64() / seconds,
            busy_share: ((self.busy - earlier.busy).as_secs_f64() / seconds).min(1.0),
        }
    }
}

fn rate(later: &Done, earlier: &Done, seconds: f64) -> Rate {
    let difference = |of: fn(&Done) -> u64| of(later).saturating_sub(of(earlier)) as f64;
    let requests = difference(|done| done.requests);
    let merged = difference(|done| done.merged);
    let bytes = difference(|done| done.sectors) * 512.0;
    let each = |sum: f64| (requests > 0.0).then(|| sum / requests);
    Rate {
        requests_per_s: requests / seconds,
        mb_per_s: bytes / seconds / 1e6,
        merged_share: merged / (requests + merged).max(1.0),
        mean_bytes: each(bytes),
        mean_response: each(difference(|done| done.waited.0)).map(|ns| Nanos(ns as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_went_backwards_count_as_no_change() {
        let done = |requests| Done { requests, merged: 0, sectors: 8 * requests, waited: Nanos(requests) };
        let sample = |at, requests| Sample { at: Nanos::from_millis(at), read: done(requests), ..Sample::default() };
        let rates = sample(2_000, 5).since(&sample(1_000, 300));
        assert_eq!((rates.read.requests_per_s, rates.read.mean_bytes, rates.read.mean_response), (0.0, None, None));
    }
}
