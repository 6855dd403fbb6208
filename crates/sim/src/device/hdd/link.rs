//! The drive's link to the host: its bus, and completions that are still to be reported.

use block::Nanos;

use crate::device::Completion;

/// The bus and the completions that are on their way.
#[derive(Debug)]
pub(super) struct Link {
    free: u64,
    /// The period for which the bus is reserved for data from the media.
    reserved: (u64, u64),
    /// Completions not yet reported to the host, and whether each is of a read; latest first.
    outbox: Vec<(Completion, bool)>,
    /// Whether the last reported completion was of a read.
    pub(super) last_was_read: bool,
}

impl Link {
    pub(super) fn new(depth: usize) -> Link {
        Link { free: 0, reserved: (0, 0), outbox: Vec::with_capacity(depth), last_was_read: true }
    }

    /// Queues a completion for the host.
    pub(super) fn send(&mut self, completion: Completion, read: bool) {
        let first = self.outbox.last().is_none_or(|(other, _)| other.at > completion.at);
        if first {
            return self.outbox.push((completion, read));
        }
        let later = self.outbox.partition_point(|(other, _)| other.at > completion.at);
        self.outbox.insert(later, (completion, read));
    }

    /// Time of the next completion; `None` if there is none.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.outbox.last().map(|(completion, _)| completion.at)
    }

    /// Time of the last of the queued completions; 0 if there is none.
    pub(super) fn last(&self) -> u64 {
        self.outbox.first().map_or(0, |(completion, _)| completion.at.0)
    }

    /// Reports the next completion.
    pub(super) fn take(&mut self) -> Option<Completion> {
        let (completion, read) = self.outbox.pop()?;
        self.last_was_read = read;
        Some(completion)
    }

    /// Transfers `sectors` over the bus, `sector` nanoseconds each, from `start` or as soon as the bus is free. Returns the start
    /// and the end of the transfer.
    pub(super) fn occupy(&mut self, start: u64, sectors: u64, sector: u64) -> (u64, u64) {
        let takes = sectors.saturating_mul(sector);
        let (reserved, until) = self.reserved;
        let mut begun = start.max(self.free);
        if begun < until && begun.saturating_add(takes) > reserved {
            begun = until;
        }
        self.free = begun.saturating_add(takes);
        (begun, self.free)
    }

    /// Time from which the bus is free, but for a reservation.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Time from which the bus is free, reservation included.
    pub(super) fn idle(&self) -> u64 {
        self.free.max(self.reserved.1)
    }

    /// Reserves the bus for data from the media: for `takes` nanoseconds, until `sent`. Other transfers may use it before.
    pub(super) fn reserve(&mut self, sent: u64, takes: u64) {
        self.free = self.idle();
        self.reserved = (sent.saturating_sub(takes), sent);
    }
}
