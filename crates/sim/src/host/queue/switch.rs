//! Replacing the scheduler while requests are under way.
//!
//! As in Linux (`elevator_switch` in `block/elevator.c`, between `blk_mq_freeze_queue` and `blk_mq_unfreeze_queue`), nothing is dispatched
//! meanwhile. Linux first lets the old scheduler serve its requests while new ones wait for admission; here the successor takes over both.
//! The queue issues the reads that the successor [needs](block::LiveSwitch) to see; their completions are not reported.

use block::{Nanos, Op, Priority, Scheduler};

use super::{Queue, sync_index};
use crate::run::Issue;
use crate::streams::{MAX_SWITCH_READERS, SWITCH_READS};

/// Sectors of each read issued for a new scheduler: a page.
const SWITCH_READ_SECTORS: u32 = 8;

impl Queue {
    /// Replaces the scheduler; the old one hands over the requests it holds. Nothing is dispatched until all requests at the device are
    /// done and [`switch_time`](super::QueueSettings::switch_time) has passed; new requests are admitted to the successor meanwhile. A
    /// queue that never had a request is not frozen.
    pub fn switch(&mut self, now: Nanos, mut successor: Box<dyn Scheduler>) {
        successor.set_limits(&self.settings.limits());
        if let Some(ledger) = &self.ledger {
            successor.set_roster(ledger.roster());
        }
        let mut merges = Vec::new();
        if let Some(picked) = self.port.picked.take() {
            // It is the successor's first request, so it cannot be merged.
            successor.insert(now, picked);
        }
        block::switch(&mut *self.scheduler, &mut *successor, now, |request, insertion| merges.push((*request, insertion)));
        self.scheduler = successor;
        for (request, insertion) in merges {
            if self.record_merge(now, request.id, insertion) {
                self.admitted[sync_index(&request)] -= 1;
                self.release_throttled(now, request.id);
            }
        }
        self.throttle.catch_up(now);
        self.set_throttle();
        self.reset_tags();
        self.wait_until = None;
        let ever_had_a_request = self.port.tally.requests > 0 || !self.parts.is_empty();
        if ever_had_a_request {
            self.frozen_until = Some(self.frozen_until.unwrap_or(now).max(now + self.settings.switch_time));
        }
        self.admit_waiters(now);
        if ever_had_a_request {
            self.issue_switch_reads(now);
        }
    }

    /// Issues as many concurrent reads as the new scheduler needs to see.
    fn issue_switch_reads(&mut self, now: Nanos) {
        let readers = self.scheduler.live_switch().min_readers.min(MAX_SWITCH_READERS);
        let pages = self.capacity_sectors() / u64::from(SWITCH_READ_SECTORS);
        for reader in 0..readers.min(u32::try_from(pages).unwrap_or(u32::MAX)) {
            let (lba, sectors) = (u64::from(reader * SWITCH_READ_SECTORS), SWITCH_READ_SECTORS);
            let (stream, priority, token) = (SWITCH_READS - reader, Priority::DEFAULT, 0);
            self.admit_issue(now, Issue { arrival: now, lba, sectors, op: Op::Read, sync: true, stream, priority, token });
        }
    }

    /// Whether dispatch is frozen at `now`. Ends the freeze when it is due.
    pub(super) fn is_frozen(&mut self, now: Nanos) -> bool {
        let Some(until) = self.frozen_until else { return false };
        if now >= until && self.port.at_device() == 0 && !self.flushes.is_active() {
            self.frozen_until = None;
        }
        self.frozen_until.is_some()
    }

    /// As [`is_frozen`](Queue::is_frozen), and schedules the next dispatch for the end of the freeze. Kept out of
    /// [`dispatch`](crate::run::Server::dispatch), which is called for every request, so that that stays short.
    #[cold]
    pub(super) fn stays_frozen(&mut self, now: Nanos) -> bool {
        let is_frozen = self.is_frozen(now);
        self.wait_until = self.frozen_until.filter(|&until| until > now && self.has_requests_to_dispatch());
        is_frozen
    }

    /// Whether a request or a flush waits to be dispatched.
    fn has_requests_to_dispatch(&self) -> bool {
        (self.admitted[0] + self.admitted[1]) as usize > self.port.at_device() || self.flushes.is_pending()
    }
}
