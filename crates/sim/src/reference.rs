//! A tenant's guaranteed reference disk as a shadow: a simulated disk that serves the tenant's requests in its own virtual time.
//!
//! ```text
//! service_time(start, request, waiting)
//!    start > end of all before?   yes: serve the rest, then idle for the difference
//!    admit the request            (requests admitted without serving in between are sorted together)
//!    serve until at most `waiting` remain
//!    ◀── the time that passed, plus the expected time of the remaining requests
//! ```
//! A tenant that keeps `n` requests in flight passes `waiting = n - 1`, so that the result for each request is the time from one
//! completion to the next at that queue depth. The service time of the remaining requests is not known yet: they are charged the
//! recent mean, and the difference is settled as they complete, so that the sum is the busy time of the disk.

use std::collections::VecDeque;

use std::sync::Arc;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request, Scheduler, SchedulerSpec};

use crate::device::Device;
use crate::device::modelled::Modelled;
use crate::host::{Queue, QueueSettings};
use crate::profile::{DeviceOptions, Profile};
use crate::run::{Issue, Server};

/// A disk behind a queue: the service guaranteed to a tenant.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use sim::host::QueueSettings;
/// use sim::profile::{DeviceOptions, load};
/// use sim::reference::ReferenceDisk;
///
/// let (scheduler, values) = block::parse("noop")?;
/// let disk = load("atlas10k")?;
/// let reference = ReferenceDisk::new(&disk, DeviceOptions::default(), QueueSettings::default(), (scheduler, &values));
/// assert_eq!(reference.queue().capacity_sectors(), disk.capacity_sectors());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReferenceDisk {
    device: ReferenceKind,
    settings: QueueSettings,
    scheduler: &'static SchedulerSpec,
    values: Vec<i64>,
}

#[derive(Clone, Debug)]
enum ReferenceKind {
    Profile(Profile, DeviceOptions),
    /// The model, and its capacity in sectors.
    Model(Arc<dyn ServiceModel>, u64),
}

impl ReferenceDisk {
    /// A disk of this profile behind a queue with this scheduler; `values` are those of its tunables, in their order and ranges.
    pub fn new(
        profile: &Profile,
        options: DeviceOptions,
        settings: QueueSettings,
        (scheduler, values): (&'static SchedulerSpec, &[i64]),
    ) -> ReferenceDisk {
        ReferenceDisk { device: ReferenceKind::Profile(profile.clone(), options), settings, scheduler, values: values.to_vec() }
    }

    /// A device of this capacity that serves requests in order, each in the time that a model predicts, behind a queue like any
    /// other device: requests that the scheduler merges are served as one.
    pub fn of_model(
        model: Arc<dyn ServiceModel>,
        capacity_sectors: u64,
        settings: QueueSettings,
        (scheduler, values): (&'static SchedulerSpec, &[i64]),
    ) -> ReferenceDisk {
        ReferenceDisk { device: ReferenceKind::Model(model, capacity_sectors), settings, scheduler, values: values.to_vec() }
    }

    /// An idle queue and disk.
    pub fn queue(&self) -> Queue {
        self.queue_under((self.scheduler.build)(&self.settings.limits(), &self.values))
    }

    /// Like [`queue`](ReferenceDisk::queue), with another scheduler.
    pub fn queue_under(&self, scheduler: Box<dyn Scheduler>) -> Queue {
        let device: Box<dyn Device> = match &self.device {
            ReferenceKind::Profile(profile, options) => profile.build(*options),
            ReferenceKind::Model(model, capacity_sectors) => Box::new(Modelled::new(model.begin(), *capacity_sectors)),
        };
        Queue::new(scheduler, device, self.settings)
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
            responses: VecDeque::new(),
        })
    }
}

/// The mean time between completions, over the last few dozen.
#[derive(Default)]
struct Spacing {
    completions: u64,
    time: u64,
}

impl Spacing {
    /// Number of completions at which both sums are halved.
    const SPACING_WINDOW: u64 = 64;

    fn add(&mut self, completions: u64, time: u64) {
        self.completions += completions;
        self.time += time;
        if self.completions > Spacing::SPACING_WINDOW {
            (self.completions, self.time) = (self.completions / 2, self.time / 2);
        }
    }

    fn mean(&self) -> u64 {
        self.time.checked_div(self.completions).unwrap_or(0)
    }
}

/// The state of a reference disk.
struct Shadow {
    queue: Queue,
    /// Its virtual time.
    now: Nanos,
    /// The caller's time at which all requests so far are complete, according to the results returned.
    end: Nanos,
    /// Busy time and charged time, in nanoseconds.
    busy: u64,
    charged: u64,
    /// Expected times of the requests in progress, in order of arrival.
    expected: VecDeque<u64>,
    expected_sum: u64,
    spacing: Spacing,
    finished: Vec<crate::run::Finished>,
    /// Response times not taken yet, at most [`MAX_RESPONSES`].
    responses: VecDeque<Nanos>,
}

/// Maximum number of response times kept until they are taken; later ones are dropped.
const MAX_RESPONSES: usize = 64;

impl Shadow {
    /// Serves until at most `left` requests remain.
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
            for finished in self.finished.drain(..) {
                self.expected_sum -= self.expected.pop_front().unwrap_or(0);
                if self.responses.len() < MAX_RESPONSES {
                    self.responses.push_back(finished.at() - finished.arrival());
                }
            }
        }
    }

    /// Lets the disk idle for this time.
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

    /// Maps a request to this disk, which may be smaller than the volume.
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

    fn take_responses(&mut self, each: &mut dyn FnMut(Nanos)) {
        self.responses.drain(..).for_each(each);
    }
}
