//! Service times of requests on a device: the time by which each kept it busy for longer.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Priority, Request};
use device_model::device::{Done, ModelTrainer, TrainingTrace};
use sim::host::Queue;
use sim::profile::DeviceProfile;
use sim::run::{Finished, Issue, Server as _};
use twin::ObservedRequest;

use super::alone::Alone;
use super::training_load::Planned;
use progress::monitor::Interrupted;

/// A request with its service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The request.
    pub request: Request,
    /// Start of service: the completion of all earlier requests, or its issue if that is later.
    pub start: Nanos,
    /// Number of other requests in the queue at that time.
    pub waiting: u32,
    /// Service time: by how much the request delayed the completion of all.
    pub took: Nanos,
}

fn request(planned: &Planned, arrival: Nanos) -> Request {
    let Planned { op, lba, sectors, .. } = *planned;
    Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival }
}

/// Runs a trace, one request at a time.
///
/// # Errors
/// The run was interrupted.
pub fn one_at_a_time(profile: &dyn DeviceProfile, planned: &[Planned], stop: &AtomicBool) -> Result<Vec<Served>, Interrupted> {
    let mut device = Alone::new(profile.build(Default::default()), stop);
    let serve = |planned: &Planned| {
        let (start, done) = device.serve(planned.op, planned.lba, planned.sectors, planned.after).ok_or(Interrupted)?;
        Ok(Served { request: request(planned, start), start, waiting: 0, took: done - start })
    };
    planned.iter().map(serve).collect()
}

/// Runs a trace with the planned number of requests in a queue in front of the device: a request's service time depends on which others
/// the device may serve before it.
///
/// # Errors
/// The run was interrupted.
pub fn several(
    mut queue: Queue,
    planned: &[Planned],
    lessons: &ModelTrainer,
    stop: &AtomicBool,
) -> Result<Vec<Served>, Interrupted> {
    let (mut now, mut under_way, mut finished) = (Nanos::ZERO, 0, Vec::new());
    let mut done: Vec<Done> = Vec::with_capacity(planned.len());
    while done.len() < planned.len() || under_way > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(Interrupted);
        }
        while let Some(next) = planned.get(done.len()).filter(|next| under_way < next.depth) {
            let Planned { op, lba, sectors, .. } = *next;
            let (token, priority) = (done.len() as u64, Priority::DEFAULT);
            queue.admit(now, Issue { arrival: now, lba, sectors, op, sync: true, stream: 0, priority, token });
            done.push(Done { request: request(next, now), sent: now, end: now });
            under_way += 1;
        }
        queue.dispatch(now);
        // A queue with a request always has a next event.
        let Some(next) = queue.next_event() else { break };
        now = now.max(next);
        queue.advance(now, &mut finished);
        for finished in finished.drain(..) {
            if let Finished::Transfer(transferred) = finished {
                done[transferred.issue.token as usize].end = transferred.at;
                under_way -= 1;
            }
        }
    }
    let waiting = planned.iter().map(|planned| planned.depth.saturating_sub(1));
    Ok(attributed(&done, waiting, lessons))
}

/// Attributes to each request the time of its own, as if they had been served one after the other.
fn attributed(done: &[Done], waiting: impl Iterator<Item = u32>, lessons: &ModelTrainer) -> Vec<Served> {
    let mut all_done = Nanos::ZERO;
    let taken = lessons.attribute(done).into_iter();
    let one = |((done, waiting), took): ((&Done, u32), Nanos)| {
        let start = all_done.max(done.sent);
        all_done = start + took;
        Served { request: done.request, start, waiting, took }
    };
    done.iter().zip(waiting).zip(taken).map(one).collect()
}

/// Service times of recorded requests.
pub fn recorded(seen: &[ObservedRequest], lessons: &ModelTrainer) -> Vec<Served> {
    let done = sent(seen);
    let waiting = at_once(&done);
    attributed(&done, waiting.into_iter(), lessons)
}

/// Requests in order of dispatch, without flushes.
fn sent(seen: &[ObservedRequest]) -> Vec<Done> {
    let mut seen: Vec<&ObservedRequest> = seen.iter().filter(|seen| !seen.is_flush()).collect();
    seen.sort_by_key(|seen| (seen.dispatched, seen.completed, seen.request.lba));
    let done = |seen: &&ObservedRequest| {
        let request = Request { arrival: seen.dispatched, ..seen.request };
        Done { request, sent: seen.dispatched, end: seen.completed }
    };
    seen.iter().map(done).collect()
}

/// For each request, the number of earlier ones that were outstanding when it was sent.
fn at_once(done: &[Done]) -> Vec<u32> {
    let mut before: Vec<Nanos> = Vec::new();
    let waiting = |done: &Done| {
        before.retain(|end| *end > done.sent);
        before.push(done.end);
        before.len() as u32 - 1
    };
    done.iter().map(waiting).collect()
}

/// Adds a trace to the training; requests for which `is_learned` is false only update the state.
pub fn tell(lesson: &mut TrainingTrace, served: &[Served], is_learned: impl Fn(usize) -> bool) {
    for (number, served) in served.iter().enumerate() {
        let Served { request, start, waiting, took } = served;
        match is_learned(number) {
            true => lesson.add(*start, request, *waiting, *took),
            false => lesson.add_untrained(*start, request, *waiting, *took),
        }
    }
}
