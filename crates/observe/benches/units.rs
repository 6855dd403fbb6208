//! Cost of accounting by units for each event: 50 units at 5,000 requests a second, some 800 of them waiting at a time.
//!
//! 0.5% of a core at that rate is 1 µs for each request.

use std::collections::VecDeque;
use std::hint::black_box;

use block::{Nanos, Op, Priority, Request};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use observe::Event;
use observe::units::{UnitId, Units};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Few enough that a measurement is seldom interrupted.
const REQUESTS: u64 = 1_000;
/// Two seconds of them go before.
const BEFORE: u64 = 10_000;
const UNITS: u32 = 50;

/// Events of requests of which about `waiting` are outstanding; every hundredth is a flush.
fn events(waiting: usize) -> Vec<(UnitId, Event)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut events, mut open) = (Vec::new(), VecDeque::new());
    let mut now = Nanos::ZERO;
    for number in 0..BEFORE + REQUESTS {
        now += Nanos::from_micros(random.random_range(0..400));
        let unit = random.random_range(0..UNITS);
        let op = if random.random() { Op::Read } else { Op::Write };
        let request =
            Request { id: 0, stream: unit, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 0, arrival: now };
        events.push((unit, Event::Queued(request)));
        open.push_back(request);
        if open.len() > waiting {
            let request = open.swap_remove_front(random.random_range(0..open.len()));
            events.extend(request.map(|request| {
                let (stream, asked) = (request.stream, request.arrival);
                let is_flush = number % 100 == 0;
                let flushed = Event::Flushed { stream, asked, at: now };
                (stream, if is_flush { flushed } else { Event::Completed { request, dispatched: asked, at: now } })
            }));
        }
    }
    events
}

fn bencher_of(group: &mut BenchmarkGroup<'_, WallTime>, waiting: usize, known: &Units, measured: &[(UnitId, Event)]) {
    group.bench_function(format!("requests, {waiting} waiting"), |bencher| {
        let events = |units: &mut Units| measured.iter().for_each(|(unit, event)| units.event(*unit, black_box(event)));
        bencher.iter_batched_ref(|| known.clone(), events, BatchSize::PerIteration);
    });
}

fn units(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("units");
    group.throughput(Throughput::Elements(REQUESTS));
    for waiting in [50, 800] {
        let events = events(waiting);
        let (before, measured) = events.split_at(events.len() - 2 * REQUESTS as usize);
        // It knows the units, as that of a program that has run for a while.
        let mut known = Units::new();
        before.iter().for_each(|(unit, event)| known.event(*unit, event));
        known.close(Nanos::from_millis(2_000));
        bencher_of(&mut group, waiting, &known, measured);
    }
    group.finish();
}

criterion_group!(benches, units);
criterion_main!(benches);
