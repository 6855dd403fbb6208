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

/// The fraction of time in which a process has requests (`bfq_update_io_intensity`).
#[derive(Clone, Copy)]
pub(super) struct Intensity {
    pub(super) since: Nanos,
    pub(super) idle: Nanos,
    /// Whether it has requests at least four fifths of the time.
    pub(super) io_bound: bool,
}

/// State of a queue without its scheduling entity (`struct bfq_queue`).
#[derive(Clone)]
pub(super) struct IoQueue {
    pub(super) class: PriorityClass,
    pub(super) level: u8,
    pub(super) kind: usize,
    pub(super) generation: u32,
    pub(super) next: Option<Next>,
    /// Its key in the index by position; `None` if it is not listed.
    pub(super) position: Option<u128>,
    pub(super) at_device: u32,
    /// It has requests, or is in service.
    pub(super) busy: bool,
    pub(super) just_created: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    /// Its turn ended for lack of requests, and its process may continue it soon (`non_blocking_wait_rq`).
    pub(super) was_waited_for: bool,
    pub(super) oldest_checked: bool,
    pub(super) short_think_time: bool,
    /// Several processes have used it, and whether they are to be split (`coop`, `split_coop`).
    pub(super) shared: bool,
    pub(super) to_split: bool,
    /// `soft_real_time_from` is to be computed at the last completion (`softrt_update`).
    pub(super) soft_real_time_due: bool,
    /// Number of processes that use it, or will after their next request.
    pub(super) processes: u32,
    /// The only process that uses it (`bic`).
    pub(super) owner: Option<usize>,
    /// The queue into which its processes move at their next request (`new_bfqq`).
    pub(super) merges_into: Option<QueueRef>,
    /// Budget of its next turn, in sectors.
    pub(super) max_budget: u64,
    /// End of its turn while it is in service; otherwise the time since which it has had no requests (`budget_timeout`).
    pub(super) turn_ends: Option<Nanos>,
    pub(super) think: ThinkTime,
    pub(super) intensity: Intensity,
    /// One bit for each of the last 32 requests, set for seeks.
    pub(super) seek_history: u32,
    pub(super) last_arrived_end: u64,
    pub(super) raising: Raising,
    /// A request from this time on makes it soft real-time (`soft_rt_next_start`).
    pub(super) soft_real_time_from: Nanos,
    /// Time at which it became busy, the service since then, and the start of that service (`first_IO_time`).
    pub(super) busy_since: Nanos,
    pub(super) service_since_busy: u64,
    pub(super) first_served: Nanos,
    pub(super) created: Nanos,
    pub(super) split: Option<Nanos>,
    pub(super) injection: Injection,
    /// The queue whose completions trigger requests of this one's process, after three detections in a row (`waker_bfqq`).
    pub(super) waker: Option<QueueRef>,
    pub(super) tentative_waker: Option<QueueRef>,
    pub(super) waker_detections: u32,
    pub(super) waker_detection_began: Nanos,
    /// The queue that it woke last.
    pub(super) woken: Option<QueueRef>,
}

impl IoQueue {
    pub(super) fn new(now: Nanos, kind: usize, class: PriorityClass, level: u8, max_budget: u64) -> IoQueue {
        let sync = kind == super::SYNC;
        IoQueue {
            class,
            level,
            kind,
            generation: 0,
            next: None,
            position: None,
            at_device: 0,
            busy: false,
            just_created: sync,
            in_large_burst: false,
            in_burst_list: false,
            was_waited_for: false,
            oldest_checked: false,
            short_think_time: sync && class != PriorityClass::Idle,
            shared: false,
            to_split: false,
            soft_real_time_due: false,
            processes: 1,
            owner: None,
            merges_into: None,
            max_budget,
            turn_ends: None,
            think: ThinkTime::default(),
            intensity: Intensity { since: now, idle: Nanos::ZERO, io_bound: true },
            // The first request almost certainly seeks.
            seek_history: 1,
            last_arrived_end: 0,
            raising: Raising { coefficient: 1, started: now, duration: Nanos::ZERO, interactive_since: None, service: 0 },
            soft_real_time_from: now,
            busy_since: now,
            service_since_busy: 0,
            first_served: now,
            created: now,
            split: None,
            injection: Injection { limit: 0, decreased: now, base_time: Nanos::ZERO },
            waker: None,
            tentative_waker: None,
            waker_detections: 0,
            waker_detection_began: Nanos::ZERO,
            woken: None,
        }
    }

    pub(super) fn is_sync(&self) -> bool {
        self.kind == super::SYNC
    }

    pub(super) fn is_idle_class(&self) -> bool {
        self.class == PriorityClass::Idle
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raising.coefficient > 1
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() >= SEEKY_FROM
    }

    /// Whether all of the last 32 requests were seeks (`BFQQ_TOTALLY_SEEKY`).
    pub(super) fn only_seeks(&self) -> bool {
        self.seek_history == u32::MAX
    }
}

/// The state that a process restores from a shared queue on a split (`bfq_bfqq_save_state`).
#[derive(Clone, Copy)]
pub(super) struct Saved {
    pub(super) injection: Injection,
    pub(super) think: ThinkTime,
    pub(super) short_think_time: bool,
    pub(super) intensity: Intensity,
    pub(super) in_large_burst: bool,
    pub(super) was_in_burst_list: bool,
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
