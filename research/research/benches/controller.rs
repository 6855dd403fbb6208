//! How long one decision takes with 1,000 cases of experience (the bar is 50 µs), what one event costs a scheme that senses changes, and
//! how long learning takes before a run.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "the macros of criterion write undocumented items; a benchmark that cannot run should fail"
)]

use std::sync::Arc;
use std::time::Duration;

use block::{Nanos, Op, Priority, Request, SchedulerSpec, Tunable};
use control::controller::ControllerInput;
use control::experience::{Case, Experience};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError, Window};
use criterion::{Criterion, criterion_group, criterion_main};
use observe::description::{describe, names};
use observe::performance::Performance;
use observe::window::{FEATURES, Features};
use observe::{Event, WindowOutcome};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use research::controller::parse;

struct Still(Setting);

impl Target for Still {
    fn identity(&self) -> Identity {
        Identity { plant: "bench".to_owned(), device: "none".to_owned() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        device_model::sched::all().collect()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: block::Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }

    fn setting(&self) -> Setting {
        self.0.clone()
    }

    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::from_millis(5)
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        self.0 = setting.clone();
        Ok(())
    }
}

/// Windows of four overlapping kinds of workload.
fn windows() -> Vec<Window> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let setting = Arc::new(Setting::parse("deadline").unwrap());
    let window = |number: u64| {
        let kind = (number % 4) as usize;
        let mut value = |feature: usize| (feature % 4 == kind) as u8 as f64 + random.random_range(0.0..1.5);
        let features = Features(std::array::from_fn(&mut value));
        let seconds = Nanos::from_millis(1000);
        let response_s = 0.01 * (1.0 + value(kind));
        let outcome = WindowOutcome {
            duration: seconds,
            requests: 500,
            waited_for: 500,
            bytes: 10_000_000,
            mean_response_s: response_s,
            waited_s: response_s,
            p99_response_s: 4.0 * response_s,
            max_response_s: 5.0 * response_s,
            mean_service_s: 0.002,
            fairness: 0.9,
            unfinished: 4,
            calls: None,
        };
        let from = Nanos(number * seconds.0);
        Window { number, from, to: from + seconds, setting: setting.clone(), features, outcome }
    };
    (0..1000).map(window).collect()
}

/// Every window is a case; which setting was best depends on its kind.
fn experience(windows: &[Window]) -> Experience {
    let settings: Vec<String> = device_model::sched::all().map(|spec| spec.name.to_owned()).collect();
    let under = settings.iter().position(|name| name == "deadline").unwrap();
    let mut experience = Experience::new(names(), settings);
    for (number, window) in windows.iter().enumerate() {
        let features = describe(&window.features, &window.outcome).iter().map(|value| Some(*value as f32)).collect();
        let served = |setting: usize| {
            let throughput = if setting == number % 4 { 2e7 } else { 1e7 };
            Some(Performance { throughput, response_s: 0.01, fairness: 0.9, starves: false })
        };
        let results = (0..experience.settings.len()).map(served).collect();
        let (workload, device) = (format!("workload {}", number % 20), "none".to_owned());
        experience.cases.push(Case { workload, device, under, features, results });
    }
    experience
}

fn decide(criterion: &mut Criterion) {
    assert!(FEATURES.len() > 30, "the rows would be no measure");
    let mut windows = windows();
    let brief = ControllerInput { experience: Arc::new(experience(&windows)), ..ControllerInput::default() };
    let of_learners = research::model::NAMES.iter().map(|learner| format!("two-layer:training=offline,learner={learner}"));
    // Without retraining, which is no decision.
    let others = ["round-robin", "two-layer:retrain_requests=1000000000000", "seekwise"].map(str::to_owned);
    for text in others.into_iter().chain(of_learners) {
        let mut plant = Still(Setting::parse("deadline").unwrap());
        let mut controller = parse(&text).unwrap().build(&brief);
        let begun = controller.begin(Nanos::ZERO, &plant);
        plant.0 = begun.setting.unwrap_or(plant.0);
        let (mut next, mut now) = (0, Nanos::ZERO);
        criterion.bench_function(&format!("decide/{text}"), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % windows.len();
                windows[next].from = now;
                now += windows[next].outcome.duration;
                windows[next].to = now;
                windows[next].setting = Arc::new(plant.0.clone());
                let decision = controller.decide(&windows[next], &plant);
                plant.0 = decision.setting.clone().unwrap_or_else(|| plant.0.clone());
                decision
            })
        });
    }
}

fn begin(criterion: &mut Criterion) {
    let brief = ControllerInput { experience: Arc::new(experience(&windows())), ..ControllerInput::default() };
    let plant = Still(Setting::parse("deadline").unwrap());
    let mut group = criterion.benchmark_group("begin");
    group.sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_millis(1));
    for learner in research::model::NAMES {
        let chosen = parse(&format!("two-layer:learner={learner}")).unwrap();
        group.bench_function(*learner, |bencher| {
            bencher.iter(|| chosen.build(&brief).begin(Nanos::ZERO, &plant));
        });
    }
}

fn event(criterion: &mut Criterion) {
    let mut controller = parse("two-layer").unwrap().build(&ControllerInput::default());
    let mut number = 0_u64;
    criterion.bench_function("event", |bencher| {
        bencher.iter(|| {
            number += 1;
            controller.event(&Event::Queued(Request {
                id: 0,
                stream: (number % 40) as u32,
                op: Op::Read,
                sync: true,
                priority: Priority::DEFAULT,
                sectors: 8,
                lba: number * 7_919_000_003 % (1 << 30),
                arrival: Nanos(number),
            }))
        });
    });
}

criterion_group!(benches, decide, begin, event);
criterion_main!(benches);
