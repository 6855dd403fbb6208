//! Every I/O scheduler, one file each. A new one is a file with a `SPEC` and a line in [`ALL`].

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::knowledge::Knowledge;
use crate::queue::Limits;
use crate::{Nanos, Request, RequestId, Roster, Tunable};

mod anticipatory;
mod bfq;
mod cfq;
mod clook;
mod deadline;
pub mod fairio;
mod io_cost;
mod kyber;
mod mclock;
mod mq_deadline;
mod none;
mod noop;
mod scan;
mod sptf;
mod sstf;
mod virtual_clock;
mod youchoose;

/// What a scheduler did with a request it was given. The host must know of merges, for one completion then ends several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It waits in the queue under its own id.
    Queued,
    /// It became part of the queued request `into`, whose completion completes it too.
    Merged {
        /// The request that grew.
        into: RequestId,
        /// A queued request that `into` now touches and has swallowed as well, with all its parts.
        absorbed: Option<RequestId>,
    },
}

/// A scheduler's answer to "what goes to the device next?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This one, which leaves the queue.
    Go(Request),
    /// Something waits, but leaving the device alone until then serves better. Ask again at that time (always later than
    /// `now`), or as soon as a request arrives or completes. A scheduler that waits for a completion only names a time all
    /// the same, so that no host sleeps without end.
    WaitUntil(Nanos),
    /// Nothing waits.
    Empty,
}

/// The time a scheduler names in [`Pick::WaitUntil`] when only a completion can change its answer.
pub const COMPLETION_BACKSTOP: Nanos = Nanos::from_millis(1_000);

/// Decides which request goes to the device next.
///
/// The host calls [`insert`](Scheduler::insert) as requests arrive, [`pick`](Scheduler::pick) whenever the device has room, and
/// [`completed`](Scheduler::completed) when one is done. `now` never runs backwards. Requests that wait at the same time may
/// be picked in any order, overlapping ones too, as in Linux: who needs an order waits for the completion.
pub trait Scheduler: Send {
    /// Takes a request in.
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion;

    /// Says what goes to the device next.
    fn pick(&mut self, now: Nanos) -> Pick;

    /// The same for a host that can tell how long the device would take to reach each waiting request; `cost` is `None` for a device
    /// that cannot be asked. No kernel can tell, so only a bound makes use of it.
    fn pick_with_cost(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        let _ = cost;
        self.pick(now)
    }

    /// Learns that a request it picked is done; `service` is the time since the device took it.
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let _ = (now, request, service);
    }

    /// Learns for how long the device was at work for a request that is about to be reported as completed: of the time since the device
    /// took it, the part in which it served this request and no other, added up over the members of an array. Hosts whose device cannot
    /// tell never call it.
    fn record_disk_time(&mut self, request: &Request, disk_time: Nanos) {
        let _ = (request, disk_time);
    }

    /// Takes new values for its tunables, in the order of [`SchedulerSpec::tunables`] and within their ranges.
    fn retune(&mut self, values: &[i64]);

    /// The tags that requests need to be let in; others wait outside. What is let in is free to be merged and picked. With nothing in the
    /// queue or at the device, one is always let in.
    ///
    /// `None`, as in Linux's block layer up to 4.20: there are two counts, of `nr_requests` for synchronous and for asynchronous requests
    /// each, so that write-back cannot lock readers out (`struct request_list`). Who waits takes the first place that comes free, and
    /// others wait behind.
    fn tags(&self, room: &Room) -> Option<Tags> {
        let _ = room;
        None
    }

    /// How many of the `depth` tags are open to this request, which has no number yet (`limit_depth` of an elevator); at least 1.
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        let _ = request;
        depth
    }

    /// Whether the host throttles write-back under it if nothing else is said (`wbt_enable_default` in `block/blk-wbt.c`). Linux does
    /// since 4.10, but not under bfq, which shares the device out itself (`wbt_disable_default`).
    fn throttles_write_back(&self) -> bool {
        false
    }

    /// What whoever puts it in force in the middle of a load should do.
    fn live_switch(&self) -> LiveSwitch {
        LiveSwitch::default()
    }

    /// Takes new limits, for requests that arrive from now on. A scheduler that never merges needs none.
    fn set_limits(&mut self, limits: &Limits) {
        let _ = limits;
    }

    /// Learns who shares the device, and what each was promised. Requests that wait already are sorted anew. A scheduler that does not
    /// tell tenants apart needs none; one that does and never heard of any takes each stream for a tenant.
    fn set_roster(&mut self, roster: &Roster) {
        let _ = roster;
    }

    /// Hands every queued request over to a successor, in the order in which it would have taken them in.
    /// Requests at the device are the host's affair; their [`completed`](Scheduler::completed) no longer comes here.
    fn drain(&mut self, out: &mut Vec<Request>);
}

/// A promise that no request is passed over for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StarvationBound {
    /// How long a request may wait before the promise begins.
    pub expires: Nanos,
    /// From then on at most this many requests leave for itself, and as many again for each older request that still waits.
    pub picks: u64,
}

/// What there is room for in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The queue's setting (`/sys/block/*/queue/nr_requests`); at least 1.
    pub nr_requests: u32,
    /// How many the device takes at once; at least 1.
    pub device: u32,
}

/// The tags of a queue of Linux's multi-queue layer: a request holds one from when it comes until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// How many there are; at least 1.
    pub depth: u32,
    /// How many must come free until those who sleep outside for one are woken, as many at a time (`sbq_calc_wake_batch` in
    /// `lib/sbitmap.c`). Until then others may take what is free.
    pub wake_batch: u32,
}

/// How a scheduler is put in force in the middle of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// So many processes should begin to read then. To a scheduler that judges processes by how they begin, all that run already begin at
    /// that moment, and begin together; with so many more it takes them for what they are, no applications that are just being started.
    pub readers: u32,
    /// So long after that its tunables should be left alone.
    pub settles: Nanos,
    /// Of its tunables, those that should be left alone for as long as requests come.
    pub fixed: &'static [&'static str],
}

/// A scheduler as the rest of the program sees it before there is one.
#[derive(Debug)]
pub struct SchedulerSpec {
    /// What a person types.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper or kernel file it follows.
    pub source: &'static str,
    /// Its parameters.
    pub tunables: &'static [Tunable],
    /// It never answers [`Pick::WaitUntil`]: while requests wait, one goes.
    pub work_conserving: bool,
    /// Its promise against starvation, from the values of its tunables; `None` promises nothing.
    pub patience: Option<fn(&[i64]) -> StarvationBound>,
    /// If it learns: makes what it has learned, which outlives it. Nothing is known yet.
    pub knowledge: Option<fn() -> Box<dyn Knowledge>>,
    /// Makes one; the values stand in the order of `tunables` and within their ranges.
    pub build: fn(&Limits, &[i64]) -> Box<dyn Scheduler>,
}

impl SchedulerSpec {
    /// The default of each tunable.
    pub fn defaults(&self) -> Vec<i64> {
        self.tunables.iter().map(|tunable| tunable.default).collect()
    }

    /// How it is put in force in the middle of a load.
    pub fn live_switch(&self) -> LiveSwitch {
        (self.build)(&Limits::default(), &self.defaults()).take_over()
    }

    /// Whether it learns from what happens, so that what it does depends on the past.
    pub fn learns(&self) -> bool {
        self.knowledge.is_some()
    }
}

/// Those that a Linux of today offers for every block device (`/sys/block/*/queue/scheduler`).
pub static KERNEL: &[&SchedulerSpec] = &[&none::SPEC, &mq_deadline::SPEC, &kyber::SPEC, &bfq::SPEC];

/// Those of textbooks, and of Linux up to 4.20.
pub static CLASSIC: &[&SchedulerSpec] = &[&noop::SPEC, &sstf::SPEC, &clook::SPEC, &deadline::SPEC, &anticipatory::SPEC, &cfq::SPEC];

/// Those that share a device out among tenants ([`tenants`](crate::tenants)).
pub static SHARING: &[&SchedulerSpec] = &[&fairio::SPEC, &io_cost::SPEC, &virtual_clock::SPEC, &youchoose::SPEC, &mclock::SPEC];

/// All schedulers that do not learn: the classic ones, an elevator and a bound that nobody uses, those of today's Linux, and those that
/// share a device out.
pub static ALL: &[&SchedulerSpec] = &[
    &noop::SPEC,
    &sstf::SPEC,
    &clook::SPEC,
    &deadline::SPEC,
    &anticipatory::SPEC,
    &cfq::SPEC,
    &scan::SPEC,
    &sptf::SPEC,
    &none::SPEC,
    &mq_deadline::SPEC,
    &kyber::SPEC,
    &bfq::SPEC,
    &fairio::SPEC,
    &io_cost::SPEC,
    &virtual_clock::SPEC,
    &youchoose::SPEC,
    &mclock::SPEC,
];

/// Lets `to` take over the queue of `from` in the middle of a run.
///
/// Every queued request reaches `to` in the order of arrival, with its waiting time counted from then. Where `to` merges what
/// `from` kept apart, `merged` is told the request and what became of it, so that the host can follow its parts. Requests at
/// the device stay there: the host must not report their completion to `to`, which never saw them.
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

/// Sorts what waits in a scheduler anew: all is taken out, `reset` takes another roster, and `insert` is given each again. Requests that
/// were kept apart stay apart: nobody could be told of a merge.
fn sort_anew<S: Scheduler>(scheduler: &mut S, limits: Limits, reset: impl FnOnce(&mut S), mut insert: impl FnMut(&mut S, Request)) {
    let mut waiting = Vec::new();
    scheduler.drain(&mut waiting);
    reset(scheduler);
    scheduler.set_limits(&Limits { max_sectors: 0, ..limits });
    for request in waiting {
        insert(scheduler, request);
    }
    scheduler.set_limits(&limits);
}

/// [`Tags::wake_batch`] where at least so many tags are open to all.
pub(crate) fn wake_batch(depth: u32) -> u32 {
    (depth / 8).clamp(1, 8)
}

/// How many of the tags are open to a tenant that holds so many, by its weight beside all those who ask: all of them up to its part of one
/// half, beyond that only the other half. So who floods the queue leaves room for everybody, and alone it has room enough.
pub(crate) fn tags_open_to_tenant(depth: u32, held: u64, weight: u64, weights: u64) -> u32 {
    let half = depth.div_ceil(2);
    let is_modest = u128::from(held) * u128::from(weights.max(weight)) < u128::from(half) * u128::from(weight);
    if is_modest { depth } else { half }
}

/// The two kinds of requests where they are told apart: those that nobody waits for, and those that somebody waits for.
const ASYNC: usize = 0;
const SYNC: usize = 1;

/// A value for each kind.
fn by_kind<T: Copy>(of_async: T, of_sync: T) -> [T; 2] {
    let mut values = [of_async; 2];
    values[SYNC] = of_sync;
    values
}

#[cfg(test)]
mod tests {
    use super::{ALL, CLASSIC, KERNEL, SHARING};
    use alloc::vec::Vec;
    use std::string::String;

    #[test]
    fn sets_are_apart_and_in_the_list_of_all() {
        let names = |set: &[&super::SchedulerSpec]| set.iter().map(|spec| spec.name).collect::<Vec<_>>();
        let of_sets: Vec<_> =
            names(CLASSIC).into_iter().chain(["scan", "sptf"]).chain(names(KERNEL)).chain(names(SHARING)).collect();
        assert_eq!(names(ALL), of_sets);
    }

    #[test]
    fn every_file_in_the_folder_is_listed_and_every_scheduler_has_its_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sched")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // A folder beside a scheduler's file holds the parts that would make the file too long.
        let files = names.filter_map(|name| name.strip_suffix(".rs").map(String::from));
        let mut files: Vec<String> = files.filter(|name| name != "mod").collect();
        let mut listed: Vec<String> = ALL.iter().map(|spec| spec.name.replace('-', "_")).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
    }
}
