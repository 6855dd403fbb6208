//! Background processes that touch their anonymous pages.
//!
//! Follows `mm/memory.c` (`do_swap_page`) of Linux 6.x. Simplified: a process touches nothing else while it waits for a page.

use block::{Nanos, StreamId};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::HostSettings;
use super::page_cache::{ANONYMOUS, flag};
use super::reclaim::Memory;
use super::transfers::Issuer;
use crate::streams::{BACKGROUND, BACKGROUND_PROCESSES};

/// Time after which a touch is retried that found no memory for its page.
const RETRY: Nanos = Nanos::from_millis(10);

struct Process {
    random: Xoshiro256PlusPlus,
    /// The page of its pending touch, if it waits for the page.
    page: Option<u64>,
    waits: bool,
}

pub(super) struct Background {
    processes: Vec<Process>,
    /// Mean time between the touches of one process.
    gap: Nanos,
    skew: i64,
    faults: u64,
}

impl Background {
    pub fn new(settings: &HostSettings) -> Background {
        let seeds =
            (0..u64::from(BACKGROUND_PROCESSES)).map(|process| (settings.seed as u64).wrapping_mul(4).wrapping_add(process));
        let process = |seed| Process { random: Xoshiro256PlusPlus::seed_from_u64(seed), page: None, waits: false };
        let gap = 1_000_000_000 * u64::from(BACKGROUND_PROCESSES) / (settings.anonymous_touches as u64).max(1);
        let runs = settings.anonymous_mib > 0 && settings.anonymous_touches > 0;
        Background {
            processes: if runs { seeds.map(process).collect() } else { Vec::new() },
            gap: Nanos(gap),
            skew: settings.anonymous_skew,
            faults: 0,
        }
    }

    /// Number of processes.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    /// Number of touches that had to wait for the swap area.
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Time of a process's next touch. Touches are random with a constant rate: in this model the intervals are uniform up to twice
    /// their mean.
    pub fn next_touch(&mut self, now: Nanos, process: usize) -> Nanos {
        let longest = 2 * self.gap.0;
        now + Nanos(self.processes[process].random.random_range(0..=longest))
    }

    /// Touches a page for a process. Returns the time of its next touch or retry; `None` if it waits for the page.
    pub fn touch(&mut self, now: Nanos, process: usize, memory: &mut Memory) -> Option<Nanos> {
        let page = match self.processes[process].page {
            Some(page) => page,
            None => self.draw(process, memory.swap.pages()),
        };
        let is_first = self.processes[process].page.replace(page).is_none();
        if memory.cache.find(ANONYMOUS, page).is_none() {
            self.faults += u64::from(is_first);
            swap_in(now, process, page, memory);
        }
        match memory.cache.find(ANONYMOUS, page) {
            None => Some(now + RETRY),
            Some(frame) if memory.cache.has(frame, flag::LOCKED) => {
                self.processes[process].waits = true;
                None
            }
            Some(frame) => {
                memory.swap.touch(&mut memory.cache, frame, page);
                self.processes[process].page = None;
                Some(self.next_touch(now, process))
            }
        }
    }

    /// Calls `wake` with each process that waited for this page.
    pub fn wake(&mut self, page: u64, mut wake: impl FnMut(usize)) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            if process.waits && process.page == Some(page) {
                process.waits = false;
                wake(number);
            }
        }
    }

    /// Chooses the page that a process touches next: with the probability of the skew the hotter one of each pair of halves.
    fn draw(&mut self, process: usize, mut pages: u64) -> u64 {
        let mut from = 0;
        let random = &mut self.processes[process].random;
        while pages > 1 {
            let hotter = pages / 2;
            if random.random_range(0..100) < self.skew {
                pages = hotter;
            } else {
                from += hotter;
                pages -= hotter;
            }
        }
        from
    }
}

/// Reads a page from the swap area, with its neighbours there.
fn swap_in(now: Nanos, process: usize, page: u64, memory: &mut Memory) {
    let issuer = Issuer { sync: true, ..Issuer::kernel(BACKGROUND - process as StreamId) };
    let Some(slot) = memory.swap.slot(page) else { return };
    if !memory.make_room(now, issuer) {
        return;
    }
    memory.cache.insert(ANONYMOUS, page, flag::LOCKED);
    for neighbour in memory.swap.window(slot) {
        let Some(owner) = memory.swap.owner(neighbour) else { continue };
        if owner != page {
            if memory.cache.find(ANONYMOUS, owner).is_some() || !memory.make_room(now, issuer) {
                continue;
            }
            memory.cache.insert(ANONYMOUS, owner, flag::LOCKED | flag::AHEAD);
        }
        memory.swap.read(now, owner, issuer, &mut memory.cache, &mut memory.transfers);
    }
}
