//! Upper and lower quantiles of a stream of times, without a memory of samples.

use crate::Nanos;

/// About one sample in this many is beyond the quantile. One in a hundred may be later than promised; the rest of that is for causes that
/// are not foreseen.
pub(crate) const ONE_IN: u64 = 256;

/// An upper quantile: rises to each larger sample at once, and falls by a fraction of the difference with each smaller one, so that about
/// that fraction of the samples is above it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct High(Option<Nanos>);

impl High {
    pub(crate) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample >= before { sample } else { before - Nanos((before - sample).0 / ONE_IN) });
    }

    /// Zero before the first sample.
    pub(crate) fn get(self) -> Nanos {
        self.0.unwrap_or(Nanos::ZERO)
    }
}

/// A lower quantile, the counterpart of [`High`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Low(Option<Nanos>);

impl Low {
    pub(crate) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample <= before { sample } else { before + Nanos((sample - before).0 / ONE_IN) });
    }

    /// Zero before the first sample.
    pub(crate) fn get(self) -> Nanos {
        self.0.unwrap_or(Nanos::ZERO)
    }
}
