//! What a device makes of requests: for how much longer each kept it busy.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Priority, Request};
use learn::device::Lesson;
use sim::profile::DeviceProfile;
use twin::Seen;

use super::alone::Alone;
use super::training_load::Planned;
use crate::monitor::Interrupted;

/// Requests that a time is shared out among, where several are served at once.
const BLOCK: usize = 64;
/// They took at least this part of what they take one after the other: nothing is served in no time.
const LEAST: f64 = 0.01;

/// A request, and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// What was asked for.
    pub request: Request,
    /// When the device began, done with all before.
    pub start: Nanos,
    /// Requests in the queue then, beside it.
    pub waiting: u32,
    /// By how much it delayed the end of all.
    pub took: Nanos,
}

fn request(planned: &Planned, number: usize, arrival: Nanos) -> Request {
    let Planned { op, lba, sectors, .. } = *planned;
    Request { id: number as u32, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival }
}

/// Runs a trace, one request at a time.
///
/// # Errors
/// It was interrupted.
pub fn one_at_a_time(profile: &dyn DeviceProfile, planned: &[Planned], stop: &AtomicBool) -> Result<Vec<Served>, Interrupted> {
    let mut device = Alone::new(profile.build(Default::default()), stop);
    let serve = |planned: &Planned| {
        let (start, done) = device.serve(planned.op, planned.lba, planned.sectors, planned.after).ok_or(Interrupted)?;
        Ok(Served { request: request(planned, 0, start), start, waiting: 0, took: done - start })
    };
    planned.iter().map(serve).collect()
}

/// Runs a trace with as many requests at the device as it says.
///
/// # Errors
/// It was interrupted.
pub fn several(profile: &dyn DeviceProfile, planned: &[Planned], stop: &AtomicBool) -> Result<Vec<Served>, Interrupted> {
    let mut device = profile.build(Default::default());
    let most = device.queue_depth();
    let (mut now, mut under_way, mut done) = (Nanos::ZERO, 0, Vec::new());
    let mut ends = vec![Nanos::ZERO; planned.len()];
    let mut requests = Vec::with_capacity(planned.len());
    while requests.len() < planned.len() || under_way > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(Interrupted);
        }
        if let Some(next) = planned.get(requests.len()).filter(|next| under_way < most.min(next.depth as usize)) {
            let asked = request(next, requests.len(), now);
            device.submit(now, &asked);
            requests.push(asked);
            under_way += 1;
            continue;
        }
        // A device that holds a request always says when it goes on.
        let Some(wake) = device.wake_at() else { break };
        now = now.max(wake);
        device.advance(now, &mut done);
        for completion in done.drain(..) {
            ends[completion.id as usize] = completion.at;
            under_way -= 1;
        }
    }
    let waiting = |number: usize| planned[number].depth.min(most as u32).saturating_sub(1);
    Ok(delays(requests.into_iter().zip(ends).enumerate().map(|(number, (request, end))| (request, end, waiting(number)))))
}

/// By how much each delayed the end of all.
fn delays(requests: impl Iterator<Item = (Request, Nanos, u32)>) -> Vec<Served> {
    let mut all_done = Nanos::ZERO;
    let delay = |(request, end, waiting): (Request, Nanos, u32)| {
        let start = all_done.max(request.arrival);
        all_done = start.max(end);
        Served { request, start, waiting, took: all_done - start }
    };
    requests.map(delay).collect()
}

/// What was recorded of a device.
pub fn recorded(seen: &[Seen]) -> Vec<Served> {
    let mut seen: Vec<&Seen> = seen.iter().filter(|seen| !seen.is_flush()).collect();
    seen.sort_by_key(|seen| (seen.dispatched, seen.completed, seen.request.lba));
    let mut before: Vec<Nanos> = Vec::new();
    let with_waiting = seen.into_iter().map(|seen| {
        before.retain(|end| *end > seen.dispatched);
        before.push(seen.completed);
        (Request { arrival: seen.dispatched, ..seen.request }, seen.completed, before.len() as u32 - 1)
    });
    delays(with_waiting.collect::<Vec<_>>().into_iter())
}

/// Tells a trace; where several requests were served at once, their time is shared out among neighbours first.
pub fn tell(lesson: &mut Lesson, served: &[Served], is_learned: impl Fn(usize) -> bool) {
    for (number, block) in served.chunks(BLOCK).enumerate() {
        let requests: Vec<Request> = block.iter().map(|served| served.request).collect();
        let is_queued = block.iter().any(|served| served.waiting > 0);
        let took = Nanos(block.iter().map(|served| served.took.0).sum());
        let shares = is_queued.then(|| lesson.shares(block[0].start, &requests, took, LEAST));
        let mut at = block[0].start;
        for (index, served) in block.iter().enumerate() {
            let (start, took) = match &shares {
                Some(shares) => (at, shares[index]),
                None => (served.start, served.took),
            };
            at = start + took;
            match is_learned(number * BLOCK + index) {
                true => lesson.tell(start, &served.request, served.waiting, took),
                false => lesson.pass(start, &served.request, served.waiting, took),
            }
        }
    }
}
