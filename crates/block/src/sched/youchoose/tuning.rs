//! The tunables of `youchoose`.

use crate::sched::{SchedulerSpec, clook, deadline, noop, scan, sptf, sstf};
use crate::{Nanos, Tunable, Unit};

crate::words! {
    /// The scheduler within a slot.
    pub(super) enum Order {
        /// One-way elevator.
        Clook = "clook",
        /// Nearest first.
        Sstf = "sstf",
        /// In order of arrival.
        Noop = "noop",
        /// Two-way elevator.
        Scan = "scan",
        /// An elevator with deadlines.
        Deadline = "deadline",
        /// Shortest positioning time first.
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
        /// Requests of a volume are sorted, and dispatched together if time allows, in slots of this much service time of its reference
        /// disk. A longer slot saves seeks, a shorter one makes response times more even. Slots are longer while few volumes wait: one of
        /// each adds up to the shortest worst-case response among the reference disks.
        pub(super) slot as "slot_ms": Nanos = Tunable::new(Unit::Milliseconds, 1..=1_000, 20).logarithmic(),
        /// The order of the requests in a slot. Disks and arrays with queues of their own sort in them, and sorting twice only makes requests
        /// wait: that of arrival keeps more guarantees there. An elevator suits a disk without a queue.
        pub(super) order: Order = Tunable::one_of(Order::WORDS, "noop"),
        /// The most requests at the device. 0: as many as let all guaranteed requests be in time.
        pub(super) in_flight: u32 = Tunable::new(Unit::Count, 0..=4_096, 0),
        /// How far a volume may lag behind its reference disk and still be owed the whole difference. Anything beyond is forgiven, so that
        /// a guarantee that no host can meet does not take the disk from others.
        pub(super) debt as "debt_ms": Nanos = Tunable::new(Unit::Milliseconds, 0..=60_000, 500),
        /// The longest time without service for volumes without a guarantee while the others leave no capacity; ten times that if they
        /// leave room, but only for shorter requests.
        pub(super) best_effort_wait as "best_effort_wait_ms": Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 1_000).logarithmic(),
    }
}
