//! Properties of each scheduler beyond the common rules, and of the merging queue.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod adios;
mod anticipatory;
mod bfq;
mod cfq;
mod crowd;
mod deadline;
mod disk;
mod elevators;
mod fairio;
mod guarantee;
mod io_cost;
mod mclock;
mod merging;
mod multi_queue;
mod switching;
mod virtual_clock;
mod youchoose;

use block::{Insertion, Limits, Nanos, Op, Pick, Priority, Request, RequestId, Scheduler, parse};

/// A scheduler from its text form.
pub fn scheduler(setting: &str) -> Box<dyn Scheduler> {
    scheduler_with(setting, Limits::default())
}

/// The same with other merge limits.
pub fn scheduler_with(setting: &str, limits: Limits) -> Box<dyn Scheduler> {
    let (spec, values) = parse(setting).unwrap_or_else(|error| panic!("{error}"));
    (spec.build)(&limits, &values)
}

/// A time or duration in milliseconds.
pub fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// A read of 8 sectors by stream 1.
pub fn read(id: RequestId, lba: u64) -> Request {
    Request { id, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: Nanos::ZERO }
}

/// An asynchronous write of 8 sectors by stream 1.
pub fn write(id: RequestId, lba: u64) -> Request {
    Request { op: Op::Write, sync: false, ..read(id, lba) }
}

/// Inserts requests that do not merge, arriving now.
pub fn insert_all(scheduler: &mut dyn Scheduler, now: Nanos, requests: impl IntoIterator<Item = Request>) {
    for request in requests {
        assert_eq!(scheduler.insert(now, Request { arrival: now, ..request }), Insertion::Queued);
    }
}

/// Picks without completions, up to the end.
pub fn pick_all(scheduler: &mut dyn Scheduler, now: Nanos) -> Vec<Request> {
    std::iter::from_fn(|| if let Pick::Go(request) = scheduler.pick(now) { Some(request) } else { None }).collect()
}

/// The LBA of the next request, which is completed at once.
#[track_caller]
pub fn serve(scheduler: &mut dyn Scheduler, now: Nanos) -> u64 {
    match scheduler.pick(now) {
        Pick::Go(request) => {
            scheduler.completed(now, &request, Nanos::ZERO);
            request.lba
        }
        other => panic!("a request should have gone, but: {other:?}"),
    }
}

/// The LBAs of all requests in the order of dispatch.
pub fn serve_all(scheduler: &mut dyn Scheduler, now: Nanos) -> Vec<u64> {
    let mut order = Vec::new();
    while let Pick::Go(request) = scheduler.pick(now) {
        scheduler.completed(now, &request, Nanos::ZERO);
        order.push(request.lba);
    }
    order
}
