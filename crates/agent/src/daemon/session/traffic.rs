//! Traffic of a device: rates, lost events, and requests and scores from counters.

use control::experience::MIN_REQUESTS;
use observe::counters::{self, Sample};
use observe::{Preference, WindowOutcome, merit};

use crate::control_socket::Rates;

/// Lost events, latest rates and requests in counters of a device.
pub(super) struct Traffic {
    /// Completed requests in samples of counters; traced ones are counted in [`Outstanding`](observe::outstanding::Outstanding).
    pub counted: u64,
    /// Events lost by the kernel.
    pub lost: u64,
    /// The rates of the latest window, or between the latest samples of counters.
    pub latest: Rates,
    sample: Option<Sample>,
}

impl Traffic {
    /// No traffic yet; `lost` is the number of events lost before.
    pub fn new(lost: u64) -> Traffic {
        Traffic { counted: 0, lost, latest: Rates::default(), sample: None }
    }

    /// Events lost since the last call, from the total of the source; `None` if there are none.
    pub fn newly_lost(&mut self, lost: u64) -> Option<u64> {
        let newly = lost.saturating_sub(self.lost);
        self.lost += newly;
        (newly > 0).then_some(newly)
    }

    /// Records the rates of a window.
    pub fn window(&mut self, outcome: &WindowOutcome) {
        // A window without completed requests has no response time.
        let known = |value: f64| if value.is_finite() { value } else { 0.0 };
        self.latest = Rates {
            requests_per_s: known(outcome.rate()),
            mb_per_s: known(outcome.throughput() / 1e6),
            response_ms: known(1e3 * outcome.mean_response_s),
            p99_ms: Some(known(1e3 * outcome.p99_response_s)),
        };
    }

    /// Records a sample of counters. Returns the score since the previous sample; `None` for the first, and if too few requests completed.
    pub fn sample(&mut self, sample: &Sample, preference: &Preference) -> Option<f64> {
        let before = self.sample.replace(*sample)?;
        let completed = |sample: &Sample| sample.read.requests + sample.write.requests;
        let requests = completed(sample).saturating_sub(completed(&before));
        self.counted += requests;
        self.latest = rates(&sample.since(&before));
        // Counters do not distinguish processes.
        let fairness = 1.0;
        let score = merit::score(preference, 1e6 * self.latest.mb_per_s, self.latest.response_ms / 1e3, fairness);
        (requests >= MIN_REQUESTS && score.is_finite()).then_some(score)
    }
}

fn rates(rates: &counters::Rates) -> Rates {
    let requests_per_s = rates.read.requests_per_s + rates.write.requests_per_s;
    Rates {
        requests_per_s,
        mb_per_s: rates.read.mb_per_s + rates.write.mb_per_s,
        response_ms: if requests_per_s > 0.0 { 1e3 * rates.mean_under_way / requests_per_s } else { 0.0 },
        p99_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use block::Nanos;
    use observe::counters::Done;

    use super::*;

    #[test]
    fn counters_give_rates_and_means_but_no_percentiles() {
        let sample = |at_ms, requests: u64| Sample {
            at: Nanos::from_millis(at_ms),
            read: Done { requests, merged: 0, sectors: 8 * requests, waited: Nanos::from_millis(10 * requests) },
            ..Sample::default()
        };
        let mut traffic = Traffic::new(0);
        assert_eq!(traffic.sample(&sample(1_000, 5), &Preference::default()), None);
        assert!(traffic.sample(&sample(3_000, 205), &Preference::default()).is_some());
        let expected = Rates { requests_per_s: 100.0, mb_per_s: 0.4096, response_ms: 10.0, p99_ms: None };
        assert_eq!((traffic.counted, traffic.latest), (200, expected));
        assert_eq!(traffic.sample(&sample(4_000, 210), &Preference::default()), None, "five requests are too few");
    }

    #[test]
    fn lost_events_are_counted_once() {
        let mut traffic = Traffic::new(5);
        assert_eq!([5, 8, 8].map(|lost| traffic.newly_lost(lost)), [None, Some(3), None]);
    }
}
