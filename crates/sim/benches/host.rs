//! The page cache alone: pages that are there, and a file read in order through it.

#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so at once")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use block::{Nanos, Op, Priority};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::host::{Access, Action, Advice, Call, File, Host, HostSettings, Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::Server;

const MAX_CALLS: u64 = 1_000_000;
const PAGE: u64 = 4096;

fn host(settings: &str) -> Host {
    let profile = sim::profile::load("sata7200").expect("a shipped disk");
    let (spec, values) = block::parse("deadline").expect("a scheduler");
    let scheduler = (spec.build)(&block::Limits::default(), &values);
    let queue = Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default());
    let files = vec![File::device("disk".to_owned(), profile.capacity_sectors())];
    Host::new(queue, Arc::new(files), HostSettings::parse(settings).expect("settings")).expect("a host")
}

/// One process makes calls of a page each, one after the other.
fn run(host: &mut Host, mut now: Nanos, op: Op, page: impl Fn(u64) -> u64) -> Nanos {
    let mut finished = Vec::new();
    for token in 0..MAX_CALLS {
        let action = Action::Access { op, file: 0, offset: page(token) * PAGE, bytes: PAGE as u32, access: Access::Buffered };
        host.admit(now, Call { arrival: now, stream: 1, priority: Priority::DEFAULT, token, advice: Advice::Normal, action });
        host.dispatch(now);
        while finished.is_empty() {
            now = host.next_event().expect("the call is not done");
            host.advance(now, &mut finished);
            host.dispatch(now);
        }
        finished.clear();
    }
    now
}

fn page_cache(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("buffered calls of 4 KiB");
    group.throughput(Throughput::Elements(MAX_CALLS)).sample_size(10).measurement_time(Duration::from_secs(5));
    let mut warm = host("memory_mib=1024");
    let mut now = run(&mut warm, Nanos::ZERO, Op::Read, |number| number % 65_536);
    group.bench_function("hits at random in 256 MiB", |bencher| {
        bencher.iter(|| now = black_box(run(&mut warm, now, Op::Read, |number| number.wrapping_mul(0x9e37_79b9) % 65_536)));
    });
    group.bench_function("a file read in order", |bencher| {
        bencher.iter(|| black_box(run(&mut host("memory_mib=512"), Nanos::ZERO, Op::Read, |number| number)));
    });
    group.bench_function("a file written in order", |bencher| {
        bencher.iter(|| black_box(run(&mut host("memory_mib=512"), Nanos::ZERO, Op::Write, |number| number)));
    });
    group.finish();
}

criterion_group!(benches, page_cache);
criterion_main!(benches);
