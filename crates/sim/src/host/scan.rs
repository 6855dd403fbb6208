//! The number of pages of each list to scan: `get_scan_count`, `inactive_is_low` and the proportions of `shrink_lruvec` in
//! `mm/vmscan.c` of Linux 6.x.

use super::page_cache::{ACTIVE, ANON, FILE, INACTIVE, PageCache};
use super::transfers::Issuer;

/// Pages of each list to scan in a round.
pub(super) struct Scan {
    /// By list.
    pub left: [u64; 4],
    targets: [u64; 4],
    pub may_deactivate: [bool; 2],
    /// The process that reclaims; `None` for kswapd.
    pub by: Option<Issuer>,
}

impl Scan {
    pub fn new(targets: [u64; 4], may_deactivate: [bool; 2], by: Option<Issuer>) -> Scan {
        Scan { left: targets, targets, may_deactivate, by }
    }

    /// Whether there are pages left to scan that can be freed.
    pub fn goes_on(&self) -> bool {
        self.left[INACTIVE[ANON]] > 0 || self.left[ACTIVE[FILE]] > 0 || self.left[INACTIVE[FILE]] > 0
    }

    /// Called when enough is reclaimed: limits the scan of one kind to the scanned share of the other (`shrink_lruvec`). Returns
    /// `false` if one of them is done.
    pub fn adjust(&mut self) -> bool {
        let sum = |counts: &[u64; 4], kind: usize| counts[INACTIVE[kind]] + counts[ACTIVE[kind]];
        let left = [sum(&self.left, ANON), sum(&self.left, FILE)];
        if left[ANON] == 0 || left[FILE] == 0 {
            return false;
        }
        let (less, more) = if left[FILE] > left[ANON] { (ANON, FILE) } else { (FILE, ANON) };
        let percent = left[less] * 100 / (sum(&self.targets, less) + 1);
        for list in [INACTIVE[less], ACTIVE[less]] {
            self.left[list] = 0;
        }
        for list in [INACTIVE[more], ACTIVE[more]] {
            let scanned = self.targets[list] - self.left[list];
            self.left[list] = (self.targets[list] * (100 - percent.min(100)) / 100).saturating_sub(scanned);
        }
        true
    }
}

/// `inactive_is_low`: the larger the lists, the smaller the inactive share.
pub(super) fn inactive_is_low(cache: &PageCache, kind: usize) -> bool {
    let (inactive, active) = (u64::from(cache.len(INACTIVE[kind])), u64::from(cache.len(ACTIVE[kind])));
    let gib = (inactive + active) >> 18;
    let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
    inactive * ratio < active
}

/// `get_scan_count`: the number of pages of each list to scan.
pub(super) fn scan_counts(cache: &PageCache, swappiness: u64, priority: u32, may_deactivate: [bool; 2]) -> [u64; 4] {
    let len = |list| u64::from(cache.len(list));
    let all: [u64; 4] = std::array::from_fn(|list| len(list) >> priority);
    let only = |kind: usize| std::array::from_fn(|list| if list / 2 == kind { all[list] } else { 0 });
    if !cache.can_swap() {
        return only(FILE);
    }
    if priority == 0 {
        return all;
    }
    let free = u64::from(cache.free());
    let is_tiny = u64::from(cache.pages_of(FILE)) + free <= u64::from(cache.watermarks().high);
    if is_tiny && !may_deactivate[ANON] && len(INACTIVE[ANON]) >> priority > 0 {
        return only(ANON);
    }
    // There are enough file pages used only once: scan nothing else.
    if len(INACTIVE[FILE]) >> priority > 0 && !may_deactivate[FILE] {
        return only(FILE);
    }
    let [anon_cost, file_cost] = cache.cost();
    let (anon_cost, file_cost) = (2 * anon_cost + file_cost, anon_cost + 2 * file_cost);
    let anon = swappiness * (anon_cost + file_cost + 1) / (anon_cost + 1);
    let file = (200 - swappiness) * (anon_cost + file_cost + 1) / (file_cost + 1);
    let shares = [anon, file];
    std::array::from_fn(|list| (all[list] * shares[list / 2]).div_ceil((anon + file).max(1)))
}
