//! Medians and quantiles.
//!
//! [`quantile`] is the definition for figures that are printed: linear interpolation between two values, type 7 of Hyndman and Fan (Sample
//! quantiles in statistical packages, The American Statistician 50, 1996), which R, NumPy and spreadsheets take by default.
//!
//! Where a value must be one that occurred (a threshold for a device, a request that is looked up, integers), [`Rank`] names the place among
//! the sorted values. Its four definitions differ by at most one place; each caller names one.

/// The quantile at this share, 0 to 1, by linear interpolation (Hyndman and Fan's type 7); `None` without values.
pub fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let at = share.clamp(0.0, 1.0) * values.len().checked_sub(1)? as f64;
    let (below, above) = (values[at.floor() as usize], values[at.ceil() as usize]);
    Some(if below == above { below } else { below + (at - at.floor()) * (above - below) })
}

/// The median: the middle value, or the mean of the two in the middle, on which all nine types of Hyndman and Fan but 1 and 3 agree;
/// `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

/// The place among `n` sorted values that a quantile at share `p` takes, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// ⌈n p⌉ - 1, the smallest value that at least this share of the values does not exceed: type 1 of Hyndman and Fan, the inverse of the
    /// distribution function, also of histograms.
    Inverse,
    /// ⌊n p⌋, the smallest value with more than this share of the values up to it: type 1 but for whole n p, where it is the next value. At
    /// one half it is the upper of two medians.
    Above,
    /// ⌊(n - 1) p⌋, the lower of the two values that type 7 interpolates (NumPy's `lower`).
    Lower,
    /// (n - 1) p rounded, half up: the nearer of these two values (NumPy's `nearest`, which rounds half to even).
    Nearest,
}

impl Rank {
    /// The place at this share, 0 to 1, among `count` sorted values; `None` if there are none.
    pub fn index(self, count: usize, share: f64) -> Option<usize> {
        let last = count.checked_sub(1)?;
        let place = match self {
            Rank::Inverse => ((share * count as f64).ceil() as usize).saturating_sub(1),
            Rank::Above => (share * count as f64) as usize,
            Rank::Lower => (share * last as f64) as usize,
            Rank::Nearest => (share * last as f64).round() as usize,
        };
        Some(place.min(last))
    }

    /// The value at this share of values that are sorted; `None` if there are none.
    pub fn of_sorted<T: Copy>(self, sorted: &[T], share: f64) -> Option<T> {
        sorted.get(self.index(sorted.len(), share)?).copied()
    }

    /// The value at this share; `None` without values. Reorders the values, in linear time.
    pub fn of(self, values: &mut [f64], share: f64) -> Option<f64> {
        let place = self.index(values.len(), share)?;
        Some(*values.select_nth_unstable_by(place, f64::total_cmp).1)
    }

    /// The same for values with a total order, such as times.
    pub fn of_ordered<T: Copy + Ord>(self, values: &mut [T], share: f64) -> Option<T> {
        let place = self.index(values.len(), share)?;
        Some(*values.select_nth_unstable(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NumPy 2.2, `numpy.quantile([15, 20, 35, 40, 50], ..., method=...)`; the values are those of the usual example of the nearest rank, whose
    /// 5th, 30th, 40th, 50th and 100th percentile are 15, 20, 20, 35 and 50.
    #[test]
    fn each_definition_is_that_of_numpy() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        let of = |rank: Rank| [0.05, 0.3, 0.4, 0.5, 1.0].map(|share| rank.of(&mut values.clone(), share));
        assert_eq!(of(Rank::Inverse), [15.0, 20.0, 20.0, 35.0, 50.0].map(Some));
        assert_eq!(of(Rank::Above), [15.0, 20.0, 35.0, 35.0, 50.0].map(Some), "as the type before, but for the whole 5 x 0.4");
        assert_eq!(of(Rank::Lower), [15.0, 20.0, 20.0, 35.0, 50.0].map(Some));
        assert_eq!(of(Rank::Nearest), [15.0, 20.0, 35.0, 35.0, 50.0].map(Some));
        let linear = [0.05, 0.3, 0.4, 0.5, 1.0].map(|share| quantile(values, share).unwrap_or(f64::NAN));
        for (found, expected) in linear.into_iter().zip([16.0, 23.0, 29.0, 35.0, 50.0]) {
            assert!((found - expected).abs() < 1e-12, "{linear:?}");
        }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0]), median([])), (Some(2.0), Some(2.5), None));
        assert_eq!(quantile([4.0, 1.0], 0.5), Some(2.5));
        assert_eq!(Rank::Above.of_sorted(&[1, 2, 3, 4], 0.5), Some(3), "the upper one");
        assert_eq!((quantile([], 0.5), quantile([7.0], 0.9)), (None, Some(7.0)));
    }

    #[test]
    fn shares_of_many_values_are_the_same_as_in_whole_numbers() {
        for count in 1..20_000 {
            let of = |share: f64| Rank::Above.index(count, share);
            let expected = [count / 10, count / 2, count * 9 / 10, count * 99 / 100].map(Some);
            assert_eq!([0.1, 0.5, 0.9, 0.99].map(of), expected, "{count}");
            let lower = [0.25, 0.5, 0.75].map(|share| Rank::Lower.index(count, share));
            assert_eq!(lower, [1, 2, 3].map(|quarter| Some((count - 1) * quarter / 4)), "{count}");
        }
    }

    #[test]
    fn the_ends_are_the_least_and_the_largest_value() {
        for rank in [Rank::Inverse, Rank::Above, Rank::Lower, Rank::Nearest] {
            let mut values = [3_u64, 1, 2];
            assert_eq!((rank.of_ordered(&mut values, 0.0), rank.of_ordered(&mut values, 1.0)), (Some(1), Some(3)), "{rank:?}");
            assert_eq!((rank.index(0, 0.5), rank.of(&mut [], 0.5)), (None, None));
        }
    }
}
