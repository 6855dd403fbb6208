//! An exponentially weighted mean.

/// Weight of the latest sample: an eighth, as in Linux's anticipatory scheduler and CFQ. Twice or half of it changes the mean score of
/// random loads by less than 1%.
pub(super) const LATEST: f64 = 0.125;

/// An exponentially weighted mean; without samples it has no value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    value: f64,
    weight: f64,
}

impl Mean {
    /// The mean of one sample.
    pub fn of(sample: f64) -> Mean {
        let mut mean = Mean::default();
        mean.add(sample);
        mean
    }

    pub fn add(&mut self, sample: f64) {
        self.weight += LATEST * (1.0 - self.weight);
        self.value += LATEST / self.weight * (sample - self.value);
    }

    pub fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.value)
    }
}
