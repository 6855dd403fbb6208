//! CFQ's tunables.

use super::super::{count, span};
use super::LEVELS;
use crate::{Nanos, Scale, Tunable, Unit};

pub(super) static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "quantum",
        unit: Unit::Count,
        min: 1,
        max: 256,
        default: 8,
        scale: Scale::Logarithmic,
        doc: "Requests of one queue at the device at once while others wait; half as many when its slice is nearly over.",
    },
    Tunable {
        name: "fifo_expire_sync",
        unit: Unit::Milliseconds,
        min: 1,
        max: 60_000,
        default: 125,
        scale: Scale::Logarithmic,
        doc: "A slice begins with the oldest synchronous request of its queue if that has waited this long.",
    },
    Tunable {
        name: "fifo_expire_async",
        unit: Unit::Milliseconds,
        min: 1,
        max: 300_000,
        default: 250,
        scale: Scale::Logarithmic,
        doc: "A slice begins with the oldest asynchronous request of its queue if that has waited this long.",
    },
    Tunable {
        name: "back_seek_max",
        unit: Unit::Kibibytes,
        min: 0,
        max: 1 << 30,
        default: 16_384,
        scale: Scale::Linear,
        doc: "How far back the head may turn for a request instead of going up the disk.",
    },
    Tunable {
        name: "back_seek_penalty",
        unit: Unit::Count,
        min: 1,
        max: 64,
        default: 2,
        scale: Scale::Logarithmic,
        doc: "How many times the way back counts against the way forth.",
    },
    Tunable {
        name: "slice_sync",
        unit: Unit::Milliseconds,
        min: 1,
        max: 10_000,
        default: 100,
        scale: Scale::Logarithmic,
        doc: "The turn of a synchronous queue at priority level 4; each level is worth a fifth of it.",
    },
    Tunable {
        name: "slice_async",
        unit: Unit::Milliseconds,
        min: 1,
        max: 10_000,
        default: 40,
        scale: Scale::Logarithmic,
        doc: "The turn of an asynchronous queue at priority level 4; each level is worth a fifth of it.",
    },
    Tunable {
        name: "slice_async_rq",
        unit: Unit::Count,
        min: 1,
        max: 1_024,
        default: 2,
        scale: Scale::Logarithmic,
        doc: "Bounds the requests in the turn of an asynchronous queue: twice this at level 7, sixteen times at level 0.",
    },
    Tunable {
        name: "slice_idle",
        unit: Unit::Milliseconds,
        min: 0,
        max: 100,
        default: 8,
        scale: Scale::Linear,
        doc: "How long the disk waits for the next request of a process in its turn. 0 never waits.",
    },
    Tunable {
        name: "low_latency",
        unit: Unit::Flag,
        min: 0,
        max: 1,
        default: 1,
        scale: Scale::Linear,
        doc: "Shortens turns when many processes share the disk, and holds asynchronous writes back behind delayed synchronous requests.",
    },
    Tunable {
        name: "target_latency",
        unit: Unit::Milliseconds,
        min: 1,
        max: 60_000,
        default: 300,
        scale: Scale::Logarithmic,
        doc: "The time in which each process should have had its turn, as low_latency aims for.",
    },
];

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
        Tuning {
            quantum: u32::try_from(values[0]).unwrap_or(1),
            fifo_expire: [span(values[2]), span(values[1])],
            back_seek_max_sectors: count(values[3]).saturating_mul(2),
            back_seek_penalty: count(values[4]),
            slice: [span(values[6]), span(values[5])],
            slice_async_requests: count(values[7]),
            slice_idle: span(values[8]),
            low_latency: values[9] != 0,
            target_latency: span(values[10]),
        }
    }

    /// The turn of a queue: a fifth more for each level above 4, a fifth less for each below (`cfq_prio_slice`).
    pub(super) fn slice(&self, kind: usize, level: u8) -> Nanos {
        Nanos(self.slice[kind].0 / 5 * (9 - u64::from(level)))
    }

    /// How many requests an asynchronous queue may send in one turn (`cfq_prio_to_maxrq`).
    pub(super) fn async_requests(&self, level: u8) -> u64 {
        2 * self.slice_async_requests * (LEVELS as u64 - u64::from(level))
    }
}
