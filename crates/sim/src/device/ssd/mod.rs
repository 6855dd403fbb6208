//! A flash device: chips on channels, a translation layer with DFTL's cached map, a write buffer and a link to the host.
//!
//! ```text
//!  host ── submit ──▶ [overhead, link in] ──▶ reads, unbuffered writes ──▶ [ftl] ──▶ [chips: units, channels] ──┐
//!                                       └──▶ writes ──▶ [write buffer] ──▶ [ftl] ──▶ [chips] (background)        │
//!       ◀── advance ── [link out for reads] ◀────────────────────┴──────────────────────────────────────────────┘
//! ```
//!
//! A request is split into pages, which lie on different dies and are processed concurrently. The translation layer maps pages
//! immediately, in the order of admission; the chips then take their time. There is no faster cell mode for bursts of writes, and no
//! background work in idle time.
//!
//! Where the unit of the map is smaller than a flash page, buffered pages are packed: they stay in the buffer until there are
//! enough for a flash page of their plane, or a flush cannot wait.
//!
//! The write buffer is volatile, as in client drives: a flush writes all of it to the flash. Changes of the map in memory, which
//! real drives also persist then, cost nothing here.
//!
//! A discard unmaps the pages that it covers completely; as on real drives, partial pages are kept. Its cost is that of the map: none
//! if the whole map is in memory. Discarded pages are read without flash access.
//!
//! Under collection the mean response time depends on the part of the device it blocks. Here that is the active plane or die, with a FIFO queue for
//! each. In MQSim (Tavakkol and others, FAST 2018; GC_and_WL_Unit_Page_Level.cpp, TSU_OutofOrder.cpp) it is the whole chip, unless
//! collection may be preempted: as long as any of its planes has pages to move or a block to erase, host reads of the chip wait, and
//! host writes proceed only together with a plane that is at the same page. There, moved pages cross the channel twice by default. A
//! chip that collects in one plane and serves others, as dies can, is closer to this model.

mod blocks;
mod cached_map;
mod chips;
mod ftl;
pub mod model;
mod parameters;
pub mod spec;
mod steady;
mod table;
#[cfg(test)]
mod tests;
mod write_buffer;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use block::{Nanos, Op, Request, RequestId};
use slab::Slab;

use self::chips::{Chips, Owner};
use self::ftl::{Ftl, Steps};
use self::model::SsdModel;
use self::write_buffer::WriteBuffer;
use super::busy::BusyTime;
use super::deferred::{Deferred, update_mean};
use super::{Completion, Device, FlashTally};

/// Maximum number of pages in progress, which bounds the memory of a huge request.
const PAGES_AT_ONCE: usize = 4096;

/// A request in the device.
#[derive(Clone, Copy, Debug)]
struct Ticket {
    id: RequestId,
    op: Op,
    lba: u64,
    end: u64,
    /// The next logical page to admit, and the end (exclusive); for a discard, pieces ([`Ftl::pieces`]).
    next: u32,
    pages_end: u32,
    /// Pages on the chips.
    open: u32,
    /// Whether it needed the flash.
    flash: bool,
    /// Actual or expected work of the chips for it.
    work: u64,
}

/// The buffered pages that wait for a flash page of a plane, oldest first; slot numbers plus one, 0 for none.
#[derive(Clone, Copy, Debug, Default)]
struct Packing {
    first: u32,
    last: u32,
    waiting: u32,
    /// Flash pages being programmed.
    under_way: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The request in this slot has reached the controller, with its data if it writes.
    Arrived(u32),
    /// The completion of the request in this slot is reported to the host.
    Done(u32),
    /// A flush with this id has reached the controller.
    FlushArrived(RequestId),
    /// The completion of a flush is reported to the host.
    Flushed(RequestId),
}

/// Events of the controller, in order of time and then of scheduling.
#[derive(Debug)]
struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
}

impl Events {
    fn with_capacity(capacity: usize) -> Events {
        Events { heap: BinaryHeap::with_capacity(capacity), order: 0 }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.heap.push(Reverse((at, self.order, event)));
    }

    fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the next event if it is due at `now`.
    fn take(&mut self, now: u64) -> Option<Event> {
        self.next().filter(|&at| at <= now)?;
        self.heap.pop().map(|Reverse((_, _, event))| event)
    }
}

/// The cost of buffered pages, which are reported before the chips work for them.
#[derive(Debug)]
struct PageCosts {
    deferred: Deferred,
    /// Recent mean of a page.
    mean: u64,
}

impl PageCosts {
    /// Settles the actual work of `pages` pages with this expected cost.
    fn settle(&mut self, took: u64, expected: u64, pages: u32) {
        update_mean(&mut self.mean, took / u64::from(pages.max(1)));
        self.deferred.spent(took, expected);
    }

    /// Charges a page its mean cost, corrected by the balance.
    fn charge(&mut self) -> u64 {
        self.deferred.charge(self.mean)
    }
}

/// Work of the chips for buffered pages.
#[derive(Debug, Default)]
struct Leaving {
    /// Number of programs and reads in progress.
    all: usize,
    /// Number of these that are reads to complete pages.
    completing: usize,
}

impl Leaving {
    /// Begins a read to complete a page.
    fn begin_completing(&mut self) {
        self.all += 1;
        self.completing += 1;
    }

    fn end_completing(&mut self) {
        self.all -= 1;
        self.completing -= 1;
    }
}

/// The state of a flash device.
#[derive(Debug)]
pub struct Ssd {
    model: Arc<SsdModel>,
    depth: usize,
    ftl: Ftl,
    chips: Chips,
    buffer: WriteBuffer,
    tickets: Slab<Ticket>,
    events: Events,
    /// Requests with pages to admit to the chips.
    to_chips: VecDeque<u32>,
    /// Requests with pages to admit to the buffer.
    to_buffer: VecDeque<u32>,
    leaving: Leaving,
    /// By plane, if several pages share a flash page.
    packing: Vec<Packing>,
    /// Flushes not yet reported to the host.
    flushes: usize,
    page_costs: PageCosts,
    /// Time at which each direction of the link is free: that of writes, and the other one if they differ.
    link_free: [u64; 2],
    busy: BusyTime,
}

impl Ssd {
    /// A device in the initial state of its profile. `depth` overrides the profile's queue depth.
    pub fn new(model: Arc<SsdModel>, depth: Option<u32>) -> Ssd {
        let depth = depth.unwrap_or(model.depth).max(1) as usize;
        Ssd {
            depth,
            ftl: model.ftl(),
            chips: Chips::new(&model),
            buffer: WriteBuffer::new(model.buffer_pages),
            tickets: Slab::with_capacity(depth),
            events: Events::with_capacity(depth),
            to_chips: VecDeque::with_capacity(depth),
            to_buffer: VecDeque::with_capacity(depth),
            leaving: Leaving::default(),
            packing: vec![Packing::default(); if model.shape.packed_bits > 0 { model.shape.planes as usize } else { 0 }],
            flushes: 0,
            page_costs: PageCosts { deferred: Deferred::default(), mean: model.times.program },
            link_free: [0; 2],
            busy: BusyTime::default(),
            model,
        }
    }

    /// Counts of flash operations so far.
    pub fn tally(&self) -> FlashTally {
        let (least_erases, most_erases) = self.ftl.wear();
        FlashTally { page_sectors: self.model.shape.page_sectors, least_erases, most_erases, ..self.ftl.tally }
    }

    /// Counts the time since the last call as busy if there was work. Call it before processing the events of `now`.
    fn account(&mut self, now: u64) {
        let has_work = !self.tickets.is_empty() || self.flushes > 0 || self.chips.live() > 0;
        self.busy.account(now, has_work);
    }

    fn next_event(&self) -> Option<u64> {
        match (self.events.next(), self.chips.next_event()) {
            (Some(own), Some(chips)) => Some(own.min(chips)),
            (own, chips) => own.or(chips),
        }
    }

    /// Processes the next event, which is at `now`.
    fn step(&mut self, now: u64, done: &mut Vec<Completion>) {
        if let Some(event) = self.events.take(now) {
            match event {
                Event::Arrived(slot) => self.arrived(slot),
                Event::Done(slot) => {
                    let ticket = self.tickets.remove(slot as usize);
                    let work = if ticket.work > 0 { ticket.work } else { self.model.link.overhead + self.link_time(&ticket) };
                    done.push(Completion { work: Some(Nanos(work)), ..completion(ticket.id, now, !ticket.flash) });
                }
                Event::FlushArrived(id) => self.buffer.flush(id),
                Event::Flushed(id) => {
                    self.flushes -= 1;
                    done.push(completion(id, now, true));
                }
            }
        } else {
            match self.chips.step(now) {
                Some(Owner::Buffered(slot)) => {
                    self.leaving.all -= 1;
                    self.buffer.remove(slot);
                }
                Some(Owner::Completed(slot)) => {
                    self.leaving.end_completing();
                    self.pack(now, slot);
                }
                Some(Owner::Packed(first)) => {
                    self.leaving.all -= 1;
                    let plane = self.ftl.plane_of(self.buffer.page(first));
                    self.packing[plane as usize].under_way -= 1;
                    self.buffer.remove_packed(first);
                    self.program_packed(now, plane);
                }
                Some(Owner::Request(slot)) => {
                    self.tickets[slot as usize].open -= 1;
                    self.finish_if_complete(now, slot);
                }
                None => return,
            }
        }
        self.admit_pages(now);
    }

    fn arrived(&mut self, slot: u32) {
        let Ticket { op, lba, end, .. } = self.tickets[slot as usize];
        if op == Op::Discard {
            self.discard_buffered(slot);
        }
        let write = op == Op::Write;
        if write {
            self.ftl.tally.host_sectors_written += end - lba;
        }
        if write && self.model.buffer_pages > 0 { self.to_buffer.push_back(slot) } else { self.to_chips.push_back(slot) }
    }

    /// Admits pages to the buffer and to the chips as long as there is room.
    fn admit_pages(&mut self, now: u64) {
        while let Some(&slot) = self.to_buffer.front() {
            if !self.fill_buffer(slot) {
                break;
            }
            self.to_buffer.pop_front();
            self.finish_if_complete(now, slot);
        }
        // One page per unit keeps all units busy; more would only delay reads. Packed pages wait by plane.
        while self.model.shape.packed_bits > 0 || self.leaving.all < self.model.shape.units as usize {
            let Some((slot, page)) = self.buffer.leave(self.page_mask()) else { break };
            let whole = page.sectors == self.page_mask();
            if self.model.shape.packed_bits == 0 {
                let steps = self.ftl.write(page.page, whole);
                self.charge_pages(&steps, page.expected, 1);
                self.leaving.all += usize::from(self.chips.start(now, Owner::Buffered(slot), steps));
                continue;
            }
            let steps = self.ftl.complete(page.page, whole);
            self.page_costs.deferred.spent(self.chips.work(&steps), 0);
            if self.chips.start(now, Owner::Completed(slot), steps) {
                self.leaving.begin_completing();
            } else {
                self.pack(now, slot);
            }
        }
        if self.leaving.completing == 0
            && !self.packing.is_empty()
            && let Some(before) = self.buffer.flush_waits_for_leaving()
        {
            self.pad(now, before);
        }
        while let Some(id) = self.buffer.flushed() {
            self.events.schedule(now, Event::Flushed(id));
        }
        while self.chips.live() - self.leaving.all < PAGES_AT_ONCE {
            let Some(&slot) = self.to_chips.front() else { break };
            if self.tickets[slot as usize].op == Op::Discard {
                self.start_piece(now, slot)
            } else {
                self.start_page(now, slot)
            }
            if self.tickets[slot as usize].next == self.tickets[slot as usize].pages_end {
                self.to_chips.pop_front();
                self.finish_if_complete(now, slot);
            }
        }
    }

    /// Queues a buffered page for a flash page of its plane.
    fn pack(&mut self, now: u64, slot: u32) {
        let plane = self.ftl.plane_of(self.buffer.page(slot));
        let packing = &mut self.packing[plane as usize];
        match packing.last {
            0 => packing.first = slot + 1,
            last => self.buffer.pack_behind(last - 1, slot + 1),
        }
        packing.last = slot + 1;
        packing.waiting += 1;
        self.program_packed(now, plane);
    }

    /// Programs the flash pages of a plane that can be filled. Up to two are in progress, so that the second is ready in time.
    fn program_packed(&mut self, now: u64, plane: u32) {
        let all = 1 << self.model.shape.packed_bits;
        while self.packing[plane as usize].waiting >= all && self.packing[plane as usize].under_way < 2 {
            self.program_first(now, plane, all);
        }
    }

    /// Programs a flash page with the first `count` waiting pages, at least one and at most a flash page.
    fn program_first(&mut self, now: u64, plane: u32, count: u32) {
        let Some(first) = self.packing[plane as usize].first.checked_sub(1) else { return };
        let (mut last, mut full) = (first, self.ftl.place(self.buffer.page(first)));
        let mut expected = self.buffer.expected(first);
        for _ in 1..count {
            last = self.buffer.packed_behind(last).saturating_sub(1);
            full = self.ftl.place(self.buffer.page(last));
            expected += self.buffer.expected(last);
        }
        let steps = full.unwrap_or_else(|| self.ftl.pad(plane));
        self.charge_pages(&steps, expected, count);
        let packing = &mut self.packing[plane as usize];
        packing.first = self.buffer.packed_behind(last);
        packing.last = if packing.first == 0 { 0 } else { packing.last };
        packing.waiting -= count;
        packing.under_way += 1;
        self.buffer.pack_behind(last, 0);
        self.leaving.all += usize::from(self.chips.start(now, Owner::Packed(first), steps));
    }

    /// Programs partly filled flash pages: a flush waits for pages numbered below `before`, and cannot wait for further ones.
    fn pad(&mut self, now: u64, before: u64) {
        for plane in 0..self.packing.len() {
            let Packing { first, waiting, under_way, .. } = self.packing[plane];
            if first > 0 && under_way == 0 && self.buffer.number(first - 1) < before {
                self.program_first(now, plane as u32, waiting);
            }
        }
    }

    /// Moves pages of a write into the buffer. Returns whether all are in it.
    fn fill_buffer(&mut self, slot: u32) -> bool {
        loop {
            let ticket = self.tickets[slot as usize];
            if ticket.next == ticket.pages_end {
                return true;
            }
            let entered = self.buffer.entered();
            if !self.buffer.write(ticket.next, self.sectors_of_next(&ticket), self.page_costs.mean) {
                self.tickets[slot as usize].flash = true;
                return false;
            }
            // Pages overwritten in the buffer never reach the chips.
            if self.buffer.entered() > entered {
                self.tickets[slot as usize].work += self.page_costs.charge();
            }
            self.tickets[slot as usize].next += 1;
        }
    }

    /// Charges the actual work of `pages` buffered pages against this expected cost when the chips start them.
    fn charge_pages(&mut self, steps: &Steps, expected: u64, pages: u32) {
        self.page_costs.settle(self.chips.work(steps), expected, pages);
    }

    /// Starts the next page of a request on the chips, if it needs them.
    fn start_page(&mut self, now: u64, slot: u32) {
        let ticket = self.tickets[slot as usize];
        let (page, sectors) = (ticket.next, self.sectors_of_next(&ticket));
        let mut read = 1;
        let started = if ticket.op == Op::Write {
            let steps = self.ftl.write(page, sectors == self.page_mask());
            self.start_for(now, slot, steps)
        } else if self.model.buffer_pages > 0 && self.buffer.holds(page, sectors) {
            false
        } else {
            let (pages, sectors) = self.read_at_once(ticket, sectors);
            read = pages;
            let steps = self.ftl.read(page, sectors);
            self.start_for(now, slot, steps)
        };
        let ticket = &mut self.tickets[slot as usize];
        ticket.next += read;
        ticket.open += u32::from(started);
        ticket.flash |= started;
    }

    /// Starts steps for a request; returns `false` if there are none.
    fn start_for(&mut self, now: u64, slot: u32, steps: Steps) -> bool {
        self.tickets[slot as usize].work += self.chips.work(&steps);
        self.chips.start(now, Owner::Request(slot), steps)
    }

    /// Number of pages of a request, from its next one on, that are in one flash page, and of their sectors.
    fn read_at_once(&self, mut ticket: Ticket, sectors: u64) -> (u32, u32) {
        let (first, mut all) = (ticket.next, sectors.count_ones());
        loop {
            ticket.next += 1;
            if self.model.shape.packed_bits == 0
                || ticket.next == ticket.pages_end
                || !self.ftl.share_flash_page(first, ticket.next)
            {
                return (ticket.next - first, all);
            }
            let sectors = self.sectors_of_next(&ticket);
            if self.buffer.holds(ticket.next, sectors) {
                return (ticket.next - first, all);
            }
            all += sectors.count_ones();
        }
    }

    /// Logical pages that a discard covers completely: the first, and the end (exclusive).
    fn whole_pages(&self, ticket: &Ticket) -> (u32, u32) {
        let width = u64::from(self.model.shape.page_sectors);
        (ticket.lba.div_ceil(width) as u32, (ticket.end / width) as u32)
    }

    /// Discards the buffered pages of a discard.
    fn discard_buffered(&mut self, slot: u32) {
        let (first, end) = self.whole_pages(&self.tickets[slot as usize]);
        self.buffer.discard(first, end);
        let ticket = &mut self.tickets[slot as usize];
        (ticket.next, ticket.pages_end) = (0, self.ftl.pieces(first, end));
    }

    /// Starts the next piece of a discard on the chips, if any.
    fn start_piece(&mut self, now: u64, slot: u32) {
        let ticket = self.tickets[slot as usize];
        if ticket.next == ticket.pages_end {
            return;
        }
        let (first, end) = self.whole_pages(&ticket);
        let steps = self.ftl.discard(first, end, ticket.next);
        let started = self.start_for(now, slot, steps);
        let ticket = &mut self.tickets[slot as usize];
        ticket.next += 1;
        ticket.open += u32::from(started);
        ticket.flash |= started;
    }

    /// One bit for each requested sector of the ticket's next page.
    fn sectors_of_next(&self, ticket: &Ticket) -> u64 {
        let width = u64::from(self.model.shape.page_sectors);
        let start = u64::from(ticket.next) * width;
        let first = ticket.lba.saturating_sub(start);
        let last = (ticket.end - start).min(width);
        (u64::MAX >> (64 - (last - first))) << first
    }

    fn page_mask(&self) -> u64 {
        u64::MAX >> (64 - self.model.shape.page_sectors)
    }

    /// Reports a request whose pages are all done; data that were read cross the link first.
    fn finish_if_complete(&mut self, now: u64, slot: u32) {
        let ticket = self.tickets[slot as usize];
        if ticket.open > 0 || ticket.next < ticket.pages_end {
            return;
        }
        let at = if ticket.op != Op::Read { now } else { self.cross_link(self.model.link.way_out, now, &ticket) };
        self.events.schedule(at, Event::Done(slot));
    }

    /// The time at which a request's data, ready at `ready`, have crossed the link in one direction.
    fn cross_link(&mut self, way: usize, ready: u64, ticket: &Ticket) -> u64 {
        let done = ready.max(self.link_free[way]).saturating_add(self.link_time(ticket));
        self.link_free[way] = done;
        done
    }

    fn link_time(&self, ticket: &Ticket) -> u64 {
        (ticket.end - ticket.lba).saturating_mul(self.model.link.sector_ps) / 1000
    }
}

/// A completion without arm movement.
fn completion(id: RequestId, at: u64, cache_hit: bool) -> Completion {
    Completion { id, at: Nanos(at), seek: Nanos::ZERO, rotation: Nanos::ZERO, seek_cylinders: 0, cache_hit, work: None }
}

impl Device for Ssd {
    fn capacity_sectors(&self) -> u64 {
        self.model.capacity_sectors
    }

    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn has_write_cache(&self) -> bool {
        self.model.buffer_pages > 0
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        self.account(now.0);
        // Sectors beyond the end are a caller's error, and are cut off.
        let lba = request.lba.min(self.model.capacity_sectors - 1);
        let end = request.end().clamp(lba + 1, self.model.capacity_sectors);
        let width = u64::from(self.model.shape.page_sectors);
        let ticket = Ticket {
            id: request.id,
            op: request.op,
            lba,
            end,
            next: (lba / width) as u32,
            pages_end: end.div_ceil(width) as u32,
            open: 0,
            flash: false,
            work: 0,
        };
        let slot = self.tickets.insert(ticket) as u32;
        let mut at = now.0.saturating_add(self.model.link.overhead);
        if ticket.op == Op::Write {
            at = self.cross_link(0, at, &ticket);
        }
        self.events.schedule(at, Event::Arrived(slot));
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        if !self.has_write_cache() {
            return false;
        }
        self.account(now.0);
        self.flushes += 1;
        self.events.schedule(now.0.saturating_add(self.model.link.overhead), Event::FlushArrived(id));
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.next_event().map(Nanos)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now.0) {
            self.account(at);
            self.step(at, done);
        }
        self.account(now.0);
    }

    fn busy(&self) -> Nanos {
        Nanos(self.busy.total())
    }

    fn flash(&self) -> Option<FlashTally> {
        Some(self.tally())
    }
}
