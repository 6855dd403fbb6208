//! Tuning by doubling and halving ("Self-Learning Disk Scheduling", section 3.3.1, scheduler parameter tuning): "we can double the
//! initialization value of a particular parameter each time and watch its performance. If the performance constantly decreases, we stop
//! increasing the value and decrease it by half."

use block::{Tunable, Unit};

use crate::controller::round::Achieved;
use control::setting::Setting;

/// Minimum improvement, as a difference of scores.
const LEAST_GAIN: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Doubling,
    Halving,
}

/// Tunes one scheduler, one tunable after the other.
#[derive(Clone, Debug)]
pub struct Tuner {
    best: Setting,
    measured: Achieved,
    tunable: usize,
    direction: Direction,
    /// Whether this direction has improved the tunable.
    is_better: bool,
    trial: Option<Setting>,
}

impl Tuner {
    /// Begins with a measured setting.
    pub fn new(setting: Setting, measured: Achieved) -> Tuner {
        Tuner { best: setting, measured, tunable: 0, direction: Direction::Doubling, is_better: false, trial: None }
    }

    /// The next setting to try; `None` at the end.
    pub fn next(&mut self) -> Option<&Setting> {
        self.trial = None;
        while let Some(tunable) = self.best.spec.tunables.get(self.tunable) {
            let value = self.best.values[self.tunable];
            let other = stepped(tunable, value, self.direction);
            if other != value {
                let mut trial = self.best.clone();
                trial.values[self.tunable] = other;
                self.trial = Some(trial);
                break;
            }
            self.turn();
        }
        self.trial.as_ref()
    }

    /// The setting being tried.
    pub fn trial(&self) -> Option<&Setting> {
        self.trial.as_ref()
    }

    /// Result of the trial; `None` if nothing was measured.
    pub fn judge(&mut self, measured: Option<Achieved>) {
        let Some(trial) = self.trial.take() else { return };
        match measured {
            Some(measured) if measured.score > self.measured.score + LEAST_GAIN => {
                (self.best, self.measured, self.is_better) = (trial, measured, true);
                if self.best.spec.tunables[self.tunable].unit == Unit::Flag {
                    self.turn();
                }
            }
            _ => self.turn(),
        }
    }

    /// Switches to the other direction, or to the next tunable: if doubling was an improvement, halving would undo it.
    fn turn(&mut self) {
        match self.direction {
            Direction::Doubling if !self.is_better => self.direction = Direction::Halving,
            _ => (self.tunable, self.direction, self.is_better) = (self.tunable + 1, Direction::Doubling, false),
        }
    }

    /// The best setting so far, and its measurement.
    pub fn best(&self) -> (&Setting, Achieved) {
        (&self.best, self.measured)
    }
}

/// Doubled or halved within the range; a flag is toggled, a word is replaced by the next or the previous one.
fn stepped(tunable: &Tunable, value: i64, direction: Direction) -> i64 {
    let stepped = match (tunable.unit, direction) {
        (Unit::Flag, Direction::Doubling) => 1 - value,
        (Unit::Flag, Direction::Halving) => value,
        (Unit::OneOf(_), Direction::Doubling) => value + 1,
        (Unit::OneOf(_), Direction::Halving) => value - 1,
        (_, Direction::Doubling) if value == 0 => 1,
        (_, Direction::Doubling) => value.saturating_mul(2),
        (_, Direction::Halving) => value / 2,
    };
    stepped.clamp(tunable.min, tunable.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tunes with a score for every setting; returns the trials and the best setting.
    fn tuned(begin: &str, score: impl Fn(&Setting) -> f64) -> (Vec<String>, String) {
        let measured = |setting: &Setting| Achieved { score: score(setting), throughput: 1.0, waited_s: 1.0 };
        let begin = Setting::parse(begin).unwrap();
        let first = measured(&begin);
        let mut tuner = Tuner::new(begin, first);
        let mut tried = Vec::new();
        while let Some(trial) = tuner.next().cloned() {
            tried.push(trial.to_string());
            tuner.judge(Some(measured(&trial)));
        }
        (tried, tuner.best().0.to_string())
    }

    fn value(setting: &Setting, name: &str) -> f64 {
        let index = setting.spec.tunables.iter().position(|tunable| tunable.name == name).unwrap();
        setting.values[index] as f64
    }

    #[test]
    fn what_becomes_better_is_doubled_until_it_becomes_worse() {
        let (tried, best) = tuned("deadline", |setting| -(value(setting, "fifo_batch") - 60.0).abs());
        assert_eq!(best, "deadline:fifo_batch=64", "{tried:?}");
        assert!(tried.contains(&"deadline:fifo_batch=128".to_owned()) && !tried.contains(&"deadline:fifo_batch=256".to_owned()));
    }

    #[test]
    fn what_becomes_worse_doubled_is_halved() {
        let (tried, best) = tuned("deadline", |setting| -value(setting, "fifo_batch"));
        assert_eq!(best, "deadline:fifo_batch=1", "{tried:?}");
    }

    #[test]
    fn where_nothing_is_better_each_tunable_is_tried_twice_at_most_and_nothing_changes() {
        let (tried, best) = tuned("deadline", |_| 0.0);
        assert_eq!(best, "deadline");
        assert!(tried.len() <= 2 * Setting::parse("deadline").unwrap().values.len(), "{tried:?}");
    }

    #[test]
    fn a_scheduler_without_tunables_is_tuned_at_once() {
        assert_eq!(tuned("noop", |_| 0.0), (Vec::new(), "noop".to_owned()));
    }
}
