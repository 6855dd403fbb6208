//! The main job's speed on one core: a million random 4 KiB requests, two reads to a write, through host, scheduler and disk.
//!
//! DiskSim 4 does about 50,000 requests a second on this work (first come, first served, 60 requests a second).

#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so at once")]

use std::hint::black_box;
use std::time::Duration;

use block::{Nanos, Op, Priority};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sim::host::{Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay};
use sim::run::{Measure, Watch};
use sim::trace::{TraceError, TraceReader, TraceRequest};

const REQUESTS: u64 = 1_000_000;

/// Random requests made up one by one, so that nothing but the simulation is in memory.
struct Random {
    state: u64,
    left: u64,
    now: Nanos,
    gap: Nanos,
    sectors: u64,
}

impl Random {
    fn new(per_second: u64, sectors: u64) -> Random {
        Random { state: 1, left: REQUESTS, now: Nanos::ZERO, gap: Nanos(2_000_000_000 / per_second), sectors }
    }

    /// Xorshift64*: enough randomness for where and when.
    fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

impl TraceReader for Random {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.left = self.left.checked_sub(1)?;
        let (place, gap, op) = (self.number(), self.number(), self.number());
        self.now += Nanos(gap % self.gap.0);
        Some(Ok(TraceRequest {
            arrival: self.now,
            device: 0,
            lba: place % (self.sectors / 8) * 8,
            sectors: 8,
            op: if op % 3 == 0 { Op::Write } else { Op::Read },
            sync: Some(true),
            stream: 1,
            priority: Priority::DEFAULT,
            response: None,
            service: None,
        }))
    }
}

fn random_requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay of random 4 KiB requests");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10).measurement_time(Duration::from_secs(15));
    for (disk, scheduler, per_second) in [
        ("atlas10k", "clook", 60),
        ("atlas10k", "deadline", 60),
        ("sata7200", "clook", 60),
        ("raid0:disk=atlas10k,disks=8", "noop", 480),
        ("raid0:disk=atlas10k,disks=8", "clook", 480),
        ("raid5:disk=atlas10k,disks=8", "clook", 240),
    ] {
        let profile = sim::profile::load(disk).expect("a shipped disk");
        let sectors = profile.capacity_sectors();
        let survey = Survey::take(&mut Random::new(per_second, sectors), |_| true).expect("no trace to fail").expect("not stopped");
        let placement = Placement::new(&survey, sectors, Fit::Exact).expect("it fits");
        let (spec, values) = block::parse(scheduler).expect("a scheduler");
        let settings = Settings { mode: Mode::Open, speed: 1.0 };
        let id = BenchmarkId::new(scheduler, format!("{disk}, {per_second} requests per second"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                let queue = Queue::new(
                    (spec.build)(&block::Limits::default(), &values),
                    profile.build(DeviceOptions::default()),
                    QueueSettings::default(),
                );
                let measure = Measure::new([1]);
                let reader = Box::new(Random::new(per_second, sectors));
                let outcome =
                    replay(reader, &placement, queue, &settings, measure, &Watch::default(), None).expect("no trace to fail");
                assert_eq!(black_box(outcome).measure.all.count(), REQUESTS);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, random_requests);
criterion_main!(benches);
