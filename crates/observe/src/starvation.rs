//! Starvation: whether a setting makes a stream wait too long.
//!
//! A setting starves a stream if the stream's p99 response time exceeds a bound: four times that under the default scheduler, and at least
//! one second. Without the bound a scheduler could gain throughput by neglecting streams that are far away on the disk.

use std::collections::BTreeMap;

use block::StreamId;

/// The bound of a stream's p99 response time, as a multiple of that under the default scheduler. Choice: a lower one forbids gains of all
/// other streams, a higher one permits waits that users notice; not varied.
pub const BOUND_FACTOR: f64 = 4.0;
/// Minimum bound in seconds: users of interactive programs accept about a second. Source: Nielsen, Usability Engineering, 1993, section
/// 5.5.
pub const LEAST_BOUND_S: f64 = 1.0;
/// Minimum number of requests under the default scheduler for a stream to be judged: with fewer, a 99th percentile is meaningless.
/// Derived: the least number of which one is beyond a p99.
pub const LEAST_REQUESTS: u64 = 100;

/// The response times of each stream.
pub type Tails = BTreeMap<StreamId, Tail>;

/// The response times of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Completed requests.
    pub requests: u64,
    /// Their 99th percentile, in seconds.
    pub p99_s: f64,
}

/// Whether `late` of `of` requests are significantly more (95%) than the one in a hundred that a p99 allows.
pub fn are_too_many(late: u64, of: u64) -> bool {
    let expected = 0.01 * of as f64;
    late as f64 > expected + 2.0 * expected.sqrt()
}

/// The bound of a stream's p99 response time in seconds, from that under the default scheduler.
pub fn bound_s(under_default_s: f64) -> f64 {
    (BOUND_FACTOR * under_default_s).max(LEAST_BOUND_S)
}

/// The largest ratio of a stream's p99 response time to its bound; above 1 a stream starves, and infinite if one is not served at all. 0
/// without a stream to judge.
pub fn max_wait_ratio(tails: &Tails, under_default: &Tails) -> f64 {
    max_wait_ratio_of(tails, under_default, LEAST_REQUESTS)
}

/// The same for streams with at least `least` requests under the default scheduler.
pub fn max_wait_ratio_of(tails: &Tails, under_default: &Tails, least: u64) -> f64 {
    let judged = under_default.iter().filter(|(_, tail)| tail.requests >= least);
    let ratios = judged.map(|(stream, default)| match tails.get(stream) {
        Some(tail) if tail.requests > 0 => tail.p99_s / bound_s(default.p99_s),
        _ => f64::INFINITY,
    });
    ratios.fold(0.0, f64::max)
}

/// Whether a stream starves.
pub fn starves(tails: &Tails, under_default: &Tails) -> bool {
    max_wait_ratio(tails, under_default) > 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tails(tails: &[(u64, f64)]) -> Tails {
        tails.iter().enumerate().map(|(stream, &(requests, p99_s))| (stream as StreamId, Tail { requests, p99_s })).collect()
    }

    #[test]
    fn a_stream_starves_beyond_four_times_its_default_and_a_second() {
        let default = tails(&[(500, 0.1), (500, 0.5), (50, 0.01)]);
        assert!(!starves(&tails(&[(9, 0.99), (9, 1.99), (9, 99.0)]), &default), "the third has too few requests");
        assert!(starves(&tails(&[(9, 1.01), (9, 1.0), (9, 0.0)]), &default));
        assert!(starves(&tails(&[(9, 0.5), (9, 2.01), (9, 0.0)]), &default));
        assert!(starves(&tails(&[(9, 0.5), (0, 0.0)]), &default), "never served");
        assert_eq!(max_wait_ratio(&tails(&[(9, 0.5), (9, 1.0)]), &default), 0.5);
    }
}
