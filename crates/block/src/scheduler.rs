//! The scheduler trait, its answers, and the declaration of schedulers. The schedulers themselves are in [`sched`](crate::sched).

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::queue::{Insertion, Limits};
use crate::tags::{Room, Tags};
use crate::{Nanos, Request, Roster, StreamId, Tunable};

/// A scheduler's answer to the question which request to dispatch next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Dispatch this request, which is removed from the queue.
    Go(Request),
    /// Dispatch nothing before this time, which is always later than `now`, although requests are queued: keeping the device idle is
    /// better. Call again then, or when a request arrives or completes. A scheduler that waits for a completion also sets a time, so that
    /// no host sleeps forever.
    WaitUntil(Nanos),
    /// The queue is empty.
    Empty,
}

/// Maximum wait of a [`Pick::WaitUntil`] if only a completion can change the answer.
pub const COMPLETION_BACKSTOP: Nanos = Nanos::from_millis(1_000);

/// Decides which request is dispatched next.
///
/// The host calls [`insert`](Scheduler::insert) when a request arrives, [`pick`](Scheduler::pick) when the device has room, and
/// [`completed`](Scheduler::completed) when a request completes. `now` never runs backwards. Queued requests may be picked in any order,
/// even if they overlap, as in Linux: an issuer that needs an order waits for the completion.
///
/// ```
/// use block::{Insertion, Nanos, Pick, Request, Scheduler};
///
/// /// Last come, first served.
/// #[derive(Default)]
/// struct Stack(Vec<Request>);
///
/// impl Scheduler for Stack {
///     fn insert(&mut self, _now: Nanos, request: Request) -> Insertion {
///         self.0.push(request);
///         Insertion::Queued
///     }
///     fn pick(&mut self, _now: Nanos) -> Pick {
///         self.0.pop().map_or(Pick::Empty, Pick::Go)
///     }
///     fn retune(&mut self, _values: &[i64]) {}
///     fn drain(&mut self, out: &mut Vec<Request>) {
///         out.append(&mut self.0);
///     }
/// }
/// assert_eq!(Stack::default().pick(Nanos::ZERO), Pick::Empty);
/// ```
pub trait Scheduler: Send {
    /// Queues a request, or merges it into a queued one.
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion;

    /// Removes the next request to dispatch from the queue, or returns how long to wait.
    fn pick(&mut self, now: Nanos) -> Pick;

    /// Like [`Scheduler::pick`], for a host that can estimate the device's time to reach each queued request; `cost` returns `None` for a
    /// device without estimates. No kernel has them, so they are used only to compute a bound.
    fn pick_with_cost(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        let _ = cost;
        self.pick(now)
    }

    /// Reports the completion of a picked request; `service` is the time since its dispatch.
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let _ = (now, request, service);
    }

    /// Reports the disk time of a request, right before its completion: the part of the time since its dispatch in which the device served
    /// only this request, summed over the members of an array. Never called by hosts whose device does not measure it.
    fn record_disk_time(&mut self, request: &Request, disk_time: Nanos) {
        let _ = (request, disk_time);
    }

    /// Reports that a flush of the device's write cache on behalf of `stream` begins. Flushes bypass the scheduler.
    fn flush_began(&mut self, now: Nanos, stream: StreamId) {
        let _ = (now, stream);
    }

    /// Reports the end of a flush on behalf of `stream` that was requested at `since`.
    fn flush_ended(&mut self, now: Nanos, stream: StreamId, since: Nanos) {
        let _ = (now, stream, since);
    }

    /// Sets its tunables, in the order of [`SchedulerSpec::tunables`] and within their ranges.
    fn retune(&mut self, values: &[i64]);

    /// The tags that requests need to be admitted; others wait for one. Admitted requests can be merged and picked. With nothing queued or
    /// in flight, one request is always admitted.
    ///
    /// `None`, as in Linux's block layer up to 4.20: there are two counts of `nr_requests`, for synchronous and for asynchronous requests,
    /// so that write-back cannot block readers (`struct request_list`). Waiters are admitted in order of arrival.
    fn tags(&self, room: &Room) -> Option<Tags> {
        let _ = room;
        None
    }

    /// Number of the `depth` tags that are open to this request, which has no id yet (`limit_depth` of an elevator); at least 1.
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        let _ = request;
        depth
    }

    /// Whether write-back throttling is enabled by default (`wbt_enable_default` in `block/blk-wbt.c`). Linux has enabled it since 4.10,
    /// but not with bfq, which divides the device itself (`wbt_disable_default`).
    fn throttles_write_back(&self) -> bool {
        false
    }

    /// How to switch to this scheduler under load.
    fn live_switch(&self) -> LiveSwitch {
        LiveSwitch::default()
    }

    /// Sets the limits of merging for later requests. A scheduler that never merges ignores them.
    fn set_limits(&mut self, limits: &Limits) {
        let _ = limits;
    }

    /// Sets the tenants of the device and their guarantees; queued requests are reassigned. A scheduler without tenants ignores it; one
    /// with tenants treats each stream as a tenant until this is called.
    fn set_roster(&mut self, roster: &Roster) {
        let _ = roster;
    }

    /// The state of a tenant's guarantee at this time, by its number on the roster; `None` if it has none, or if the scheduler does not
    /// track it.
    fn standing(&self, now: Nanos, tenant: usize) -> Option<Standing> {
        let _ = (now, tenant);
        None
    }

    /// Removes all queued requests, oldest first, for another scheduler to take over. Requests in flight are unaffected;
    /// [`completed`](Scheduler::completed) is no longer called for them.
    fn drain(&mut self, out: &mut Vec<Request>);
}

/// The state of a tenant's guarantee since it was set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests completed; merged ones count once.
    pub completed: u64,
    /// Number of these that took longer than the worst case on the reference disk.
    pub late: u64,
    /// Time that the reference disk would have needed for the completed requests, one after another; zero if the scheduler does not know.
    pub reference_work: Nanos,
    /// Number of late requests that would have been in time without the requests of others.
    pub late_by_others: u64,
    /// Delay of the oldest request in flight compared with the reference disk; zero if there is none.
    pub behind: Nanos,
    /// The time for which others may delay its next request.
    pub slack: Nanos,
}

/// A guarantee against starvation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StarvationBound {
    /// Waiting time after which the bound applies.
    pub expires: Nanos,
    /// Maximum number of other requests dispatched before it from then on, and as many again for each older queued request.
    pub picks: u64,
}

/// How to switch to a scheduler under load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSwitch {
    /// Minimum number of processes that should start reading at the switch. A scheduler that classifies processes by their start sees all
    /// running ones start at the switch; with at least this many it does not mistake them for applications being started.
    pub min_readers: u32,
    /// Time after the switch during which its tunables should not be changed.
    pub settle_time: Nanos,
    /// Tunables that should not be changed while there are requests.
    pub fixed_tunables: &'static [&'static str],
}

/// The knowledge of one learning scheduler about one device. It outlives the scheduler, and continues to learn while another one is active.
///
/// ```
/// use block::{Knowledge, Limits, Nanos, Request, Scheduler};
///
/// /// Counts requests, and schedules like noop.
/// struct Count(u64);
///
/// impl Knowledge for Count {
///     fn learn(&mut self, _request: &Request, _dispatched: Nanos, _completed: Nanos) {
///         self.0 += 1;
///     }
///     fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
///         (block::find("noop").unwrap().build)(limits, values)
///     }
/// }
/// # let _: Box<dyn Knowledge> = Box::new(Count(0));
/// ```
pub trait Knowledge: Send {
    /// Learns from a request of another scheduler, dispatched and completed at these times. Called in order of completion.
    fn learn(&mut self, request: &Request, dispatched: Nanos, completed: Nanos);

    /// Sets the rotation time of the device, if it is known from elsewhere; `None` for a device that is not rotational.
    fn set_rotation(&mut self, rotation: Option<Nanos>) {
        let _ = rotation;
    }

    /// Builds a scheduler that uses this knowledge and adds to it; `values` are those of its tunables.
    fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler>;
}

/// The declaration of a scheduler.
#[derive(Debug)]
pub struct SchedulerSpec {
    /// The name in the user's notation.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    /// The paper or kernel file it follows.
    pub source: &'static str,
    /// Its parameters.
    pub tunables: &'static [Tunable],
    /// Whether it never answers [`Pick::WaitUntil`].
    pub work_conserving: bool,
    /// Its starvation bound for given values of its tunables; `None`: no bound.
    pub starvation_bound: Option<fn(&[i64]) -> StarvationBound>,
    /// Creates the empty knowledge of a learning scheduler; `None` for all others.
    pub knowledge: Option<fn() -> Box<dyn Knowledge>>,
    /// Builds the scheduler; the values are in the order of `tunables` and within their ranges.
    pub build: fn(&Limits, &[i64]) -> Box<dyn Scheduler>,
}

impl SchedulerSpec {
    /// The default of each tunable.
    pub fn defaults(&self) -> Vec<i64> {
        self.tunables.iter().map(|tunable| tunable.default).collect()
    }

    /// How to switch to it under load.
    pub fn live_switch(&self) -> LiveSwitch {
        (self.build)(&Limits::default(), &self.defaults()).live_switch()
    }

    /// Whether it learns from requests, so that its behaviour depends on the past.
    pub fn learns(&self) -> bool {
        self.knowledge.is_some()
    }
}

/// Switches from one scheduler to another.
///
/// Every queued request is inserted into `to` in order of arrival, with its original arrival time. If `to` merges requests that `from` kept
/// apart, `merged` is called with the request and the result, so that the host can track its parts. Requests in flight are unaffected: the
/// host must not report their completion to `to`, which does not know them.
///
/// ```
/// use block::{Limits, Nanos, Op, Pick, Priority, Request};
///
/// let build = |name| (block::find(name).unwrap().build)(&Limits::default(), &[]);
/// let (mut from, mut to) = (build("noop"), build("clook"));
/// let (op, priority) = (Op::Read, Priority::DEFAULT);
/// let read = Request { id: 1, stream: 7, op, sync: true, priority, sectors: 8, lba: 100, arrival: Nanos::ZERO };
/// from.insert(Nanos::ZERO, read);
/// block::switch(&mut *from, &mut *to, Nanos::ZERO, |_, _| ());
/// assert_eq!((from.pick(Nanos::ZERO), to.pick(Nanos::ZERO)), (Pick::Empty, Pick::Go(read)));
/// ```
pub fn switch(from: &mut dyn Scheduler, to: &mut dyn Scheduler, now: Nanos, mut merged: impl FnMut(&Request, Insertion)) {
    let mut waiting = Vec::new();
    from.drain(&mut waiting);
    for request in waiting {
        let insertion = to.insert(now, request);
        if insertion != Insertion::Queued {
            merged(&request, insertion);
        }
    }
}
