//! Confidence intervals by resampling.

use crate::quantile::Rank;

/// The percentile interval of a statistic (Efron: Bootstrap methods, The Annals of Statistics 7, 1979): of `samples` resamplings, the values
/// between which the part `level` of them lies, with as many below as above. `statistic` gets the places, 0 to `count` - 1, of values drawn
/// with replacement; samples for which it is `None` are left out. `None` without values or samples. `draw` returns a random place below its
/// argument, so that the same source gives the same interval.
pub fn interval(
    count: usize,
    samples: usize,
    level: f64,
    mut draw: impl FnMut(usize) -> usize,
    mut statistic: impl FnMut(&mut dyn Iterator<Item = usize>) -> Option<f64>,
) -> Option<(f64, f64)> {
    if count == 0 {
        return None;
    }
    let mut found: Vec<f64> = (0..samples).filter_map(|_| statistic(&mut (0..count).map(|_| draw(count)))).collect();
    found.sort_by(f64::total_cmp);
    let low = Rank::Above.index(found.len(), (1.0 - level) / 2.0)?;
    Some((found[low], found[found.len() - 1 - low]))
}

/// [`interval`] at the level 0.95.
pub fn interval_95(
    count: usize,
    samples: usize,
    draw: impl FnMut(usize) -> usize,
    statistic: impl FnMut(&mut dyn Iterator<Item = usize>) -> Option<f64>,
) -> Option<(f64, f64)> {
    interval(count, samples, 0.95, draw, statistic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// A source of places by Knuth's linear congruential generator (The Art of Computer Programming, volume 2, 3.3.4).
    fn source(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below as u64) as usize
        }
    }

    #[test]
    fn the_interval_of_a_mean_is_two_standard_errors_wide_to_each_side() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 20)).collect();
        let mean = |places: &mut dyn Iterator<Item = usize>| sample::mean(places.map(|place| values[place]));
        let interval = interval_95(values.len(), 2000, source(1), mean);
        let expected = sample::mean_and_margin(&values);
        let is_near = |(low, high): (f64, f64), (mean, margin): (f64, f64)| {
            (mean - margin - low).abs() < 0.1 * margin && (mean + margin - high).abs() < 0.1 * margin
        };
        assert!(
            interval.zip(expected).is_some_and(|(interval, expected)| is_near(interval, expected)),
            "{interval:?} {expected:?}"
        );
        assert_eq!(interval, interval_95(values.len(), 2000, source(1), mean), "the same draws");
        // Of a normal distribution 90% are within 1.645 standard deviations, 95% within 1.96.
        let width = |interval: Option<(f64, f64)>| interval.map_or(0.0, |(low, high)| high - low);
        let narrower = width(super::interval(values.len(), 2000, 0.9, source(1), mean)) / width(interval);
        assert!((narrower - 1.645 / 1.96).abs() < 0.04, "{narrower}");
    }

    #[test]
    fn nothing_has_no_interval() {
        assert_eq!(interval_95(0, 2000, source(1), |_| Some(1.0)), None);
        assert_eq!(interval_95(5, 0, source(1), |_| Some(1.0)), None);
        assert_eq!(interval_95(5, 100, source(1), |_| None), None);
    }
}
