//! Cost of the twin: a fit, by accesses, a load that is inferred, by requests, and an answer, by simulated requests. The budget of the
//! controller goes by these.

#![allow(clippy::unwrap_used, reason = "a benchmark that meets the unexpected should fail")]
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::sync::Arc;

use block::{KnowledgeStore, Nanos};
use control::Setting;
use control::target::Bounds;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use observe::Preference;
use sim::host::{Host, HostSettings, Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Measure, Pilot, ServerEvent, Watch};
use sim::workload::Workload;
use twin::{Activation, ForecastRequest, ObservedRequest, Recording, ScoreBuckets};

const LOADS: &[(&str, &str, &str)] = &[
    ("random", "atlas10k", "[deep]\nioengine=libaio\niodepth=16\nrw=randrw\nbs=8k\n"),
    ("streams", "sata7200", "[reader]\nrw=read\nbs=64k\nnumjobs=4\nthinktime=2000\n"),
    ("flash", "nvme-tlc", "[look-up]\nrw=randread\nbs=4k\nnumjobs=4\nthinktime=1000\n"),
];

struct Observer(Recording, ScoreBuckets);

impl Pilot for Observer {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(twin::event) {
            self.0.event(&event);
            self.1.event(&event);
        }
    }
}

fn recorded(disk: &str, jobs: &str) -> (Observer, u64) {
    let text = format!("[global]\ndirect=1\nsize=512m\nruntime=10\ntime_based\nnorandommap\n{jobs}");
    let profile = sim::profile::load(disk).unwrap();
    let placed = Workload::parse(&text, "bench.fio").unwrap().place(profile.capacity_sectors(), 1).unwrap();
    let spec = block::find("deadline").unwrap();
    let scheduler = (spec.build)(&QueueSettings::default().limits(), &spec.defaults());
    let queue = Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default());
    let mut host = Host::new(queue, placed.files(), HostSettings::default()).unwrap();
    let mut observer = Observer(Recording::new(), ScoreBuckets::new());
    let (measure, watch) = (Measure::new([]), Watch::default());
    sim::workload::run(&placed, &mut host, None, measure, &watch, Some(&mut observer)).unwrap();
    (observer, profile.capacity_sectors())
}

fn bench(criterion: &mut Criterion) {
    for (name, disk, jobs) in LOADS {
        let (observer, capacity) = recorded(disk, jobs);
        let seen: Vec<ObservedRequest> = observer.0.seen().take(1_000).copied().collect();
        let mut group = criterion.benchmark_group(format!("fit/{name}"));
        group.sample_size(10).throughput(Throughput::Elements(seen.len() as u64));
        group.bench_function("accesses", |bencher| bencher.iter(|| twin::fit(black_box(&seen), Some(capacity)).unwrap()));
        group.finish();
        let seconds = |seconds: u64| Nanos::from_millis(1_000 * seconds);
        let mut group = criterion.benchmark_group(format!("load/{name}"));
        group.throughput(Throughput::Elements(observer.0.seen().len() as u64));
        group.bench_function("requests", |bencher| {
            bencher.iter(|| twin::Load::infer(black_box(&observer.0).seen(), seconds(0), seconds(10)).requests());
        });
        group.finish();
        let fitted = twin::fit(&seen, Some(capacity)).unwrap();
        let device = fitted.profile();
        let candidates: Vec<Setting> = device_model::sched::all().map(Setting::of).collect();
        let deadline = Setting::parse("deadline").unwrap();
        let measured = observer.1.served(2.0, 9.0).unwrap();
        let ask = || {
            let mut knowledge = KnowledgeStore::new(device_model::sched::all());
            knowledge.set_rotation(fitted.turn());
            let request = ForecastRequest {
                recording: &observer.0,
                from: seconds(2),
                to: seconds(9),
                measured,
                device: &Arc::clone(&device),
                knowledge: &mut knowledge,
                active: &deadline,
                original: &deadline,
                candidates: &candidates,
                bounds: Bounds {
                    capacity_sectors: capacity,
                    limits: QueueSettings::default().limits(),
                    nr_requests: 256,
                    read_ahead_kib: None,
                },
                preference: Preference::default(),
                max_requests: 20_000,
                error_scale: 1.0,
                activation: Activation::Live,
            };
            request.run().map_or(1, |forecast| forecast.requests)
        };
        let mut group = criterion.benchmark_group(format!("answer/{name}"));
        group.sample_size(10).throughput(Throughput::Elements(ask()));
        group.bench_function("requests", |bencher| bencher.iter(ask));
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
