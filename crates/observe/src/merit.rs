//! Merit: the measure by which settings are compared in trials, experience, evaluations and papers' figures.
//!
//! *Score.* The paper's preference as weights of a geometric mean of throughput, the inverse of response time, and fairness
//! ("Self-Learning Disk Scheduling", section 3.1). It is a logarithm: 0.01 more is one percent better, and no unit matters.
//!
//! A setting that [starves](crate::starvation) a stream ranks behind every one that does not, regardless of their scores.
//!
//! ```
//! use observe::Preference;
//! use observe::merit::score;
//!
//! let preference = Preference::new(2, 3, 1)?;
//! // Twice the throughput at the same response time, with a weight of 2 in 6.
//! let gain = score(&preference, 2e6, 0.01, 1.0) - score(&preference, 1e6, 0.01, 1.0);
//! assert!((gain - 2.0 / 6.0 * 2f64.ln()).abs() < 1e-12);
//! # Ok::<(), observe::PreferenceError>(())
//! ```

use crate::preference::Preference;

/// Settings whose scores differ by less count as equal. Choice: a lower one makes changes for gains that no user notices, a higher one
/// leaves gains unused; not varied.
pub const TOLERANCE: f64 = 0.02;

/// Lower limit of throughput, response time and fairness, so that their logarithms are finite. Choice: below every measured value, so that
/// it changes no score; not varied.
const LEAST: f64 = 1e-9;

/// The score of a performance: a weighted sum of logarithms. Minus infinity without throughput; never NaN or plus infinity.
pub fn score(preference: &Preference, bytes_per_s: f64, response_s: f64, fairness: f64) -> f64 {
    if bytes_per_s <= 0.0 || response_s.is_nan() {
        return f64::NEG_INFINITY;
    }
    let [throughput, response, fair] = preference.weights();
    let ln = |value: f64| value.max(LEAST).ln();
    throughput * ln(bytes_per_s) - response * ln(response_s) + fair * ln(fairness)
}

/// A score with the queue depth at which it was measured.
///
/// Processes that wait for a tag of the queue are not observed, so the fewer tags a setting has, the shorter its response times look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The score.
    pub score: f64,
    /// Mean number of outstanding synchronous requests.
    pub depth: f64,
    /// Whether nearly all tags of the queue were in use, so that more requests may have waited for one.
    pub is_hidden: bool,
}

/// Mean share of tags in use above which all of them are often in use. Choice: a lower one extrapolates queues that never fill, a higher
/// one misses queues that fill in bursts; not varied.
const FULL: f64 = 0.9;

impl Scored {
    /// A score at this depth of a queue with this number of tags.
    pub fn of(score: f64, depth: f64, tags: u32) -> Scored {
        Scored { score, depth, is_hidden: depth >= FULL * f64::from(tags) }
    }

    /// A score at an unknown depth, which is compared as it is.
    pub fn plain(score: f64) -> Scored {
        Scored { score, depth: 0.0, is_hidden: false }
    }

    /// The mean; `None` without scores. It is hidden if most of them are.
    pub fn mean(all: impl IntoIterator<Item = Scored>) -> Option<Scored> {
        let (mut count, mut score, mut depth, mut hidden) = (0.0, 0.0, 0.0, 0.0);
        for scored in all {
            (count, score, depth) = (count + 1.0, score + scored.score, depth + scored.depth);
            hidden += f64::from(u8::from(scored.is_hidden));
        }
        (count > 0.0).then(|| Scored { score: score / count, depth: depth / count, is_hidden: 2.0 * hidden > count })
    }

    /// The gain over another score, corrected for hidden requests: by Little's law, the response time is extrapolated to the other's depth if that
    /// is larger and exceeds this queue.
    pub fn over(&self, other: &Scored, preference: &Preference) -> f64 {
        self.at_depth_of(other, preference) - other.at_depth_of(self, preference)
    }

    fn at_depth_of(&self, other: &Scored, preference: &Preference) -> f64 {
        let [_, of_response, _] = preference.weights();
        let more = if self.is_hidden && self.depth > 0.0 { (other.depth / self.depth).max(1.0) } else { 1.0 };
        self.score - of_response * more.ln()
    }
}

/// Scores for ranking, in order: one that starves (`true`) is lowered to the lowest of those that do not.
pub fn ranked(settings: impl IntoIterator<Item = (f64, bool)>) -> Vec<f64> {
    let settings: Vec<(f64, bool)> = settings.into_iter().collect();
    let lowest = settings.iter().filter(|(_, starves)| !starves).map(|(score, _)| *score).fold(f64::INFINITY, f64::min);
    settings.into_iter().map(|(score, starves)| if starves { score.min(lowest) } else { score }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_with_fewer_tags_hides_requests_that_wait_for_one() {
        let preference = Preference::default();
        let [throughput, response, _] = preference.weights();
        let scored = |score: f64, depth: f64, is_hidden: bool| Scored { score, depth, is_hidden };
        // The same throughput with half as many visible requests appears twice as fast.
        let (few, many) = (scored(response * 2.0_f64.ln(), 5.0, true), scored(0.0, 10.0, true));
        assert!(few.over(&many, &preference).abs() < 1e-9 && many.over(&few, &preference).abs() < 1e-9);
        // A tenth more is a tenth more in both.
        let tenth = (throughput + response) * 1.1_f64.ln();
        assert!((scored(tenth + few.score, 5.0, true).over(&many, &preference) - tenth).abs() < 1e-9);
        // Where no process waits for a tag, fewer requests wait because they complete sooner.
        assert!((scored(few.score, 5.0, false).over(&many, &preference) - few.score).abs() < 1e-9);
        let mean = Scored::mean([few, many, Scored::plain(0.0)]).unwrap();
        assert!(mean.is_hidden && (mean.depth - 5.0).abs() < 1e-9);
        assert_eq!(Scored::mean([]), None);
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
    fn a_setting_that_starves_ranks_behind_all_that_do_not() {
        assert_eq!(ranked([(3.0, true), (2.0, false), (1.0, false), (0.5, true)]), [1.0, 2.0, 1.0, 0.5]);
        assert_eq!(ranked([(3.0, true), (2.0, true)]), [3.0, 2.0], "where all starve none is lowered");
    }
}
