//! CFQ's tunables.

use super::super::by_kind;
use super::LEVELS;
use crate::{Nanos, Tunable, Unit, tunables};

tunables! {
    /// The tunables.
    pub(super) struct Tunables {
        /// Requests of one queue at the device at once while others wait; half as many when its slice is nearly over.
        quantum: u32 = Tunable::new(Unit::Count, 1..=256, 8).logarithmic(),
        /// A slice begins with the oldest synchronous request of its queue if that has waited this long.
        fifo_expire_sync: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 125).logarithmic(),
        /// A slice begins with the oldest asynchronous request of its queue if that has waited this long.
        fifo_expire_async: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 250).logarithmic(),
        /// How far back the head may turn for a request instead of going up the disk.
        back_seek_max: u64 = Tunable::new(Unit::Kibibytes, 0..=1 << 30, 16_384),
        /// How many times the way back counts against the way forth.
        back_seek_penalty: u64 = Tunable::new(Unit::Count, 1..=64, 2).logarithmic(),
        /// The turn of a synchronous queue at priority level 4; each level is worth a fifth of it.
        slice_sync: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 100).logarithmic(),
        /// The turn of an asynchronous queue at priority level 4; each level is worth a fifth of it.
        slice_async: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 40).logarithmic(),
        /// Bounds the requests in the turn of an asynchronous queue: twice this at level 7, sixteen times at level 0.
        slice_async_rq: u64 = Tunable::new(Unit::Count, 1..=1_024, 2).logarithmic(),
        /// How long the disk waits for the next request of a process in its turn. 0 never waits.
        slice_idle: Nanos = Tunable::new(Unit::Milliseconds, 0..=100, 8),
        /// Shortens turns when many processes share the disk, and holds asynchronous writes back behind delayed synchronous
        /// requests.
        low_latency: bool = Tunable::flag(true),
        /// The time in which each process should have had its turn, as low_latency aims for.
        target_latency: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 300).logarithmic(),
    }
}

pub(super) struct Tuning {
    pub(super) quantum: u32,
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) back_seek_max_sectors: u64,
    pub(super) back_seek_penalty: u64,
    pub(super) slice: [Nanos; 2],
    pub(super) slice_async_requests: u64,
    pub(super) slice_idle: Nanos,
    pub(super) low_latency: bool,
    pub(super) target_latency: Nanos,
}

impl Tuning {
    pub(super) fn new(values: &[i64]) -> Tuning {
        let set = Tunables::of(values);
        Tuning {
            quantum: set.quantum,
            fifo_expire: by_kind(set.fifo_expire_async, set.fifo_expire_sync),
            back_seek_max_sectors: set.back_seek_max.saturating_mul(2),
            back_seek_penalty: set.back_seek_penalty,
            slice: by_kind(set.slice_async, set.slice_sync),
            slice_async_requests: set.slice_async_rq,
            slice_idle: set.slice_idle,
            low_latency: set.low_latency,
            target_latency: set.target_latency,
        }
    }

    /// The slice of a queue: a fifth more for each level better than 4, a fifth less for each worse (`cfq_prio_slice`).
    pub(super) fn slice(&self, kind: usize, level: u8) -> Nanos {
        Nanos(self.slice[kind].0 / 5 * (9 - u64::from(level)))
    }

    /// Maximum requests that an asynchronous queue dispatches in one slice (`cfq_prio_to_maxrq`).
    pub(super) fn async_requests(&self, level: u8) -> u64 {
        2 * self.slice_async_requests * (LEVELS as u64 - u64::from(level))
    }
}
