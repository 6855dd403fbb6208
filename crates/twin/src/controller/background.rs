//! Asynchronous requests. A process that writes through the page cache may wait for them: once memory is full of dirty pages, it can only
//! write at the rate of write-back.

use observe::window::Tally;

/// Write-back below this fraction of its earlier rate starves the processes that wait for it. A throttled process waits in bursts, so the
/// p99 of its calls rises much more than its throughput falls: by a factor of 18 when throughput fell to a third (readers and a buffered
/// writer under bfq). Choice: ends a trial before a third is reached; a larger share would end trials whose processes do not wait; not
/// varied.
const LEAST_SHARE: f64 = 0.5;

/// Throughput of asynchronous requests over a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    bytes: f64,
    seconds: f64,
}

impl Got {
    /// Adds a window.
    pub fn add(&mut self, window: Got) {
        (self.bytes, self.seconds) = (self.bytes + window.bytes, self.seconds + window.seconds);
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }

    /// Whether write-back at this rate starves the writers, compared with the rate before.
    pub fn starves_after(&self, before: &Got) -> bool {
        self.rate() < LEAST_SHARE * before.rate()
    }
}

/// Divides the asynchronous requests of a tally among windows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Background {
    /// Bytes of earlier windows.
    counted: u64,
}

impl Background {
    /// Ends a window of this length in seconds, and returns its throughput; `None` if no request is in flight at its end: then write-back
    /// does not limit the writers.
    pub fn close(&mut self, tally: &Tally, seconds: f64) -> Option<Got> {
        let all = tally.asynchronous_bytes();
        let bytes = (all - std::mem::replace(&mut self.counted, all)) as f64;
        (tally.unfinished_asynchronous() > 0).then_some(Got { bytes, seconds })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Nanos, Op, Priority, Request};
    use observe::Event;

    use super::*;

    #[test]
    fn write_back_starves_where_it_waits_and_gets_less_than_half() {
        let (mut background, mut tally) = (Background::default(), Tally::new());
        let at = Nanos::ZERO;
        let write =
            Request { id: 0, stream: 1, op: Op::Write, sync: false, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival: at };
        let mut second = |written: u32, waits: bool| {
            for _ in 0..written {
                tally.event(&Event::Queued(write));
                tally.event(&Event::Completed { request: write, dispatched: at, at });
            }
            if waits {
                tally.event(&Event::Queued(write));
            }
            background.close(&tally, 1.0)
        };
        assert!(second(10, false).is_none(), "nothing waits");
        let before = second(10, true).unwrap();
        assert!(second(4, false).unwrap().starves_after(&before) && !second(6, false).unwrap().starves_after(&before));
        assert!(!second(0, false).unwrap().starves_after(&Got::default()), "there was none before");
    }
}
