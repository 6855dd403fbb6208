//! Time per request in each scheduler: one `insert`, one `pick` and one `completed`, with a constant queue length.
//!
//! Reads and writes at random LBAs from eight streams, one at the device. The clock advances as with a fast disk, so that expiries and
//! slices occur.
//!
//! The sharing schedulers are also run with 100, 1,000 and 10,000 tenants of different weights, each with one request that is queued or
//! among the 32 at the device.

use std::collections::VecDeque;
use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{ALL, Limits, Nanos, Op, Pick, Priority, Request, Roster, SHARING, Scheduler, Tenant};
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

/// Queue depth of the device.
const DEPTH: usize = 32;

/// Tenants with one request each, which is issued again as soon as it completes.
struct Shared {
    bench: Bench,
    tenants: u32,
    at_device: VecDeque<Request>,
}

impl Shared {
    fn new(mut scheduler: Box<dyn Scheduler>, tenants: u32) -> Shared {
        let disk = Arc::new(ConstantTime { request: Nanos::from_micros(100 * u64::from(tenants)), sector: Nanos::ZERO });
        let roster =
            (0..tenants).map(|number| Tenant::new(format!("{number}")).with_weight(1 + number % 7).with_reference(disk.clone()));
        let streams: Vec<_> = (0..tenants).map(|number| (number, number as usize)).collect();
        if let Ok(roster) = Roster::new(roster.collect(), Vec::new(), &streams, 1) {
            scheduler.set_roster(&roster);
        }
        let bench = Bench { scheduler, now: Nanos::ZERO, state: 88_172_645_463_325_252, next_id: 0 };
        let mut shared = Shared { bench, tenants, at_device: VecDeque::new() };
        (0..tenants).for_each(|tenant| shared.issue(tenant));
        // Warm up, so that the scheduler's per-tenant state exists.
        (0..20 * tenants).for_each(|_| shared.step());
        shared
    }

    /// Issues a request of a tenant. Its id is the tenant's number, as each tenant has one request at a time.
    fn issue(&mut self, tenant: u32) {
        let lba = random(&mut self.bench.state) >> 30;
        let (op, priority) = (if lba & 3 == 0 { Op::Write } else { Op::Read }, Priority::DEFAULT);
        let request = Request { id: tenant, stream: tenant, op, sync: true, priority, sectors: 8, lba, arrival: self.bench.now };
        self.bench.scheduler.insert(self.bench.now, request);
    }

    /// Fills the device, completes one request, and issues that tenant's next one.
    fn step(&mut self) {
        while self.at_device.len() < DEPTH.min(self.tenants as usize / 2) {
            match self.bench.scheduler.pick(self.bench.now) {
                Pick::Go(request) => self.at_device.push_back(request),
                Pick::WaitUntil(time) if self.at_device.is_empty() => self.bench.now = time,
                Pick::WaitUntil(_) | Pick::Empty => break,
            }
        }
        let service = Nanos::from_micros(100);
        self.bench.now += service;
        if let Some(request) = self.at_device.pop_front() {
            self.bench.scheduler.record_disk_time(&request, service);
            self.bench.scheduler.completed(self.bench.now, &request, Nanos(service.0 * DEPTH as u64));
            self.issue(request.stream);
        }
    }
}

fn sharing(criterion: &mut Criterion) {
    for spec in SHARING {
        let mut group = criterion.benchmark_group(format!("{} tenants", spec.name));
        for tenants in [100, 1_000, 10_000] {
            let mut shared = Shared::new((spec.build)(&Limits::default(), &spec.defaults()), tenants);
            group.bench_function(BenchmarkId::from_parameter(tenants), |timing| timing.iter(|| shared.step()));
        }
    }
}

criterion_group!(benches, schedulers, sharing);
criterion_main!(benches);
