//! What the controller of promises costs: the bar is 0.5% of a core at 5,000 requests a second of 50 units, 1 µs for each request.

#![allow(missing_docs, reason = "the macros of criterion write undocumented items")]

use block::{Nanos, Op, Priority, Request};
use criterion::{Criterion, criterion_group, criterion_main};
use observe::Event;
use protect::{PERIOD, Promise, Protector, Unit};

const UNITS: usize = 50;
/// Units with a promise.
const PROMISED: usize = 5;
/// Nanoseconds between two requests: 5,000 a second.
const GAP: u64 = 200_000;
/// Requests that are outstanding.
const OUTSTANDING: u64 = 64;

/// One request in the mean: its two events, and its part of a step every 100 ms.
fn request(criterion: &mut Criterion) {
    let promise = Promise { read_p99: Some(Nanos::from_millis(20)), least_iops: Some(50.0), ..Promise::default() };
    let unit = |number| Unit {
        name: format!("unit {number}"),
        promise: (number < PROMISED).then(|| promise.clone()),
        is_limitable: true,
        floor_bytes_per_s: 1 << 20,
    };
    let mut protector = Protector::new((0..UNITS).map(unit).collect());
    let request = |number: u64| {
        let (stream, lba, arrival) = ((number % UNITS as u64) as u32, number * 7_919_003 % (1 << 40), Nanos(number * GAP));
        Request { id: 0, stream, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 16, lba, arrival }
    };
    let mut number = 0;
    criterion.bench_function("protect/request", |bencher| {
        bencher.iter(|| {
            number += 1;
            let now = Nanos(number * GAP);
            let queued = request(number);
            protector.event(queued.stream as usize, &Event::Queued(queued));
            if number > OUTSTANDING {
                let done = request(number - OUTSTANDING);
                protector.event(done.stream as usize, &Event::Completed { request: done, dispatched: now - Nanos(GAP), at: now });
            }
            if now.0.is_multiple_of(PERIOD.0) { protector.step(now).len() } else { 0 }
        });
    });
}

criterion_group!(benches, request);
criterion_main!(benches);
