//! Decaying averages as Linux's anticipatory and CFQ schedulers keep them: each sample weighs an eighth, in fixed point.

/// The mean of the recent samples, however few there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecayingMean {
    /// Decaying count of the samples, times 256: 0, 32, 60, 84, … below 256.
    samples: u64,
    total: u64,
    mean: u64,
}

impl DecayingMean {
    pub(crate) fn add(&mut self, sample: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = decayed(self.total, sample);
        self.mean = self.total.saturating_add(self.samples / 2) / self.samples;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The decaying count, by which Linux judges how much the mean is worth.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn mean(&self) -> u64 {
        self.mean
    }
}

/// Seven eighths of `total` and an eighth of `sample`, which counts 256 times.
pub(crate) fn decayed(total: u64, sample: u64) -> u64 {
    (total / 8 * 7).saturating_add(total % 8 * 7 / 8).saturating_add(sample.saturating_mul(32))
}
