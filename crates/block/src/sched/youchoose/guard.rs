//! How long a volume can do without the device, as a request that is there cannot be preempted.
//!
//! ```text
//! completion  next request            worst-case response on its reference disk
//!  │◀─ think ─▶│◀──────────────────── tail ────────────────────────▶│
//!  │           │◀────── slack ──────▶│◀── its own request here ────▶│
//!  └───────────┴─────────────────────┘ until here others may occupy the device
//! ```
//! One in a hundred responses may be later than on the reference disk, so the common worst case there counts, not each request's own time.
//! A volume that has always paused before its next request is not expected earlier. The worst cases of two times rarely coincide, and
//! caches continue to work after a completion, so slack is corrected by whether responses are late: longer than the worst case, or later
//! than the reference disk's on average. The latter matters with two requests in flight: otherwise every other one is late, and its
//! successor is issued late.

use crate::Nanos;

/// A volume that issues no request for this time after it was expected is no longer waited for.
pub(super) const MAX_SILENCE: Nanos = Nanos::from_millis(1_000);

/// Of this many responses, one may be late because of permitted delays by others, and one because of preemptions. One in a hundred may be
/// later than on the reference disk.
const ONE_IN: u64 = 256;
/// Number of steps in which all slack is lost if others occupy the device for too long.
const STEPS: i64 = 8;

/// An upper quantile: rises to each larger sample at once, and falls by a fraction of the difference with each smaller one, so that about
/// that fraction of the samples lies above.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct High(Option<Nanos>);

impl High {
    pub(super) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample >= before { sample } else { before - Nanos((before - sample).0 / ONE_IN) });
    }

    /// `None` before the first sample.
    pub(super) fn get(self) -> Option<Nanos> {
        self.0
    }
}

/// A lower quantile, the counterpart of [`High`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Low(Option<Nanos>);

impl Low {
    pub(super) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample <= before { sample } else { before + Nanos((sample - before).0 / ONE_IN) });
    }

    /// Zero before the first sample.
    pub(super) fn get(self) -> Nanos {
        self.0.unwrap_or(Nanos::ZERO)
    }
}

/// A response, as a sample for the guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// Time since arrival.
    pub(super) took: Nanos,
    /// Time it would have taken on the reference disk.
    pub(super) allowed: Nanos,
    /// Completion time on the reference disk, if all earlier requests had been answered in time.
    pub(super) reference_done: Nanos,
    /// For how long it occupied the device, without earlier requests.
    pub(super) occupancy: Nanos,
    /// Its time at the device; `None` if requests of other volumes were there before it.
    pub(super) alone: Option<Nanos>,
    /// Permitted requests of others delayed it.
    pub(super) made_room: bool,
}

/// The guard of one volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    /// Response on the reference disk.
    tail: High,
    /// Time at this device without requests of other volumes before it.
    alone: High,
    /// For how long a request occupies the device.
    occupancy: High,
    /// Correction of the slack, in nanoseconds. Positive as the worst cases of `tail` and `alone` rarely coincide; negative for work that
    /// others leave in a device's cache.
    learned: i64,
    /// How much earlier than on the reference disk its requests completed, less what was used up since, at most the worst-case response.
    /// While it is positive, requests are in time on average, and so are those that follow a completion.
    credit: Nanos,
    /// The least recent think time between a completion and the next request.
    think: Low,
    last_done: Nanos,
    /// Completions since the last preemption by others, and the number of that preemption.
    done: u32,
    preemption: u32,
    /// Its key in the index by slack.
    pub(super) place: Option<u128>,
}

impl Guard {
    /// Records an arrival with nothing in flight.
    pub(super) fn resumed(&mut self, now: Nanos) {
        if self.last_done > Nanos::ZERO {
            self.think.add(now - self.last_done);
        }
    }

    /// Records a completion; `preemptions` counts those by others.
    pub(super) fn completed(&mut self, now: Nanos, response: &Response, preemptions: u32) {
        self.done = if self.preemption == preemptions { self.done.saturating_add(1) } else { 1 };
        self.preemption = preemptions;
        self.last_done = now;
        self.tail.add(response.allowed);
        self.occupancy.add(response.occupancy);
        if let Some(alone) = response.alone {
            self.alone.add(alone);
        }
        let tail = self.tail().0.cast_signed();
        // The host's own time for the request is not caused by others.
        let allowed = response.reference_done.max(now - response.took + response.occupancy);
        self.credit = (self.credit + (allowed - now)).min(self.tail());
        let debit = now - allowed;
        let is_overdrawn = debit > self.credit;
        // A reduction of slack has to take effect before the next one.
        self.credit = if is_overdrawn { self.tail() } else { self.credit - debit };
        // Only where slack was used is there evidence that it is too large.
        let change = match response.took > self.tail() || is_overdrawn {
            true if response.made_room => -tail / STEPS,
            true => 0,
            false => tail / STEPS / ONE_IN.cast_signed(),
        };
        self.learned = self.learned.saturating_add(change).clamp(-tail, tail);
    }

    /// For how long one of its requests occupies the device, at worst; `None` until known.
    pub(super) fn occupancy(&self) -> Option<Nanos> {
        self.occupancy.get()
    }

    /// Worst-case time of a request at the device without requests of other volumes before it; `None` until known.
    pub(super) fn alone(&self) -> Option<Nanos> {
        self.alone.get()
    }

    /// Worst-case response on the reference disk.
    pub(super) fn tail(&self) -> Nanos {
        self.tail.get().unwrap_or(Nanos::ZERO)
    }

    pub(super) fn slack(&self) -> Nanos {
        let slack = (self.tail() - self.alone.get().unwrap_or(Nanos::ZERO)).0.saturating_add_signed(self.learned);
        Nanos(slack).min(self.tail())
    }

    /// Latest dispatch of a request issued at `from`, or after a think time from then.
    pub(super) fn can_wait_until(&self, from: Nanos, thinks: bool) -> Nanos {
        from + if thinks { self.think.get() } else { Nanos::ZERO } + self.slack()
    }

    /// Earliest time of its next request, with nothing in flight.
    pub(super) fn next_at(&self) -> Nanos {
        self.last_done + self.think.get()
    }

    /// Whether requests that occupy the device for too long may be dispatched: so rarely, given its `open` requests, that at most one in a
    /// hundred responses is late, and soon after a completion or while it is served.
    pub(super) fn tolerates_preemption(&self, now: Nanos, open: u32, is_served: bool, preemptions: u32) -> bool {
        let is_rare = self.preemption == preemptions && u64::from(self.done) >= ONE_IN * u64::from(open.max(1));
        is_rare && (is_served || now <= self.last_done + Nanos(self.think.get().0 / 4))
    }
}
