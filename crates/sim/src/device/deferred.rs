//! Whose the time is that goes into writes reported long ago.
//!
//! A write that is reported from memory needs the media later, when nobody can be told any more. It is said to have cost what it is
//! expected to need. What it then needs more or less is added to the writes that are reported next, whoever asks for them: a single
//! write is charged what was expected, and all together what was spent.

/// What was expected of writes in memory and what they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred {
    /// What was spent on writes and none of them was said to have cost; below zero, what they were said to have cost too much.
    owed: i64,
}

impl Deferred {
    /// What a write that is reported now is said to have cost, of which this is expected.
    pub(super) fn charge(&mut self, expected: u64) -> u64 {
        let total = signed(expected).saturating_add(self.owed);
        self.owed = total.min(0);
        total.max(0).cast_unsigned()
    }

    /// So much was needed for what this was expected of.
    pub(super) fn spent(&mut self, took: u64, expected: u64) {
        self.owed = self.owed.saturating_add(signed(took)).saturating_sub(signed(expected));
    }
}

/// A mean of recent values, each of which counts an eighth.
pub(super) fn follow(mean: &mut u64, value: u64) {
    *mean = mean.saturating_mul(7).saturating_add(value) / 8;
}

fn signed(span: u64) -> i64 {
    i64::try_from(span).unwrap_or(i64::MAX)
}
