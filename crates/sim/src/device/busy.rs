//! Busy time of a device, in nanoseconds.

/// The time for which a device had work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BusyTime {
    total: u64,
    until: u64,
}

impl BusyTime {
    /// Counts the time since the last call, in which the device did or did not have work. Call it before the events of `now`.
    pub(super) fn account(&mut self, now: u64, has_work: bool) {
        if now > self.until {
            if has_work {
                self.total += now - self.until;
            }
            self.until = now;
        }
    }

    /// Time of the last call.
    #[cfg(test)]
    pub(super) fn until(self) -> u64 {
        self.until
    }

    pub(super) fn total(self) -> u64 {
        self.total
    }
}
