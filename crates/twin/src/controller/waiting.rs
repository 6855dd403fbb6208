//! What streams wait for, to notice one that gets nothing, or too late.

use std::collections::BTreeMap;

use block::{Nanos, Request, StreamId};
use learn::merit;

/// A stream that gets nothing for so many times the bound of its p99 starves: one in a hundred may wait for longer than that.
const SILENT: f64 = 3.0;
/// Streams of which it is known how long they wait. Where programs come and go for months, those that wait for nothing are forgotten.
const MOST_WAITING: usize = 1 << 14;

/// What a stream waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    requests: u32,
    /// When the last one was done, or the first came.
    since: Nanos,
    /// The longest that it ever got nothing, or waited, under the default.
    longest: Nanos,
    /// Requests that came and were done under what is in force, and those of them that waited beyond the bound.
    done: u32,
    late: u32,
}

impl Waiting {
    /// The bound on its p99 response time, in seconds.
    fn bound_s(&self) -> f64 {
        merit::bound_s(self.longest.as_secs_f64())
    }

    /// Significantly more than one in a hundred were late; not one alone.
    fn is_late(&self) -> bool {
        self.late > 1 && merit::are_too_many(self.late.into(), self.done.into())
    }
}

/// All streams.
#[derive(Clone, Debug, Default)]
pub struct Streams(BTreeMap<StreamId, Waiting>);

impl Streams {
    /// A request was queued that somebody waits for.
    pub fn queued(&mut self, request: &Request) {
        if self.0.len() >= MOST_WAITING {
            self.0.retain(|_, waiting| waiting.requests > 0);
        }
        let waiting = self.0.entry(request.stream).or_default();
        if waiting.requests == 0 {
            waiting.since = request.arrival;
        }
        waiting.requests += 1;
    }

    /// It is done. `evidence`: from when on what is in force served the load; `None` where that is the default.
    pub fn completed(&mut self, request: &Request, at: Nanos, evidence: Option<Nanos>) {
        let waiting = self.0.entry(request.stream).or_default();
        match evidence {
            None => waiting.longest = waiting.longest.max(at - waiting.since.min(request.arrival)),
            Some(evidence) if request.arrival >= evidence => {
                waiting.done += 1;
                let waited_s = (at - request.arrival).as_secs_f64() / f64::from(request.counts_as());
                waiting.late += u32::from(waited_s > waiting.bound_s());
            }
            Some(_) => {}
        }
        (waiting.requests, waiting.since) = (waiting.requests.saturating_sub(1), at);
    }

    /// Something else serves them from now on.
    pub fn are_served_anew(&mut self) {
        self.0.values_mut().for_each(|waiting| (waiting.done, waiting.late) = (0, 0));
    }

    /// One that waits beyond its bound and gets nothing, and for how long.
    pub fn starving(&self, now: Nanos) -> Option<String> {
        self.0.iter().find_map(|(stream, waiting)| {
            let waits_s = (now - waiting.since).as_secs_f64();
            let bound_s = waiting.bound_s();
            if waiting.requests > 0 && waits_s > SILENT * bound_s {
                return Some(format!("stream {stream} got nothing for {waits_s:.1} s"));
            }
            let Waiting { late, done, .. } = waiting;
            waiting.is_late().then(|| format!("{late} of {done} requests of stream {stream} waited for more than {bound_s:.1} s"))
        })
    }
}
