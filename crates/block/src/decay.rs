//! Exponentially decaying averages as in Linux's anticipatory and CFQ schedulers: each sample has a weight of one eighth, in fixed point.

/// Decaying mean of the recent samples; valid from the first sample on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecayingMean {
    /// Decaying number of samples, times 256: 0, 32, 60, 84, … below 256.
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

    /// The decaying number of samples times 256, which Linux uses as the confidence in the mean.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    pub(crate) fn mean(&self) -> u64 {
        self.mean
    }
}

/// Seven eighths of `total` plus one eighth of `sample` times 256.
pub(crate) fn decayed(total: u64, sample: u64) -> u64 {
    (total / 8 * 7).saturating_add(total % 8 * 7 / 8).saturating_add(sample.saturating_mul(32))
}
