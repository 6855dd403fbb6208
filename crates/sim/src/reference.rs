//! A disk that somebody was promised, as a shadow: a simulated one that serves what is asked of it, in its own time.
//!
//! ```text
//! of(start, request, waiting)
//!    start > end of all before?   yes: the rest is served, then it pauses for as long
//!    admit the request            (all that come while no time passes are in before anything is dispatched)
//!    serve until no more than `waiting` are left
//!    ◀── the time that passed, and what those that are left will probably take
//! ```
//! Who keeps `n` requests under way asks with `waiting = n - 1`, so that each request is answered by the time from one completion to the
//! next: how long the disk takes, with that many in its queue, for as many more. What those that are left will take is not known yet.
//! They are charged what requests took lately, and what was charged too much or too little is settled as they are done, so that the sum
//! is the time for which the disk was busy.

use std::collections::VecDeque;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request, SchedulerSpec};

use crate::host::{Queue, QueueSettings};
use crate::profile::{DeviceOptions, Profile};
use crate::run::{Issue, Server};

/// A disk with a queue before it, as good as which a tenant is to be served.
#[derive(Clone, Debug)]
pub struct ReferenceDisk {
    profile: Profile,
    options: DeviceOptions,
    settings: QueueSettings,
    scheduler: &'static SchedulerSpec,
    values: Vec<i64>,
}

impl ReferenceDisk {
    /// The disk of this profile behind a queue with this scheduler, with values for its tunables in their order and ranges.
    pub fn new(
        profile: &Profile,
        options: DeviceOptions,
        settings: QueueSettings,
        (scheduler, values): (&'static SchedulerSpec, &[i64]),
    ) -> ReferenceDisk {
        ReferenceDisk { profile: profile.clone(), options, settings, scheduler, values: values.to_vec() }
    }

    /// The queue and the disk, at rest.
    pub fn queue(&self) -> Queue {
        let scheduler = (self.scheduler.build)(&self.settings.limits(), &self.values);
        Queue::new(scheduler, self.profile.build(self.options), self.settings)
    }
}

impl ServiceModel for ReferenceDisk {
    fn begin(&self) -> Box<dyn ServiceTime> {
        Box::new(Shadow {
            queue: self.queue(),
            now: Nanos::ZERO,
            end: Nanos::ZERO,
            busy: 0,
            charged: 0,
            expected: VecDeque::new(),
            expected_sum: 0,
            spacing: Spacing::default(),
            finished: Vec::new(),
        })
    }
}

/// The mean time from one completion to the next, of the last few dozen.
#[derive(Default)]
struct Spacing {
    completions: u64,
    time: u64,
}

impl Spacing {
    /// Both are halved at this many.
    const ENOUGH: u64 = 64;

    fn add(&mut self, completions: u64, time: u64) {
        self.completions += completions;
        self.time += time;
        if self.completions > Spacing::ENOUGH {
            (self.completions, self.time) = (self.completions / 2, self.time / 2);
        }
    }

    fn mean(&self) -> u64 {
        self.time.checked_div(self.completions).unwrap_or(0)
    }
}

/// A reference disk at work.
struct Shadow {
    queue: Queue,
    /// Its own time.
    now: Nanos,
    /// The caller's time at which it would be done with all that it was asked about, as it was answered.
    end: Nanos,
    /// Nanoseconds for which it was busy, and what was charged.
    busy: u64,
    charged: u64,
    /// What was expected of those that are not done, in the order in which they came.
    expected: VecDeque<u64>,
    expected_sum: u64,
    spacing: Spacing,
    finished: Vec<crate::run::Finished>,
}

impl Shadow {
    /// Serves until no more than `left` requests are left.
    fn serve(&mut self, left: usize) {
        while self.expected.len() > left {
            self.queue.dispatch(self.now);
            let Some(next) = self.queue.next_event() else { return };
            let next = next.max(self.now);
            self.queue.advance(next, &mut self.finished);
            let passed = (next - self.now).0;
            self.now = next;
            self.busy += passed;
            self.spacing.add(self.finished.len() as u64, passed);
            for _ in self.finished.drain(..) {
                self.expected_sum -= self.expected.pop_front().unwrap_or(0);
            }
        }
    }

    /// Has nothing to serve for this time.
    fn pause(&mut self, time: Nanos) {
        let until = self.now + time;
        self.queue.dispatch(self.now);
        while let Some(next) = self.queue.next_event().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            self.queue.advance(self.now, &mut self.finished);
            self.queue.dispatch(self.now);
        }
        self.now = until;
    }

    /// The request as one of this disk, which may be smaller than the volume.
    fn issue(&self, request: &Request) -> Issue {
        let capacity = self.queue.capacity_sectors().max(1);
        let sectors = request.sectors.min(u32::try_from(capacity).unwrap_or(u32::MAX));
        let places = capacity - u64::from(sectors) + 1;
        let lba = if request.lba < places { request.lba } else { request.lba % places };
        let Request { op, sync, stream, priority, .. } = *request;
        Issue { arrival: self.now, lba, sectors, op, sync, stream, priority, token: 0 }
    }
}

impl ServiceTime for Shadow {
    fn service_time(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos {
        if start > self.end {
            self.serve(0);
            self.pause(start - self.end);
        }
        let issue = self.issue(request);
        self.queue.admit(self.now, issue);
        let expected = self.spacing.mean();
        self.expected.push_back(expected);
        self.expected_sum += expected;
        self.serve(waiting as usize);
        let service = (self.busy + self.expected_sum).saturating_sub(self.charged);
        self.charged += service;
        self.end = start + Nanos(service);
        Nanos(service)
    }
}
