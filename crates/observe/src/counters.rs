//! Counters of a device, for use if single requests cannot be observed, and the rates between two samples.
//!
//! They do not tell streams, sectors or order, and only means of sizes and response times. Requests in the scheduler's queue and at the device
//! are one number (Linux `Documentation/block/stat.rst`).

use block::Nanos;

/// Requests of one kind completed since the device was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Completed requests, merged ones as one.
    pub requests: u64,
    /// Requests that were merged into others.
    pub merged: u64,
    /// 512-byte sectors.
    pub sectors: u64,
    /// Sum of their response times.
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
    /// Discards; 0 before Linux 4.18, which does not count them.
    pub discard: Done,
    /// Flushes of the write cache, without sectors; 0 before Linux 5.5, which does not count them.
    pub flush: Done,
    /// Requests queued or at the device at that time.
    pub under_way: u64,
    /// Time during which there were any.
    pub busy: Nanos,
}

/// Rates of one kind of request between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests per second, merged ones as one.
    pub requests_per_s: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Share of the requests that were merged into others.
    pub merged_share: f64,
    /// The mean size in bytes; `None` without requests.
    pub mean_bytes: Option<f64>,
    /// Mean response time; `None` without requests. The kernel counts milliseconds: inaccurate for few and short requests.
    pub mean_response: Option<Nanos>,
}

/// Rates between two samples.
///
/// ```
/// use block::Nanos;
/// use observe::counters::{Done, Sample};
///
/// let reads = Done { requests: 100, sectors: 800, waited: Nanos::from_millis(500), ..Done::default() };
/// let later = Sample { at: Nanos::from_millis(2_000), read: reads, ..Sample::default() };
/// let rates = later.since(&Sample::default());
/// assert_eq!((rates.read.requests_per_s, rates.read.mean_bytes), (50.0, Some(4096.0)));
/// assert_eq!(rates.read.mean_response, Some(Nanos::from_millis(5)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Time between the samples.
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
    /// Share of the time during which there were any. A device that serves several at once can be always busy and far from its limit.
    pub busy_share: f64,
}

impl Sample {
    /// The rates since an earlier sample. Counters that went backwards, as those of a replaced device, count as unchanged.
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
