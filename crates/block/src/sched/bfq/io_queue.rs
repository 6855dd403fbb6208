//! BFQ's state of a queue and of a process.

use crate::decay::DecayingMean;
use crate::queue::Slot;
use crate::{Nanos, PriorityClass, RequestId, StreamId};

/// A reference to a queue. Numbers are reused, so a generation distinguishes queues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueRef {
    pub(super) number: usize,
    pub(super) generation: u32,
}

/// Minimum number of seeks in the last 32 requests of a seeky queue (`BFQQ_SEEKY`).
const SEEKY_FROM: u32 = 20;
/// Number of detections in a row that make a queue the waker of another.
const WAKER_DETECTIONS: u32 = 3;

/// Whether `span` has passed since `time`; true for `None` (`time_is_before_jiffies`).
pub(super) fn passed(time: Option<Nanos>, span: Nanos, now: Nanos) -> bool {
    time.is_none_or(|time| time + span < now)
}

/// The next request of a queue.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) slot: Slot,
    pub(super) id: RequestId,
}

/// Pauses between a completion and the next request (`struct bfq_ttime`).
#[derive(Clone, Copy, Default)]
pub(super) struct ThinkTime {
    pub(super) last_completion: Option<Nanos>,
    pub(super) pauses: DecayingMean,
}

/// The fraction of time in which a process has requests (`bfq_update_io_intensity`).
#[derive(Clone, Copy)]
pub(super) struct Intensity {
    since: Nanos,
    idle: Nanos,
    /// Whether it has requests at least four fifths of the time.
    pub(super) io_bound: bool,
}

/// The pauses of a queue's process.
#[derive(Clone, Copy)]
pub(super) struct Timing {
    pub(super) think: ThinkTime,
    /// Whether its think time is short, or not yet known (`bfq_update_has_short_ttime`).
    pub(super) short_think: bool,
    pub(super) intensity: Intensity,
}

impl Timing {
    /// Adds a pause that ends at `now`, or of `most` if it was longer (`bfq_update_io_thinktime`).
    pub(super) fn paused(&mut self, now: Nanos, most: Nanos) {
        let pause = self.think.last_completion.map_or(most, |last| (now - last).min(most));
        self.think.pauses.add(pause.0);
    }

    /// Adds the time since the last completion to that without requests.
    pub(super) fn waited(&mut self, now: Nanos) {
        self.intensity.idle += self.think.last_completion.map_or(Nanos::ZERO, |last| now - last);
    }

    /// Updates whether the process has requests most of the time.
    pub(super) fn judge_intensity(&mut self, now: Nanos) {
        let seen = &mut self.intensity;
        let span = now - seen.since;
        seen.io_bound = seen.idle.0.saturating_mul(5) <= span.0;
        if span > Nanos::from_millis(200) {
            seen.since = now - Nanos(span.0 / 2);
            seen.idle = Nanos(seen.idle.0 / 2);
        }
    }
}

/// The weight raising of a queue (`wr_*`).
#[derive(Clone, Copy)]
pub(super) struct Raising {
    /// Factor on the queue's own weight; 1 if it is not raised.
    pub(super) coefficient: u64,
    /// Start of raising; of a queue that is not raised, when it was last active.
    pub(super) started: Nanos,
    pub(super) duration: Nanos,
    /// Start of raising as interactive, if it was replaced by raising as soft real-time since.
    pub(super) interactive_since: Option<Nanos>,
    /// Sectors served since raising began.
    pub(super) service: u64,
}

/// Limit of requests of other queues in flight while idling for this one (`bfq_update_inject_limit`).
#[derive(Clone, Copy)]
pub(super) struct Injection {
    pub(super) limit: u32,
    pub(super) decreased: Nanos,
    /// Time of a request from arrival to completion without injection; zero if unknown.
    pub(super) base_time: Nanos,
}

/// The requests for which a queue was created.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// Synchronous or asynchronous.
    pub(super) kind: usize,
    pub(super) class: PriorityClass,
    pub(super) level: u8,
}

/// The processes that use a queue, and merges and splits of it.
#[derive(Clone)]
pub(super) struct Users {
    /// Number of processes that use it, or will after their next request.
    pub(super) count: u32,
    /// The only process that uses it (`bic`).
    pub(super) owner: Option<usize>,
    /// Several processes have used it, and whether they are to be split (`coop`, `split_coop`).
    pub(super) shared: bool,
    pub(super) to_split: bool,
    /// The queue into which its processes move at their next request (`new_bfqq`).
    pub(super) merges_into: Option<QueueRef>,
    pub(super) just_created: bool,
    pub(super) created: Nanos,
    pub(super) split: Option<Nanos>,
}

impl Users {
    /// Removes one process; returns whether none is left.
    pub(super) fn leave(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.owner = None;
        }
        self.count == 0
    }
}

/// The membership of a queue in bursts of created queues.
#[derive(Clone, Copy, Default)]
pub(super) struct BurstMembership {
    /// It belongs to a large burst.
    pub(super) large: bool,
    /// It is in the list of the current burst.
    pub(super) listed: bool,
}

/// The service of a queue since it became busy, and its rate.
#[derive(Clone)]
pub(super) struct Activity {
    /// Time at which it became busy, the service since then, and the start of that service (`first_IO_time`).
    pub(super) since: Nanos,
    pub(super) service: u64,
    pub(super) first_served: Nanos,
    /// A request from this time on makes it soft real-time (`soft_rt_next_start`).
    pub(super) soft_real_time_from: Nanos,
    /// `soft_real_time_from` is to be computed at the last completion (`softrt_update`).
    pub(super) soft_real_time_due: bool,
}

impl Activity {
    /// Starts again at `now`, as the queue becomes busy.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.since = now;
        self.service = 0;
        self.soft_real_time_due = false;
    }

    /// Adds service in sectors.
    pub(super) fn serve(&mut self, now: Nanos, service: u64) {
        if self.service == 0 {
            self.first_served = now;
        }
        self.service = self.service.saturating_add(service);
    }
}

/// The seeks of a queue's requests.
#[derive(Clone)]
pub(super) struct Seeks {
    /// One bit for each of the last 32 requests, set for seeks.
    history: u32,
    /// End of the last request that arrived.
    pub(super) last_end: u64,
}

impl Seeks {
    pub(super) fn learn(&mut self, seeks: bool) {
        self.history = self.history << 1 | u32::from(seeks);
    }
}

/// The queue whose completions trigger requests of this one's process, as detected (`bfq_check_waker`).
#[derive(Clone, Default)]
pub(super) struct Waking {
    /// That queue, after three detections in a row (`waker_bfqq`).
    pub(super) waker: Option<QueueRef>,
    pub(super) tentative: Option<QueueRef>,
    detections: u32,
    began: Nanos,
    /// The queue that this one woke last.
    pub(super) woken: Option<QueueRef>,
}

impl Waking {
    /// Counts a completion of `candidate` shortly before an arrival. Detections are in a row for the time `lasts`. Returns whether it is
    /// the waker from now on.
    pub(super) fn detect(&mut self, now: Nanos, candidate: QueueRef, lasts: Nanos) -> bool {
        if self.tentative != Some(candidate) || now > self.began + lasts {
            self.tentative = Some(candidate);
            self.detections = 1;
            self.began = now;
        } else {
            self.detections += 1;
        }
        let is_waker = self.detections == WAKER_DETECTIONS;
        if is_waker {
            self.waker = Some(candidate);
            self.tentative = None;
        }
        is_waker
    }
}

/// The turns of a queue.
#[derive(Clone)]
pub(super) struct QueueTurn {
    /// Budget of its next turn, in sectors.
    pub(super) budget: u64,
    /// End of its turn while it is in service; otherwise the time since which it has had no requests (`budget_timeout`).
    pub(super) ends: Option<Nanos>,
    /// Its turn ended for lack of requests, and its process may continue it soon (`non_blocking_wait_rq`).
    pub(super) was_waited_for: bool,
    pub(super) oldest_checked: bool,
}

/// State of a queue without its scheduling entity (`struct bfq_queue`).
#[derive(Clone)]
pub(super) struct IoQueue {
    pub(super) origin: Origin,
    pub(super) generation: u32,
    pub(super) next: Option<Next>,
    /// Its key in the index by position; `None` if it is not listed.
    pub(super) position: Option<u128>,
    pub(super) at_device: u32,
    /// It has requests, or is in service.
    pub(super) busy: bool,
    pub(super) users: Users,
    pub(super) burst: BurstMembership,
    pub(super) activity: Activity,
    pub(super) seeks: Seeks,
    pub(super) turn: QueueTurn,
    pub(super) timing: Timing,
    pub(super) raising: Raising,
    pub(super) injection: Injection,
    pub(super) waking: Waking,
}

impl IoQueue {
    pub(super) fn new(now: Nanos, origin: Origin, budget: u64) -> IoQueue {
        let sync = origin.kind == super::SYNC;
        IoQueue {
            origin,
            generation: 0,
            next: None,
            position: None,
            at_device: 0,
            busy: false,
            users: Users {
                count: 1,
                owner: None,
                shared: false,
                to_split: false,
                merges_into: None,
                just_created: sync,
                created: now,
                split: None,
            },
            burst: BurstMembership::default(),
            activity: Activity { since: now, service: 0, first_served: now, soft_real_time_from: now, soft_real_time_due: false },
            // The first request almost certainly seeks.
            seeks: Seeks { history: 1, last_end: 0 },
            turn: QueueTurn { budget, ends: None, was_waited_for: false, oldest_checked: false },
            timing: Timing {
                think: ThinkTime::default(),
                short_think: sync && origin.class != PriorityClass::Idle,
                intensity: Intensity { since: now, idle: Nanos::ZERO, io_bound: true },
            },
            raising: Raising { coefficient: 1, started: now, duration: Nanos::ZERO, interactive_since: None, service: 0 },
            injection: Injection { limit: 0, decreased: now, base_time: Nanos::ZERO },
            waking: Waking::default(),
        }
    }

    pub(super) fn is_sync(&self) -> bool {
        self.origin.kind == super::SYNC
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.origin.class == PriorityClass::Idle
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raising.coefficient > 1
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.history.count_ones() >= SEEKY_FROM
    }

    /// Whether all of the last 32 requests were seeks (`BFQQ_TOTALLY_SEEKY`).
    pub(super) fn only_seeks(&self) -> bool {
        self.seeks.history == u32::MAX
    }
}

/// The state that a process restores from a shared queue on a split (`bfq_bfqq_save_state`).
#[derive(Clone, Copy)]
pub(super) struct Saved {
    pub(super) injection: Injection,
    pub(super) timing: Timing,
    pub(super) burst: BurstMembership,
    pub(super) raising: Raising,
}

/// One stream at one priority (`struct bfq_io_cq`).
pub(super) struct Process {
    pub(super) stream: StreamId,
    /// The queue of its synchronous requests.
    pub(super) queue: Option<usize>,
    /// Its synchronous requests that are queued or at the device.
    pub(super) requests: u32,
    pub(super) saved: Option<Saved>,
    /// It stays in its shared queue permanently.
    pub(super) stably_merged: bool,
    /// The queue created shortly before its own, with which its own may be merged (`stable_merge_bfqq`).
    pub(super) stable_merge: Option<QueueRef>,
}

impl Process {
    pub(super) fn new(stream: StreamId) -> Process {
        Process { stream, queue: None, requests: 0, saved: None, stably_merged: false, stable_merge: None }
    }
}
