//! What BFQ knows of one queue, and of one process.

use crate::decay::DecayingMean;
use crate::queue::Slot;
use crate::{Nanos, PriorityClass, RequestId, StreamId};

/// A queue by number. A number is used again; what is known of the queue before must not be taken for the next one's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueRef {
    pub(super) number: usize,
    pub(super) generation: u32,
}

/// Of 32 requests so many lie far from the one before: the queue is seeky (`BFQQ_SEEKY`).
const SEEKY_FROM: u32 = 20;

/// Whether `span` has passed since `time`; since a time that never was, it has (`time_is_before_jiffies`).
pub(super) fn passed(time: Option<Nanos>, span: Nanos, now: Nanos) -> bool {
    time.is_none_or(|time| time + span < now)
}

/// The next request of a queue.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) slot: Slot,
    pub(super) id: RequestId,
}

/// The pauses between a completion and the next request (`struct bfq_ttime`).
#[derive(Clone, Copy, Default)]
pub(super) struct ThinkTime {
    pub(super) last_completion: Option<Nanos>,
    pub(super) pauses: DecayingMean,
}

/// The raised weight of a queue (`wr_*`).
#[derive(Clone, Copy)]
pub(super) struct Raising {
    /// How many times its own weight it has; 1 if it is not raised.
    pub(super) coefficient: u64,
    /// When it began; of a queue that is not raised, when it was last active.
    pub(super) started: Nanos,
    pub(super) duration: Nanos,
    /// When raising as an interactive queue had begun, if it is raised as a soft real-time one since.
    pub(super) interactive_since: Option<Nanos>,
    /// Sectors served since it began.
    pub(super) service: u64,
}

/// How much of other queues may be at the device while this one is waited for (`bfq_update_inject_limit`).
#[derive(Clone, Copy)]
pub(super) struct Injection {
    pub(super) limit: u32,
    pub(super) decreased: Nanos,
    /// How long a request took from its arrival to its completion with nothing injected; zero is not known.
    pub(super) base_time: Nanos,
}

/// How busy a process keeps its queue (`bfq_update_io_intensity`).
#[derive(Clone, Copy)]
pub(super) struct Intensity {
    pub(super) since: Nanos,
    pub(super) idle: Nanos,
    /// Requests follow each other four fifths of the time.
    pub(super) io_bound: bool,
}

/// Linux `struct bfq_queue`, without what is scheduled for it.
#[derive(Clone)]
pub(super) struct IoQueue {
    pub(super) class: PriorityClass,
    pub(super) level: u8,
    pub(super) kind: usize,
    pub(super) generation: u32,
    pub(super) next: Option<Next>,
    /// Its key among the queues by place, if it is there.
    pub(super) position: Option<u128>,
    pub(super) at_device: u32,
    /// It has requests, or is served.
    pub(super) busy: bool,
    pub(super) just_created: bool,
    pub(super) in_large_burst: bool,
    pub(super) in_burst_list: bool,
    /// Its turn ended because it had no request, and its process may yet come (`non_blocking_wait_rq`).
    pub(super) was_waited_for: bool,
    pub(super) oldest_checked: bool,
    pub(super) short_think_time: bool,
    /// Several processes have used it, and those should part again (`coop`, `split_coop`).
    pub(super) shared: bool,
    pub(super) to_split: bool,
    /// `soft_real_time_from` is to be computed at the last completion (`softrt_update`).
    pub(super) soft_real_time_due: bool,
    /// How many processes use it, or will when they come again.
    pub(super) processes: u32,
    /// The process that alone uses it (`bic`).
    pub(super) owner: Option<usize>,
    /// Its processes move there when they come again (`new_bfqq`).
    pub(super) merges_into: Option<QueueRef>,
    /// The budget of its next turn, in sectors.
    pub(super) max_budget: u64,
    /// While it is served when its turn is over, and afterwards since when it has had no request (`budget_timeout`).
    pub(super) turn_ends: Option<Nanos>,
    pub(super) think: ThinkTime,
    pub(super) intensity: Intensity,
    /// A bit for each of the last 32 requests: it lay far from the one before.
    pub(super) seek_history: u32,
    pub(super) last_arrived_end: u64,
    pub(super) raising: Raising,
    /// A request from then on makes it soft real-time (`soft_rt_next_start`).
    pub(super) soft_real_time_from: Nanos,
    /// When it became busy, what it was served since, and when the first of that (`first_IO_time`).
    pub(super) busy_since: Nanos,
    pub(super) service_since_busy: u64,
    pub(super) first_served: Nanos,
    pub(super) created: Nanos,
    pub(super) split: Option<Nanos>,
    pub(super) injection: Injection,
    /// The queue whose completions wake this one's process, found after three times in a row (`waker_bfqq`).
    pub(super) waker: Option<QueueRef>,
    pub(super) tentative_waker: Option<QueueRef>,
    pub(super) waker_detections: u32,
    pub(super) waker_detection_began: Nanos,
    /// The queue it woke last.
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

    /// All of the last 32 requests lay far from each other (`BFQQ_TOTALLY_SEEKY`).
    pub(super) fn only_seeks(&self) -> bool {
        self.seek_history == u32::MAX
    }
}

/// What a process takes out of a shared queue again: its habits from before (`bfq_bfqq_save_state`).
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

/// Linux `struct bfq_io_cq`: one stream at one priority.
pub(super) struct Process {
    pub(super) stream: StreamId,
    /// The queue of its synchronous requests.
    pub(super) queue: Option<usize>,
    /// Its synchronous requests that wait or are at the device.
    pub(super) requests: u32,
    pub(super) saved: Option<Saved>,
    /// It shares its queue for good.
    pub(super) stably_merged: bool,
    /// The queue created shortly before its own, with which that may be merged (`stable_merge_bfqq`).
    pub(super) stable_merge: Option<QueueRef>,
}

impl Process {
    pub(super) fn new(stream: StreamId) -> Process {
        Process { stream, queue: None, requests: 0, saved: None, stably_merged: false, stable_merge: None }
    }
}
