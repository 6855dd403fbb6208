//! The read-ahead, which takes effect file by file.
//!
//! Linux sets a file's read-ahead when it is opened (`file_ra_state_init` in `mm/readahead.c`). So measurements after a change do not show
//! its effect until files are opened again, and a load that would gain from another read-ahead already has its files open. It is therefore
//! chosen in advance for [assumed loads](super::speculative_read_ahead), and only measurements can revoke it. It is chosen only where files
//! have been read in order through the page cache: for a disk of virtual machines or of a database with direct I/O it is never used. Nor
//! is it chosen behind a limit of a volume's rate, where longer requests take longer and little is gained.

use block::{Nanos, Request};
use control::target::Bounds;
use control::{Decision, Setting};
use observe::merit::TOLERANCE;

use super::arm::Arm;
use super::speculative_read_ahead::{self, SpeculativeReadAhead};
use super::{SIMULATED_REQUEST_NS, TwinController, WINDOW};
use crate::forecast::{differ_by_read_ahead, read_ahead_kib};

/// Reason of a change by a forecast alone, which states no gain.
pub(super) const UNMEASURED: &str = "longer reads should gain on this device, which is measured once files are opened";

/// The state of the read-ahead.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The original read-ahead, in KiB; `None` if the target does not report it.
    pub original_kib: Option<u32>,
    /// The read-ahead before and after its latest change, in KiB, while most open files still have the old one.
    pub change: Option<(u32, u32)>,
    /// The choice for future loads.
    pub speculative: SpeculativeChoice,
    /// A whole window of the original read-ahead was read: files are read in order through the page cache.
    is_used: bool,
}

impl ReadAhead {
    /// Takes in a request that completed.
    pub fn observe(&mut self, request: &Request) {
        let window_sectors = self.original_kib.map(|kib| 2 * kib);
        self.is_used |= request.is_read_ahead() && window_sectors.is_some_and(|window| window > 0 && request.sectors >= window);
    }
}

/// The read-ahead chosen for future loads.
#[derive(Debug, Default)]
pub(super) struct SpeculativeChoice {
    /// The choice in KiB while it is active; `None` otherwise.
    kib: Option<u32>,
    /// Number of accesses to which the device had been fitted at the latest choice.
    fitted_to: Option<usize>,
}

impl SpeculativeChoice {
    /// Records a change of the active read-ahead. A change that replaces the choice is based on measurements, so no further choice is made.
    pub fn changed_to(&mut self, kib: Option<u32>) {
        if self.kib.is_some() && self.kib != kib {
            *self = SpeculativeChoice { kib: None, fitted_to: Some(usize::MAX) };
        }
    }

    /// Records that a setting was refused, so that the read-ahead is still `kib`. Under another load the choice may be allowed.
    pub fn refused(&mut self, kib: Option<u32>) {
        if self.kib.is_some() && self.kib != kib {
            *self = SpeculativeChoice::default();
        }
    }
}

impl TwinController {
    /// The read-ahead of an arm in KiB; `None` if it is not known.
    pub(super) fn read_ahead_of(&self, arm: usize) -> Option<u32> {
        read_ahead_kib(&self.arms[arm].setting, self.read_ahead.original_kib)
    }

    /// Whether most read-ahead of the latest window has the size of the new read-ahead rather than that of the old one.
    pub(super) fn are_files_reopened(&self, now: Nanos, (was, is): (u32, u32)) -> bool {
        // `POSIX_FADV_SEQUENTIAL` doubles the read-ahead.
        let (least, between) = (2 * was.min(is), (2.0 * f64::from(was) * 2.0 * f64::from(is)).sqrt() as u32);
        let lately = self.seen.recording.seen().rev().take_while(|seen| seen.completed + WINDOW >= now);
        let (mut less, mut more) = (0, 0);
        for request in lately.map(|seen| &seen.request).filter(|request| request.is_read_ahead()) {
            more += if request.sectors > between { u64::from(request.sectors) } else { 0 };
            less += if (least..=between).contains(&request.sectors) { u64::from(request.sectors) } else { 0 };
        }
        if is > was { more > less } else { less > more }
    }

    /// Whether the load is served as under the original setting: it is active, or the active one differs only by a read-ahead that has had
    /// no effect yet.
    pub(super) fn serves_as_original(&self) -> bool {
        self.active == self.original || !self.is_comparable_to(&self.arms[self.original])
    }

    /// Whether measurements can distinguish the active setting from this one: not if they differ only by a read-ahead that has had no
    /// effect yet.
    pub(super) fn is_comparable_to(&self, other: &Arm) -> bool {
        self.read_ahead.change.is_none() || !differ_by_read_ahead(&other.setting, self.setting())
    }

    /// This arm with the active read-ahead, unless the load's read-ahead is large enough to show the difference. The next load may need the
    /// active one.
    pub(super) fn with_active_read_ahead(&self, arm: usize) -> usize {
        let kib = |arm: usize| self.read_ahead_of(arm);
        let Some((is, other)) = kib(self.active).zip(kib(arm)).filter(|(is, other)| is != other) else { return arm };
        if self.reads_ahead(2 * is.min(other)) { arm } else { self.with_read_ahead(arm, is) }
    }

    /// The original arm for an unknown load: with the speculative read-ahead if there is one, otherwise as
    /// [`with_active_read_ahead`](Self::with_active_read_ahead).
    pub(super) fn original_for_new_load(&self) -> usize {
        let as_now = || self.with_active_read_ahead(self.original);
        self.read_ahead.speculative.kib.map_or_else(as_now, |kib| self.with_read_ahead(self.original, kib))
    }

    /// Whether the load has read-ahead requests of at least this size.
    fn reads_ahead(&self, sectors: u32) -> bool {
        let mut of_load = self.seen.recording.seen().rev().take_while(|seen| seen.completed >= self.present.load.from);
        of_load.any(|seen| seen.request.is_read_ahead() && seen.request.sectors >= sectors)
    }

    /// This arm with another read-ahead; the arm itself if there is no such candidate.
    fn with_read_ahead(&self, arm: usize, kib: u32) -> usize {
        let setting = &self.arms[arm].setting;
        let is_it = |one: &Arm| one.setting == *setting || differ_by_read_ahead(&one.setting, setting);
        let same = (0..self.arms.len()).find(|&one| is_it(&self.arms[one]) && self.read_ahead_of(one) == Some(kib));
        same.unwrap_or(arm)
    }

    /// Whether a setting may be tried for an uncertain gain: one that differs from the active one only by its read-ahead is free to try, as
    /// open files keep theirs and others are measured. Excludes the original read-ahead, which has been measured.
    pub(super) fn is_free_to_try(&self, setting: &Setting) -> bool {
        let kib = read_ahead_kib(setting, self.read_ahead.original_kib);
        differ_by_read_ahead(setting, self.setting()) && kib != self.read_ahead.original_kib
    }

    /// Changes to the best read-ahead for assumed loads, once per fit of the device; `None` if it is active, too expensive to find, or the
    /// load itself shows the difference.
    pub(super) fn prepare_read_ahead(&mut self, now: Nanos, bounds: impl FnOnce() -> Bounds) -> Option<Decision> {
        let (found, device) = (self.read_ahead.original_kib?, self.model.device.as_ref()?);
        if !self.read_ahead.is_used || device.is_limited() {
            return None;
        }
        let accesses = device.accesses;
        let is_new = self.read_ahead.speculative.fitted_to.is_none_or(|fitted_to| accesses > fitted_to);
        if !is_new || self.read_ahead_of(self.active) != Some(found) || self.read_ahead.change.is_some() {
            return None;
        }
        let setting = self.setting();
        let can_be = |arm: &usize| self.arms[*arm].blocked_until <= now && differ_by_read_ahead(&self.arms[*arm].setting, setting);
        let others: Vec<usize> = (0..self.arms.len()).filter(can_be).collect();
        let requests = others.len() as u64 * speculative_read_ahead::MAX_REQUESTS;
        // A load with read-ahead is evidence that outweighs assumed loads.
        let is_affordable = requests as f64 * SIMULATED_REQUEST_NS <= self.cpu.credit_ns / 2.0;
        if requests == 0 || !is_affordable || self.reads_ahead(2 * found) {
            return None;
        }
        let (bounds, preference) = (bounds(), &self.preference);
        let speculation =
            SpeculativeReadAhead { device: &*device.profile, knowledge: &device.knowledge, bounds, setting, preference };
        let mut spent = 0;
        let gains = others.iter().filter_map(|&arm| {
            let kib = self.read_ahead_of(arm)?;
            let (gain, requests) = speculation.gain(found, kib);
            spent += requests;
            Some((gain.filter(|gain| *gain > TOLERANCE)?, arm, kib))
        });
        let best = gains.max_by(|a, b| a.0.total_cmp(&b.0));
        self.cpu.credit_ns -= spent as f64 * SIMULATED_REQUEST_NS;
        self.read_ahead.speculative.fitted_to = Some(accesses);
        let (_, arm, kib) = best?;
        let setting = &self.arms[arm].setting;
        let why = format!("{setting} for files that are opened from now on: files are read in order here, and {UNMEASURED}");
        let decision = self.change_to(now, arm, why);
        self.read_ahead.speculative.kib = Some(kib);
        Some(decision)
    }
}
