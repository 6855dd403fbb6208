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
//! Left out of the paper's scheme: its clock runs ahead by what is served beyond the promise, for which the volume would pay when others
//! come; here it never runs further ahead than what is still to be done ([`Volume::completed`](volume::Volume::completed)).

mod charges;
mod pacing;
mod tuning;
mod volume;

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COMPLETION_BACKSTOP, Insertion, Pick, Scheduler, SchedulerSpec, sort_anew};
use crate::queue::{Limits, Merging, Placed, Queue};
use crate::sorted::SortedList;
use crate::tenants::{Register, Roster};
use crate::{Nanos, Request};
use charges::{Charge, Charges};
use pacing::Pacing;
use tuning::Tunables;
use volume::Volume;

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "youchoose",
    summary: "each tenant is served as well as by the disk it chose; what is left is shared in proportion",
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
    /// Volumes with a promise and something to send, by when it is due.
    dues: SortedList,
    /// Volumes with something to send, by their tags: those whose requests are small, and those that keep the device long.
    tags: [SortedList; 2],
    /// Of both, those without a promise.
    others: SortedList,
    /// Whose slot is open.
    current: Option<usize>,
    /// How far the reference disks' time has come where the host does not keep up with them.
    progress: Nanos,
    /// Volumes that are behind and ask for nothing, by when that no longer counts.
    pauses: SortedList,
    /// The tag of what was last served of the capacity to spare.
    spare_time: u64,
    /// When something was last sent of a volume without a promise, or when there was last nothing of them to send.
    others_served: Nanos,
    pacing: Pacing,
    /// Volumes whose requests are done later than on their reference disks.
    behind: usize,
    /// When that last changed.
    last_behind: Nanos,
    /// When something last went to the device.
    last_sent: Nanos,
    /// When something last happened, for a new roster comes without a time.
    now: Nanos,
}

/// How many requests of a volume without a reference disk a slot holds at most.
const MOST_IN_SLOT: u64 = 64;

/// Places of the lists of tags.
const LIGHT: usize = 0;
const HEAVY: usize = 1;

/// A key of a sorted list: first the number, then the volume, so that none is there twice.
fn key(number: u64, volume: usize) -> u128 {
    u128::from(number) << 64 | volume as u128
}

fn number_of(key: u128) -> u64 {
    (key >> 64) as u64
}

impl YouChoose {
    fn new(limits: Limits, tuning: Tunables, roster: &Roster) -> YouChoose {
        let is_promised = roster.tenants().iter().any(|tenant| tenant.reference.is_some());
        YouChoose {
            tuning,
            register: Register::new(roster),
            queue: Queue::new(limits, Merging { front: true, within_stream: false }),
            volumes: Vec::new(),
            charges: Charges::default(),
            dues: SortedList::default(),
            tags: [SortedList::default(), SortedList::default()],
            others: SortedList::default(),
            current: None,
            pauses: SortedList::default(),
            progress: Nanos::ZERO,
            spare_time: 0,
            others_served: Nanos::ZERO,
            pacing: Pacing::new(tuning.in_flight, is_promised.then_some(roster.disks())),
            behind: 0,
            last_behind: Nanos::ZERO,
            last_sent: Nanos::ZERO,
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
            self.last_behind = now;
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
        let list = if volume.is_heavy() { HEAVY } else { LIGHT };
        let tag = (volume.waiting > 0).then(|| (list, key(volume.tag, number)));
        if tag != volume.places.tag {
            volume.places.tag.inspect(|&(list, tag)| self.tags[list].remove(tag));
            tag.inspect(|&(list, tag)| self.tags[list].insert(tag, number as u32));
            volume.places.tag = tag;
        }
        let other = tag.map(|(_, tag)| tag).filter(|_| !volume.is_promised());
        if other != volume.places.other {
            volume.places.other.inspect(|&tag| self.others.remove(tag));
            other.inspect(|&tag| self.others.insert(tag, number as u32));
            volume.places.other = other;
        }
    }

    // Who is next.

    fn turn(&self, now: Nanos) -> Turn {
        if !self.pacing.has_room() {
            return Turn::Later(now + COMPLETION_BACKSTOP);
        }
        let first = self.dues.first().map(|(due, number)| (Nanos(number_of(due)), number as usize));
        let lead = self.pacing.lead();
        let open = self.current.filter(|&open| self.volumes[open].goes_on());
        let Some((due, number)) = first.filter(|&(due, _)| due <= now + lead) else {
            let last_moment = first.map(|(due, _)| due - lead);
            return self.turn_to_spare(now, open, last_moment);
        };
        if let Some(other) = self.neglected(now) {
            return Turn::Owed(other);
        }
        let both_late = |open: &usize| due < now && self.volumes[*open].due().is_some_and(|due| due < now);
        Turn::Owed(open.filter(both_late).unwrap_or(number))
    }

    /// Nothing is at its last moment, which comes at `last_moment`.
    ///
    /// While a volume is behind, what is to spare is not given away: only so that the device is never idle, and not even then if that would
    /// keep it for long, for who is behind may be about to ask.
    fn turn_to_spare(&self, now: Nanos, open: Option<usize>, last_moment: Option<Nanos>) -> Turn {
        let calm_from = self.last_behind + self.tuning.debt.min(volume::LONGEST_PAUSE);
        // However far behind somebody is, the device does not stand still for longer than a pause.
        let stands_until = self.last_sent + volume::LONGEST_PAUSE;
        let is_calm = self.behind == 0 && now >= calm_from || self.pacing.is_idle() && now >= stands_until;
        let is_open = [self.behind == 0 || self.pacing.is_idle(), is_calm];
        let lowest = self.tags.iter().zip(is_open).filter(|(_, is_open)| *is_open).filter_map(|(list, _)| list.first()).min();
        let open = open.filter(|&open| is_open[usize::from(self.volumes[open].is_heavy())]);
        if let Some(number) = open.or(lowest.map(|(_, number)| number as usize)) {
            return Turn::Spare(number);
        }
        let pause = self.pauses.first().map(|(until, _)| Nanos(number_of(until)));
        let calm = (self.behind == 0).then_some(calm_from);
        let stands = self.pacing.is_idle().then_some(stands_until);
        let times = [last_moment, pause, calm, stands, Some(now + COMPLETION_BACKSTOP)];
        Turn::Later(times.into_iter().flatten().min().unwrap_or(now))
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
        let (_, number) = self.others.first()?;
        (now >= self.others_served + self.tuning.best_effort_wait).then_some(number as usize)
    }

    // What goes.

    /// Moves what fits into the slot of a volume.
    fn fill_slot(&mut self, now: Nanos, number: usize) {
        let volume = &mut self.volumes[number];
        volume.open_slot(self.tuning.slot, self.tuning.order);
        // Without a reference disk, what this device takes is known; before it is, a slot holds a few.
        let least = Nanos(self.tuning.slot.0 / MOST_IN_SLOT).max(self.pacing.in_reference_time(volume.device_time()));
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
        self.fill_slot(now, number);
        let request = self.volumes[number].take_from_slot(now, cost)?;
        let volume = &mut self.volumes[number];
        let begin = volume.begin();
        if let Some(charge) = self.charges.find_mut(request.id) {
            volume.sent(charge.service);
            charge.dispatched = Some(now);
            charge.load = Pacing::load_of(&request);
            self.pacing.sent(charge.load);
            if is_spare || !volume.is_promised() {
                // Of a slot, only the first had the lowest tag.
                let lowest = self.tags[LIGHT].first().map_or(volume.tag, |(tag, _)| number_of(tag));
                self.spare_time = self.spare_time.max(lowest.min(volume.tag));
                if volume.is_heavy() {
                    // What was held back is not saved up.
                    volume.tag = volume.tag.max(self.spare_time);
                }
                let cost = if volume.is_promised() { charge.service } else { self.pacing.in_reference_time(volume.device_time()) };
                volume.spend(cost);
            }
        }
        if volume.is_promised() {
            self.progress = self.progress.max(begin.min(now));
        } else {
            self.others_served = now;
        }
        self.current = Some(number);
        self.last_sent = now;
        self.line_up(now, number);
        Some(request)
    }

    /// Charges a request that came in, and notes it for its volume.
    fn charge(&mut self, now: Nanos, number: usize, request: &Request) -> Nanos {
        let reference_now = self.reference_now(now);
        let lba = self.register.roster().lba_of_tenant(request);
        let spare_time = self.spare_time;
        let others_waited = !self.others.is_empty();
        let volume = self.open(number);
        let was_waiting = volume.waiting > 0;
        let service = volume.arrived(now, reference_now, &Request { lba, ..*request });
        if !was_waiting {
            volume.tag = volume.tag.max(spare_time);
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
                self.charges.add(request.id, Charge::new(number, service, self.now, self.volumes[number].open_time()));
                self.volumes[number].waiting += 1;
            }
            Placed::Merged { into, absorbed } => {
                self.charges.merge(*into, service);
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
        self.entered(number, &request, service, &placed);
        self.line_up(now, number);
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.pick_by(now, &mut |_| None)
    }

    fn pick_by(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        self.now = now;
        if self.tags.iter().all(SortedList::is_empty) {
            return Pick::Empty;
        }
        self.end_pauses(now);
        let sent = match self.turn(now) {
            Turn::Owed(number) => self.send(now, number, false, cost),
            Turn::Spare(number) => self.send(now, number, true, cost),
            Turn::Later(until) => return Pick::WaitUntil(until.max(now + Nanos(1))),
        };
        sent.map_or(Pick::Empty, Pick::Go)
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        self.now = now;
        let Some(charge) = self.charges.remove(request.id) else { return };
        let Some(dispatched) = charge.dispatched else { return };
        let device_time = self.pacing.completed(now, charge.load, dispatched);
        let volume = &mut self.volumes[charge.volume];
        volume.completed(now, &charge, device_time, self.tuning.debt);
        if volume.is_promised() {
            self.pacing.learn(now, dispatched, &charge, volume.is_behind, device_time);
        }
        self.line_up(now, charge.volume);
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
            }
        }
        for number in 0..self.volumes.len() {
            self.line_up(self.now, number);
        }
    }
}
