//! Convergence of throughput.

use control::Window;

/// The width of a bin in the simulator, in seconds: five children of 2 s.
pub const BIN_S: f64 = 10.0;
/// The paper's acceptable variation.
const WITHIN: f64 = 0.05;
/// Fraction of the bins after convergence that must be within the variation.
const MOST: f64 = 0.95;

/// Throughput of a workload over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// Throughput of each bin, in megabytes per second.
    pub bins: Vec<f64>,
    /// The width of a bin, in seconds.
    pub bin_s: f64,
    /// Overall mean, in megabytes per second.
    pub mean_mb_s: f64,
    /// Standard deviation of the windows in the second half, in percent of their mean: the difference between children, plus the workload's own
    /// variation. `None` without windows.
    pub deviation_percent: Option<f64>,
}

/// The state after convergence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settled {
    /// Time of convergence in seconds after the start of the workload; `None` if it did not converge before the last quarter.
    pub at_s: Option<f64>,
    /// Mean of the last quarter, in megabytes per second.
    pub stable_mb_s: f64,
    /// The largest deviation of a bin from that after convergence, in percent; `None` without convergence.
    pub variation_percent: Option<f64>,
}

impl Course {
    /// Throughput of processes from the windows of a run between two times in seconds.
    pub fn of(windows: &[Window], from_s: f64, to_s: f64) -> Course {
        let count = ((to_s - from_s) / BIN_S).floor() as usize;
        let (mut bytes, mut total, mut later) = (vec![0.0; count], 0.0, Vec::new());
        for window in windows {
            let (begin, end) = (window.from.as_secs_f64(), window.to.as_secs_f64());
            let (rate, _) = window.outcome.judged();
            total += rate * (end.min(to_s) - begin.max(from_s)).max(0.0);
            if begin >= (from_s + to_s) / 2.0 && end <= to_s {
                later.push(rate);
            }
            for (number, bin) in bytes.iter_mut().enumerate() {
                let from = from_s + number as f64 * BIN_S;
                *bin += rate * (end.min(from + BIN_S) - begin.max(from)).max(0.0);
            }
        }
        let mean_mb_s = total / (to_s - from_s).max(f64::MIN_POSITIVE) / 1e6;
        let bins = bytes.into_iter().map(|bytes| bytes / BIN_S / 1e6).collect();
        Course { bins, bin_s: BIN_S, mean_mb_s, deviation_percent: deviation_percent(&later) }
    }

    /// Throughput from a log of bytes per second, each entry with the end of its second. The course starts a second before the first entry.
    pub fn of_seconds(seconds: &[(f64, f64)], length_s: f64, bin_s: f64) -> Course {
        let begins = seconds.first().map_or(0.0, |(end, _)| end - 1.0);
        let mut bytes = vec![0.0; (length_s / bin_s).floor() as usize];
        for (end, rate) in seconds {
            let bin = ((end - 0.5 - begins) / bin_s) as usize;
            if let Some(bytes) = bytes.get_mut(bin) {
                *bytes += rate;
            }
        }
        let rates: Vec<f64> = seconds.iter().map(|(_, rate)| *rate).collect();
        let mean_mb_s = statistics::mean(rates.iter().copied()).unwrap_or(0.0) / 1e6;
        let bins = bytes.into_iter().map(|bytes| bytes / bin_s / 1e6).collect();
        Course { bins, bin_s, mean_mb_s, deviation_percent: deviation_percent(&rates[rates.len() / 2..]) }
    }

    /// When throughput converged, and at which value; `None` without bins.
    pub fn settled(&self) -> Option<Settled> {
        let last_quarter = &self.bins[self.bins.len() - self.bins.len().div_ceil(4)..];
        if last_quarter.is_empty() {
            return None;
        }
        let stable = last_quarter.iter().sum::<f64>() / last_quarter.len() as f64;
        let off = |bin: &f64| (bin / stable - 1.0).abs();
        let is_settled = |from: usize| {
            let later = &self.bins[from..];
            off(&self.bins[from]) <= WITHIN
                && later.iter().filter(|bin| off(bin) <= WITHIN).count() as f64 >= MOST * later.len() as f64
        };
        let from = (0..=self.bins.len() - last_quarter.len()).find(|&from| from < self.bins.len() && is_settled(from));
        let variation = from.map(|from| 100.0 * self.bins[from..].iter().map(off).fold(0.0, f64::max));
        Some(Settled { at_s: from.map(|from| from as f64 * self.bin_s), stable_mb_s: stable, variation_percent: variation })
    }
}

fn deviation_percent(rates: &[f64]) -> Option<f64> {
    let mean = statistics::mean(rates.iter().copied()).filter(|mean| *mean > 0.0)?;
    statistics::sample::population_variance(rates).map(|variance| 100.0 * variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(bins: &[f64]) -> Settled {
        let course = Course { bins: bins.to_vec(), bin_s: BIN_S, mean_mb_s: 0.0, deviation_percent: None };
        course.settled().unwrap_or_else(|| panic!("{bins:?} have an end"))
    }

    #[test]
    fn throughput_has_settled_where_all_that_follows_is_near_its_end() {
        let rising = [10.0, 20.0, 29.0, 30.0, 31.0, 30.0, 30.0, 30.0];
        let course = settled(&rising);
        assert_eq!((course.at_s, course.stable_mb_s), (Some(20.0), 30.0));
        assert!((course.variation_percent.unwrap_or(0.0) - 100.0 / 30.0).abs() < 1e-9);
        assert_eq!(settled(&[30.0; 8]).at_s, Some(0.0), "from the beginning");
    }

    #[test]
    fn seconds_add_up_to_bins_of_their_own_width() {
        let seconds: Vec<(f64, f64)> = (0..7).map(|second| (3.2 + f64::from(second), 1e6 * f64::from(second))).collect();
        let course = Course::of_seconds(&seconds, 6.0, 2.0);
        assert_eq!((course.bins, course.bin_s, course.mean_mb_s), (vec![0.5, 2.5, 4.5], 2.0, 3.0));
        // The second half is 3, 4, 5 and 6: their mean is 4.5, and the squares of the deviations, 2.25 and 0.25 twice, are 1.25 in the mean.
        assert!((course.deviation_percent.unwrap_or(0.0) - 100.0 * 1.25_f64.sqrt() / 4.5).abs() < 1e-9);
        assert_eq!(Course::of_seconds(&[], 4.0, 2.0).bins, [0.0, 0.0]);
    }

    #[test]
    fn what_wavers_to_the_end_has_not_settled_and_one_bin_in_twenty_may() {
        assert_eq!(settled(&[30.0, 10.0, 30.0, 10.0, 30.0, 10.0, 30.0, 10.0]).at_s, None);
        let mut long = [30.0; 40];
        long[20] = 10.0;
        assert_eq!(settled(&long).at_s, Some(0.0));
        long[21..24].copy_from_slice(&[10.0; 3]);
        assert_eq!(settled(&long).at_s, Some(240.0));
    }
}
