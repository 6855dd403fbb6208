//! Anonymous memory: background processes that touch their pages, and the swap area behind them.
//!
//! Follows `mm/swap_state.c` (`swap_cluster_readahead`, `swapin_nr_pages`) and `mm/memory.c` (`do_swap_page`) of Linux 6.x.
//! Simplified: every touch writes, so a page that was swapped in and touched gives up its slot; read-ahead goes by the place in the
//! swap area on every device; a process touches nothing else while it waits for a page.

use block::{Nanos, StreamId};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::memory::{ANONYMOUS, Memory, NONE, flag};
use super::reclaim::Watermarks;
use super::server::{BACKGROUND_STREAM, Host, Issuer, Purpose, Timer};
use super::swap_area::SwapArea;
use super::{Files, HostError, HostSettings};

/// Processes that share the anonymous memory and its touches.
pub const BACKGROUND_PROCESSES: u32 = 4;

/// Pages that files get in any case when anonymous memory and swap are laid out.
const LEAST_FILE_PAGES: u64 = 1024;
/// How long a touch waits that found no memory for its page.
const RETRY: Nanos = Nanos::from_millis(10);

struct Process {
    random: Xoshiro256PlusPlus,
    /// What it is about to touch, if that took longer.
    page: Option<u64>,
    waits: bool,
}

pub(super) struct Background {
    pages: u64,
    /// Of each anonymous page its place in the swap area.
    slots: Vec<u32>,
    area: SwapArea,
    processes: Vec<Process>,
    /// Time between the touches of one process, on average.
    gap: Nanos,
    skew: i64,
    /// Swap read-ahead: pages read ahead that were touched since it was last looked at, the slot of the last fault, and how
    /// many pages it read.
    hits: u64,
    last_slot: u32,
    last_window: u64,
    /// Reclaim found nothing; only a completion can change that.
    pub is_stuck: bool,
    /// When those who wait for memory look again.
    pub memory_retry: Option<Nanos>,
    /// Pages that had come back too soon when reclaim last ended.
    pub activations: [u64; 2],
}

impl Background {
    pub fn new(
        settings: &HostSettings,
        files: &Files,
        device_sectors: u64,
        memory: &mut Memory,
        watermarks: Watermarks,
    ) -> Result<Background, HostError> {
        let slots = (settings.swap_mib as u64) << 8;
        let pages = (settings.anonymous_mib as u64) << 8;
        let first_lba = swap_start(settings, files, device_sectors)?;
        let kept = u64::from(watermarks.high) + LEAST_FILE_PAGES;
        let most = (u64::from(memory.total()) + slots).saturating_sub(kept);
        if pages > most {
            let most_mib = (most >> 8) as i64;
            return Err(HostError::AnonymousTooLarge { anonymous_mib: settings.anonymous_mib, most_mib });
        }
        let seeds =
            (0..u64::from(BACKGROUND_PROCESSES)).map(|process| (settings.seed as u64).wrapping_mul(4).wrapping_add(process));
        let process = |seed| Process { random: Xoshiro256PlusPlus::seed_from_u64(seed), page: None, waits: false };
        let gap = 1_000_000_000 * u64::from(BACKGROUND_PROCESSES) / (settings.anonymous_touches as u64).max(1);
        let runs = pages > 0 && settings.anonymous_touches > 0;
        let mut background = Background {
            pages,
            slots: vec![NONE; pages as usize],
            area: SwapArea::new(first_lba, slots as usize),
            processes: if runs { seeds.map(process).collect() } else { Vec::new() },
            gap: Nanos(gap),
            skew: settings.anonymous_skew,
            hits: 0,
            last_slot: 0,
            last_window: 0,
            is_stuck: false,
            memory_retry: None,
            activations: [0; 2],
        };
        memory.has_swap = slots > 0;
        let resident = pages.min(u64::from(memory.total()).saturating_sub(kept));
        for page in (0..pages).rev() {
            if page < resident {
                memory.insert(ANONYMOUS, page, flag::DIRTY);
            } else {
                background.give_slot(page);
            }
        }
        Ok(background)
    }

    /// The first sector of a page's place in the swap area.
    pub fn lba(&self, page: u64) -> u64 {
        self.area.lba(self.slots[page as usize])
    }

    /// Sees to it that a page has a place in the swap area. False if that is full.
    pub fn give_slot(&mut self, page: u64) -> bool {
        let slot = &mut self.slots[page as usize];
        if *slot == NONE {
            match self.area.take(page as u32) {
                Some(taken) => *slot = taken,
                None => return false,
            }
        }
        true
    }

    /// Tells those who wait for a page that it is here.
    pub fn wake(&mut self, page: u64, mut wake: impl FnMut(usize)) {
        for (number, process) in self.processes.iter_mut().enumerate() {
            if process.waits && process.page == Some(page) {
                process.waits = false;
                wake(number);
            }
        }
    }

    /// The page that a process touches next: of every half the hotter one as often as the skew says.
    fn draw(&mut self, process: usize) -> u64 {
        let (mut from, mut pages) = (0, self.pages);
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

    /// `swapin_nr_pages`: as many as were useful lately, a power of two, and never less than half as many as last time.
    fn window(&mut self, slot: u32, page_cluster: i64) -> u32 {
        let most = 1u64 << page_cluster;
        let hits = std::mem::take(&mut self.hits);
        let is_next = slot.abs_diff(self.last_slot) == 1;
        let pages = match hits {
            0 if !is_next => 1,
            0 => 2,
            _ => (hits + 2).next_power_of_two().max(4),
        };
        let pages = pages.min(most).max((self.last_window / 2).min(most));
        (self.last_slot, self.last_window) = (slot, pages);
        pages as u32
    }
}

fn swap_start(settings: &HostSettings, files: &Files, device_sectors: u64) -> Result<u64, HostError> {
    let swap_mib = settings.swap_mib;
    let Some(first_lba) = device_sectors.checked_sub((swap_mib as u64) << 11) else {
        return Err(HostError::SwapTooLarge { swap_mib, device_mib: device_sectors >> 11 });
    };
    let reaches = |lba: u64, sectors: u64| lba.saturating_add(sectors) > first_lba;
    if swap_mib > 0
        && let Some(file) = files.iter().find(|file| file.extents.iter().any(|extent| reaches(extent.lba, extent.sectors)))
    {
        return Err(HostError::FileInSwap { file: file.name.clone(), swap_mib });
    }
    Ok(first_lba)
}

impl Host {
    /// Sends the background processes on their way.
    pub(super) fn start_touching(&mut self) {
        for process in 0..self.background.processes.len() {
            self.touch_later(Nanos::ZERO, process);
        }
    }

    /// Touches come at random with a constant rate: the gaps between them, in this model, are uniform up to twice their mean.
    fn touch_later(&mut self, now: Nanos, process: usize) {
        let longest = 2 * self.background.gap.0;
        let gap = self.background.processes[process].random.random_range(0..=longest);
        self.start_timer(now + Nanos(gap), Timer::Touch(process));
    }

    /// A background process touches a page; where that is not in memory, it waits for it.
    pub(super) fn touch(&mut self, now: Nanos, process: usize) {
        let page = match self.background.processes[process].page {
            Some(page) => page,
            None => self.background.draw(process),
        };
        let is_first = self.background.processes[process].page.replace(page).is_none();
        if self.memory.find(ANONYMOUS, page).is_none() {
            self.tally.swap_faults += u64::from(is_first);
            self.swap_in(now, process, page);
        }
        match self.memory.find(ANONYMOUS, page) {
            None => self.start_timer(now + RETRY, Timer::Touch(process)),
            Some(frame) if self.memory.has(frame, flag::LOCKED) => self.background.processes[process].waits = true,
            Some(frame) => {
                self.use_anonymous(frame, page);
                self.background.processes[process].page = None;
                self.touch_later(now, process);
            }
        }
    }

    fn use_anonymous(&mut self, frame: u32, page: u64) {
        if self.memory.has(frame, flag::AHEAD) {
            self.memory.clear(frame, flag::AHEAD);
            self.background.hits += 1;
        }
        self.memory.set(frame, flag::YOUNG | flag::DIRTY);
        // What is on its way to the slot keeps it; else the slot holds an old version, of use to nobody.
        if !self.memory.has(frame, flag::WRITEBACK) {
            let slot = std::mem::replace(&mut self.background.slots[page as usize], NONE);
            if slot != NONE {
                self.background.area.release(slot);
            }
        }
    }

    /// Reads a page from the swap area, and its neighbours there.
    fn swap_in(&mut self, now: Nanos, process: usize, page: u64) {
        let issuer = Issuer { sync: true, ..Issuer::kernel(BACKGROUND_STREAM - process as StreamId) };
        let slot = self.background.slots[page as usize];
        if slot == NONE || !self.make_room(now, issuer) {
            return;
        }
        self.memory.insert(ANONYMOUS, page, flag::LOCKED);
        let window = self.background.window(slot, self.settings.page_cluster);
        let first = slot & !(window - 1);
        for neighbour in first..first + window {
            let Some(owner) = self.background.area.owner(neighbour).map(u64::from) else { continue };
            if owner != page {
                if self.memory.find(ANONYMOUS, owner).is_some() || !self.make_room(now, issuer) {
                    continue;
                }
                self.memory.insert(ANONYMOUS, owner, flag::LOCKED | flag::AHEAD);
            }
            self.start_transfer(now, Purpose::SwapIn, ANONYMOUS, owner, 1, issuer);
        }
    }
}
