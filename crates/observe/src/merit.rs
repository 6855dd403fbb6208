//! Merit: the one measure by which settings are compared, in trials, in experience, in exams and in papers' figures.
//!
//! *Score.* The paper's preference as weights of a geometric mean of throughput, the inverse of response time, and fairness
//! ("Self-Learning Disk Scheduling", section 3.1). It is a logarithm: 0.01 more is one percent better, and no unit matters.
//!
//! *Starvation.* A setting that starves is no winner. It starves if it lets any stream's p99 response time exceed a bound: four times
//! what the stream has under the default scheduler, and at least one second. Without that bound a scheduler can buy throughput by not
//! serving whoever is far away. A setting that starves ranks behind every one that does not, however good its score.

use std::collections::BTreeMap;

use block::StreamId;

use crate::preference::Preference;

/// A stream may wait so many times as long as under the default scheduler.
pub const BOUND_FACTOR: f64 = 4.0;
/// No p99 response time below this starves anybody, in seconds: interactive programs' users put up with about a second (Nielsen,
/// Usability Engineering, 1993, section 5.5).
pub const LEAST_BOUND_S: f64 = 1.0;
/// A stream with fewer requests under the default scheduler has no 99th percentile worth the name, and is not judged.
pub const LEAST_REQUESTS: u64 = 100;

/// Two settings whose merit differs by less than this share count as equal in a judgement.
pub const TOLERANCE: f64 = 0.02;

/// A response time below this is none; nor is a throughput or a fairness.
const LEAST: f64 = 1e-9;

/// How good a performance is to somebody with this preference. Minus infinity if nothing was moved; never NaN nor plus infinity.
pub fn score(preference: &Preference, bytes_per_s: f64, response_s: f64, fairness: f64) -> f64 {
    if bytes_per_s <= 0.0 || response_s.is_nan() {
        return f64::NEG_INFINITY;
    }
    let [throughput, response, fair] = preference.weights();
    let ln = |value: f64| value.max(LEAST).ln();
    throughput * ln(bytes_per_s) - response * ln(response_s) + fair * ln(fairness)
}

/// A score as the requests in sight tell it.
///
/// A queue has so many tags. What a process has to ask while it waits for one is not seen. So the fewer tags a setting has, the shorter its
/// response times look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The score.
    pub score: f64,
    /// Requests that somebody waited for, in the mean over time.
    pub depth: f64,
    /// They took nearly all tags of the queue, so there may be more.
    pub is_hidden: bool,
}

/// Who finds so much of a queue taken in the mean finds all of it taken often.
const FULL: f64 = 0.9;

impl Scored {
    /// A score under which so many requests waited in a queue of so many tags.
    pub fn of(score: f64, depth: f64, tags: u32) -> Scored {
        Scored { score, depth, is_hidden: depth >= FULL * f64::from(tags) }
    }

    /// A score of which it is not known how much it rests on.
    pub fn plain(score: f64) -> Scored {
        Scored { score, depth: 0.0, is_hidden: false }
    }

    /// The mean of some; `None` of none.
    pub fn mean(all: impl IntoIterator<Item = Scored>) -> Option<Scored> {
        let (mut count, mut score, mut depth, mut hidden) = (0.0, 0.0, 0.0, 0.0);
        for scored in all {
            (count, score, depth) = (count + 1.0, score + scored.score, depth + scored.depth);
            hidden += f64::from(u8::from(scored.is_hidden));
        }
        (count > 0.0).then(|| Scored { score: score / count, depth: depth / count, is_hidden: 2.0 * hidden > count })
    }

    /// By how much it is better than another, with as much of the load in sight. By Little's law a response time is that of as many requests
    /// as wait: those of the other, where they are more and this one's queue could not hold them.
    pub fn over(&self, other: &Scored, preference: &Preference) -> f64 {
        self.beside(other, preference) - other.beside(self, preference)
    }

    fn beside(&self, other: &Scored, preference: &Preference) -> f64 {
        let [_, of_response, _] = preference.weights();
        let more = if self.is_hidden && self.depth > 0.0 { (other.depth / self.depth).max(1.0) } else { 1.0 };
        self.score - of_response * more.ln()
    }
}

/// What streams had: by stream the number of its requests and their p99 response time in seconds.
pub type Tails = BTreeMap<StreamId, Tail>;

/// A stream's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Requests done.
    pub requests: u64,
    /// 99 of 100 took at most this long, in seconds.
    pub p99_s: f64,
}

/// Whether so many late requests are more than the one in a hundred that a p99 allows, and more than chance (95%).
pub fn are_too_many(late: u64, of: u64) -> bool {
    let expected = 0.01 * of as f64;
    late as f64 > expected + 2.0 * expected.sqrt()
}

/// The bound on a stream's p99 response time in seconds, from what it is under the default scheduler.
pub fn bound_s(under_default_s: f64) -> f64 {
    (BOUND_FACTOR * under_default_s).max(LEAST_BOUND_S)
}

/// Of the streams that are judged, the largest p99 response time by its bound; above 1 a stream starves. A stream that is not served
/// at all exceeds every bound.
pub fn worst_by_bound(tails: &Tails, under_default: &Tails) -> f64 {
    worst_by_bound_of(tails, under_default, LEAST_REQUESTS)
}

/// The same where streams with at least so many requests under the default scheduler are judged.
pub fn worst_by_bound_of(tails: &Tails, under_default: &Tails, least: u64) -> f64 {
    let judged = under_default.iter().filter(|(_, tail)| tail.requests >= least);
    let by_bound = judged.map(|(stream, default)| match tails.get(stream) {
        Some(tail) if tail.requests > 0 => tail.p99_s / bound_s(default.p99_s),
        _ => f64::INFINITY,
    });
    by_bound.fold(0.0, f64::max)
}

/// Whether a stream starves.
pub fn starves(tails: &Tails, under_default: &Tails) -> bool {
    worst_by_bound(tails, under_default) > 1.0
}

/// The scores of settings by which they are ranked: one that starves has at most the lowest score of those that do not.
pub fn ranked(settings: impl IntoIterator<Item = (f64, bool)>) -> Vec<f64> {
    let settings: Vec<(f64, bool)> = settings.into_iter().collect();
    let lowest = settings.iter().filter(|(_, starves)| !starves).map(|(score, _)| *score).fold(f64::INFINITY, f64::min);
    settings.into_iter().map(|(score, starves)| if starves { score.min(lowest) } else { score }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_with_fewer_tags_hides_what_waits_for_one() {
        let preference = Preference::default();
        let [throughput, response, _] = preference.weights();
        let scored = |score: f64, depth: f64, is_hidden: bool| Scored { score, depth, is_hidden };
        // The same throughput with half as many requests in sight looks twice as fast.
        let (few, many) = (scored(response * 2.0_f64.ln(), 5.0, true), scored(0.0, 10.0, true));
        assert!(few.over(&many, &preference).abs() < 1e-9 && many.over(&few, &preference).abs() < 1e-9);
        // A tenth more is a tenth more in both.
        let tenth = (throughput + response) * 1.1_f64.ln();
        assert!((scored(tenth + few.score, 5.0, true).over(&many, &preference) - tenth).abs() < 1e-9);
        // Where nobody waits for a tag, fewer requests wait because they are done sooner.
        assert!((scored(few.score, 5.0, false).over(&many, &preference) - few.score).abs() < 1e-9);
        let mean = Scored::mean([few, many, Scored::plain(0.0)]).unwrap();
        assert!(mean.is_hidden && (mean.depth - 5.0).abs() < 1e-9);
        assert_eq!(Scored::mean([]), None);
    }

    fn tails(tails: &[(u64, f64)]) -> Tails {
        tails.iter().enumerate().map(|(stream, &(requests, p99_s))| (stream as StreamId, Tail { requests, p99_s })).collect()
    }

    #[test]
    fn twice_the_throughput_counts_by_its_weight() {
        let preference: Preference = "2,3,1".parse().unwrap();
        let gain = score(&preference, 2e6, 0.01, 1.0) - score(&preference, 1e6, 0.01, 1.0);
        assert!((gain - 2.0 / 6.0 * 2f64.ln()).abs() < 1e-12);
        assert_eq!(score(&preference, 0.0, 0.01, 1.0), f64::NEG_INFINITY);
        assert!(score(&preference, 1.0, 0.0, 0.0).is_finite());
    }

    #[test]
    fn a_stream_starves_beyond_four_times_its_default_and_a_second() {
        let default = tails(&[(500, 0.1), (500, 0.5), (50, 0.01)]);
        assert!(!starves(&tails(&[(9, 0.99), (9, 1.99), (9, 99.0)]), &default), "the third has too few requests");
        assert!(starves(&tails(&[(9, 1.01), (9, 1.0), (9, 0.0)]), &default));
        assert!(starves(&tails(&[(9, 0.5), (9, 2.01), (9, 0.0)]), &default));
        assert!(starves(&tails(&[(9, 0.5), (0, 0.0)]), &default), "never served");
        assert_eq!(worst_by_bound(&tails(&[(9, 0.5), (9, 1.0)]), &default), 0.5);
    }

    #[test]
    fn a_setting_that_starves_ranks_behind_all_that_do_not() {
        assert_eq!(ranked([(3.0, true), (2.0, false), (1.0, false), (0.5, true)]), [1.0, 2.0, 1.0, 0.5]);
        assert_eq!(ranked([(3.0, true), (2.0, true)]), [3.0, 2.0], "where all starve nobody is worse");
    }
}
