//! Taking memory back when it is short.
//!
//! ```text
//! free pages |<-- nobody waits -->|<-- kswapd works -->|<-- whoever allocates works, too -->|
//!                               high                  low                               min   0
//! ```
//! Follows `mm/vmscan.c` of Linux 6.x with the two-list LRU (not the multi-generational one): `get_scan_count`, `shrink_lruvec`,
//! `shrink_active_list`, `shrink_folio_list`, `inactive_is_low`, and `mm/page_alloc.c` for the watermarks. Simplified: scanning takes
//! no time, so kswapd is done the instant it wakes unless what it finds has to be written first; one node without zones; where
//! Linux would kill a process for want of memory, the lists are scanned to their ends whatever swappiness says.

use block::Nanos;

use super::memory::{ACTIVE, ANON, ANONYMOUS, FILE, INACTIVE, flag};
use super::server::{Host, Issuer, KSWAPD_STREAM, Purpose};

/// `SWAP_CLUSTER_MAX`: pages looked at in one go.
const BATCH: u64 = 32;
/// `DEF_PRIORITY`: the first round looks at a 4096th of each list, each further one at twice as much.
const FIRST_PRIORITY: u32 = 12;

/// Free pages at which something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watermarks {
    /// From here on whoever wants a page must take one back first.
    pub min: u32,
    /// From here on kswapd does it.
    pub low: u32,
    /// Until here.
    pub high: u32,
}

impl Watermarks {
    /// `init_per_zone_wmark_min` and `__setup_per_zone_wmarks`, with Linux's `watermark_scale_factor` of 10.
    pub fn new(pages: u32) -> Watermarks {
        let kib = (u64::from(pages) * 4 * 16).isqrt().clamp(128, 262_144);
        let min = (kib / 4) as u32;
        let step = (min / 4).max((u64::from(pages) * 10 / 10_000) as u32);
        Watermarks { min, low: min + step, high: min + 2 * step }
    }
}

/// How much of each list a round looks at.
struct Scan {
    /// By list.
    left: [u64; 4],
    targets: [u64; 4],
    may_deactivate: [bool; 2],
    by: Option<Issuer>,
}

#[derive(Default)]
struct Round {
    scanned: u64,
    reclaimed: u64,
    /// An active list was spared.
    spared: bool,
}

impl Host {
    /// Sees to it that there is a free page. False if whoever wants it has to wait.
    pub(super) fn make_room(&mut self, now: Nanos, issuer: Issuer) -> bool {
        let Watermarks { min, low, high } = self.watermarks;
        self.tally.memory_peak = self.tally.memory_peak.max(u64::from(self.memory.total() - self.memory.free()) + 1);
        if self.memory.free() > low {
            return true;
        }
        if !self.background.is_stuck {
            let wanted = u64::from(high - self.memory.free().min(high));
            self.background.is_stuck = self.reclaim(now, wanted, None) == 0;
        }
        if self.memory.free() > min {
            return true;
        }
        if !self.background.is_stuck {
            self.reclaim(now, BATCH, Some(issuer));
        }
        self.memory.free() > min
    }

    /// Takes pages back until there are as many as `wanted`: for kswapd, or in the name of the process that wants one.
    fn reclaim(&mut self, now: Nanos, wanted: u64, by: Option<Issuer>) -> u64 {
        let mut reclaimed = 0;
        for force in [false, true] {
            let mut priority = FIRST_PRIORITY;
            let mut spared = false;
            loop {
                let round = self.shrink(now, priority, wanted - reclaimed, force, by);
                reclaimed += round.reclaimed;
                spared |= round.spared;
                if reclaimed >= wanted {
                    break;
                }
                if round.reclaimed == 0 || round.scanned < wanted || by.is_some() {
                    match priority.checked_sub(1) {
                        Some(next) => priority = next,
                        None => break,
                    }
                }
            }
            if reclaimed > 0 || !spared {
                break;
            }
        }
        self.background.activations = self.memory.activations;
        self.tally.reclaimed += reclaimed;
        reclaimed
    }

    /// `shrink_node`.
    fn shrink(&mut self, now: Nanos, priority: u32, wanted: u64, force: bool, by: Option<Issuer>) -> Round {
        let seen = self.background.activations;
        let may_deactivate =
            [ANON, FILE].map(|kind| force || self.memory.activations[kind] != seen[kind] || self.inactive_is_low(kind));
        let targets = self.scan_counts(priority, may_deactivate);
        let mut scan = Scan { left: targets, targets, may_deactivate, by };
        let mut round = Round::default();
        let mut adjusted = false;
        while scan.left[INACTIVE[ANON]] > 0 || scan.left[ACTIVE[FILE]] > 0 || scan.left[INACTIVE[FILE]] > 0 {
            for kind in [ANON, FILE] {
                self.shrink_inactive(now, kind, &mut scan, &mut round);
                self.shrink_active(kind, &mut scan, &mut round);
            }
            if round.reclaimed >= wanted && !adjusted {
                if !adjust(&mut scan) {
                    break;
                }
                adjusted = true;
            }
        }
        if self.has_swap() && self.inactive_is_low(ANON) {
            self.deactivate(ANON, BATCH);
        }
        round
    }

    /// `inactive_is_low`: the larger the lists, the smaller the share that waits inactive.
    fn inactive_is_low(&self, kind: usize) -> bool {
        let (inactive, active) = (u64::from(self.memory.len(INACTIVE[kind])), u64::from(self.memory.len(ACTIVE[kind])));
        let gib = (inactive + active) >> 18;
        let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
        inactive * ratio < active
    }

    /// `get_scan_count`: how many pages of each list to look at.
    fn scan_counts(&self, priority: u32, may_deactivate: [bool; 2]) -> [u64; 4] {
        let len = |list| u64::from(self.memory.len(list));
        let all: [u64; 4] = std::array::from_fn(|list| len(list) >> priority);
        let only = |kind: usize| std::array::from_fn(|list| if list / 2 == kind { all[list] } else { 0 });
        if !self.has_swap() {
            return only(FILE);
        }
        if priority == 0 {
            return all;
        }
        let free = u64::from(self.memory.free());
        let is_tiny = u64::from(self.memory.pages_of(FILE)) + free <= u64::from(self.watermarks.high);
        if is_tiny && !may_deactivate[ANON] && len(INACTIVE[ANON]) >> priority > 0 {
            return only(ANON);
        }
        // Plenty of file pages used once: nothing else need go.
        if len(INACTIVE[FILE]) >> priority > 0 && !may_deactivate[FILE] {
            return only(FILE);
        }
        let [anon_cost, file_cost] = self.memory.cost;
        let (anon_cost, file_cost) = (2 * anon_cost + file_cost, anon_cost + 2 * file_cost);
        let swappiness = self.settings.swappiness.unsigned_abs();
        let anon = swappiness * (anon_cost + file_cost + 1) / (anon_cost + 1);
        let file = (200 - swappiness) * (anon_cost + file_cost + 1) / (file_cost + 1);
        let shares = [anon, file];
        std::array::from_fn(|list| (all[list] * shares[list / 2]).div_ceil((anon + file).max(1)))
    }

    fn shrink_active(&mut self, kind: usize, scan: &mut Scan, round: &mut Round) {
        let count = scan.left[ACTIVE[kind]].min(BATCH);
        scan.left[ACTIVE[kind]] -= count;
        if count == 0 {
            return;
        }
        if scan.may_deactivate[kind] {
            self.deactivate(kind, count);
        } else {
            round.spared = true;
        }
    }

    /// `shrink_active_list`: the oldest active pages get a last chance among the inactive ones.
    fn deactivate(&mut self, kind: usize, count: u64) {
        for _ in 0..count {
            let Some(frame) = self.memory.oldest(ACTIVE[kind]) else { return };
            self.memory.take_off(frame);
            self.memory.clear(frame, flag::ACTIVE | flag::YOUNG);
            self.memory.set(frame, flag::WORKINGSET);
            self.memory.put_newest(frame);
        }
    }

    /// `shrink_inactive_list`.
    fn shrink_inactive(&mut self, now: Nanos, kind: usize, scan: &mut Scan, round: &mut Round) {
        let list = INACTIVE[kind];
        let count = scan.left[list].min(BATCH);
        scan.left[list] -= count;
        let (mut taken, mut reclaimed, mut dirty, mut written) = (0, 0, 0, 0);
        for _ in 0..count {
            let Some(frame) = self.memory.oldest(list) else { break };
            taken += 1;
            match if kind == FILE { self.judge_file(frame) } else { self.judge_anonymous(frame) } {
                Verdict::Free => {
                    self.remove_page(frame, true);
                    reclaimed += 1;
                }
                Verdict::Keep => self.move_to(frame, false),
                Verdict::Activate => self.move_to(frame, true),
                Verdict::Dirty => {
                    dirty += 1;
                    self.memory.set(frame, flag::RECLAIM);
                    self.move_to(frame, true);
                }
                Verdict::SwapOut => {
                    let swapped = self.swap_out(now, frame, scan.by.unwrap_or(Issuer::kernel(KSWAPD_STREAM)));
                    written += u64::from(swapped);
                    self.move_to(frame, false);
                }
            }
        }
        round.scanned += taken;
        round.reclaimed += reclaimed;
        if taken > 0 {
            self.memory.note_cost(kind, written, taken - reclaimed);
            if dirty == taken {
                self.flush_all_soon();
            }
        }
    }

    fn move_to(&mut self, frame: u32, active: bool) {
        self.memory.take_off(frame);
        if active {
            self.memory.set(frame, flag::ACTIVE);
        }
        self.memory.put_newest(frame);
    }

    fn judge_file(&mut self, frame: u32) -> Verdict {
        if self.memory.has(frame, flag::LOCKED) {
            return Verdict::Keep;
        }
        if self.memory.has(frame, flag::WRITEBACK) {
            self.memory.set(frame, flag::RECLAIM);
            return Verdict::Activate;
        }
        self.memory.clear(frame, flag::REFERENCED);
        if self.memory.has(frame, flag::DIRTY) { Verdict::Dirty } else { Verdict::Free }
    }

    /// `folio_check_references`: touched once it stays, touched twice it is active.
    fn judge_anonymous(&mut self, frame: u32) -> Verdict {
        if self.memory.has(frame, flag::LOCKED) {
            return Verdict::Keep;
        }
        if self.memory.has(frame, flag::WRITEBACK) {
            self.memory.set(frame, flag::RECLAIM);
            return Verdict::Activate;
        }
        if self.memory.has(frame, flag::YOUNG) {
            let again = self.memory.has(frame, flag::REFERENCED);
            self.memory.clear(frame, flag::YOUNG);
            self.memory.set(frame, flag::REFERENCED);
            return if again { Verdict::Activate } else { Verdict::Keep };
        }
        self.memory.clear(frame, flag::REFERENCED);
        if self.memory.has(frame, flag::DIRTY) { Verdict::SwapOut } else { Verdict::Free }
    }

    /// Starts to write an anonymous page to the swap area; it is freed when that is done and reclaim meets it again. False if the
    /// queue or the swap area is full.
    fn swap_out(&mut self, now: Nanos, frame: u32, issuer: Issuer) -> bool {
        let page = self.memory.page(frame).index;
        let issuer = Issuer { sync: false, ..issuer };
        if self.queue.is_full(false) || !self.background.give_slot(page) {
            return false;
        }
        self.memory.clear(frame, flag::DIRTY);
        self.memory.set(frame, flag::WRITEBACK | flag::RECLAIM);
        self.start_transfer(now, Purpose::SwapOut, ANONYMOUS, page, 1, issuer);
        true
    }
}

/// What is to become of a page that reclaim looks at.
enum Verdict {
    Free,
    Keep,
    Activate,
    /// Of a file, and to be written by the flusher first.
    Dirty,
    SwapOut,
}

/// Enough is reclaimed: the kind of which more was to be scanned is scanned no further than the other, in proportion
/// (`shrink_lruvec`). False if one of them is done.
fn adjust(scan: &mut Scan) -> bool {
    let sum = |counts: &[u64; 4], kind: usize| counts[INACTIVE[kind]] + counts[ACTIVE[kind]];
    let left = [sum(&scan.left, ANON), sum(&scan.left, FILE)];
    if left[ANON] == 0 || left[FILE] == 0 {
        return false;
    }
    let (less, more) = if left[FILE] > left[ANON] { (ANON, FILE) } else { (FILE, ANON) };
    let percent = left[less] * 100 / (sum(&scan.targets, less) + 1);
    for list in [INACTIVE[less], ACTIVE[less]] {
        scan.left[list] = 0;
    }
    for list in [INACTIVE[more], ACTIVE[more]] {
        let scanned = scan.targets[list] - scan.left[list];
        scan.left[list] = (scan.targets[list] * (100 - percent.min(100)) / 100).saturating_sub(scanned);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_are_those_that_linux_prints() {
        // `min_free_kbytes` of 16 GiB is 16384 KiB; a tenth of a per cent lies between the marks.
        assert_eq!(Watermarks::new(1 << 22), Watermarks { min: 4096, low: 8290, high: 12484 });
        assert_eq!(Watermarks::new(1 << 12), Watermarks { min: 128, low: 160, high: 192 });
    }
}
