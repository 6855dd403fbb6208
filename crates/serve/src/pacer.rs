//! How much earlier to ask to be woken, so as to be awake in time.

use block::Nanos;

/// Learns how late wake-ups usually are. They are late by the time the processor takes to leave its idle state and switch threads,
/// which differs between machines and with their load, so it is measured on each wake-up.
#[derive(Debug)]
pub struct Pacer {
    early: Nanos,
}

impl Pacer {
    /// Above it waiting without sleeping would cost more than it gives.
    const MOST: Nanos = Nanos::from_micros(100);
    /// What one wake-up changes at most.
    const STEP: u64 = 400;
    /// Out of ten wake-ups how many should be in time; the rest of the time is spent spinning.
    const IN_TIME: u64 = 9;

    /// Knows nothing yet.
    pub fn new() -> Pacer {
        Pacer { early: Nanos::ZERO }
    }

    /// How much before the time that is meant to ask to be woken.
    pub fn early(&self) -> Nanos {
        self.early
    }

    /// Takes notice of a wake-up that came this much after the time that was asked for. A step up or down in a ratio that settles
    /// where that share of wake-ups is in time: a quantile without memory.
    pub fn woke(&mut self, late: Nanos) {
        self.early = if late > self.early {
            (self.early + Nanos(Pacer::STEP * Pacer::IN_TIME / 10)).min(Pacer::MOST)
        } else {
            self.early - Nanos(Pacer::STEP * (10 - Pacer::IN_TIME) / 10)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_where_nine_of_ten_are_in_time() {
        let mut pacer = Pacer::new();
        for round in 0..10_000_u64 {
            pacer.woke(Nanos::from_micros(10 + round * 7 % 10));
        }
        let early = pacer.early().0;
        assert!((18_000..19_600).contains(&early), "{early}");
    }

    #[test]
    fn never_spins_longer_than_it_is_worth() {
        let mut pacer = Pacer::new();
        for _ in 0..10_000 {
            pacer.woke(Nanos::from_millis(4));
        }
        assert_eq!(pacer.early(), Pacer::MOST);
    }
}
