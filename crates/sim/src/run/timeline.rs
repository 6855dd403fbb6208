//! Sums over time, in bins that double their width whenever the run outgrows them.

use std::ops::AddAssign;

use block::Nanos;

/// Bins at most: 100 tenants with 16 bytes in each take 6.5 MB.
const BINS: usize = 4096;

/// Sums by time, from zero on.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    width: Nanos,
    bins: Vec<T>,
}

impl<T: AddAssign + Copy + Default> Timeline<T> {
    /// Empty, with bins of `width` to begin with.
    pub fn new(width: Nanos) -> Timeline<T> {
        Timeline { width, bins: Vec::new() }
    }

    /// The width of a bin.
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// The sum of each bin, up to the last that is not empty.
    pub fn bins(&self) -> &[T] {
        &self.bins
    }

    /// Adds `what` at time `at`.
    pub fn add(&mut self, at: Nanos, what: T) {
        while at.0 / self.width.0 >= BINS as u64 {
            self.widen();
        }
        let index = (at.0 / self.width.0) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, T::default());
        }
        self.bins[index] += what;
    }

    /// Doubles the width until it is at least `width`.
    pub fn widen_to(&mut self, width: Nanos) {
        while self.width < width {
            self.widen();
        }
    }

    fn widen(&mut self) {
        let pairs = self.bins.chunks(2).map(|pair| {
            let mut sum = pair[0];
            if let Some(second) = pair.get(1) {
                sum += *second;
            }
            sum
        });
        self.bins = pairs.collect();
        self.width = self.width + self.width;
    }
}

impl Timeline<u64> {
    /// Adds the nanoseconds from `from` to `to`, each to the bin that it falls into.
    pub fn add_span(&mut self, from: Nanos, to: Nanos) {
        let mut from = from;
        while from < to {
            // May widen the bins, so that its end is known only after.
            self.add(from, 0);
            let end = Nanos((from.0 / self.width.0 + 1) * self.width.0).min(to);
            self.add(from, (end - from).0);
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_counts_in_each_bin_that_it_touches_in_a_run_of_any_length() {
        let mut line = Timeline::new(Nanos::from_millis(100));
        line.add_span(Nanos::from_millis(150), Nanos::from_millis(320));
        assert_eq!(line.bins(), [0, 50_000_000, 100_000_000, 20_000_000]);
        line.add_span(Nanos::from_millis(320), Nanos::from_millis(1_000_000));
        let (bins, width) = (line.bins(), line.width());
        assert!(bins.len() <= BINS && width > Nanos::from_millis(100), "{} bins of {width:?}", bins.len());
        assert_eq!(bins.iter().sum::<u64>(), 999_850_000_000);
        assert!(bins[1..bins.len() - 1].iter().all(|&bin| bin == width.0));
    }
}
