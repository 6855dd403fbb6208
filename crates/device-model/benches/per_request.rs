//! Cost of a request in the per-request scheduler: one `insert`, one `pick` and one `completed`, with a steady number waiting, on a
//! disk whose platter it has learned to follow. The line is searched for now and then; that is part of the mean.

use block::{Limits, Nanos, Op, Pick, Priority, Request, Scheduler};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use device_model::sched::per_request::SPEC;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A disk of 7,200 turns a minute with tracks of 3,000 sectors, skewed by a seventh of a turn, and a host with 2 GiB of files.
const TURN_NS: f64 = 60e9 / 7_200.0;
const TRACK: f64 = 3_000.0;
const SKEW: f64 = 1.0 / 7.0;
const SPAN: u64 = 4 << 20;

struct Disk {
    scheduler: Box<dyn Scheduler>,
    random: Xoshiro256PlusPlus,
    now: Nanos,
    next_id: u32,
}

impl Disk {
    fn insert(&mut self) {
        let request = Request {
            id: self.next_id % 4_096,
            stream: 1,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba: self.random.random_range(0..SPAN / 8) * 8,
            arrival: self.now,
        };
        self.next_id = self.next_id.wrapping_add(1);
        self.scheduler.insert(self.now, request);
    }

    /// Serves one request: a millisecond to get there, then until its end passes.
    fn serve(&mut self) {
        let Pick::Go(request) = self.scheduler.pick(self.now) else { panic!("a lone stream is never waited for while it asks") };
        let end = request.end() as f64;
        let angle = end / TRACK + (end / TRACK).floor() * SKEW;
        let there = self.now.0 as f64 + 1e6;
        let turns = (there / TURN_NS - angle).ceil() + angle;
        let done = Nanos((turns * TURN_NS) as u64);
        let service = done - self.now;
        self.now = done;
        self.scheduler.completed(done, &request, service);
    }
}

fn per_request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(SPEC.name);
    for depth in [1, 8, 32, 256] {
        let scheduler = (SPEC.build)(&Limits::default(), &SPEC.defaults());
        let random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut disk = Disk { scheduler, random, now: Nanos::ZERO, next_id: 0 };
        (1..depth).for_each(|_| disk.insert());
        for _ in 0..20_000 {
            disk.insert();
            disk.serve();
        }
        group.bench_function(BenchmarkId::from_parameter(depth), |timing| {
            timing.iter(|| {
                disk.insert();
                disk.serve();
            });
        });
    }
}

criterion_group!(benches, per_request);
criterion_main!(benches);
