//! Time per request in the schedulers that share a device among tenants: one `insert`, `record_disk_time` and `completed`, and the `pick`s
//! that fill the device again.
//!
//! 40 and 1,000 tenants, by turns with a reference disk, a reservation, limits, a weight, and nothing; each keeps four requests
//! outstanding. The device holds up to 32 and completes one every 100 µs, so requests wait for most tenants. Guarantees take 28% of it, and
//! a limited tenant may use half of an equal share, so that it is at its limit most of the time.
//!
//! `noop` shows the benchmark's own cost.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so at once")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{Limits, Nanos, Op, Pick, Priority, Rate, Rates, Request, Roster, SHARING, Scheduler, SchedulerSpec, Tenant};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// Queue depth of the device, and the time between its completions.
const DEPTH: usize = 32;
const SPACING: Nanos = Nanos::from_micros(100);
/// Requests that each tenant keeps outstanding.
const OUTSTANDING: u32 = 4;
/// A guaranteed tenant is guaranteed this part of an equal share, and a limited one limited to this part, in percent.
const GUARANTEED: u64 = 70;
const LIMITED: u64 = 50;

/// Advances a xorshift generator (Marsaglia, Xorshift RNGs, 2003).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn tenant(number: u32, tenants: u32) -> Tenant {
    let tenant = Tenant::new(format!("{number}"));
    let equal = 1_000_000_000 / (SPACING.0 * u64::from(tenants)).max(1);
    let rate = |percent: u64| Rate::iops((equal * percent / 100).max(1));
    match number % 5 {
        0 => {
            let request = Nanos(SPACING.0 * u64::from(tenants) * 100 / GUARANTEED);
            tenant.with_reference(Arc::new(ConstantTime { request, sector: Nanos::ZERO }))
        }
        1 => tenant.with_rates(Rates { reservation: rate(GUARANTEED), ..Rates::default() }),
        2 if number.is_multiple_of(2) => tenant.with_rates(Rates { limit: rate(LIMITED), ..Rates::default() }),
        2 => {
            let write_limit = Rate { bytes_per_s: NonZeroU64::new(1 << 20), ..rate(LIMITED / 4) };
            tenant.with_rates(Rates { read_limit: rate(LIMITED), write_limit, ..Rates::default() })
        }
        3 => tenant.with_weight(1 + number % 7),
        _ => tenant,
    }
}

/// Tenants that issue a request as soon as one of theirs completes.
struct Shared {
    scheduler: Box<dyn Scheduler>,
    now: Nanos,
    state: u64,
    at_device: VecDeque<Request>,
}

impl Shared {
    fn new(spec: &SchedulerSpec, tenants: u32) -> Shared {
        let mut scheduler = (spec.build)(&Limits::default(), &spec.defaults());
        let streams: Vec<_> = (0..tenants).map(|number| (number, number as usize)).collect();
        let roster = (0..tenants).map(|number| tenant(number, tenants)).collect();
        let roster =
            Roster::new(roster, Vec::new(), &streams, 1).expect("weights are at least 1, streams differ, and there are no volumes");
        scheduler.set_roster(&roster);
        let mut shared = Shared { scheduler, now: Nanos::ZERO, state: 88_172_645_463_325_252, at_device: VecDeque::new() };
        (0..tenants * OUTSTANDING).for_each(|id| shared.issue(id, id % tenants));
        // Until all lists have their size, and costs are known.
        (0..20 * tenants * OUTSTANDING).for_each(|_| shared.step());
        shared
    }

    /// Issues a request: of four one writes, and of eight one is large.
    fn issue(&mut self, id: u32, stream: u32) {
        let bits = random(&mut self.state);
        let op = if bits & 3 == 0 { Op::Write } else { Op::Read };
        let sectors = if bits >> 2 & 7 == 0 { 512 } else { 8 };
        let (lba, arrival) = (bits >> 30, self.now);
        let request = Request { id, stream, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival };
        black_box(self.scheduler.insert(self.now, request));
    }

    /// Fills the device, completes one request, and issues its successor.
    fn step(&mut self) {
        while self.at_device.len() < DEPTH {
            match self.scheduler.pick(self.now) {
                Pick::Go(request) => self.at_device.push_back(request),
                Pick::WaitUntil(time) if self.at_device.is_empty() => self.now = time,
                Pick::WaitUntil(_) | Pick::Empty => break,
            }
        }
        self.now += SPACING;
        if let Some(request) = self.at_device.pop_front() {
            self.scheduler.record_disk_time(&request, SPACING);
            self.scheduler.completed(self.now, &request, Nanos(SPACING.0 * DEPTH as u64));
            self.issue(request.id, request.stream);
        }
    }
}

fn tenants(criterion: &mut Criterion) {
    let noop = block::find("noop");
    for spec in SHARING.iter().copied().chain(noop) {
        let mut group = criterion.benchmark_group(spec.name);
        for tenants in [40, 1_000] {
            let mut shared = None;
            group.bench_function(BenchmarkId::from_parameter(tenants), |timing| {
                // Not for those that are filtered out.
                let shared = shared.get_or_insert_with(|| Shared::new(spec, tenants));
                timing.iter(|| shared.step());
            });
        }
    }
}

criterion_group!(benches, tenants);
criterion_main!(benches);
