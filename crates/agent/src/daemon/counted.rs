//! How it goes where only counters are to be had.

use control::experience::MIN_REQUESTS;
use observe::counters::{Rates, Sample};
use observe::{Preference, merit};

use crate::control_socket;

/// The counters as they were looked at last.
#[derive(Clone, Debug, Default)]
pub struct Tally(Option<Sample>);

/// What happened since the look before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Requests that were done.
    pub requests: u64,
    /// How it went.
    pub latest: control_socket::Rates,
    /// How good that is; `None` if too little was done.
    pub score: Option<f64>,
}

impl Tally {
    /// Takes a look in; `None` for the first.
    pub fn take(&mut self, sample: &Sample, preference: &Preference) -> Option<Counted> {
        let before = self.0.replace(*sample)?;
        let done = |sample: &Sample| sample.read.requests + sample.write.requests;
        let requests = done(sample).saturating_sub(done(&before));
        let rates = sample.since(&before);
        let latest = latest(&rates);
        let is_enough = requests >= MIN_REQUESTS;
        // Who got how much is not counted.
        let score = is_enough.then(|| merit::score(preference, 1e6 * latest.mb_per_s, latest.response_ms / 1e3, 1.0));
        Some(Counted { requests, latest, score: score.filter(|score| score.is_finite()) })
    }
}

fn latest(rates: &Rates) -> control_socket::Rates {
    let requests_per_s = rates.read.requests_per_s + rates.write.requests_per_s;
    control_socket::Rates {
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
    fn rates_and_means_are_known_and_the_slowest_requests_are_not() {
        let sample = |at_ms, requests: u64| Sample {
            at: Nanos::from_millis(at_ms),
            read: Done { requests, merged: 0, sectors: 8 * requests, waited: Nanos::from_millis(10 * requests) },
            ..Sample::default()
        };
        let mut tally = Tally::default();
        assert_eq!(tally.take(&sample(1_000, 5), &Preference::default()), None);
        let Some(counted) = tally.take(&sample(3_000, 205), &Preference::default()) else { panic!("there are two looks") };
        let expected = control_socket::Rates { requests_per_s: 100.0, mb_per_s: 0.4096, response_ms: 10.0, p99_ms: None };
        assert_eq!((counted.requests, counted.latest), (200, expected));
        assert!(counted.score.is_some());
        assert_eq!(tally.take(&sample(4_000, 210), &Preference::default()).and_then(|counted| counted.score), None);
    }
}
