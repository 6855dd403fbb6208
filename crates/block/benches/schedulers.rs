//! Time per request in each scheduler: one `insert`, one `pick` and one `completed`, with a constant queue length.
//!
//! Reads and writes at random LBAs from eight streams, one at the device. The clock advances as with a fast disk, so that expiries and
//! slices occur.

use block::{ALL, Limits, Nanos, Op, Pick, Priority, Request, Scheduler};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// Advances a xorshift generator (Marsaglia, Xorshift RNGs, 2003).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

struct Bench {
    scheduler: Box<dyn Scheduler>,
    now: Nanos,
    state: u64,
    next_id: u32,
}

impl Bench {
    fn insert(&mut self) {
        let bits = random(&mut self.state);
        let write = bits & 3 == 0;
        let request = Request {
            id: self.next_id,
            stream: (bits >> 2 & 7) as u32,
            op: if write { Op::Write } else { Op::Read },
            sync: !write,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba: bits >> 30,
            arrival: self.now,
        };
        self.next_id = self.next_id.wrapping_add(1);
        self.scheduler.insert(self.now, request);
    }

    /// Serves one request, waiting as long as the scheduler asks for.
    fn serve(&mut self) {
        loop {
            match self.scheduler.pick(self.now) {
                Pick::Go(request) => {
                    let service = Nanos::from_micros(100);
                    self.now += service;
                    return self.scheduler.completed(self.now, &request, service);
                }
                Pick::WaitUntil(time) => self.now = time,
                Pick::Empty => return,
            }
        }
    }
}

fn schedulers(criterion: &mut Criterion) {
    for spec in ALL {
        let mut group = criterion.benchmark_group(spec.name);
        for depth in [1, 32, 1024] {
            let scheduler = (spec.build)(&Limits::default(), &spec.defaults());
            let mut bench = Bench { scheduler, now: Nanos::ZERO, state: 88_172_645_463_325_252, next_id: 0 };
            (1..depth).for_each(|_| bench.insert());
            group.bench_function(BenchmarkId::from_parameter(depth), |timing| {
                timing.iter(|| {
                    bench.insert();
                    bench.serve();
                });
            });
        }
    }
}

criterion_group!(benches, schedulers);
criterion_main!(benches);
