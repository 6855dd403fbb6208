//! Swap: the slots of anonymous pages, and swap read-ahead.
//!
//! Follows `mm/swap_state.c` (`swap_cluster_readahead`, `swapin_nr_pages`) of Linux 6.x. Simplified: every touch writes, so a page that
//! was swapped in and touched releases its slot; read-ahead goes by the position in the swap area on every device.

use std::ops::Range;

use block::Nanos;

use super::page_cache::{ANONYMOUS, NONE, PageCache, flag};
use super::swap_area::SwapArea;
use super::transfers::{Issuer, PageRun, Purpose, Transfers};
use super::{Files, HostError, HostSettings};

/// Pages reserved for files when anonymous memory and swap are laid out.
const MIN_FILE_PAGES: u64 = 1024;

/// The slots of anonymous pages in the swap area.
pub(super) struct Swap {
    /// By anonymous page.
    slots: Vec<u32>,
    area: SwapArea,
    page_cluster: i64,
    /// Number of pages read ahead that were touched since a window was last chosen, the slot of the last fault, and the number of pages
    /// it read.
    hits: u64,
    last_slot: u32,
    last_window: u64,
    swapped_in: u64,
    swapped_out: u64,
}

impl Swap {
    /// Lays out the anonymous pages: in memory while there is room, then in the swap area.
    pub fn new(settings: &HostSettings, files: &Files, device_sectors: u64, cache: &mut PageCache) -> Result<Swap, HostError> {
        let slots = (settings.swap_mib as u64) << 8;
        let pages = (settings.anonymous_mib as u64) << 8;
        let first_lba = first_lba(settings, files, device_sectors)?;
        let kept = u64::from(cache.watermarks().high) + MIN_FILE_PAGES;
        let most = (u64::from(cache.total()) + slots).saturating_sub(kept);
        if pages > most {
            let most_mib = (most >> 8) as i64;
            return Err(HostError::AnonymousTooLarge { anonymous_mib: settings.anonymous_mib, most_mib });
        }
        let mut swap = Swap {
            slots: vec![NONE; pages as usize],
            area: SwapArea::new(first_lba, slots as usize),
            page_cluster: settings.page_cluster,
            hits: 0,
            last_slot: 0,
            last_window: 0,
            swapped_in: 0,
            swapped_out: 0,
        };
        let resident = pages.min(u64::from(cache.total()).saturating_sub(kept));
        for page in (0..pages).rev() {
            if page < resident {
                cache.insert(ANONYMOUS, page, flag::DIRTY);
            } else {
                swap.give_slot(page);
            }
        }
        Ok(swap)
    }

    /// Number of anonymous pages, in memory or not.
    pub fn pages(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Number of pages read and written so far.
    pub fn swapped(&self) -> (u64, u64) {
        (self.swapped_in, self.swapped_out)
    }

    pub fn set(&mut self, settings: &HostSettings) {
        self.page_cluster = settings.page_cluster;
    }

    /// The slot of a page; `None` if it has none.
    pub fn slot(&self, page: u64) -> Option<u32> {
        Some(self.slots[page as usize]).filter(|&slot| slot != NONE)
    }

    /// The page in a slot; `None` if the slot is free.
    pub fn owner(&self, slot: u32) -> Option<u64> {
        self.area.owner(slot).map(u64::from)
    }

    /// Ensures that a page has a slot. Returns `false` if all are taken.
    fn give_slot(&mut self, page: u64) -> bool {
        let slot = &mut self.slots[page as usize];
        if *slot == NONE {
            match self.area.take(page as u32) {
                Some(taken) => *slot = taken,
                None => return false,
            }
        }
        true
    }

    /// The slots to read when the page in `slot` is needed (`swapin_nr_pages`): as many as were recently useful, a power of two, and at
    /// least half as many as last time.
    pub fn window(&mut self, slot: u32) -> Range<u32> {
        let most = 1u64 << self.page_cluster;
        let hits = std::mem::take(&mut self.hits);
        let is_next = slot.abs_diff(self.last_slot) == 1;
        let pages = match hits {
            0 if !is_next => 1,
            0 => 2,
            _ => (hits + 2).next_power_of_two().max(4),
        };
        let pages = pages.min(most).max((self.last_window / 2).min(most));
        (self.last_slot, self.last_window) = (slot, pages);
        let pages = pages as u32;
        let first = slot & !(pages - 1);
        first..first + pages
    }

    /// Records a touch of a page in memory, which modifies it.
    pub fn touch(&mut self, cache: &mut PageCache, frame: u32, page: u64) {
        if cache.take(frame, flag::AHEAD) {
            self.hits += 1;
        }
        cache.set(frame, flag::YOUNG | flag::DIRTY);
        // A page being written keeps its slot; otherwise the slot holds an old version and is freed.
        if !cache.has(frame, flag::WRITEBACK) {
            let slot = std::mem::replace(&mut self.slots[page as usize], NONE);
            if slot != NONE {
                self.area.release(slot);
            }
        }
    }

    /// Starts reading a page that has a frame and a slot.
    pub fn read(&mut self, now: Nanos, page: u64, issuer: Issuer, cache: &mut PageCache, transfers: &mut Transfers) {
        self.start(now, Purpose::SwapIn, page, issuer, cache, transfers);
    }

    /// Starts writing an anonymous page to the swap area; it is freed when reclaim scans it after completion. Returns `false` if the
    /// queue or the swap area is full.
    pub fn write(&mut self, now: Nanos, frame: u32, issuer: Issuer, cache: &mut PageCache, transfers: &mut Transfers) -> bool {
        let page = cache.page(frame).index;
        if transfers.is_full(issuer.stream, false) || !self.give_slot(page) {
            return false;
        }
        cache.clear(frame, flag::DIRTY);
        cache.set(frame, flag::WRITEBACK | flag::RECLAIM);
        self.start(now, Purpose::SwapOut, page, Issuer { sync: false, ..issuer }, cache, transfers);
        true
    }

    fn start(&self, now: Nanos, purpose: Purpose, page: u64, issuer: Issuer, cache: &mut PageCache, transfers: &mut Transfers) {
        let lba = self.area.lba(self.slots[page as usize]);
        let run = PageRun { file: ANONYMOUS, first: page, pages: 1 };
        transfers.start_swap(now, cache, purpose, run, lba, issuer);
    }

    /// Counts a page that was read.
    pub fn read_done(&mut self) {
        self.swapped_in += 1;
    }

    /// Counts a page that was written.
    pub fn write_done(&mut self) {
        self.swapped_out += 1;
    }
}

/// First sector of the swap area.
fn first_lba(settings: &HostSettings, files: &Files, device_sectors: u64) -> Result<u64, HostError> {
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
