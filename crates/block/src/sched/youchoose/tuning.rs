//! What can be set of `youchoose`.

use crate::sched::{SchedulerSpec, clook, deadline, noop, scan, sptf, sstf};
use crate::{Nanos, Tunable, Unit};

crate::words! {
    /// The order of the requests in a slot.
    pub(super) enum Order {
        /// One-way elevator.
        Clook = "clook",
        /// The nearest first.
        Sstf = "sstf",
        /// As they came.
        Noop = "noop",
        /// Two-way elevator.
        Scan = "scan",
        /// An elevator with due times for each.
        Deadline = "deadline",
        /// The one that the device reaches soonest.
        Sptf = "sptf",
    }
}

impl Order {
    pub(super) fn spec(self) -> &'static SchedulerSpec {
        match self {
            Order::Clook => &clook::SPEC,
            Order::Sstf => &sstf::SPEC,
            Order::Noop => &noop::SPEC,
            Order::Scan => &scan::SPEC,
            Order::Deadline => &deadline::SPEC,
            Order::Sptf => &sptf::SPEC,
        }
    }
}

crate::tunables! {
    /// The tunables of `youchoose`.
    #[derive(Clone, Copy)]
    pub(super) struct Tunables {
        /// Requests of a volume are sorted, and sent together where there is time, by so much service time of its reference disk. A longer
        /// slot saves arm movements, a shorter one makes response times more even. It is longer where few volumes wait: as long as one of
        /// each adds up to the longest response that the least patient of them has on its reference disk.
        pub(super) slot as "slot_ms": Nanos = Tunable::new(Unit::Milliseconds, 1..=1_000, 40).logarithmic(),
        /// The order of the requests in a slot.
        pub(super) order: Order = Tunable::one_of(Order::WORDS, "clook"),
        /// At most so many requests (of 128 KiB; larger ones count more) of those on the roster are at the device, where nothing shares it
        /// out. 0: as many as let requests be done in time, at least one for each disk; two for each if nobody was promised a disk.
        pub(super) in_flight: u32 = Tunable::new(Unit::Count, 0..=4_096, 0),
        /// How far a volume that the host served too late may be behind its reference disk and still be owed all of it. What is
        /// beyond is lost to it, so that one that no host can satisfy does not take the disk from others.
        pub(super) debt as "debt_ms": Nanos = Tunable::new(Unit::Milliseconds, 0..=60_000, 500),
        /// How long the volumes without a promise may go without a request served while those with one leave nothing; ten times as long if
        /// they leave room, but only for requests that keep the device for less long.
        pub(super) best_effort_wait as "best_effort_wait_ms": Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 1_000).logarithmic(),
    }
}
