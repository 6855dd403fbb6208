//! How far a tenant's completions are behind its reservation.

use crate::Nanos;

/// A tenant may be this far behind: a twentieth of a second, over which users expect reservations to hold, less what is at the device
/// when that is noticed.
const SLACK: Nanos = Nanos::from_millis(20);
/// Requests of others are held back for this long, and longer only while the tenant catches up.
const PATIENCE: Nanos = Nanos::from_millis(200);

/// The progress of a tenant with a reservation. Its clock runs while it has requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Time up to which its completions fulfil the reservation; what is above that is not saved up.
    fulfilled_until: Nanos,
    /// Time for which the last request fulfils it.
    span: Nanos,
    /// When it ran out of requests; `None` while it has some.
    idle_since: Option<Nanos>,
    /// Since when others are held back for it, and how far it was behind then.
    held: Option<(Nanos, Nanos)>,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { idle_since: Some(Nanos::ZERO), ..Progress::default() }
    }

    /// It has a request, which fulfils its reservation for `span`.
    pub(super) fn arrived(&mut self, now: Nanos, span: Nanos) {
        self.span = span;
        if let Some(since) = self.idle_since.take() {
            self.fulfilled_until = (self.fulfilled_until + (now - since)).min(now);
        }
    }

    /// A request completed, which fulfils its reservation for `span`. `is_last`: it has no others.
    pub(super) fn completed(&mut self, now: Nanos, span: Nanos, is_last: bool) {
        self.fulfilled_until = (self.fulfilled_until + span).min(now);
        if is_last {
            self.idle_since = Some(now);
            self.held = None;
        }
    }

    /// Forgets the time so far: its requests were handed over to another scheduler.
    pub(super) fn drained(&mut self, now: Nanos) {
        *self = Progress { idle_since: Some(now), fulfilled_until: now, ..*self };
        self.held = None;
    }

    /// Until when others' requests are to be held back for it, because it is behind; `None` if it is not, or if that does not help.
    pub(super) fn hold_until(&mut self, now: Nanos) -> Option<Nanos> {
        let behind = now - self.fulfilled_until;
        if self.idle_since.is_some() || behind <= SLACK.max(self.span) {
            self.held = None;
            return None;
        }
        let (since, before) = *self.held.get_or_insert((now, behind));
        if now < since + PATIENCE {
            return Some(since + PATIENCE);
        }
        if behind >= before {
            // Alone it is no faster than its reservation: the disk cannot serve that.
            self.fulfilled_until = now;
            self.held = None;
            return None;
        }
        self.held = Some((now, behind));
        Some(now + PATIENCE)
    }

    /// How long its requests may take if `count` of them at a time are to fulfil the reservation (Little's law).
    pub(super) fn longest_response(&self, count: usize) -> Nanos {
        Nanos(self.span.0.saturating_mul(count as u64))
    }
}
