//! Accounting of device time for writes reported from a write cache.
//!
//! A write that is reported from memory uses the media later, after its completion has been reported. It is charged its expected
//! cost; the difference to its actual cost is added to the writes reported next, of any stream. Each write is charged about
//! its expected cost, and all together their actual cost.

/// Balance of actual and charged cost of cached writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred {
    /// Cost not charged to any write yet; negative if too much was charged.
    owed: i64,
}

impl Deferred {
    /// Returns the cost to report for a write with this expected cost.
    pub(super) fn charge(&mut self, expected: u64) -> u64 {
        let total = signed(expected).saturating_add(self.owed);
        self.owed = total.min(0);
        total.max(0).cast_unsigned()
    }

    /// Settles the actual cost `took` of a write with this expected cost.
    pub(super) fn spent(&mut self, took: u64, expected: u64) {
        self.owed = self.owed.saturating_add(signed(took)).saturating_sub(signed(expected));
    }
}

/// Updates an exponential moving average with weight 1/8.
pub(super) fn update_mean(mean: &mut u64, value: u64) {
    *mean = mean.saturating_mul(7).saturating_add(value) / 8;
}

fn signed(span: u64) -> i64 {
    i64::try_from(span).unwrap_or(i64::MAX)
}
