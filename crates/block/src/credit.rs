//! Whether the responses of a tenant are late on average.

use crate::Nanos;

/// Time by which requests completed earlier than on the reference disk, less later use; at most the worst-case response there. While it is
/// positive, requests are in time on average, and so are those that follow a completion. No single response need exceed the worst case if all
/// are slower than the usual one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Credit(Nanos);

impl Credit {
    /// Records a request that completed at `now` and was allowed to by `allowed`; `most` is the maximum credit. Returns whether it is late by
    /// more than the credit, which is full again then.
    pub(crate) fn is_overdrawn(&mut self, now: Nanos, allowed: Nanos, most: Nanos) -> bool {
        let credit = (self.0 + (allowed - now)).min(most);
        let debit = now - allowed;
        let is_overdrawn = debit > credit;
        self.0 = if is_overdrawn { most } else { credit - debit };
        is_overdrawn
    }
}
