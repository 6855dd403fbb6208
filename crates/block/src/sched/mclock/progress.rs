//! Lag of a tenant's completions behind its reservation.

use crate::Nanos;

/// Tolerated lag: a twentieth of a second, over which users expect reservations to hold, less the requests in flight when the lag is
/// noticed.
const SLACK: Nanos = Nanos::from_millis(20);
/// Others' requests are held back for the time of this many of the tenant's requests, and longer only while it catches up. With random
/// requests of a hard disk, whose times differ by a third, a tenant that alone reaches 1.4 times its reservation then gains four standard
/// deviations.
const PATIENCE: u64 = 16;
/// Lower and upper bound of that time.
const LEAST_PATIENCE: Nanos = Nanos::from_millis(200);
const MOST_PATIENCE: Nanos = Nanos::from_millis(1_000);
/// Interval between trials of a reservation that the disk could not meet: the time over which users expect reservations to hold.
const RETRY: Nanos = Nanos::from_millis(1_000);

/// The progress of a tenant with a reservation. Its clock runs while it has requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Time up to which its completions fulfil the reservation; an excess is not saved up.
    fulfilled_until: Nanos,
    /// Time for which the last request to arrive fulfils it.
    span: Nanos,
    /// Time since which it has no requests; `None` while it has some.
    idle_since: Option<Nanos>,
    /// Start of the hold for it, and its lag then; `None` if others are not held back.
    held: Option<(Nanos, Nanos)>,
    /// Time of the next trial of a reservation that the disk could not meet; `None` if it could.
    unmet_until: Option<Nanos>,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { idle_since: Some(Nanos::ZERO), ..Progress::default() }
    }

    /// Records the arrival of a request that fulfils the reservation for `span`.
    pub(super) fn arrived(&mut self, now: Nanos, span: Nanos) {
        self.span = span;
        if let Some(since) = self.idle_since.take() {
            let idle = now - since;
            self.fulfilled_until = (self.fulfilled_until + idle).min(now);
            self.held = self.held.map(|(since, behind)| (since + idle, behind));
        }
    }

    /// Records a completion that fulfils the reservation for `span`. `is_last`: it has no other requests.
    pub(super) fn completed(&mut self, now: Nanos, span: Nanos, is_last: bool) {
        self.fulfilled_until = (self.fulfilled_until + span).min(now);
        if is_last {
            self.idle_since = Some(now);
        }
    }

    /// Resets the progress after its requests were drained.
    pub(super) fn drained(&mut self, now: Nanos) {
        *self = Progress { idle_since: Some(now), fulfilled_until: now, held: None, ..*self };
    }

    /// Whether the disk could not meet the reservation in the last trial.
    pub(super) fn is_unmet(&self) -> bool {
        self.unmet_until.is_some()
    }

    /// Time from which it is behind if nothing completes; `None` if it is or was behind, so that [`hold_until`](Progress::hold_until) has
    /// to be called each time.
    pub(super) fn behind_from(&self) -> Option<Nanos> {
        let is_watched = self.held.is_some() || self.unmet_until.is_some();
        (!is_watched).then(|| self.fulfilled_until + SLACK.max(self.span) + Nanos(1))
    }

    /// Time until which others' requests are held back because it is behind; `None` if it is not, or if that does not help. `is_alone`: no
    /// requests of tenants without a reservation are in flight.
    pub(super) fn hold_until(&mut self, now: Nanos, is_alone: bool) -> Option<Nanos> {
        if self.unmet_until.is_some_and(|until| now < until) {
            self.fulfilled_until = now;
        }
        if self.idle_since.is_some() {
            return None;
        }
        let behind = now - self.fulfilled_until;
        if behind <= SLACK.max(self.span) {
            if self.held.take().is_some() {
                self.unmet_until = None;
            }
            return None;
        }
        let patience = Nanos(self.span.0.saturating_mul(PATIENCE)).clamp(LEAST_PATIENCE, MOST_PATIENCE);
        let (since, before) = *self.held.get_or_insert((now, behind));
        if is_alone && now < since + patience {
            return Some(since + patience);
        }
        if is_alone && behind >= before {
            self.held = None;
            self.fulfilled_until = now;
            self.unmet_until = Some(now + RETRY);
            return None;
        }
        self.held = Some((now, behind));
        Some(now + patience)
    }

    /// Maximum response time with which `count` requests at a time fulfil the reservation (Little's law).
    pub(super) fn longest_response(&self, count: usize) -> Nanos {
        Nanos(self.span.0.saturating_mul(count as u64))
    }
}
