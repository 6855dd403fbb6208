//! Burstiness of arrivals: counts in time slots at six scales at once.
//!
//! ```text
//!  10 ms  │3│0│0│4│0│0│0│1│      a slot that ends adds its count to the larger slot that contains it
//!  20 ms  │ 3 │ 4 │ 0 │ 1 │
//!  40 ms  │   7   │   1   │ …    up to 320 ms
//! ```
//! Leland, Taqqu, Willinger, Wilson, "On the self-similar nature of Ethernet traffic", 1994, section 3.2: the index of dispersion
//! is 1 at every scale if requests are independent, and grows as a power of the scale if the traffic is self-similar.

use block::Nanos;

/// Length of the shortest slot. Choice: a shorter one has hardly any requests of a disk, a longer one hides bursts; about one request of a
/// disk; not varied.
const SLOT: Nanos = Nanos::from_millis(10);
/// Number of scales; the slots of each are twice as long as those of the previous one. Choice: more have too few slots in a window of a
/// second; not varied.
pub(super) const SCALES: usize = 6;
/// Minimum number of slots for a variance. Choice: fewer have no usable variance, more exclude long slots of short windows; not varied.
const LEAST_SLOTS: u64 = 8;
/// Minimum number of scales for a slope. Choice: two give a slope without any check of it; not varied.
const LEAST_SCALES: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Scale {
    /// Requests in the current slot.
    open: u64,
    /// Sum of squared counts of earlier slots.
    squares: f64,
}

/// Counts arrivals. Slots begin with the first arrival; earlier time in the window counts as if it were at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bursts {
    first: Option<Nanos>,
    /// Number of the current shortest slot.
    slot: u64,
    requests: u64,
    scales: [Scale; SCALES],
}

impl Bursts {
    #[inline]
    pub fn add(&mut self, arrival: Nanos) {
        let first = *self.first.get_or_insert(arrival);
        let slot = (arrival - first).0 / SLOT.0;
        if slot > self.slot {
            self.end_slots(slot);
        }
        self.requests += 1;
        self.scales[0].open += 1;
    }

    /// Ends every slot that is over when `slot` is the current one.
    fn end_slots(&mut self, slot: u64) {
        let mut handed = 0;
        for (power, scale) in self.scales.iter_mut().enumerate() {
            scale.open += handed;
            if slot >> power == self.slot >> power {
                break;
            }
            scale.squares += (scale.open as f64).powi(2);
            handed = std::mem::take(&mut scale.open);
        }
        self.slot = slot;
    }

    /// Ratio of variance to mean of the counts in slots of each scale, in a window of this length; NaN with fewer than eight slots or without
    /// requests.
    pub fn dispersion(&self, duration: Nanos) -> [f64; SCALES] {
        let mut handed = 0;
        let mut index = [f64::NAN; SCALES];
        for (power, scale) in self.scales.iter().enumerate() {
            handed += scale.open;
            let last = self.slot >> power;
            let slots = (duration.0 / (SLOT.0 << power)).max(last);
            // The last slot is the incomplete rest of the window, or a complete one.
            let (counted, squares) = if last < slots {
                (self.requests, scale.squares + (handed as f64).powi(2))
            } else {
                (self.requests - handed, scale.squares)
            };
            if slots >= LEAST_SLOTS && counted > 0 {
                let (slots, counted) = (slots as f64, counted as f64);
                index[power] = (squares / counted - counted / slots).max(0.0);
            }
        }
        index
    }

    /// The Hurst parameter by aggregated variance: 0.5 for independent arrivals, towards 1 for self-similar bursts, below 0.5 for
    /// regular ones. NaN if fewer than three scales have a dispersion.
    pub fn hurst(&self, duration: Nanos) -> f64 {
        let (mut count, mut x, mut y, mut xx, mut xy) = (0, 0.0, 0.0, 0.0, 0.0);
        for (power, index) in self.dispersion(duration).into_iter().enumerate() {
            if index > 0.0 {
                let (power, index) = (power as f64, index.log2());
                count += 1;
                x += power;
                y += index;
                xx += power * power;
                xy += power * index;
            }
        }
        if count < LEAST_SCALES {
            return f64::NAN;
        }
        let n = count as f64;
        let slope = (n * xy - x * y) / (n * xx - x * x);
        ((1.0 + slope) / 2.0).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Length of the windows of these tests. Choice: 6,000 of the shortest slots, so that chance is small; not varied.
    const MINUTE: Nanos = Nanos::from_millis(60_000);

    #[test]
    fn independent_arrivals_have_a_dispersion_of_one_at_every_scale() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut bursts = Bursts::default();
        let mut now = Nanos::ZERO;
        while now < MINUTE {
            bursts.add(now);
            now += Nanos::from_secs_f64(-random.random::<f64>().ln() / 500.0);
        }
        for index in bursts.dispersion(MINUTE) {
            assert!((0.75..1.35).contains(&index), "{index}");
        }
        assert!((bursts.hurst(MINUTE) - 0.5).abs() < 0.06, "{}", bursts.hurst(MINUTE));
    }

    #[test]
    fn arrivals_like_a_clock_have_hardly_any_dispersion() {
        let mut bursts = Bursts::default();
        (0..6_000).for_each(|count| bursts.add(Nanos::from_millis(10 * count)));
        assert!(bursts.dispersion(MINUTE).iter().all(|index| *index < 1e-9), "{:?}", bursts.dispersion(MINUTE));
    }

    #[test]
    fn bursts_of_a_second_have_more_dispersion_the_longer_the_slots() {
        let mut bursts = Bursts::default();
        for count in 0..60_000_u64 {
            let (second, within) = (count / 10_000, count % 10_000);
            bursts.add(Nanos::from_millis(second * 10_000) + Nanos::from_micros(within * 100));
        }
        let index = bursts.dispersion(MINUTE);
        assert!(index.windows(2).all(|pair| pair[1] > 1.5 * pair[0]), "{index:?}");
        assert!(bursts.hurst(MINUTE) > 0.9, "{}", bursts.hurst(MINUTE));
    }

    #[test]
    fn idle_time_counts_whether_it_comes_first_or_last() {
        let of = |begin: u64| {
            let mut bursts = Bursts::default();
            (0..500).for_each(|count| bursts.add(Nanos::from_millis(begin + count)));
            bursts.dispersion(MINUTE)
        };
        assert_eq!(of(0), of(59_000));
        assert!(of(0)[0] > 5.0);
    }
}
