//! Rates, sizes and response times while the device was busy, from samples of counters.

use std::fmt;

use block::Nanos;
use control::experience::MIN_REQUESTS;
use observe::counters::{Rate, Rates, Sample};

/// Minimum busy time, in seconds. Choice: two intervals of a second, the fewest that vary; not varied.
const MIN_S: f64 = 2.0;

/// Counters of reads or of writes while the device was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Requests per second, after merging.
    pub requests_per_s: f64,
    /// Fraction of the issued requests that were merged into others.
    pub merged_share: f64,
    /// Mean size in bytes, after merging.
    pub mean_bytes: f64,
    /// Mean time from queued to completed, in seconds.
    pub response_s: f64,
    /// Relative standard error of the rate, from its variation; 0 with fewer than three samples.
    pub rate_error: f64,
    /// Relative standard error of the response time.
    pub response_error: f64,
}

impl Side {
    /// Issued requests per second, before merging.
    pub fn asked_per_s(&self) -> f64 {
        self.requests_per_s / (1.0 - self.merged_share).max(0.01)
    }

    /// Mean size of issued requests, in bytes.
    pub fn asked_bytes(&self) -> f64 {
        self.mean_bytes * (1.0 - self.merged_share).max(0.01)
    }

    /// Mean number in flight (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.requests_per_s * self.response_s
    }
}

/// Counters while the device was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Busy time, in seconds.
    pub busy_s: f64,
    /// Total observed time, in seconds.
    pub lasts_s: f64,
    /// Number of intervals between samples in the busy time.
    pub intervals: u32,
    /// Requests in the busy time, after merging.
    pub requests: u64,
    /// Reads.
    pub read: Side,
    /// Writes.
    pub write: Side,
    /// Flushes of the write cache per second.
    pub flushes_per_s: f64,
    /// Fraction of the busy time with any request in flight.
    pub busy_share: f64,
    /// Relative standard deviation of requests per second across samples.
    pub varies: f64,
}

/// The device was hardly busy, so there are too few requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooFew {
    /// Busy time, in seconds.
    pub busy_s: f64,
    /// Time of all samples, in seconds.
    pub lasts_s: f64,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooFew { busy_s, lasts_s } = self;
        write!(f, "only {busy_s:.0} of {lasts_s:.0} s had {MIN_REQUESTS} requests a second, so hardly any two of them met")
    }
}

impl Counted {
    /// The counters over the busy intervals between consecutive samples.
    ///
    /// # Errors
    /// The device was hardly busy.
    pub fn of(samples: &[Sample]) -> Result<Counted, TooFew> {
        let rates: Vec<Rates> = samples.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
        let seconds = |rates: &Rates| rates.lasts.as_secs_f64();
        let lasts_s: f64 = rates.iter().map(seconds).sum();
        let of_all = |rates: &Rates| rates.read.requests_per_s + rates.write.requests_per_s;
        let busy: Vec<&Rates> = rates.iter().filter(|rates| of_all(rates) >= MIN_REQUESTS as f64).collect();
        let busy_s: f64 = busy.iter().map(|rates| seconds(rates)).sum();
        if busy_s < MIN_S {
            return Err(TooFew { busy_s, lasts_s });
        }
        let mean = |of: &dyn Fn(&Rates) -> f64| busy.iter().map(|rates| of(rates) * seconds(rates)).sum::<f64>() / busy_s;
        let side = |of: fn(&Rates) -> Rate| side(&busy.iter().map(|rates| (of(rates), seconds(rates))).collect::<Vec<_>>());
        let per_s = mean(&of_all);
        Ok(Counted {
            busy_s,
            lasts_s,
            intervals: busy.len() as u32,
            requests: (per_s * busy_s).round() as u64,
            read: side(|rates| rates.read),
            write: side(|rates| rates.write),
            flushes_per_s: mean(&|rates| rates.flush.requests_per_s),
            busy_share: mean(&|rates| rates.busy_share),
            varies: mean(&|rates| (of_all(rates) - per_s).powi(2)).sqrt() / per_s,
        })
    }

    /// The counters over the whole interval between two samples, busy or not.
    pub(super) fn between(earlier: &Sample, later: &Sample) -> Counted {
        let rates = later.since(earlier);
        let seconds = rates.lasts.as_secs_f64();
        let requests = (rates.read.requests_per_s + rates.write.requests_per_s) * seconds;
        Counted {
            busy_s: seconds,
            lasts_s: seconds,
            intervals: 1,
            requests: requests.round() as u64,
            read: side(&[(rates.read, seconds)]),
            write: side(&[(rates.write, seconds)]),
            flushes_per_s: rates.flush.requests_per_s,
            busy_share: rates.busy_share,
            varies: 0.0,
        }
    }

    /// Requests per second, after merging.
    pub fn requests_per_s(&self) -> f64 {
        self.read.requests_per_s + self.write.requests_per_s
    }

    /// Throughput in 10^6 bytes per second.
    pub fn mb_per_s(&self) -> f64 {
        let of = |side: &Side| side.requests_per_s * side.mean_bytes / 1e6;
        of(&self.read) + of(&self.write)
    }

    /// Mean response time of all requests.
    pub fn response(&self) -> Nanos {
        Nanos::from_secs_f64(self.in_flight() / self.requests_per_s().max(1e-9))
    }

    /// Relative standard error of the rate of all requests.
    pub fn rate_error(&self) -> f64 {
        let of = |side: &Side| side.requests_per_s * side.rate_error;
        of(&self.read).hypot(of(&self.write)) / self.requests_per_s().max(1e-9)
    }

    /// Mean number of requests in flight.
    pub fn in_flight(&self) -> f64 {
        self.read.in_flight() + self.write.in_flight()
    }
}

/// Means over intervals, each with its length in seconds.
fn side(rates: &[(Rate, f64)]) -> Side {
    let whole: f64 = rates.iter().map(|(_, seconds)| seconds).sum();
    let requests = |(rate, seconds): &(Rate, f64)| rate.requests_per_s * seconds;
    let all: f64 = rates.iter().map(requests).sum();
    if all <= 0.0 {
        return Side::default();
    }
    let merged: f64 = rates.iter().map(|one| requests(one) * one.0.merged_share / (1.0 - one.0.merged_share).max(1e-6)).sum();
    let response = |rate: &Rate| rate.mean_response.map_or(0.0, Nanos::as_secs_f64);
    let of_each = |of: &dyn Fn(&Rate) -> f64| rates.iter().map(|one| requests(one) * of(&one.0)).sum::<f64>() / all;
    let (per_s, response_s) = (all / whole, of_each(&response));
    // Standard error of the mean of these samples; 0 with fewer than three, which show no variation.
    let error = |square: f64, mean: f64| if rates.len() < 3 { 0.0 } else { (square / rates.len() as f64).sqrt() / mean.max(1e-12) };
    let rate_square = rates.iter().map(|(rate, seconds)| (rate.requests_per_s - per_s).powi(2) * seconds).sum::<f64>() / whole;
    let response_square = of_each(&|rate| (response(rate) - response_s).powi(2));
    Side {
        requests_per_s: per_s,
        merged_share: merged / (merged + all),
        mean_bytes: of_each(&|rate| rate.mean_bytes.unwrap_or(0.0)),
        response_s,
        rate_error: error(rate_square, per_s),
        response_error: error(response_square, response_s),
    }
}

#[cfg(test)]
mod tests {
    use observe::counters::Done;

    use super::*;

    #[test]
    fn seconds_with_few_requests_do_not_count() {
        let mut sample = Sample::default();
        let mut samples = vec![sample];
        for second in 0..10_u64 {
            let requests = if second < 4 { 100 + 20 * (second % 2) } else { 1 };
            sample.at = Nanos::from_millis(1_000 * (second + 1));
            sample.busy += Nanos::from_millis(5 * requests);
            let Done { requests: before, merged, sectors, waited } = sample.read;
            sample.read = Done {
                requests: before + requests,
                merged: merged + requests,
                sectors: sectors + 8 * requests,
                waited: waited + Nanos::from_millis(10 * requests),
            };
            samples.push(sample);
        }
        let Ok(counted) = Counted::of(&samples) else { panic!("four seconds were busy") };
        assert_eq!((counted.busy_s, counted.lasts_s, counted.requests), (4.0, 10.0, 440));
        let read = counted.read;
        assert_eq!((read.requests_per_s, read.merged_share, read.mean_bytes), (110.0, 0.5, 4_096.0));
        assert_eq!((read.asked_per_s(), read.asked_bytes()), (220.0, 2_048.0));
        assert!((read.response_s - 0.01).abs() < 1e-9 && (read.in_flight() - 1.1).abs() < 1e-9, "{read:?}");
        assert!((read.rate_error - 10.0 / 110.0 / 2.0).abs() < 1e-9, "{read:?}");
        assert_eq!(counted.write, Side::default());
        assert_eq!(Counted::of(&samples[4..]), Err(TooFew { busy_s: 0.0, lasts_s: 6.0 }));
    }
}
