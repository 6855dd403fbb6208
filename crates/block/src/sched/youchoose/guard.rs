//! How long a volume can wait for the device, since requests in flight cannot be preempted.
//!
//! ```text
//! completion  next request            worst-case response on its reference disk
//!  │◀─ think ─▶│◀──────────────────── tail ────────────────────────▶│
//!  │           │◀────── slack ──────▶│◀── its own request here ────▶│
//!  └───────────┴─────────────────────┘ others may occupy the device until here
//! ```
//! One in a hundred responses may be later than on the reference disk, so the usual worst case there counts, not each request's own time. A
//! volume that has always paused before its next request is not expected earlier. The worst cases of two times rarely coincide, and caches
//! continue to work after a completion, so slack is corrected by whether responses are late *because of others*: they took longer than the
//! worst case, or are later than the reference disk's on average, and would not be without their waiting time here and the device's work
//! for others while they were in flight. A device that reorders can delay a request for long, so a request in flight counts as a waiting
//! one: the later it is, the fewer others follow it. The average matters with two requests in flight: otherwise every other one is late,
//! and its successor is issued late.

use crate::Nanos;
use crate::credit::Credit;
use crate::quantile::{High, Low, ONE_IN};

/// A volume that issues no request for this time after it was expected is no longer waited for.
pub(super) const MAX_SILENCE: Nanos = Nanos::from_millis(1_000);

/// Number of steps in which all slack is lost if others occupy the device for too long.
const STEPS: i64 = 8;

/// A response, as input of the guard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// Time since arrival.
    pub(super) took: Nanos,
    /// Completion time on the reference disk, if all earlier requests had been answered in time.
    pub(super) reference_done: Nanos,
    /// Its time in flight without the device's work for others in that time.
    pub(super) own: Nanos,
}

/// The guard of one volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    /// Worst-case response on the reference disk.
    tail: High,
    /// A bound of the worst-case response; `None`: only the reference disk's.
    bound: Option<Nanos>,
    /// Worst-case time on this device without the work of others.
    own: High,
    /// Correction of the slack, in nanoseconds. Positive, as the worst cases of `tail` and `own` rarely coincide; negative because of work
    /// that others leave in a device's cache, and of requests that overtake.
    learned: i64,
    /// Whether its requests are in time on average.
    credit: Credit,
    /// Time of the last reduction of the slack. Requests from before carry no information about it.
    reduced: Nanos,
    /// The shortest recent think time between a completion and the next request.
    think: Low,
    last_done: Nanos,
    /// Completions since the last preemption by others, and the number of that preemption.
    done: u32,
    preemption: u32,
    /// Completions since the guarantee began, those that were late, and those that were late because of others.
    counts: [u64; 3],
}

impl Guard {
    /// A guard that also keeps responses within this bound; `None`: only the reference disk's.
    pub(super) fn new(bound: Option<Nanos>) -> Guard {
        Guard { bound, ..Guard::default() }
    }

    /// A guard for another reference disk or bound, which keeps the knowledge of this device.
    pub(super) fn with_bound(self, bound: Option<Nanos>) -> Guard {
        Guard { tail: High::default(), learned: 0, credit: Credit::default(), bound, counts: [0; 3], ..self }
    }

    /// Records an arrival when nothing was in flight.
    pub(super) fn resumed(&mut self, now: Nanos) {
        if self.last_done > Nanos::ZERO {
            self.think.add(now - self.last_done);
        }
    }

    /// Records a response on the reference disk.
    pub(super) fn add_reference_response(&mut self, response: Nanos) {
        self.tail.add(response);
    }

    /// Records a completion; `preemptions` is the number of preemptions by others. Returns whether it was late because of others.
    pub(super) fn completed(&mut self, now: Nanos, response: &Response, preemptions: u32) -> bool {
        self.done = if self.preemption == preemptions { self.done.saturating_add(1) } else { 1 };
        self.preemption = preemptions;
        self.last_done = now;
        self.own.add(response.own);
        let tail = self.tail().0.cast_signed();
        // The host's own time for the request is not caused by others.
        let allowed = response.reference_done.max(now - response.took + response.own);
        let is_overdrawn = self.credit.is_overdrawn(now, allowed, self.tail());
        let is_late = response.took > self.tail();
        let is_late_by_others = is_late && response.own <= self.tail();
        for (count, is_one) in self.counts.iter_mut().zip([true, is_late, is_late_by_others]) {
            *count += u64::from(is_one);
        }
        let change = match (is_late_by_others || is_overdrawn, is_late) {
            (true, _) if now - response.took >= self.reduced => {
                self.reduced = now;
                -tail / STEPS
            }
            (true, _) | (_, true) => 0,
            (false, false) => tail / STEPS / ONE_IN.cast_signed(),
        };
        self.learned = self.learned.saturating_add(change).clamp(-tail, 0);
        is_late_by_others
    }

    /// Completions since the guarantee began, those that were late, and those that were late because of others.
    pub(super) fn counts(&self) -> [u64; 3] {
        self.counts
    }

    /// Worst-case time in flight of a request without the work of others; zero until known.
    pub(super) fn own(&self) -> Nanos {
        self.own.get()
    }

    /// Worst-case response on the reference disk, or the bound if that is lower.
    pub(super) fn tail(&self) -> Nanos {
        let tail = self.tail.get();
        self.bound.map_or(tail, |bound| tail.min(bound))
    }

    /// Time before its due time at which a request must have the device: its own time, but at most half of the worst-case response.
    pub(super) fn lead(&self) -> Nanos {
        self.own().min(Nanos(self.tail().0 / 2))
    }

    /// Maximum delay of one of its requests by others.
    pub(super) fn slack(&self) -> Nanos {
        Nanos((self.tail() - self.own()).0.saturating_add_signed(self.learned)).min(self.tail())
    }

    /// The shortest recent time from a completion to the next request.
    pub(super) fn think(&self) -> Nanos {
        self.think.get()
    }

    /// Earliest time of its next request, if nothing is in flight.
    pub(super) fn next_at(&self) -> Nanos {
        self.last_done + self.think.get()
    }

    /// Whether requests that occupy the device for too long may be dispatched: so rarely, given its `open` requests, that at most one in a
    /// hundred responses is late, and only soon after a completion or while it is served.
    pub(super) fn tolerates_preemption(&self, now: Nanos, open: u32, is_served: bool, preemptions: u32) -> bool {
        let is_rare = self.preemption == preemptions && u64::from(self.done) >= ONE_IN * u64::from(open.max(1));
        is_rare && (is_served || now <= self.last_done + Nanos(self.think.get().0 / 4))
    }
}
