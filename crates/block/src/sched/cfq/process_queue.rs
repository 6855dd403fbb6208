//! State of a CFQ queue: the access pattern of its process, and its slice.

use super::{SYNC, Turn};
use crate::decay::DecayingMean;
use crate::{Nanos, PriorityClass};

/// Minimum seek distance in sectors (`CFQQ_SEEK_THR`). A queue with more than 4 seeks in 32 requests is seeky.
pub(super) const SEEK_THRESHOLD: u64 = 8 * 100;
/// Decayed count above which a think time is valid: three requests (`sample_valid`).
pub(super) const ENOUGH_SAMPLES: u64 = 80;

/// The kinds of work in a class, each with its own tree of queues (`enum wl_type_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkloadType {
    Async,
    SyncSeeky,
    Sync,
}

pub(super) const WORKS: [WorkloadType; 3] = [WorkloadType::Async, WorkloadType::SyncSeeky, WorkloadType::Sync];

/// Pauses between a completion and the next request (`struct cfq_ttime`).
#[derive(Clone, Copy, Default)]
pub(super) struct ThinkTime {
    pub(super) last_completion: Nanos,
    pub(super) pauses: DecayingMean,
}

impl ThinkTime {
    pub(super) fn request_arrived(&mut self, now: Nanos, slice_idle: Nanos) {
        self.pauses.add((now - self.last_completion).0.min(slice_idle.0 * 2));
    }

    pub(super) fn exceeds(&self, limit: Nanos) -> bool {
        self.pauses.samples() > ENOUGH_SAMPLES && self.pauses.mean() > limit.0
    }
}

/// The queue of a process, or a shared one (`struct cfq_queue`).
#[derive(Clone, Copy)]
pub(super) struct ProcessQueue {
    pub(super) class: PriorityClass,
    pub(super) level: u8,
    pub(super) kind: usize,
    /// Its tree and position in the round robin; `None` unless it has requests or is active.
    pub(super) waiting: Option<(usize, Turn)>,
    pub(super) at_device: u32,
    pub(super) think: ThinkTime,
    /// One bit for each of the last 32 requests, set for seeks.
    pub(super) seek_history: u32,
    /// End of the last request to arrive.
    pub(super) last_arrived_end: Option<u64>,
    /// End of the last dispatched request.
    pub(super) last_served_end: Option<u64>,
    /// Whether to idle for its process: it issues its next request soon and near the last one.
    pub(super) idles: bool,
    /// It had four requests waiting at once: although seeky, it keeps the disk busy.
    pub(super) deep: bool,
    pub(super) slice: Slice,
    /// Time left over from the last slice; negative if overrun.
    pub(super) residue: i64,
}

/// The current slice of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Slice {
    /// Set at the first completion, from which the time counts; `None` until then.
    pub(super) clock: Option<SliceClock>,
    pub(super) dispatched: u64,
    pub(super) oldest_checked: bool,
}

#[derive(Clone, Copy)]
pub(super) struct SliceClock {
    pub(super) start: Nanos,
    pub(super) end: Nanos,
}

impl ProcessQueue {
    pub(super) fn new(now: Nanos, kind: usize, class: PriorityClass, level: u8) -> ProcessQueue {
        ProcessQueue {
            class,
            level,
            kind,
            waiting: None,
            at_device: 0,
            think: ThinkTime { last_completion: now, ..ThinkTime::default() },
            seek_history: 0,
            last_arrived_end: None,
            last_served_end: None,
            idles: kind == SYNC && class != PriorityClass::Idle,
            deep: false,
            slice: Slice::default(),
            residue: 0,
        }
    }

    pub(super) fn is_sync(&self) -> bool {
        self.kind == SYNC
    }

    pub(super) fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() > 32 / 8
    }

    pub(super) fn work(&self) -> WorkloadType {
        match (self.is_sync(), self.idles) {
            (false, _) => WorkloadType::Async,
            (true, false) => WorkloadType::SyncSeeky,
            (true, true) => WorkloadType::Sync,
        }
    }

    pub(super) fn slice_used(&self, now: Nanos) -> bool {
        self.slice.clock.is_some_and(|clock| now > clock.end)
    }
}
