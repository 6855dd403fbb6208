//! Compensates for late wake-ups.

use block::Nanos;

/// Learns how late wake-ups usually are. Leaving the processor's idle state and switching threads takes time, which depends on the machine
/// and its load, so it is measured on each wake-up.
#[derive(Debug)]
pub struct Pacer {
    early: Nanos,
}

impl Pacer {
    /// Upper bound; beyond it spinning costs more than it gains.
    const MAX_EARLY: Nanos = Nanos::from_micros(100);
    /// Largest change per wake-up, in nanoseconds.
    const STEP: u64 = 400;
    /// Wake-ups out of ten that should be in time; the remaining time is spent spinning.
    const IN_TIME: u64 = 9;

    /// A pacer without samples.
    pub fn new() -> Pacer {
        Pacer { early: Nanos::ZERO }
    }

    /// How long before the target time to request the wake-up.
    pub fn early(&self) -> Nanos {
        self.early
    }

    /// Records a wake-up that was `late` after the requested time. Steps up and down are in a ratio that converges to the share of wake-ups
    /// in time: a quantile estimate without memory.
    pub fn woke(&mut self, late: Nanos) {
        self.early = if late > self.early {
            (self.early + Nanos(Pacer::STEP * Pacer::IN_TIME / 10)).min(Pacer::MAX_EARLY)
        } else {
            self.early - Nanos(Pacer::STEP * (10 - Pacer::IN_TIME) / 10)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converges_to_nine_wake_ups_in_ten_in_time() {
        let mut pacer = Pacer::new();
        for round in 0..10_000_u64 {
            pacer.woke(Nanos::from_micros(10 + round * 7 % 10));
        }
        let early = pacer.early().0;
        assert!((18_000..19_600).contains(&early), "{early}");
    }

    #[test]
    fn never_spins_longer_than_the_bound() {
        let mut pacer = Pacer::new();
        for _ in 0..10_000 {
            pacer.woke(Nanos::from_millis(4));
        }
        assert_eq!(pacer.early(), Pacer::MAX_EARLY);
    }
}
