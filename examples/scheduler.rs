//! A scheduler of your own: reads go first, but after some reads a write that waits has its turn.
//!
//! ```text
//! cargo run --release -p seekwise-sim --example scheduler
//! ```
//! A scheduler knows no clock and no device. To make it part of the program, put the file into `crates/block/src/sched/` and add
//! `&reads_first::SPEC` to `ALL`; then the command line, the manual and the conformance kit find it.

use block::queue::{Limits, Merging, Queue};
use block::{Insertion, Nanos, Op, Pick, Request, Scheduler, SchedulerSpec, Tunable, Unit};

/// What the program knows of it before there is one.
static SPEC: SchedulerSpec = SchedulerSpec {
    name: "reads-first",
    summary: "reads in order of arrival, and a write after some reads",
    source: "examples/scheduler.rs",
    tunables: &[Tunable::new(Unit::Count, 1..=1_000, 16).named("reads_per_write", "After this many reads a waiting write goes.")],
    work_conserving: true,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(ReadsFirst::new(limits, values)),
};

/// The lanes of the queue: requests are merged and sorted within one.
const READS: usize = 0;
const OTHERS: usize = 1;

struct ReadsFirst {
    queue: Queue,
    /// The tunable.
    reads_per_write: i64,
    /// Reads since the last write.
    reads: i64,
}

impl ReadsFirst {
    fn new(limits: &Limits, values: &[i64]) -> ReadsFirst {
        let merging = Merging { front: true, within_stream: false };
        let mut scheduler = ReadsFirst { queue: Queue::new(*limits, merging), reads_per_write: 1, reads: 0 };
        scheduler.retune(values);
        scheduler
    }
}

impl Scheduler for ReadsFirst {
    fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
        let lane = if request.op == Op::Read { READS } else { OTHERS };
        self.queue.insert(lane, Nanos::ZERO, request).into()
    }

    fn pick(&mut self, _now: Nanos) -> Pick {
        let is_due = self.reads >= self.reads_per_write && self.queue.lane_len(OTHERS) > 0;
        let read = if is_due { None } else { self.queue.oldest(READS) };
        self.reads = if read.is_some() { self.reads + 1 } else { 0 };
        let slot = read.or_else(|| self.queue.oldest(OTHERS));
        slot.map_or(Pick::Empty, |slot| Pick::Go(self.queue.take(slot)))
    }

    fn retune(&mut self, values: &[i64]) {
        if let [reads_per_write] = values {
            self.reads_per_write = *reads_per_write;
        }
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.queue.drain(out);
    }
}

fn main() {
    // What every scheduler must do, on random scripts of arrivals. It panics with the smallest script that breaks a rule.
    block::conformance::assert_conforms(&SPEC, 64);
    println!("{} conforms", SPEC.name);

    let mut scheduler = (SPEC.build)(&Limits::default(), &[2]);
    for (id, op) in [Op::Write, Op::Read, Op::Read, Op::Read].into_iter().enumerate() {
        let id = id as u32;
        let request = Request {
            id,
            stream: 0,
            op,
            sync: true,
            priority: block::Priority::DEFAULT,
            sectors: 8,
            lba: 1_000 * u64::from(id),
            arrival: Nanos::ZERO,
        };
        scheduler.insert(Nanos::ZERO, request);
    }
    while let Pick::Go(request) = scheduler.pick(Nanos::ZERO) {
        println!("{:?} of sector {}", request.op, request.lba);
    }
}

#[test]
fn it_conforms() {
    block::conformance::assert_conforms(&SPEC, 64);
}
