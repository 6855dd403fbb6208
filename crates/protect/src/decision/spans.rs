//! Counters of a unit's service: since the last step, over the last second, and since the limits took effect.

use std::collections::VecDeque;

use block::Nanos;

use super::demand::Demanded;
use super::{KINDS, RATES, STEPS};

/// Counters of one kind over a span.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub done: f64,
    pub late: f64,
    /// The longest response time, relative to the limit.
    pub longest: f64,
}

/// Amount of a quantity with a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub sum: f64,
    /// Over the steps in which it was demanded: the sum of the squares of their rates, and their number.
    pub squares: f64,
    pub slots: f64,
}

/// Counters over a span of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub kinds: [Count; KINDS],
    /// Counters of requests that arrived after the limits took effect.
    pub fresh: [Count; KINDS],
    /// Length in seconds.
    pub wall: f64,
    pub demanded: Demanded,
    pub rates: [Done; RATES],
    /// Number of whole seconds that broke the guarantee.
    pub broken: f64,
}

impl Count {
    fn add(&mut self, response: Nanos, limit: Nanos) {
        self.done += 1.0;
        self.late += f64::from(u8::from(response > limit));
        self.longest = self.longest.max(response.0 as f64 / limit.0.max(1) as f64);
    }
}

impl Span {
    fn add(&mut self, other: &Span) {
        let counts = self.kinds.iter_mut().zip(&other.kinds).chain(self.fresh.iter_mut().zip(&other.fresh));
        for (count, other) in counts {
            count.done += other.done;
            count.late += other.late;
            count.longest = count.longest.max(other.longest);
        }
        self.wall += other.wall;
        self.demanded.add(&other.demanded);
        self.broken += other.broken;
        for (done, other) in self.rates.iter_mut().zip(&other.rates) {
            done.sum += other.sum;
            done.squares += other.squares;
            done.slots += other.slots;
        }
    }
}

/// The spans over which a guarantee is judged.
#[derive(Debug)]
pub(super) struct Spans {
    /// Counters since the last step.
    step: Span,
    /// Counters of the steps of the last second.
    second: VecDeque<Span>,
    /// Counters since the limits took effect.
    settled: Span,
    /// Start of that span: requests that arrived before do not show the effect of the limits.
    fresh_from: Nanos,
    /// Number of steps until its current whole second ends.
    until_second: usize,
}

impl Spans {
    pub fn new() -> Spans {
        Spans {
            step: Span::default(),
            second: VecDeque::new(),
            settled: Span::default(),
            fresh_from: Nanos::ZERO,
            until_second: STEPS,
        }
    }

    /// The span since the limits took effect.
    pub fn settled(&self) -> &Span {
        &self.settled
    }

    /// Start of the span since the limits took effect.
    pub fn fresh_from(&self) -> Nanos {
        self.fresh_from
    }

    /// The last second, under any limits.
    pub fn last_second(&self) -> Span {
        let mut sum = Span::default();
        self.second.iter().for_each(|step| sum.add(step));
        sum
    }

    /// Adds an amount of the rate with this number.
    pub fn did(&mut self, rate: usize, amount: f64) {
        self.step.rates[rate].sum += amount;
    }

    /// Adds a response of a kind.
    pub fn responded(&mut self, kind: usize, arrival: Nanos, at: Nanos, limit: Nanos) {
        self.step.kinds[kind].add(at - arrival, limit);
        if arrival >= self.fresh_from {
            self.step.fresh[kind].add(at - arrival, limit);
        }
    }

    /// Ends a step, and returns it.
    pub fn end_step(&mut self, demanded: Demanded) -> Span {
        let mut step = std::mem::take(&mut self.step);
        step.wall = 1.0 / STEPS as f64;
        step.demanded = demanded;
        for (done, time) in step.rates.iter_mut().zip(demanded.seconds()).filter(|(_, time)| *time > 0.05) {
            (done.squares, done.slots) = ((done.sum / time).powi(2), 1.0);
        }
        step
    }

    /// Adds a step that has ended. Returns whether a whole second under the limits ends with it. `is_settled`: the limits have taken
    /// effect.
    pub fn add(&mut self, step: Span, is_settled: bool) -> bool {
        if self.second.len() == STEPS {
            self.second.pop_front();
        }
        if is_settled {
            self.settled.add(&step);
        }
        self.second.push_back(step);
        self.until_second = self.until_second.saturating_sub(usize::from(is_settled));
        if self.until_second > 0 {
            return false;
        }
        self.until_second = STEPS;
        true
    }

    /// Adds a whole second under the limits.
    pub fn judged(&mut self, is_broken: bool) {
        self.settled.broken += f64::from(u8::from(is_broken));
    }

    /// Starts a new span, after the limits have taken effect.
    pub fn begin(&mut self, now: Nanos) {
        (self.settled, self.fresh_from, self.until_second) = (Span::default(), now, STEPS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_under_the_limits_has_ten_steps_and_only_later_requests_are_fresh() {
        let (limit, at) = (Nanos::from_millis(10), Nanos::from_millis);
        let mut spans = Spans::new();
        spans.begin(at(1_000));
        spans.responded(0, at(990), at(1_005), limit);
        spans.responded(0, at(1_000), at(1_005), limit);
        let ended: Vec<bool> = (0..STEPS)
            .map(|_| {
                let step = spans.end_step(Demanded::default());
                spans.add(step, true)
            })
            .collect();
        assert!(ended[STEPS - 1] && !ended[..STEPS - 1].contains(&true));
        let counts = (spans.settled().kinds[0], spans.settled().fresh[0]);
        assert_eq!((counts.0.done, counts.0.late, counts.1.done, counts.1.late), (2.0, 1.0, 1.0, 0.0));
        assert!((spans.last_second().wall - 1.0).abs() < 1e-9);
        spans.begin(at(2_000));
        let step = spans.end_step(Demanded::default());
        assert!(!spans.add(step, false) && spans.settled().wall == 0.0);
    }
}
