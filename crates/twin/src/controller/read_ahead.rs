//! How far files are read ahead: it is in force at once, and takes effect file by file.
//!
//! Linux decides when a file is opened how far it is read ahead (`file_ra_state_init` in `mm/readahead.c`). So what is measured after a change
//! tells nothing of it until files are opened anew, and a load that would gain by another one has its files open by then. What is in force
//! when it comes is therefore chosen for loads that are [supposed](super::to_come), and given up only for what is seen.

use block::Nanos;
use control::target::Bounds;
use control::{Decision, Setting};
use observe::merit::TOLERANCE;

use super::to_come::{self, ToCome};
use super::{Arm, Seekwise, TRIED_NS, WINDOW, percent};
use crate::ask::{differ_by_read_ahead, read_ahead_kib};

/// The read-ahead for loads that are not there yet.
#[derive(Debug, Default)]
pub(super) struct FilesToCome {
    /// The one that was chosen for them and is in force, in KiB.
    kib: Option<u32>,
    /// To how many accesses the device was fitted when the twin was asked about them last.
    asked_of: Option<usize>,
}

impl FilesToCome {
    /// Files are read ahead by so many KiB from now on. If by others than were chosen, something that was seen is against these, and no
    /// forecast is asked for again.
    pub fn put(&mut self, kib: Option<u32>) {
        if self.kib.is_some() && self.kib != kib {
            *self = FilesToCome { kib: None, asked_of: Some(usize::MAX) };
        }
    }

    /// Something could not be set, and files are still read ahead by so many KiB. Under another load it may be allowed.
    pub fn refused(&mut self, kib: Option<u32>) {
        if self.kib.is_some() && self.kib != kib {
            *self = FilesToCome::default();
        }
    }
}

impl Seekwise {
    /// How far files that are opened under it are read ahead, in KiB, if that is known.
    pub(super) fn reads_ahead_kib(&self, arm: usize) -> Option<u32> {
        read_ahead_kib(&self.arms[arm].setting, self.found_read_ahead_kib)
    }

    /// Whether by now most of what is read ahead is so as far as what is in force says. Linux decides it when a file is opened
    /// (`file_ra_state_init` in `mm/readahead.c`): who has files from before goes on as before.
    pub(super) fn files_are_opened_anew(&self, now: Nanos, (was, is): (u32, u32)) -> bool {
        // Who says that it reads in order has twice as much.
        let (least, between) = (2 * was.min(is), (2.0 * f64::from(was) * 2.0 * f64::from(is)).sqrt() as u32);
        let lately = self.recording.seen().rev().take_while(|seen| seen.completed + WINDOW >= now);
        let (mut less, mut more) = (0, 0);
        for request in lately.map(|seen| &seen.request).filter(|request| request.is_read_ahead()) {
            more += if request.sectors > between { u64::from(request.sectors) } else { 0 };
            less += if (least..=between).contains(&request.sectors) { u64::from(request.sectors) } else { 0 };
        }
        if is > was { more > less } else { less > more }
    }

    /// Whether all are served as they were found to be: by what was in force at first, or until files are opened anew by the same with another
    /// read-ahead.
    pub(super) fn is_as_found(&self) -> bool {
        self.in_force == self.default || !self.compares_with(&self.arms[self.default])
    }

    /// Whether what is measured tells of the difference to this: files from before are read as before, which tells neither for nor against
    /// another read-ahead.
    pub(super) fn compares_with(&self, other: &Arm) -> bool {
        self.awaits_files.is_none() || !differ_by_read_ahead(&other.setting, self.setting())
    }

    /// The same with the read-ahead that is in force, where nothing of the load is read so far ahead that it tells for it or against it.
    /// The next load may do so, and finds in force what holds when its files are opened.
    pub(super) fn reading_ahead_as_now(&self, arm: usize) -> usize {
        let kib = |arm: usize| self.reads_ahead_kib(arm);
        let Some((is, other)) = kib(self.in_force).zip(kib(arm)).filter(|(is, other)| is != other) else { return arm };
        if self.tells_of_read_ahead(2 * is.min(other)) { arm } else { self.with_read_ahead(arm, is) }
    }

    /// What was found, for a load of which nothing is known: with the read-ahead that is for whoever comes, or else with the one of now as
    /// long as nothing tells for it or against it.
    pub(super) fn found_again(&self) -> usize {
        let as_now = || self.reading_ahead_as_now(self.default);
        self.files_to_come.kib.map_or_else(as_now, |kib| self.with_read_ahead(self.default, kib))
    }

    /// Whether so many sectors at least were read ahead at once by the load.
    fn tells_of_read_ahead(&self, sectors: u32) -> bool {
        let mut of_load = self.recording.seen().rev().take_while(|seen| seen.completed >= self.load.from);
        of_load.any(|seen| seen.request.is_read_ahead() && seen.request.sectors >= sectors)
    }

    /// The same with files read ahead by so many KiB, if there is such a candidate.
    fn with_read_ahead(&self, arm: usize, is: u32) -> usize {
        let setting = &self.arms[arm].setting;
        let is_it = |one: &Arm| one.setting == *setting || differ_by_read_ahead(&one.setting, setting);
        let same = (0..self.arms.len()).find(|&one| is_it(&self.arms[one]) && self.reads_ahead_kib(one) == Some(is));
        same.unwrap_or(arm)
    }

    /// Another read-ahead costs nothing to try: nothing stops for it, files that are open go on as before, and what it brings to those that
    /// are opened then is measured. So it is enough that a gain is expected. But the one that was found is not untried: to give up for it
    /// what was chosen since, the gain has to be sure.
    pub(super) fn is_free_to_try(&self, setting: &Setting) -> bool {
        let kib = read_ahead_kib(setting, self.found_read_ahead_kib);
        differ_by_read_ahead(setting, self.setting()) && kib != self.found_read_ahead_kib
    }

    /// The read-ahead that files should have which are opened from now on, by loads that would gain by it.
    pub(super) fn prepare_for_files(&mut self, now: Nanos, bounds: impl FnOnce() -> Bounds) -> Option<Decision> {
        let (found, device) = (self.found_read_ahead_kib?, self.device.as_ref()?);
        let accesses = device.accesses;
        let is_new = self.files_to_come.asked_of.is_none_or(|asked_of| accesses > asked_of);
        if !is_new || self.reads_ahead_kib(self.in_force) != Some(found) || self.awaits_files.is_some() {
            return None;
        }
        let setting = self.setting();
        let can_be = |arm: &usize| self.arms[*arm].again <= now && differ_by_read_ahead(&self.arms[*arm].setting, setting);
        let others: Vec<usize> = (0..self.arms.len()).filter(can_be).collect();
        let requests = others.len() as u64 * to_come::COSTS;
        // A load that is read ahead itself is evidence, which counts for more than what is supposed.
        let is_affordable = requests as f64 * TRIED_NS <= self.credit_ns / 2.0;
        if requests == 0 || !is_affordable || self.tells_of_read_ahead(2 * found) {
            return None;
        }
        let (bounds, preference) = (bounds(), &self.preference);
        let to_come = ToCome { device: &*device.profile, knowledge: &device.knowledge, bounds, setting, preference };
        let mut spent = 0;
        let gains = others.iter().filter_map(|&arm| {
            let kib = self.reads_ahead_kib(arm)?;
            let (gain, requests) = to_come.gain(found, kib);
            spent += requests;
            Some((gain.filter(|gain| *gain > TOLERANCE)?, arm, kib))
        });
        let best = gains.max_by(|a, b| a.0.total_cmp(&b.0));
        self.credit_ns -= spent as f64 * TRIED_NS;
        self.files_to_come.asked_of = Some(accesses);
        let (gain, arm, kib) = best?;
        let setting = &self.arms[arm].setting;
        let why = format!("{setting} promises to be {} for files that are opened from now on and read in order", percent(gain));
        let decision = self.put(now, arm, why);
        self.files_to_come.kib = Some(kib);
        Some(decision)
    }
}
