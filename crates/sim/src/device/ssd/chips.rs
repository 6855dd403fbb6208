//! The timing of the chips. Each unit (a die, or a plane that operates independently) does one thing at a time and each channel
//! carries one page at a time, both in the order of the requests.
//!
//! ```text
//! read     [unit: cells to register | waits for channel | transfer]
//! program  [unit: collection, if due | waits for channel | transfer | register to cells]
//! ```
//! A unit's single register is occupied from start to end: there is no cache register, and programs and erasures are not suspended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use block::list::{Linked, Links, List};
use slab::Slab;

use super::ftl::{Step, Steps};
use super::model::SsdModel;

/// The owner of a chain of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The request in this slot.
    Request(u32),
    /// The buffered page in this slot.
    Buffered(u32),
    /// The buffered page in this slot, whose missing sectors are read from the flash.
    Completed(u32),
    /// The buffered pages that share a flash page, starting with this slot.
    Packed(u32),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Collection before a program, or sensing.
    Prepared,
    Transferred,
    Programmed,
}

/// A sequence of steps.
#[derive(Clone, Copy, Debug)]
struct Chain {
    owner: Owner,
    steps: Steps,
    at: u8,
    step: Step,
    phase: Phase,
    /// Links in the queue of a unit or a channel.
    links: Links,
}

impl Linked for Chain {
    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A unit or channel, which serves one chain at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    busy: bool,
    /// The chains that wait for it.
    queue: List,
}

/// The state of units and channels.
#[derive(Debug)]
pub(super) struct Chips {
    model: Arc<SsdModel>,
    units: Vec<Server>,
    channels: Vec<Server>,
    chains: Slab<Chain>,
    /// Time, sequence number, chain.
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    order: u64,
}

impl Chips {
    pub fn new(model: &Arc<SsdModel>) -> Chips {
        Chips {
            units: vec![Server::default(); model.shape.units as usize],
            channels: vec![Server::default(); model.shape.channels as usize],
            chains: Slab::new(),
            events: BinaryHeap::with_capacity(model.shape.units as usize),
            order: 0,
            model: model.clone(),
        }
    }

    /// Number of chains that are not done.
    pub fn live(&self) -> usize {
        self.chains.len()
    }

    /// The time of the next event; `None` if there is none.
    pub fn next_event(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    /// Work of units and channels for a chain, without waiting times.
    pub fn work(&self, steps: &Steps) -> u64 {
        let transfer = |step: &Step| u64::from(step.sectors) * self.model.times.channel_sector_ps / 1000;
        let time = |step: Step| {
            let of_cells =
                if step.program { step.collection.saturating_add(self.model.times.program) } else { self.model.times.read };
            of_cells.saturating_add(transfer(&step))
        };
        (0..).map_while(|index| steps.get(index)).map(time).sum()
    }

    /// Starts a chain; returns `false` if it has no steps and so is done.
    pub fn start(&mut self, now: u64, owner: Owner, steps: Steps) -> bool {
        let Some(step) = steps.get(0) else { return false };
        let chain = Chain { owner, steps, at: 0, step, phase: Phase::Prepared, links: Links::default() };
        let id = self.chains.insert(chain) as u32;
        self.request_unit(now, id);
        true
    }

    /// Processes the next event, which is at `now`. Returns the owner of a chain that ended with it, if any.
    pub fn step(&mut self, now: u64) -> Option<Owner> {
        let Reverse((_, _, id)) = self.events.pop()?;
        let chain = self.chains[id as usize];
        match chain.phase {
            Phase::Prepared => {
                self.request_channel(now, id);
                None
            }
            Phase::Transferred => {
                self.release_channel(now, chain.step.unit);
                if !chain.step.program {
                    return self.end_step(now, id);
                }
                self.schedule(now, self.model.times.program, id, Phase::Programmed);
                None
            }
            Phase::Programmed => self.end_step(now, id),
        }
    }

    fn end_step(&mut self, now: u64, id: u32) -> Option<Owner> {
        let chain = &mut self.chains[id as usize];
        let (unit, owner) = (chain.step.unit, chain.owner);
        chain.at += 1;
        let next = chain.steps.get(chain.at);
        // Chains waiting for the unit precede this chain's next step.
        if let Some(waiting) = take_next(&mut self.units[unit as usize], &mut self.chains) {
            self.begin(now, waiting);
        }
        match next {
            Some(step) => {
                self.chains[id as usize].step = step;
                self.request_unit(now, id);
                None
            }
            None => {
                self.chains.remove(id as usize);
                Some(owner)
            }
        }
    }

    fn request_unit(&mut self, now: u64, id: u32) {
        let unit = self.chains[id as usize].step.unit as usize;
        if occupy(&mut self.units[unit], &mut self.chains, id) {
            self.begin(now, id);
        }
    }

    /// Starts a chain's step on its unit.
    fn begin(&mut self, now: u64, id: u32) {
        let step = self.chains[id as usize].step;
        match (step.program, step.collection) {
            (true, 0) => self.request_channel(now, id),
            (true, collection) => self.schedule(now, collection, id, Phase::Prepared),
            (false, _) => self.schedule(now, self.model.times.read, id, Phase::Prepared),
        }
    }

    fn request_channel(&mut self, now: u64, id: u32) {
        let channel = self.chains[id as usize].step.unit % self.model.shape.channels;
        if occupy(&mut self.channels[channel as usize], &mut self.chains, id) {
            self.transfer(now, id);
        }
    }

    fn release_channel(&mut self, now: u64, unit: u32) {
        let channel = unit % self.model.shape.channels;
        if let Some(waiting) = take_next(&mut self.channels[channel as usize], &mut self.chains) {
            self.transfer(now, waiting);
        }
    }

    fn transfer(&mut self, now: u64, id: u32) {
        let time = u64::from(self.chains[id as usize].step.sectors) * self.model.times.channel_sector_ps / 1000;
        self.schedule(now, time, id, Phase::Transferred);
    }

    fn schedule(&mut self, now: u64, after: u64, id: u32, phase: Phase) {
        self.chains[id as usize].phase = phase;
        self.order += 1;
        self.events.push(Reverse((now.saturating_add(after), self.order, id)));
    }
}

/// Occupies a server, or queues for it. Returns whether it was free.
fn occupy(server: &mut Server, chains: &mut Slab<Chain>, id: u32) -> bool {
    if server.busy {
        server.queue.push_back(chains, id);
        return false;
    }
    server.busy = true;
    true
}

/// Passes a server to the first chain in its queue; frees it if there is none.
fn take_next(server: &mut Server, chains: &mut Slab<Chain>) -> Option<u32> {
    let next = server.queue.pop_front(chains);
    server.busy = next.is_some();
    next
}
