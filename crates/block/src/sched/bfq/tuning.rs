//! BFQ's tunables, and constants of the kernel.

use super::super::by_kind;
use crate::{Nanos, Tunable, Unit, tunables};

tunables! {
    /// The tunables.
    pub(super) struct Tunables {
        /// How long the disk waits for the next request of the queue in service. 0 never waits, and gives up most of the fairness.
        slice_idle: Nanos = Tunable::new(Unit::Milliseconds, 0..=100, 8),
        /// Raises the weight of queues that look interactive or soft real-time.
        low_latency: bool = Tunable::flag(true),
        /// The longest turn of a queue.
        timeout_sync: Nanos = Tunable::new(Unit::Milliseconds, 1..=10_000, 124).logarithmic(),
        /// The most that a queue may be served in one turn. 0 takes the transfer of timeout_sync at the disk's estimated peak rate.
        max_budget: u64 = Tunable::new(Unit::Sectors, 0..=1 << 20, 0),
        /// Sends one request at a time to the device and always waits for the queue in service, at any cost. Raises slice_idle
        /// to 8 ms at least.
        strict_guarantees: bool = Tunable::flag(false),
        /// A synchronous request that has waited this long goes first, if it is the oldest of the queue in service; checked once per turn.
        fifo_expire_sync: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 125).logarithmic(),
        /// The same for asynchronous requests.
        fifo_expire_async: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 250).logarithmic(),
        /// How far back the head may turn for a request instead of going up the disk.
        back_seek_max: u64 = Tunable::new(Unit::Kibibytes, 0..=1 << 30, 16_384),
        /// How many times the way back counts against the way forth.
        back_seek_penalty: u64 = Tunable::new(Unit::Count, 1..=64, 2).logarithmic(),
    }
}

/// Lower bound of `slice_idle` under `strict_guarantees` (`bfq_strict_guarantees_store`).
const STRICT_SLICE_IDLE: Nanos = Nanos::from_millis(8);

#[derive(Clone, Copy)]
pub(super) struct Tuning {
    pub(super) slice_idle: Nanos,
    pub(super) low_latency: bool,
    pub(super) timeout: Nanos,
    /// In sectors; 0: derived from the peak rate.
    pub(super) max_budget: u64,
    pub(super) strict_guarantees: bool,
    pub(super) fifo_expire: [Nanos; 2],
    pub(super) back_seek_max_sectors: u64,
    pub(super) back_seek_penalty: u64,
}

impl Tuning {
    pub(super) fn new(values: &[i64]) -> Tuning {
        let set = Tunables::of(values);
        Tuning {
            slice_idle: if set.strict_guarantees { set.slice_idle.max(STRICT_SLICE_IDLE) } else { set.slice_idle },
            low_latency: set.low_latency,
            timeout: set.timeout_sync,
            max_budget: set.max_budget,
            strict_guarantees: set.strict_guarantees,
            fifo_expire: by_kind(set.fifo_expire_async, set.fifo_expire_sync),
            back_seek_max_sectors: set.back_seek_max.saturating_mul(2),
            back_seek_penalty: set.back_seek_penalty,
        }
    }
}
