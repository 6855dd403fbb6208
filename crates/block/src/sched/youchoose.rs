//! `YouChoose`: each volume is served at least as well as it would be by the reference disk that its owner chose.
//!
//! ```text
//! volume    requests                      clock of its reference disk                        key
//! a         ─▶ lane ─▶ slot (c-look) ─┐   ····│served│ at the device │ waiting │▶ clock       due of the next
//! b         ─▶ lane ─▶ slot           ├─▶ ····│served│     │ waiting  │▶ clock               due of the next
//! unowned   ─▶ lane ─▶ slot           ┘   no clock: spare capacity only
//!                                              now ──┴──▶
//! ```
//! A volume's clock is the time at which its reference disk would have completed all requests so far. A request is *due* when that disk
//! would have completed it; earliest due first meets every due time if any order can. A request need not go before its latest start,
//! though: as long as none is at its latest start there is spare capacity, which is shared by *tags*, in proportion to the speeds of the
//! reference disks. So no volume pays later for service beyond its guarantee.
//!
//! Requests of a volume leave in *slots* of reference time, within which another scheduler orders them. A slot ends early if another volume
//! is at its latest start, unless both are late already: then the host is overloaded, and batching helps most.
//!
//! A request at the device cannot be preempted. So a request without a guarantee, or a large one, goes only if it completes before a volume
//! that has a request, or is about to issue one, must have the device ([`guard`]). A request that is always too long goes so rarely that it
//! makes at most one in a hundred responses late, but after ten times `best_effort_wait_ms` at the latest.
//!
//! Difference from the paper: its clock runs ahead by service beyond the guarantee, for which the volume pays when others return; here it
//! never runs further ahead than the work that is left ([`Volume::completed`](volume::Volume::completed)).

mod admission;
mod charges;
mod guard;
mod pacing;
mod tuning;
mod volume;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, resort};
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::sorted::SortedList;
use crate::tag_shares::TagShares;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request};
use admission::{Candidate, SlackIndex};
use charges::{Charge, Charges};
use guard::{High, Low, Response};
use pacing::Pacing;
use tuning::Tunables;
use volume::Volume;

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
    /// It has waited too long for others to make room for its requests.
    Preemption(usize),
    /// Nothing is to be sent before this time.
    Later(Nanos),
}

struct YouChoose {
    tuning: Tunables,
    register: Register,
    /// A lane for each volume, with requests that are in no slot yet.
    queue: Queue,
    volumes: Vec<Volume>,
    charges: Charges,
    tag_shares: TagShares,
    /// Volumes with a guarantee and queued requests, by due time.
    dues: SortedList,
    /// Volumes with queued requests, by tag: those with a guarantee, and those without.
    tags: [SortedList; 2],
    /// Volumes whose requests others must not delay for long, by slack.
    slack: SlackIndex,
    /// Number of preemptions, and when the last one ended.
    preemptions: u32,
    preempted_until: Nanos,
    /// Since a volume without a guarantee was last served, the device had room for one, but its request would have occupied it for too
    /// long.
    refused: bool,
    /// Time for which a request of a volume without a guarantee occupies an otherwise idle device, at worst.
    best_effort_occupancy: High,
    /// The worst-case response on the reference disk, of the volume with the shortest.
    shortest_tail: Low,
    /// The volume with an open slot.
    current: Option<usize>,
    /// Progress of the reference disks' time where the host cannot keep up with them.
    progress: Nanos,
    /// Volumes that are behind and have no requests, by when that no longer counts.
    pauses: SortedList,
    /// The highest tag served from spare capacity.
    spare_time: u64,
    /// Lead of the tags of volumes without a guarantee over their recorded values: time for which all of them were held back is not saved
    /// up.
    best_effort_lead: u64,
    /// Last dispatch of a volume without a guarantee, or the last time that none had requests.
    best_effort_served: Nanos,
    pacing: Pacing,
    /// Number of volumes whose requests complete later than on their reference disks.
    behind: usize,
    /// Disk time reported for the request whose completion comes next, divided by the number of disks.
    reported_time: Option<Nanos>,
    /// Time of the last event, as a new roster comes without a time.
    now: Nanos,
}

/// Limit of requests in a slot of a volume without a reference disk.
const MAX_IN_SLOT: u64 = 64;

/// Factor on `best_effort_wait_ms` for volumes whose requests would occupy the device for too long.
const LONG_WAIT_FACTOR: u64 = 10;

/// Indexes of the lists of tags.
const GUARANTEED: usize = 0;
const BEST_EFFORT: usize = 1;

/// A key of a sorted list: the number, then the volume, which makes it unique.
fn key(number: u64, volume: usize) -> u128 {
    u128::from(number) << 64 | volume as u128
}

fn number_of(key: u128) -> u64 {
    (key >> 64) as u64
}

impl YouChoose {
    fn new(limits: Limits, tuning: Tunables, roster: &Roster) -> YouChoose {
        let is_shared = !roster.tenants().is_empty();
        YouChoose {
            tuning,
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            volumes: Vec::new(),
            charges: Charges::default(),
            tag_shares: TagShares::default(),
            dues: SortedList::default(),
            tags: [SortedList::default(), SortedList::default()],
            slack: SlackIndex::default(),
            preemptions: 0,
            refused: false,
            preempted_until: Nanos::ZERO,
            best_effort_occupancy: High::default(),
            shortest_tail: Low::default(),
            current: None,
            pauses: SortedList::default(),
            progress: Nanos::ZERO,
            spare_time: 0,
            best_effort_lead: 0,
            best_effort_served: Nanos::ZERO,
            pacing: Pacing::new(tuning.in_flight, is_shared.then_some(roster.disks())),
            behind: 0,
            reported_time: None,
            now: Nanos::ZERO,
        }
    }

    /// The volume with this number, created if it is new.
    fn open(&mut self, number: usize) -> &mut Volume {
        while self.volumes.len() <= number {
            let next = self.volumes.len();
            let reference = self.register.tenant(next).and_then(|tenant| tenant.reference.as_ref());
            self.volumes.push(Volume::new(reference.map(|reference| reference.begin()), self.register.weight(next)));
        }
        &mut self.volumes[number]
    }

    // The clocks.

    /// The reference disks' time: `now`, or if the host cannot keep up with them their progress, so that a volume that returns starts next
    /// to the others and not behind them.
    fn reference_now(&self, now: Nanos) -> Nanos {
        match self.dues.first() {
            Some((first, number)) if number_of(first) < now.0 => self.progress.max(self.volumes[number as usize].begin()).min(now),
            _ => now,
        }
    }

    /// Updates a volume's entries in the lists.
    fn update_places(&mut self, now: Nanos, number: usize) {
        let volume = &mut self.volumes[number];
        if volume.is_behind != volume.places.behind {
            volume.places.behind = volume.is_behind;
            self.behind = if volume.is_behind { self.behind + 1 } else { self.behind - 1 };
        }
        let pause = volume.pauses_behind().map(|until| key(until.0, number));
        if pause != volume.places.pause {
            volume.places.pause.inspect(|&pause| self.pauses.remove(pause));
            pause.inspect(|&pause| self.pauses.insert(pause, number as u32));
            volume.places.pause = pause;
        }
        let floor = self.reference_now(now) - self.tuning.debt;
        let volume = &mut self.volumes[number];
        volume.forgive(floor);
        let due = volume.due().map(|due| key(due.0, number));
        if due != volume.places.due {
            volume.places.due.inspect(|&due| self.dues.remove(due));
            due.inspect(|&due| self.dues.insert(due, number as u32));
            volume.places.due = due;
        }
        let tags = &mut self.tags[if volume.is_guaranteed() { GUARANTEED } else { BEST_EFFORT }];
        let tag = (volume.waiting > 0).then(|| key(volume.tag, number));
        if tag != volume.places.tag {
            volume.places.tag.inspect(|&tag| tags.remove(tag));
            tag.inspect(|&tag| tags.insert(tag, number as u32));
            volume.places.tag = tag;
        }
    }

    // Selection.

    fn turn(&mut self, now: Nanos) -> Turn {
        if !self.pacing.has_room() {
            return Turn::Later(now + COMPLETION_BACKSTOP);
        }
        let first = self.dues.first().map(|(due, number)| (Nanos(number_of(due)), number as usize));
        let lead = self.pacing.lead();
        let open = self.current.filter(|&open| self.volumes[open].slot_continues());
        let Some((due, number)) = first.filter(|&(due, _)| due <= now + lead) else {
            return self.turn_to_spare(now, open, first.map(|(due, number)| (due - lead, number)));
        };
        if let Some(other) = self.neglected(now).filter(|_| !self.refused || self.waited_long(now)) {
            return Turn::Due(other);
        }
        let both_late = |open: &usize| due < now && self.volumes[*open].due().is_some_and(|due| due < now);
        Turn::Due(open.filter(both_late).unwrap_or(number))
    }

    /// Shares spare capacity while no volume is at its latest start; `first` is the earliest latest start with its volume.
    ///
    /// While a volume is behind, spare capacity is used only to keep the device busy. It is not given to a volume whose request would
    /// occupy the device for longer than another volume with requests now or soon can wait.
    fn turn_to_spare(&mut self, now: Nanos, open: Option<usize>, first: Option<(Nanos, usize)>) -> Turn {
        let pause = self.pauses.first().map(|(until, _)| Nanos(number_of(until)));
        let times = [first.map(|(last_moment, _)| last_moment), pause, Some(now + COMPLETION_BACKSTOP)];
        let mut later = times.into_iter().flatten().min().unwrap_or(now);
        if self.behind > 0 && !self.pacing.is_idle() {
            return Turn::Later(later);
        }
        let first = first.map(|(_, number)| number);
        let neglected = self.neglected(now);
        let [lowest, other] = self.lowest();
        for number in [neglected, open, lowest, other].into_iter().flatten() {
            let occupancy = self.occupancy_of(number);
            let candidate = Candidate { number, occupancy, until: now + self.pacing.work() + occupancy };
            let Some(other) = self.slack.blocked_by(now, &candidate, first, &mut self.volumes) else { return Turn::Spare(number) };
            self.refused |= !self.volumes[number].is_guaranteed() && self.has_time(now, other);
            if neglected == Some(number) {
                if !self.refused || self.volumes[other].tolerates_preemption(now, self.preemptions) || self.waited_long(now) {
                    return Turn::Preemption(number);
                }
            } else if self.volumes[other].waiting > 0 {
                return Turn::Spare(other);
            }
            later = later.min(self.volumes[other].expected_until().unwrap_or(later));
        }
        Turn::Later(later)
    }

    /// The volumes with the lowest tag among those with and without a guarantee; the lower one of both first.
    fn lowest(&self) -> [Option<usize>; 2] {
        let [guaranteed, other] = [GUARANTEED, BEST_EFFORT].map(|list| self.tags[list].first());
        let is_others = match (guaranteed, other) {
            (Some((guaranteed, _)), Some((other, _))) => {
                number_of(other).saturating_add(self.best_effort_lead) < number_of(guaranteed)
            }
            _ => false,
        };
        let mut lowest = [guaranteed, other].map(|lowest| lowest.map(|(_, number)| number as usize));
        if is_others {
            lowest.reverse();
        }
        lowest
    }

    /// Whether a volume leaves time at the device, if only for requests that are shorter than the refused one.
    fn has_time(&self, now: Nanos, number: usize) -> bool {
        let lead = self.pacing.lead();
        self.volumes[number].due().is_none_or(|due| due > now + lead + lead)
    }

    /// Worst-case time for which a request of a volume occupies an otherwise idle device. While unknown, that of the other volumes of its
    /// kind.
    fn occupancy_of(&self, number: usize) -> Nanos {
        let volume = &self.volumes[number];
        let unknown =
            if volume.is_guaranteed() { Nanos::ZERO } else { self.best_effort_occupancy.get().unwrap_or(self.pacing.lead()) };
        volume.guard.occupancy().unwrap_or(unknown)
    }

    /// Whether volumes without a guarantee have waited too long to be held back any further.
    fn waited_long(&self, now: Nanos) -> bool {
        now >= self.best_effort_served + Nanos(self.tuning.best_effort_wait.0.saturating_mul(LONG_WAIT_FACTOR))
    }

    /// Resets the state of volumes that have been behind without requests for long enough.
    fn end_pauses(&mut self, now: Nanos) {
        while let Some((_, number)) = self.pauses.first().filter(|&(until, _)| number_of(until) <= now.0) {
            self.volumes[number as usize].is_behind = false;
            self.update_places(now, number as usize);
        }
    }

    /// The volume without a guarantee to serve next, if none of them was served for too long.
    fn neglected(&self, now: Nanos) -> Option<usize> {
        let (_, number) = self.tags[BEST_EFFORT].first()?;
        (now >= self.best_effort_served + self.tuning.best_effort_wait).then_some(number as usize)
    }

    // Dispatch.

    /// Reference time of a slot: with few waiting volumes it is longer, so that one of each adds up to the shortest worst-case response among them.
    fn slot_length(&self) -> Nanos {
        let waiting = self.dues.len().max(1) as u64;
        self.tuning.slot.max(Nanos(self.shortest_tail.get().0 / waiting))
    }

    /// Moves queued requests of a volume into its slot as long as they fit.
    fn fill_slot(&mut self, now: Nanos, number: usize) {
        let length = self.slot_length();
        let volume = &mut self.volumes[number];
        volume.open_slot(length, self.tuning.order);
        // Without a reference disk, the time on this device counts; until it is known, a slot holds a few requests.
        let least = Nanos(self.tuning.slot.0 / MAX_IN_SLOT).max(self.pacing.in_reference_time(volume.work()));
        let least = if volume.is_guaranteed() { Nanos::ZERO } else { least };
        while let Some(oldest) = self.queue.oldest(number) {
            let charge = self.charges.find(self.queue.request(oldest).id);
            let service = charge.map_or(least, |charge| charge.service.max(least));
            if !volume.has_room_for(service) {
                return;
            }
            let request = self.queue.take(oldest);
            volume.put_into_slot(now, request, service);
        }
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
        self.fill_slot(now, number);
        let request = self.volumes[number].take_from_slot(now, cost)?;
        let volume = &mut self.volumes[number];
        let begin = volume.begin();
        if let Some(charge) = self.charges.find_mut(request.id) {
            volume.sent(charge.service, charge.arrival, request.sectors);
            charge.dispatched = Some(now);
            charge.load = Pacing::load_of(&request);
            charge.work = volume.device_time();
            charge.before = (self.pacing.work(), self.pacing.count());
            charge.is_alone = self.pacing.count() < volume.at_device();
            self.pacing.sent(charge.load, charge.work);
            let ahead = if volume.is_guaranteed() { 0 } else { self.best_effort_lead };
            if is_spare && !continues {
                // Only the first request of a slot had the lowest tag.
                self.spare_time = self.spare_time.max(volume.tag.saturating_add(ahead));
            }
            if is_spare || !volume.is_guaranteed() {
                if !volume.is_guaranteed() {
                    self.best_effort_lead += self.spare_time.saturating_sub(volume.tag.saturating_add(ahead));
                }
                let cost = if volume.is_guaranteed() { charge.service } else { self.pacing.in_reference_time(volume.work()) };
                volume.spend(cost);
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
        if let Some(charge) = self.charges.find_mut(request.id) {
            charge.is_preemption = true;
        }
        self.preemptions = self.preemptions.wrapping_add(1);
        self.preempted_until = Nanos::MAX;
        Some(request)
    }

    /// Charges an arriving request to its volume, and returns its time on the reference disk.
    fn charge(&mut self, now: Nanos, number: usize, request: &Request) -> Nanos {
        let reference_now = self.reference_now(now);
        let lba = self.register.roster().tenant_lba_of(request);
        let (spare_time, lead) = (self.spare_time, self.best_effort_lead);
        let others_waited = !self.tags[BEST_EFFORT].is_empty();
        let volume = self.open(number);
        let was_waiting = volume.waiting > 0;
        let service = volume.arrived(now, reference_now, &Request { lba, ..*request });
        if !was_waiting {
            volume.tag = volume.tag.max(if volume.is_guaranteed() { spare_time } else { spare_time.saturating_sub(lead) });
            if !volume.is_guaranteed() && !others_waited {
                self.best_effort_served = now;
            }
        }
        service
    }

    /// Updates the charges after a request was queued or merged.
    fn record_placement(&mut self, number: usize, request: &Request, service: Nanos, placed: &Placed) {
        match placed {
            Placed::Queued(_) => {
                let volume = &self.volumes[number];
                self.charges.add(request.id, Charge::new(number, service, self.now, volume.open_time(), volume.clock()));
                self.volumes[number].waiting += 1;
            }
            Placed::Merged { into, absorbed } => {
                self.charges.merge(*into, service, self.volumes[number].clock());
                if let Some(absorbed) = absorbed {
                    self.charges.absorb(*into, absorbed.id);
                    self.volumes[number].waiting -= 1;
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
        let placed = self.queue.insert(number, Nanos::ZERO, request);
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
        if self.tags.iter().all(SortedList::is_empty) {
            return Pick::Empty;
        }
        self.end_pauses(now);
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
        let device_time = self.pacing.completed(now, &charge, dispatched);
        if charge.is_preemption {
            self.preempted_until = now;
        }
        let volume = &mut self.volumes[charge.volume];
        volume.completed(now, &charge, (device_time, reported.unwrap_or(device_time)), self.tuning.debt);
        let at_device = now - dispatched;
        let alone = charge.is_alone.then_some(at_device);
        let made_room =
            self.preempted_until < charge.arrival && self.pacing.had_others(charge.arrival, charge.volume, volume.at_device());
        let occupancy = device_time.max(self.pacing.own_part(at_device, charge.before));
        let response = Response {
            took: now - charge.arrival,
            allowed: charge.allowed,
            reference_done: charge.reference_done,
            occupancy,
            alone,
            made_room,
        };
        volume.guard.completed(now, &response, self.preemptions);
        self.tag_shares.removed(charge.volume, &self.register);
        if !volume.is_guaranteed() {
            self.best_effort_occupancy.add(occupancy);
        } else {
            self.shortest_tail.add(volume.guard.tail());
            self.slack.update(charge.volume, &mut volume.guard);
            self.pacing.learn(now, dispatched, &charge, volume.is_behind, device_time);
        }
        self.update_places(now, charge.volume);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(TagShares::tags(room))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.tag_shares.open_tags(depth, &self.register, request)
    }

    fn retune(&mut self, values: &[i64]) {
        let tuning = Tunables::of(values);
        if tuning.order != self.tuning.order {
            self.volumes.iter_mut().for_each(|volume| volume.reorder(self.now, tuning.order));
        }
        self.pacing.set(tuning.in_flight);
        self.tuning = tuning;
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn set_roster(&mut self, roster: &Roster) {
        let (now, limits) = (self.now, self.queue.limits());
        let insert = |this: &mut YouChoose, request| {
            this.insert(now, request);
        };
        resort(self, limits, |this| *this = YouChoose::new(limits, this.tuning, roster), insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.volumes.iter_mut().for_each(|volume| volume.drain_slot(out));
        out[first..].sort_by_key(|request| self.charges.find(request.id).map(|charge| charge.sequence));
        for request in &out[first..] {
            if let Some(charge) = self.charges.remove(request.id) {
                self.volumes[charge.volume].withdrawn(&charge);
                self.tag_shares.removed(charge.volume, &self.register);
            }
        }
        for number in 0..self.volumes.len() {
            self.update_places(self.now, number);
        }
    }
}
