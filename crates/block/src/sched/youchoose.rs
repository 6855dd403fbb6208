//! `YouChoose`: each volume is served at least as well as the disk that its owner chose would have served it.
//!
//! ```text
//! volume    requests                      clock of its reference disk                        key
//! a         ─▶ lane ─▶ slot (c-look) ─┐   ····│served│ at the device │ waiting │▶ clock       due of the next
//! b         ─▶ lane ─▶ slot           ├─▶ ····│served│     │ waiting  │▶ clock               due of the next
//! nobody's  ─▶ lane ─▶ slot           ┘   no clock: what others leave
//!                                              now ──┴──▶
//! ```
//! A volume's clock says when its reference disk would be done with all that was asked so far. A request is *due* when that disk would
//! have completed it; the earliest due goes first, which meets every due time if any order can. It need not go before the last moment,
//! though: as long as nothing is at its last moment there is capacity to spare, and that is shared by *tags*, in proportion to what
//! the reference disks can do. So nobody pays later for what he got beyond his promise.
//!
//! Requests of a volume leave in *slots* of so much reference time, within which any other scheduler puts them in order. A slot ends early
//! if another volume is at its last moment, unless both are late already: then time is short, and batches are what saves it.
//!
//! A request that is at the device cannot be called back. So what was promised nothing, and what is large, goes only if it is done before
//! a volume that has asked, or is about to, must have the device ([`guard`]). What is always too long goes so seldom that it makes no more
//! than one in a hundred responses late, but after ten times `best_effort_wait_ms` at the latest.
//!
//! Left out of the paper's scheme: its clock runs ahead by what is served beyond the promise, for which the volume would pay when others
//! come; here it never runs further ahead than what is still to be done ([`Volume::completed`](volume::Volume::completed)).

mod charges;
mod guard;
mod pacing;
mod tuning;
mod volume;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Room, Scheduler, SchedulerSpec, Tags, sort_anew};
use crate::holders::Holders;
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::sorted::SortedList;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request};
use charges::{Charge, Charges};
use guard::{Guards, High, Kept, Low, Response};
use pacing::Pacing;
use tuning::Tunables;
use volume::Volume;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "youchoose",
    summary: "each tenant is served at least as well as by the disk it chose; spare capacity is shared in proportion",
    source: "Zhang, Xu, Jiang, YouChoose: a performance interface for consolidated storage systems, MSST 2011, section III.B",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    patience: None,
    knowledge: None,
    build: |limits, values| Box::new(YouChoose::new(*limits, Tunables::of(values), &Roster::default())),
};

/// Who is served next, and by what right.
enum Turn {
    /// The volume is at its last moment.
    Owed(usize),
    /// Nobody is: it has the lowest tag.
    Spare(usize),
    /// It has waited for too long that others leave room for its requests.
    Intrusion(usize),
    /// The device has enough to do until then.
    Later(Nanos),
}

struct YouChoose {
    tuning: Tunables,
    register: Register,
    /// A lane for each volume, with what is in no slot yet.
    queue: Queue,
    volumes: Vec<Volume>,
    charges: Charges,
    holders: Holders,
    /// Volumes with a promise and something to send, by when it is due.
    dues: SortedList,
    /// Volumes with something to send, by their tags: those with a promise, and those without.
    tags: [SortedList; 2],
    /// Those for whose sake others may not keep the device for long.
    guards: Guards,
    /// How often it was kept for longer, and until when.
    intrusions: u32,
    intruded_until: Nanos,
    /// There was room at the device for a volume without a promise since one was last served, but it would have been kept for too long.
    refused: bool,
    /// How long a request of a volume without a promise is at the device if nothing else is, at worst.
    others_keep: High,
    /// The response that volumes have on their reference disks at worst, of the one with the shortest.
    patience: Low,
    /// Whose slot is open.
    current: Option<usize>,
    /// How far the reference disks' time has come where the host does not keep up with them.
    progress: Nanos,
    /// Volumes that are behind and ask for nothing, by when that no longer counts.
    pauses: SortedList,
    /// The tag of what was last served of the capacity to spare.
    spare_time: u64,
    /// By how much the tags of those without a promise are ahead of what they say: what was held back from all of them is not saved up.
    others_ahead: u64,
    /// When something was last sent of a volume without a promise, or when there was last nothing of them to send.
    others_served: Nanos,
    pacing: Pacing,
    /// Volumes whose requests are done later than on their reference disks.
    behind: usize,
    /// What the device said of the request whose completion is about to be reported: its work, on one disk of those that work side by side.
    worked: Option<Nanos>,
    /// When something last happened, for a new roster comes without a time.
    now: Nanos,
}

/// How many requests of a volume without a reference disk a slot holds at most.
const MOST_IN_SLOT: u64 = 64;

/// Volumes without a promise that would keep the device for too long wait at most so many times as long as where there is no time for them.
const MOST_WAITS: u64 = 10;

/// Places of the lists of tags.
const PROMISED: usize = 0;
const OTHERS: usize = 1;

/// A key of a sorted list: first the number, then the volume, so that none is there twice.
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
            holders: Holders::default(),
            dues: SortedList::default(),
            tags: [SortedList::default(), SortedList::default()],
            guards: Guards::default(),
            intrusions: 0,
            refused: false,
            intruded_until: Nanos::ZERO,
            others_keep: High::default(),
            patience: Low::default(),
            current: None,
            pauses: SortedList::default(),
            progress: Nanos::ZERO,
            spare_time: 0,
            others_ahead: 0,
            others_served: Nanos::ZERO,
            pacing: Pacing::new(tuning.in_flight, is_shared.then_some(roster.disks())),
            behind: 0,
            worked: None,
            now: Nanos::ZERO,
        }
    }

    /// The volume of this number, which is new perhaps.
    fn open(&mut self, number: usize) -> &mut Volume {
        while self.volumes.len() <= number {
            let next = self.volumes.len();
            let promise = self.register.tenant(next).and_then(|tenant| tenant.reference.as_ref());
            self.volumes.push(Volume::new(promise.map(|reference| reference.begin()), self.register.weight(next)));
        }
        &mut self.volumes[number]
    }

    // The clocks.

    /// Up to where the reference disks' time has come. That is now, unless the host cannot keep up with them: then as far as it came, so
    /// that who comes later begins beside the others and not behind.
    fn reference_now(&self, now: Nanos) -> Nanos {
        match self.dues.first() {
            Some((first, number)) if number_of(first) < now.0 => self.progress.max(self.volumes[number as usize].begin()).min(now),
            _ => now,
        }
    }

    /// Takes a volume to its places in the lists.
    fn line_up(&mut self, now: Nanos, number: usize) {
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
        let tags = &mut self.tags[if volume.is_promised() { PROMISED } else { OTHERS }];
        let tag = (volume.waiting > 0).then(|| key(volume.tag, number));
        if tag != volume.places.tag {
            volume.places.tag.inspect(|&tag| tags.remove(tag));
            tag.inspect(|&tag| tags.insert(tag, number as u32));
            volume.places.tag = tag;
        }
    }

    // Who is next.

    fn turn(&mut self, now: Nanos) -> Turn {
        if !self.pacing.has_room() {
            return Turn::Later(now + COMPLETION_BACKSTOP);
        }
        let first = self.dues.first().map(|(due, number)| (Nanos(number_of(due)), number as usize));
        let lead = self.pacing.lead();
        let open = self.current.filter(|&open| self.volumes[open].goes_on());
        let Some((due, number)) = first.filter(|&(due, _)| due <= now + lead) else {
            return self.turn_to_spare(now, open, first.map(|(due, number)| (due - lead, number)));
        };
        if let Some(other) = self.neglected(now).filter(|_| !self.refused || self.waited_long(now)) {
            return Turn::Owed(other);
        }
        let both_late = |open: &usize| due < now && self.volumes[*open].due().is_some_and(|due| due < now);
        Turn::Owed(open.filter(both_late).unwrap_or(number))
    }

    /// Nothing is at its last moment, which comes first for that volume and then.
    ///
    /// While a volume is behind, what is to spare is not given away: only so that the device is never idle. Nor is it to somebody whose
    /// request would keep the device for longer than a volume can wait that has asked or is about to.
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
            let keeps = self.keeps_for(number);
            let kept = Kept { number, keeps, until: now + self.pacing.work() + keeps };
            let Some(other) = self.guards.refuses(now, &kept, first, &mut self.volumes) else { return Turn::Spare(number) };
            self.refused |= !self.volumes[number].is_promised() && self.has_time(now, other);
            if neglected == Some(number) {
                if !self.refused || self.volumes[other].bears_intrusion(now, self.intrusions) || self.waited_long(now) {
                    return Turn::Intrusion(number);
                }
            } else if self.volumes[other].waiting > 0 {
                return Turn::Spare(other);
            }
            later = later.min(self.volumes[other].expected_until().unwrap_or(later));
        }
        Turn::Later(later)
    }

    /// Of those with a promise and those without, who has the lowest tag; the lower one of both first.
    fn lowest(&self) -> [Option<usize>; 2] {
        let [promised, other] = [PROMISED, OTHERS].map(|list| self.tags[list].first());
        let is_others = match (promised, other) {
            (Some((promised, _)), Some((other, _))) => number_of(other).saturating_add(self.others_ahead) < number_of(promised),
            _ => false,
        };
        let mut lowest = [promised, other].map(|lowest| lowest.map(|(_, number)| number as usize));
        if is_others {
            lowest.reverse();
        }
        lowest
    }

    /// Whether a volume leaves room at the device that others could have, if only for requests that are shorter than theirs.
    fn has_time(&self, now: Nanos, number: usize) -> bool {
        let lead = self.pacing.lead();
        self.volumes[number].due().is_none_or(|due| due > now + lead + lead)
    }

    /// How long a request of a volume will be at the device if nothing else is, at worst. As long as
    /// nothing is known, what the others of its kind take is expected.
    fn keeps_for(&self, number: usize) -> Nanos {
        let volume = &self.volumes[number];
        let unknown = if volume.is_promised() { Nanos::ZERO } else { self.others_keep.get().unwrap_or(self.pacing.lead()) };
        volume.guard.keeps().unwrap_or(unknown)
    }

    /// Whether the volumes without a promise have waited for longer than anybody's sake is worth.
    fn waited_long(&self, now: Nanos) -> bool {
        now >= self.others_served + Nanos(self.tuning.best_effort_wait.0.saturating_mul(MOST_WAITS))
    }

    /// Forgets of those that ask for nothing that they were behind.
    fn end_pauses(&mut self, now: Nanos) {
        while let Some((_, number)) = self.pauses.first().filter(|&(until, _)| number_of(until) <= now.0) {
            self.volumes[number as usize].is_behind = false;
            self.line_up(now, number as usize);
        }
    }

    /// A volume without a promise, if nothing was sent of any for too long.
    fn neglected(&self, now: Nanos) -> Option<usize> {
        let (_, number) = self.tags[OTHERS].first()?;
        (now >= self.others_served + self.tuning.best_effort_wait).then_some(number as usize)
    }

    // What goes.

    /// How long a slot is: where few volumes wait, as long as one of each adds up to what the least patient of them is used to.
    fn slot_length(&self) -> Nanos {
        let waiting = self.dues.len().max(1) as u64;
        self.tuning.slot.max(Nanos(self.patience.get().0 / waiting))
    }

    /// Moves what fits into the slot of a volume.
    fn fill_slot(&mut self, now: Nanos, number: usize) {
        let length = self.slot_length();
        let volume = &mut self.volumes[number];
        volume.open_slot(length, self.tuning.order);
        // Without a reference disk, what this device takes is known; before it is, a slot holds a few.
        let least = Nanos(self.tuning.slot.0 / MOST_IN_SLOT).max(self.pacing.in_reference_time(volume.work()));
        let least = if volume.is_promised() { Nanos::ZERO } else { least };
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

    /// Sends a request of a volume.
    fn send(
        &mut self,
        now: Nanos,
        number: usize,
        is_spare: bool,
        cost: &mut dyn FnMut(&Request) -> Option<Nanos>,
    ) -> Option<Request> {
        let goes_on = self.current == Some(number) && self.volumes[number].goes_on();
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
            let ahead = if volume.is_promised() { 0 } else { self.others_ahead };
            if is_spare && !goes_on {
                // Of a slot, only the first had the lowest tag.
                self.spare_time = self.spare_time.max(volume.tag.saturating_add(ahead));
            }
            if is_spare || !volume.is_promised() {
                if !volume.is_promised() {
                    self.others_ahead += self.spare_time.saturating_sub(volume.tag.saturating_add(ahead));
                }
                let cost = if volume.is_promised() { charge.service } else { self.pacing.in_reference_time(volume.work()) };
                volume.spend(cost);
            }
        }
        if volume.is_promised() {
            self.progress = self.progress.max(begin.min(now));
        } else {
            self.others_served = now;
            self.refused = false;
        }
        self.current = Some(number);
        self.line_up(now, number);
        Some(request)
    }

    /// Sends a request that keeps the device for longer than others can wait.
    fn intrude(&mut self, now: Nanos, number: usize, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Option<Request> {
        let request = self.send(now, number, false, cost)?;
        if let Some(charge) = self.charges.find_mut(request.id) {
            charge.is_intrusion = true;
        }
        self.intrusions = self.intrusions.wrapping_add(1);
        self.intruded_until = Nanos::MAX;
        Some(request)
    }

    /// Charges a request that came in, and notes it for its volume.
    fn charge(&mut self, now: Nanos, number: usize, request: &Request) -> Nanos {
        let reference_now = self.reference_now(now);
        let lba = self.register.roster().lba_of_tenant(request);
        let (spare_time, others_ahead) = (self.spare_time, self.others_ahead);
        let others_waited = !self.tags[OTHERS].is_empty();
        let volume = self.open(number);
        let was_waiting = volume.waiting > 0;
        let service = volume.arrived(now, reference_now, &Request { lba, ..*request });
        if !was_waiting {
            volume.tag = volume.tag.max(if volume.is_promised() { spare_time } else { spare_time.saturating_sub(others_ahead) });
            if !volume.is_promised() && !others_waited {
                self.others_served = now;
            }
        }
        service
    }

    /// Follows what became of a request in the queue.
    fn entered(&mut self, number: usize, request: &Request, service: Nanos, placed: &Placed) {
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
        self.holders.comes(number, &self.register, &placed);
        self.entered(number, &request, service, &placed);
        self.line_up(now, number);
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
            Turn::Owed(number) => self.send(now, number, false, cost),
            Turn::Spare(number) => self.send(now, number, true, cost),
            Turn::Intrusion(number) => self.intrude(now, number, cost),
            Turn::Later(until) => return Pick::WaitUntil(until.max(now + Nanos(1))),
        };
        sent.map_or(Pick::Empty, Pick::Go)
    }

    fn worked(&mut self, _request: &Request, disk_time: Nanos) {
        self.worked = Some(Nanos(disk_time.0 / u64::from(self.register.roster().disks())));
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let worked = self.worked.take();
        let Some(charge) = self.charges.remove(request.id) else { return };
        let Some(dispatched) = charge.dispatched else { return };
        let device_time = self.pacing.completed(now, &charge, dispatched);
        if charge.is_intrusion {
            self.intruded_until = now;
        }
        let volume = &mut self.volumes[charge.volume];
        volume.completed(now, &charge, (device_time, worked.unwrap_or(device_time)), self.tuning.debt);
        let at_device = now - dispatched;
        let alone = charge.is_alone.then_some(at_device);
        let made_room =
            self.intruded_until < charge.arrival && self.pacing.had_others(charge.arrival, charge.volume, volume.at_device());
        let keeps = device_time.max(self.pacing.of_one(at_device, charge.before));
        let response = Response {
            took: now - charge.arrival,
            allowed: charge.allowed,
            reference_done: charge.reference_done,
            keeps,
            alone,
            made_room,
        };
        volume.guard.done(now, &response, self.intrusions);
        self.holders.leaves(charge.volume, &self.register);
        if !volume.is_promised() {
            self.others_keep.add(keeps);
        } else {
            self.patience.add(volume.guard.tail());
            self.guards.line_up(charge.volume, &mut volume.guard);
            self.pacing.learn(now, dispatched, &charge, volume.is_behind, device_time);
        }
        self.line_up(now, charge.volume);
    }

    fn tags(&self, room: &Room) -> Option<Tags> {
        Some(Holders::tags(room))
    }

    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.holders.open_tags(depth, &self.register, request)
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
        sort_anew(self, limits, |this| *this = YouChoose::new(limits, this.tuning, roster), insert);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        self.volumes.iter_mut().for_each(|volume| volume.drain_slot(out));
        out[first..].sort_by_key(|request| self.charges.find(request.id).map(|charge| charge.sequence));
        for request in &out[first..] {
            if let Some(charge) = self.charges.remove(request.id) {
                self.volumes[charge.volume].taken_away(&charge);
                self.holders.leaves(charge.volume, &self.register);
            }
        }
        for number in 0..self.volumes.len() {
            self.line_up(self.now, number);
        }
    }
}
