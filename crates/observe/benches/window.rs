//! Cost of observation: a request's two events through the extractor, through the tally, and the end of a window.
//!
//! Sixteen streams: four read sequentially, eight read or write at random, three write back, one discards. Up to 32 requests are
//! queued and not done.

use std::collections::VecDeque;
use std::hint::black_box;

use block::{Nanos, Op, Priority, Request};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use observe::Event;
use observe::window::{Extractor, Tally};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Few enough that the events stay in the cache, as those that just happened would.
const REQUESTS: u64 = 10_000;
const WINDOW: Nanos = Nanos::from_millis(10_000);

fn request(random: &mut Xoshiro256PlusPlus, ends: &mut [u64; 4], arrival: Nanos) -> Request {
    let stream = random.random_range(0..16);
    let (op, sync) = match stream {
        0..8 => (Op::Read, true),
        8..12 => (if random.random() { Op::Read } else { Op::Write }, true),
        12..15 => (Op::Write, false),
        _ => (Op::Discard, false),
    };
    let sectors = [8, 8, 16, 64, 256, 1024][random.random_range(0..6)];
    let lba = match ends.get_mut(stream as usize) {
        Some(end) => std::mem::replace(end, *end + u64::from(sectors)),
        None => random.random_range(0..1 << 30) * 8,
    };
    Request { id: 0, stream, op, sync, priority: Priority::DEFAULT, sectors, lba, arrival }
}

fn events() -> Vec<Event> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut ends = [0, 1 << 25, 1 << 28, 1 << 31];
    let (mut events, mut open) = (Vec::new(), VecDeque::new());
    let mut now = Nanos::ZERO;
    for _ in 0..REQUESTS {
        now += Nanos::from_micros(random.random_range(0..200));
        let request = request(&mut random, &mut ends, now);
        events.push(Event::Queued(request));
        open.push_back(request);
        if open.len() > random.random_range(0..32) {
            let request = open.swap_remove_front(random.random_range(0..open.len()));
            let dispatched = request.map_or(now, |request| request.arrival);
            events.extend(request.map(|request| Event::Completed { request, dispatched, at: now }));
        }
    }
    events
}

fn window(criterion: &mut Criterion) {
    let events = events();
    let mut group = criterion.benchmark_group("window");
    group.throughput(Throughput::Elements(REQUESTS));
    let mut extractor = Extractor::new();
    group.bench_function("extractor", |bencher| {
        bencher.iter(|| {
            events.iter().for_each(|event| extractor.event(event));
            black_box(extractor.close(WINDOW))
        });
    });
    let mut tally = Tally::new();
    group.bench_function("tally", |bencher| {
        bencher.iter(|| {
            events.iter().for_each(|event| tally.event(event));
            black_box(tally.close(WINDOW))
        });
    });
    group.throughput(Throughput::Elements(1));
    events.iter().for_each(|event| extractor.event(event));
    events.iter().for_each(|event| tally.event(event));
    group.bench_function("close", |bencher| {
        let clones = || (extractor.clone(), tally.clone());
        bencher.iter_batched_ref(
            clones,
            |(extractor, tally)| black_box((extractor.close(WINDOW), tally.close(WINDOW))),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, window);
criterion_main!(benches);
