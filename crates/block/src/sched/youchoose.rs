//! `YouChoose`: each volume is served at least as well as by the reference disk that its owner chose.
//!
//! ```text
//! volume    requests                      clock of its reference disk                        key
//! a         ─▶ lane ─▶ slot (c-look) ─┐   ····│served│ at the device │ waiting │▶ clock       due of the next
//! b         ─▶ lane ─▶ slot           ├─▶ ····│served│     │ waiting  │▶ clock               due of the next
//! unowned   ─▶ lane ─▶ slot           ┘   no clock: spare capacity only
//!                                              now ──┴──▶
//! ```
//! A volume's clock is the time at which its reference disk would have completed all requests so far. A request is *due* when that disk
//! would have completed it; earliest due first meets every due time if any order can. A request need not be dispatched before its latest
//! start, though: as long as no request is at its latest start there is spare capacity, which is shared by *tags*, in proportion to the
//! speeds of the reference disks. So no volume pays later for service beyond its guarantee.
//!
//! Requests of a volume are dispatched in *slots* of reference time, within which another scheduler orders them. A slot ends early if
//! another volume is at its latest start, unless both are already late: then the host is overloaded, and batching helps most.
//!
//! A request in flight cannot be preempted. So a request that is not at its latest start is dispatched only if the work in flight,
//! including it, lets every other volume that has a request, or is about to issue one, have the device in time ([`guard`], [`admission`]).
//! The time for that work is learned from completions ([`backlog`]), so parallel units are kept busy although no device reports their
//! number.
//! A disk that serves the nearest request first keeps a distant one waiting as long as nearer ones arrive. So on a single disk no request
//! with a later due time is dispatched while a request is in flight that would be late if it were served last. A request that is always too
//! long is dispatched so rarely that it makes at most one in a hundred responses late, but after ten times `best_effort_wait_ms` at the
//! latest. A volume that has the device to itself is served in order of arrival, as without a scheduler.
//!
//! Difference from the paper: its clock runs ahead by service beyond the guarantee, for which the volume pays when others return; here it
//! never runs further ahead than the remaining work ([`Volume::completed`](volume::Volume::completed)).

mod admission;
mod backlog;
mod charges;
mod guard;
mod tuning;
mod volume;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::bound::Bound;
use crate::cost::Cost;
use crate::lanes::{lane_for, next_within_limits};
use crate::quantile::Low;
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::sorted::{SortedList, key, value};
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request, Standing};
use admission::{Deadline, Deadlines, first_other};
use backlog::Backlog;
use charges::{Charge, Charges};
use guard::Response;
use tuning::Tunables;
use volume::{Places, Volume};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "youchoose",
    summary: "each tenant is served at least as well as by the disk it chose; spare capacity is shared in proportion",
    source: "Zhang, Xu, Jiang, YouChoose: a performance interface for consolidated storage systems, MSST 2011, section III.B",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(YouChoose::new(*limits, Tunables::of(values), &Roster::default())),
};

/// The next volume to serve, and why.
enum Turn {
    /// The volume is at its latest start.
    Due(usize),
    /// No volume is; this one has the lowest tag.
    Spare(usize),
    /// It has waited too long for the others to leave time for its requests.
    Preemption(usize),
    /// Nothing may be dispatched before this time.
    Later(Nanos),
}

struct YouChoose {
    tuning: Tunables,
    register: Register,
    /// Two lanes for each volume, with requests that are not in a slot yet.
    queue: Queue,
    volumes: Vec<Volume>,
    charges: Charges,
    tag_shares: TagShares,
    /// Volumes with a guarantee and queued requests, by their latest start.
    starts: SortedList,
    /// Volumes with queued requests, by tag: those with a guarantee, and those without.
    tags: [SortedList; 2],
    /// Times by which volumes with a guarantee must have the device.
    deadlines: Deadlines,
    /// Volumes at their limits, and volumes without requests whose deadlines change with time, by the time of the change.
    expiries: SortedList,
    /// Number of preemptions.
    preemptions: u32,
    /// Whether a volume without a guarantee could not be served, since the last time that one was, only because its request would have
    /// occupied the device for too long.
    refused: bool,
    /// The shortest worst-case response on the reference disk of any volume.
    shortest_tail: Low,
    /// The volume with an open slot.
    current: Option<usize>,
    /// Queued requests; and volumes with requests in flight.
    waiting: usize,
    active: usize,
    /// Progress of the reference disks' time while the host cannot keep up with them.
    progress: Nanos,
    /// The highest tag served from spare capacity.
    spare_time: u64,
    /// Lead of the tags of volumes without a guarantee over their recorded values: time in which all of them were held back is not saved
    /// up.
    best_effort_lead: u64,
    /// Last dispatch of a volume without a guarantee, or the last time at which none had requests.
    best_effort_served: Nanos,
    backlog: Backlog,
    /// Volumes with requests in flight, by the due time of the oldest of them.
    dues: SortedList,
    /// Maximum number of requests in flight; on a single disk the initial one of each volume.
    bound: Bound,
    /// Volumes of a single disk that have or expect requests, by the number of requests in flight that they tolerate.
    bounds: SortedList,
    /// Disk time reported for the next request to complete, divided by the number of disks.
    reported_time: Option<Nanos>,
    /// Time for which requests keep the device busy, by size.
    cost: Cost,
    rate: Exchange,
    /// Time of the last event, because a new roster is set without a time.
    now: Nanos,
}

/// Ratio of time on the reference disks to time on this device: decayed sums over the same requests.
#[derive(Default)]
struct Exchange {
    reference_time: u64,
    device_time: u64,
}

/// Both sums are halved when the device time exceeds this, in nanoseconds.
const ENOUGH: u64 = 1 << 30;

impl Exchange {
    fn learn(&mut self, reference_time: Nanos, device_time: Nanos) {
        self.reference_time = self.reference_time.saturating_add(reference_time.0);
        self.device_time = self.device_time.saturating_add(device_time.0);
        if self.device_time > ENOUGH {
            (self.reference_time, self.device_time) = (self.reference_time / 2, self.device_time / 2);
        }
    }

    fn reference_time(&self, device_time: Nanos) -> Nanos {
        if self.device_time == 0 {
            return device_time;
        }
        let time = u128::from(device_time.0) * u128::from(self.reference_time) / u128::from(self.device_time);
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// Maximum requests in a slot of a volume without a reference disk.
const MAX_IN_SLOT: u32 = 64;

/// Factor on `best_effort_wait_ms` for volumes whose requests would occupy the device for too long.
const LONG_WAIT_FACTOR: u64 = 10;

/// Ratio of sizes from which a request dwarfs another.
const DWARFS: u32 = 2;

/// Indexes of the lists of tags.
const GUARANTEED: usize = 0;
const BEST_EFFORT: usize = 1;

impl YouChoose {
    fn new(limits: Limits, tuning: Tunables, roster: &Roster) -> YouChoose {
        YouChoose {
            tuning,
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            volumes: Vec::new(),
            charges: Charges::default(),
            tag_shares: TagShares::default(),
            starts: SortedList::default(),
            tags: [SortedList::default(), SortedList::default()],
            deadlines: Deadlines::default(),
            expiries: SortedList::default(),
            preemptions: 0,
            refused: false,
            shortest_tail: Low::default(),
            current: None,
            waiting: 0,
            active: 0,
            progress: Nanos::ZERO,
            spare_time: 0,
            best_effort_lead: 0,
            best_effort_served: Nanos::ZERO,
            backlog: Backlog::default(),
            dues: SortedList::default(),
            bound: Bound::of_disks(roster.disks()),
            bounds: SortedList::default(),
            reported_time: None,
            cost: Cost::default(),
            rate: Exchange::default(),
            now: Nanos::ZERO,
        }
    }

    /// The volume with this number, created if it is new.
    fn open(&mut self, number: usize) -> &mut Volume {
        while self.volumes.len() <= number {
            let next = self.volumes.len();
            self.volumes.push(Volume::new(self.register.tenant(next), self.register.weight(next)));
        }
        &mut self.volumes[number]
    }

    /// Replaces the roster, with no requests queued.
    fn replace_roster(&mut self, now: Nanos, roster: &Roster) {
        let before = core::mem::replace(&mut self.register, Register::new(roster));
        let mut volumes: Vec<Option<Volume>> = self.volumes.drain(..).map(Some).collect();
        let others = roster.tenants().len();
        self.open(others);
        let numbers: Vec<Option<usize>> = (0..volumes.len()).map(|number| self.register.number_of_same(&before, number)).collect();
        for (known, number) in numbers.iter().enumerate() {
            if let (Some(number), Some(volume)) = (*number, volumes[known].take()) {
                self.volumes[number] = match (before.tenant(known), self.register.tenant(number)) {
                    (Some(before), Some(after)) => volume.with_promise(now, before, after),
                    _ => volume,
                };
            }
        }
        let list = || SortedList::default();
        (self.starts, self.tags, self.expiries, self.deadlines) = (list(), [list(), list()], list(), Deadlines::default());
        (self.bounds, self.dues) = (list(), list());
        (self.current, self.tag_shares) = (None, TagShares::default());
        for charge in self.charges.iter_mut() {
            let number = numbers[charge.volume].unwrap_or_else(|| {
                self.volumes[others].adopt(charge);
                others
            });
            charge.volume = number;
            self.tag_shares.add(number, self.register.weight(number));
        }
        self.active = self.volumes.iter().filter(|volume| !volume.is_silent()).count();
        for number in 0..self.volumes.len() {
            self.volumes[number].places = Places::default();
            self.update_places(now, number);
        }
    }

    // The clocks.

    /// The reference disks' time: `now`, or their progress if the host cannot keep up with them, so that a returning volume starts level with
    /// the others and not behind them.
    fn reference_now(&self, now: Nanos) -> Nanos {
        let first = self.starts.first().map(|(_, number)| &self.volumes[number as usize]);
        match first.filter(|volume| volume.due().is_some_and(|due| due < now)) {
            Some(volume) => self.progress.max(volume.begin()).min(now),
            None => now,
        }
    }

    /// Updates a volume's entries in the lists.
    fn update_places(&mut self, now: Nanos, number: usize) {
        let floor = self.reference_now(now) - self.tuning.debt;
        let own_delay = self.volumes[number].work_at_device();
        let next = self.next(now, number);
        let volume = &mut self.volumes[number];
        volume.forgive(floor);
        if let Some((_, ready_at)) = next {
            volume.set_ready(ready_at);
        }
        // A volume at its limit counts as having no requests until its limit allows the next one.
        let is_ready = volume.is_ready(now);
        let start = volume.latest_start().filter(|_| is_ready).map(|start| key(start.0, number));
        let tag = (volume.waiting > 0 && is_ready).then(|| key(volume.tag, number));
        let is_expected = volume.is_guaranteed() && volume.is_silent() && volume.deadline_until(now) > now;
        let expiry = match is_ready {
            true => is_expected.then(|| key(volume.deadline_until(now).0, number)),
            false => Some(key(volume.ready().0, number)),
        };
        let deadline = volume.deadline(now, own_delay);
        let bears = volume.bears.filter(|_| is_ready && deadline != Deadline::default()).map(|bound| key(bound.most(), number));
        let due = volume.oldest_due().filter(|_| is_ready).map(|due| key(due.0, number));
        let before = volume.places;
        let tags = &mut self.tags[if volume.is_guaranteed() { GUARANTEED } else { BEST_EFFORT }];
        tags.move_entry(before.tag, tag, number as u32);
        self.starts.move_entry(before.start, start, number as u32);
        self.expiries.move_entry(before.expiry, expiry, number as u32);
        self.bounds.move_entry(before.bears, bears, number as u32);
        self.dues.move_entry(before.due, due, number as u32);
        self.deadlines.update(number, deadline, &mut volume.places.deadline);
        volume.places = Places { start, tag, expiry, bears, due, ..volume.places };
    }

    /// Updates volumes whose limits have passed, and volumes whose deadlines change because they issued no requests.
    fn end_silences(&mut self, now: Nanos) {
        while let Some((_, number)) = self.expiries.first().filter(|&(until, _)| value(until) <= now.0) {
            self.update_places(now, number as usize);
        }
    }

    // Selection.

    fn turn(&mut self, now: Nanos) -> Turn {
        let is_full = match self.tuning.in_flight {
            0 => self.active > 1 && !self.register.roster().tenants().is_empty() && self.backlog.is_full(self.least_bound()),
            most => self.backlog.count() >= most,
        };
        if is_full {
            return Turn::Later(now + COMPLETION_BACKSTOP);
        }
        let first = self.starts.first().map(|(start, number)| (Nanos(value(start)), number as usize));
        let first = first.map(|(start, number)| (start - (self.backlog.work() - self.volumes[number].work_at_device()), number));
        let open = self.current.filter(|&open| self.volumes[open].slot_continues() && self.volumes[open].is_ready(now));
        let Some((_, number)) = first.filter(|&(start, _)| start <= now) else {
            return self.turn_to_spare(now, open, first);
        };
        if let Some(other) = self.neglected(now).filter(|_| !self.refused || self.waited_long(now)) {
            return Turn::Due(other);
        }
        let is_late = |number: usize| self.volumes[number].due().is_some_and(|due| due < now);
        let number = open.filter(|&open| is_late(number) && is_late(open)).unwrap_or(number);
        self.not_overtaking(now, number).map_or(Turn::Later(now + COMPLETION_BACKSTOP), Turn::Due)
    }

    /// Bound of the requests in flight, in parts (see [`Bound::most`]).
    fn least_bound(&self) -> u64 {
        self.bounds.first().map_or(self.bound.most(), |(most, _)| value(most))
    }

    /// The volume to serve instead of this one, so that no request in flight of another volume with an earlier due time becomes late;
    /// `None` if that volume has no queued request. Between two volumes that are already late the clocks decide. On devices with several
    /// units a request may wait for one of them while the others would be idle, so `number` is returned.
    fn not_overtaking(&self, now: Nanos, number: usize) -> Option<usize> {
        if !self.register.roster().has_one_arm() {
            return Some(number);
        }
        let until = now + self.backlog.work() + self.next_cost(number);
        let own_due = self.volumes[number].oldest_due();
        let Some((due, other)) = first_other(&self.dues, number) else { return Some(number) };
        let first = &self.volumes[other];
        if own_due.is_some_and(|own_due| own_due <= due) || until + first.guard.lead() <= due {
            return Some(number);
        }
        match first.waiting {
            0 => None,
            _ if due < now => Some(number),
            _ => Some(other),
        }
    }

    /// Shares spare capacity while no volume is at its latest start; `first` is the earliest latest start and its volume.
    ///
    /// A volume gets none if its request would delay another volume that has requests, now or soon, for longer than that one can wait.
    fn turn_to_spare(&mut self, now: Nanos, open: Option<usize>, first: Option<(Nanos, usize)>) -> Turn {
        let expiry = self.expiries.first().map(|(until, _)| Nanos(value(until)));
        let times = [first.map(|(start, _)| start), expiry, Some(now + COMPLETION_BACKSTOP)];
        let later = times.into_iter().flatten().min().unwrap_or(now);
        let neglected = self.neglected(now);
        let [lowest, other] = self.lowest();
        for number in [neglected, open, lowest, other].into_iter().flatten() {
            let Some((blocker, deadline)) = self.blocker(now, number).filter(|&(other, _)| !self.bears(other, number)) else {
                return Turn::Spare(number);
            };
            let has_room = deadline > now + self.backlog.work();
            self.refused |= !self.volumes[number].is_guaranteed() && has_room;
            if neglected == Some(number) {
                if !self.refused || self.volumes[blocker].tolerates_preemption(now, self.preemptions) || self.waited_long(now) {
                    return Turn::Preemption(number);
                }
            } else if self.volumes[blocker].waiting > 0
                && self.volumes[blocker].is_ready(now)
                && let Some(first) = self.not_overtaking(now, blocker)
            {
                return Turn::Spare(first);
            }
        }
        Turn::Later(later)
    }

    /// Another volume that must have the device before a further request of this volume would be complete, and its deadline; `None` if
    /// there is none.
    fn blocker(&self, now: Nanos, number: usize) -> Option<(usize, Nanos)> {
        let volume = &self.volumes[number];
        if volume.cost.mean().is_none() && volume.work_at_device() > Nanos::ZERO {
            // The duration of its requests is unknown before the first completion.
            return self.deadlines.first(now, number);
        }
        let until = now + self.backlog.work() + self.next_cost(number);
        self.deadlines.first(now, number).filter(|&(_, deadline)| deadline < until)
    }

    /// Whether to serve a volume rather than keep the device idle for `other`, which may issue a request: if `other` has time for it
    /// regardless of its learned slack, or if both have guarantees, and if the request is not much larger than those of `other`.
    fn bears(&self, other: usize, number: usize) -> bool {
        let [other, volume] = [other, number].map(|number| &self.volumes[number]);
        if self.backlog.count() > 0 || other.waiting > 0 {
            return false;
        }
        let sectors = self.next(self.now, number).map_or(volume.sectors(), |(next, _)| self.queue.request(next).sectors);
        let is_larger = sectors / DWARFS > other.sectors();
        let has_time = self.next_cost(number) + other.guard.own() <= other.guard.tail();
        !is_larger && (has_time || volume.is_guaranteed())
    }

    /// The next request of a volume that is not in a slot yet, and the time at which its limits allow it; `None` if there is none.
    fn next(&self, now: Nanos, number: usize) -> Option<(Slot, Nanos)> {
        next_within_limits(&self.queue, number, self.volumes[number].limiter(), now, |lane| self.queue.oldest(lane))
    }

    /// Expected time for which the next request of a volume keeps the device busy.
    fn next_cost(&self, number: usize) -> Nanos {
        let sectors = self.next(self.now, number).map_or(0, |(next, _)| self.queue.request(next).sectors);
        Nanos(self.volumes[number].cost.estimate(sectors, &self.cost))
    }

    /// The volumes with the lowest tag among those with and without a guarantee; the lower of both first.
    fn lowest(&self) -> [Option<usize>; 2] {
        let [guaranteed, other] = [GUARANTEED, BEST_EFFORT].map(|list| self.tags[list].first());
        let is_others = match (guaranteed, other) {
            (Some((guaranteed, _)), Some((other, _))) => value(other).saturating_add(self.best_effort_lead) < value(guaranteed),
            _ => false,
        };
        let mut lowest = [guaranteed, other].map(|lowest| lowest.map(|(_, number)| number as usize));
        if is_others {
            lowest.reverse();
        }
        lowest
    }

    /// Whether volumes without a guarantee have waited too long to be refused any longer.
    fn waited_long(&self, now: Nanos) -> bool {
        now >= self.best_effort_served + Nanos(self.tuning.best_effort_wait.0.saturating_mul(LONG_WAIT_FACTOR))
    }

    /// The volume without a guarantee to serve next, if none of them was served for `best_effort_wait_ms`.
    fn neglected(&self, now: Nanos) -> Option<usize> {
        let (_, number) = self.tags[BEST_EFFORT].first()?;
        (now >= self.best_effort_served + self.tuning.best_effort_wait).then_some(number as usize)
    }

    // Dispatch.

    /// Reference time of a slot: longer with few waiting volumes, so that one slot of each adds up to the shortest worst-case response
    /// among them.
    fn slot_length(&self) -> Nanos {
        let waiting = self.starts.len().max(1) as u64;
        self.tuning.slot.max(Nanos(self.shortest_tail.get().0 / waiting))
    }

    /// Reference time of a request of a volume; without a reference disk its time on this device, at least the part of a slot that limits a
    /// slot to [`MAX_IN_SLOT`] requests.
    fn slot_time(&self, number: usize, request: &Request) -> Nanos {
        let least = Nanos(self.tuning.slot.0 / u64::from(MAX_IN_SLOT));
        if self.volumes[number].is_guaranteed() {
            return self.charges.find(request.id).map_or(least, |charge| charge.service);
        }
        least.max(self.rate.reference_time(Nanos(self.volumes[number].cost.estimate(request.sectors, &self.cost))))
    }

    /// Moves queued requests of a volume into its slot as long as they fit.
    fn fill_slot(&mut self, now: Nanos, number: usize) {
        let length = self.slot_length();
        self.volumes[number].open_slot(length, self.tuning.order);
        while let Some((oldest, _)) = self.next(now, number) {
            let service = self.slot_time(number, self.queue.request(oldest));
            if !self.volumes[number].has_room_for(service, length, MAX_IN_SLOT) {
                return;
            }
            let request = self.queue.take(oldest);
            self.volumes[number].put_into_slot(now, request, service);
        }
    }

    /// The next request of a volume: from its slot, or in order of arrival if it has the device to itself. If its reads and writes have
    /// separate limits, slots hold no requests, as one could wait behind another one's limit.
    fn take(&mut self, now: Nanos, number: usize, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Request> {
        if self.active == 1 && self.volumes[number].slot_is_empty() {
            return self.next(now, number).map(|(next, _)| self.queue.take(next));
        }
        let request = if self.volumes[number].is_limited_by_direction() {
            let length = self.slot_length();
            self.volumes[number].open_slot(length, self.tuning.order);
            self.next(now, number).map(|(next, _)| self.queue.take(next))?
        } else {
            self.fill_slot(now, number);
            self.volumes[number].take_from_slot(now, cost)?
        };
        let service = self.slot_time(number, &request);
        self.volumes[number].use_turn(service);
        Some(request)
    }

    /// Dispatches a request of a volume.
    fn send(
        &mut self,
        now: Nanos,
        number: usize,
        is_spare: bool,
        cost: &mut dyn FnMut(&Request) -> Option<Nanos>,
    ) -> Option<Request> {
        let continues = self.current == Some(number) && self.volumes[number].slot_continues();
        let request = self.take(now, number, cost)?;
        let work = Nanos(self.volumes[number].cost.estimate(request.sectors, &self.cost));
        let disk_time = Nanos(self.volumes[number].disk_time.estimate(request.sectors, &self.cost));
        let volume = &mut self.volumes[number];
        let begin = volume.begin();
        if let Some(charge) = self.charges.find_mut(request.id) {
            charge.dispatched = Some(now);
            charge.work = work;
            charge.at_device = self.backlog.count() + 1;
            charge.others_done = self.backlog.done() - volume.done();
            volume.sent(now, charge.service, work, &request);
            self.waiting -= 1;
            self.backlog.sent(work);
            let ahead = if volume.is_guaranteed() { 0 } else { self.best_effort_lead };
            if is_spare && !continues {
                // Only the first request of a slot had the lowest tag.
                self.spare_time = self.spare_time.max(volume.tag.saturating_add(ahead));
            }
            if is_spare || !volume.is_guaranteed() {
                if !volume.is_guaranteed() {
                    self.best_effort_lead += self.spare_time.saturating_sub(volume.tag.saturating_add(ahead));
                }
                volume.spend(if volume.is_guaranteed() { charge.service } else { self.rate.reference_time(disk_time) });
            }
        }
        if volume.is_guaranteed() {
            self.progress = self.progress.max(begin.min(now));
        } else {
            self.best_effort_served = now;
            self.refused = false;
        }
        self.current = Some(number);
        self.update_places(now, number);
        Some(request)
    }

    /// Dispatches a request that occupies the device for longer than others can wait.
    fn preempt(&mut self, now: Nanos, number: usize, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Request> {
        let request = self.send(now, number, false, cost)?;
        self.preemptions = self.preemptions.wrapping_add(1);
        Some(request)
    }

    /// Charges an arriving request to its volume, and returns its time on the reference disk.
    fn charge(&mut self, now: Nanos, number: usize, request: &Request) -> Nanos {
        let reference_now = self.reference_now(now);
        let lba = self.register.roster().tenant_lba_of(request);
        let (spare_time, lead) = (self.spare_time, self.best_effort_lead);
        let others_waited = !self.tags[BEST_EFFORT].is_empty();
        let volume = self.open(number);
        let (was_waiting, was_silent) = (volume.waiting > 0, volume.is_silent());
        let service = volume.arrived(now, reference_now, &Request { lba, ..*request });
        if !was_waiting {
            volume.tag = volume.tag.max(if volume.is_guaranteed() { spare_time } else { spare_time.saturating_sub(lead) });
            if !volume.is_guaranteed() && !others_waited {
                self.best_effort_served = now;
            }
        }
        self.active += usize::from(was_silent);
        service
    }

    /// Updates the charges after a request was queued or merged.
    fn record_placement(&mut self, number: usize, request: &Request, service: Nanos, placed: &Placed) {
        match placed {
            Placed::Queued(_) => {
                let volume = &mut self.volumes[number];
                let charge = Charge::new(number, service, self.now, volume.open_time(), volume.clock());
                let sequence = self.charges.add(request.id, charge);
                volume.began(sequence, self.now);
                volume.waiting += 1;
                self.waiting += 1;
            }
            Placed::Merged { into, absorbed } => {
                self.charges.merge(*into, service, self.volumes[number].clock());
                if let Some(absorbed) = absorbed
                    && let Some(later) = self.charges.absorb(*into, absorbed.id)
                {
                    self.volumes[number].ended(later);
                    self.volumes[number].waiting -= 1;
                    self.waiting -= 1;
                }
            }
        }
    }
}

impl Scheduler for YouChoose {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.now = now;
        let number = self.register.number(&request);
        let service = self.charge(now, number, &request);
        // A volume that has the device to itself is served as without a scheduler, so nothing is merged.
        let limits = self.queue.limits();
        if self.active == 1 {
            self.queue.set_limits(&Limits { max_sectors: 0, ..limits });
        }
        let lane = lane_for(number, self.volumes[number].limiter(), &request);
        let placed = self.queue.insert(lane, Nanos::ZERO, request);
        self.queue.set_limits(&limits);
        self.tag_shares.inserted(number, &self.register, &placed);
        self.record_placement(number, &request, service, &placed);
        self.update_places(now, number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.pick_with_cost(now, &mut |_| None)
    }

    fn pick_with_cost(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        self.now = now;
        if self.waiting == 0 {
            return Pick::Empty;
        }
        self.end_silences(now);
        let sent = match self.turn(now) {
            Turn::Due(number) => self.send(now, number, false, cost),
            Turn::Spare(number) => self.send(now, number, true, cost),
            Turn::Preemption(number) => self.preempt(now, number, cost),
            Turn::Later(until) => return Pick::WaitUntil(until.max(now + Nanos(1))),
        };
        sent.map_or(Pick::Empty, Pick::Go)
    }

    fn record_disk_time(&mut self, _request: &Request, disk_time: Nanos) {
        self.reported_time = Some(Nanos(disk_time.0 / u64::from(self.register.roster().disks())));
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let reported = self.reported_time.take();
        let Some(charge) = self.charges.remove(request.id) else { return };
        let Some(dispatched) = charge.dispatched else { return };
        let (device_time, least) = (self.backlog.completed(now, charge.work, dispatched), self.least_bound());
        self.cost.learn(request.sectors, device_time.0);
        let volume = &mut self.volumes[charge.volume];
        volume.cost.learn(request.sectors, device_time.0);
        volume.disk_time.learn(request.sectors, reported.unwrap_or(device_time).0);
        volume.completed(now, &charge, self.tuning.debt);
        volume.ended(charge.sequence);
        self.active -= usize::from(volume.is_silent());
        let at_device = now - dispatched;
        volume.add_done(device_time);
        let others = self.backlog.done() - volume.done() - charge.others_done;
        let own = (at_device - others).max(charge.work.min(at_device));
        let response = Response { took: now - charge.arrival, reference_done: charge.reference_done, own };
        let is_late = volume.guard.completed(now, &response, self.preemptions);
        if volume.is_guaranteed() {
            let bound = match self.register.roster().has_one_arm() {
                true => volume.bears.get_or_insert(Bound::new(least)),
                false => &mut self.bound,
            };
            if is_late && 2 * at_device.0 > response.took.0 {
                bound.was_late(now, dispatched, charge.at_device);
            } else if !is_late {
                bound.was_in_time(self.backlog.count());
            }
        }
        self.tag_shares.removed(charge.volume, &self.register);
        if volume.is_guaranteed() {
            self.shortest_tail.add(volume.guard.tail());
            self.rate.learn(charge.service, device_time);
        }
        self.update_places(now, charge.volume);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(TagShares::tags(room, &self.register))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.tag_shares.open_tags(depth, &self.register, request)
    }

    fn retune(&mut self, values: &[i64]) {
        let tuning = Tunables::of(values);
        if tuning.order != self.tuning.order {
            self.volumes.iter_mut().for_each(|volume| volume.reorder(self.now, tuning.order));
        }
        self.tuning = tuning;
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    /// Tenants on both rosters, by name, keep their clocks, debts, guards and costs, and their requests in flight.
    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut YouChoose, request| {
            this.insert(now, request);
        };
        resort(self, limits, |this| this.replace_roster(now, roster), insert);
    }

    fn standing(&self, now: Nanos, tenant: usize) -> Option<Standing> {
        self.volumes.get(tenant)?.standing(now)
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.volumes.iter_mut().for_each(|volume| volume.drain_slot(out));
        out[first..].sort_by_key(|request| self.charges.find(request.id).map(|charge| charge.sequence));
        for request in &out[first..] {
            if let Some(charge) = self.charges.remove(request.id) {
                self.volumes[charge.volume].withdrawn(&charge);
                self.volumes[charge.volume].ended(charge.sequence);
                self.waiting -= 1;
                self.active -= usize::from(self.volumes[charge.volume].is_silent());
                self.tag_shares.removed(charge.volume, &self.register);
            }
        }
        for number in 0..self.volumes.len() {
            self.update_places(self.now, number);
        }
    }
}
