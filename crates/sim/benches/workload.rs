//! Workloads: the rate of drawing a job's requests, without time and device, and with a host of constant response time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use block::{Nanos, Op};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::host::{Action, Call};
use sim::run::{Finished, Issue, Measure, Server, Transferred, Watch};
use sim::workload::{PlacedWorkload, Workload, run};

const REQUESTS: u64 = 1_000_000;

fn placed(options: &str) -> PlacedWorkload {
    let text = format!("[j]\ntime_based\nruntime=1d\ndirect=1\n{options}\n");
    let workload = Workload::parse(&text, "bench").unwrap_or_else(|error| panic!("{error}"));
    workload.place(1 << 31, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn draws(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("requests");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, options) in [
        ("sequential", "rw=read\nsize=64g"),
        ("random", "rw=randread\nsize=64g\nnorandommap"),
        ("random with map", "rw=randread\nsize=64g"),
        ("mixed with split", "rw=randrw\nsize=64g\nnorandommap\nbssplit=4k/50:8k/30:64k/20"),
        ("zipf", "rw=randread\nsize=64g\nrandom_distribution=zipf:1.1"),
    ] {
        let placed = placed(options);
        let mut requests = placed.requests(0);
        group.bench_function(name, |bench| {
            bench.iter(|| requests.by_ref().take(REQUESTS as usize).for_each(|action| _ = black_box(action)))
        });
    }
    group.finish();
}

/// Every call takes 100 µs.
#[derive(Default)]
struct Constant {
    under_way: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
}

impl Server for Constant {
    type Work = Call;

    fn has_room(&self) -> bool {
        true
    }

    fn admit(&mut self, now: Nanos, call: Call) {
        let Action::Access { bytes, .. } = call.action else { return };
        black_box(bytes);
        self.under_way.push(Reverse((now + Nanos::from_micros(100), call.token, call.stream)));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.peek().map(|Reverse((at, ..))| *at)
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while self.next_event().is_some_and(|at| at <= now) {
            let Some(Reverse((at, token, stream))) = self.under_way.pop() else { return };
            let arrival = at - Nanos::from_micros(100);
            let priority = block::Priority::DEFAULT;
            let issue = Issue { arrival, lba: 0, sectors: 8, op: Op::Read, sync: true, stream, priority, token };
            finished.push(Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: arrival, at }));
        }
    }

    fn dispatch(&mut self, _now: Nanos) {}
}

fn processes(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("processes");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, options) in [("1 job, depth 32", "iodepth=32\nnumber_ios=1000000"), ("64 jobs", "numjobs=64\nnumber_ios=15625")] {
        let text = format!("[j]\nrw=randread\nnorandommap\nsize=1g\nio_size=1t\ndirect=1\nioengine=libaio\n{options}\n");
        let placed =
            Workload::parse(&text, "bench").and_then(|workload| workload.place(1 << 31, 1)).unwrap_or_else(|e| panic!("{e}"));
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let outcome = run(&placed, &mut Constant::default(), None, Measure::new([]), &Watch::default(), None);
                assert!(outcome.is_ok_and(|outcome| outcome.measure.all.count() == REQUESTS));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, draws, processes);
criterion_main!(benches);
