//! Speculative read-ahead, for files that are not open yet.
//!
//! Linux sets a file's read-ahead when it is opened (`file_ra_state_init` in `mm/readahead.c`): once a load shows that it would gain, it is
//! too late for that load. But the gain of sequential readers depends more on the device than on them, so their loads are assumed:
//!
//! ```text
//!                  ┌─▶ one reader ─────────────────┐
//! fitted device ───┼─▶ four at once ───────────────┼─▶ each read-ahead compared with the active one
//!                  └─▶ one and random reads ───────┘
//! ```
//! Until such a load arrives, a longer read-ahead costs next to nothing: random reads are not read ahead (`page_cache_sync_ra`), and for a
//! mapped file Linux stops reading around page faults after 100 misses (`MMAP_LOTSAMISS` in `mm/filemap.c`). When it arrives, the choice is
//! measured and forecast like any other.

use block::scramble::scramble;
use block::{KnowledgeStore, Limits, Nanos, Op};
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use observe::starvation;
use sim::profile::DeviceProfile;

use crate::forecast::{TrialRig, judged_requests};
use crate::load::{AssumedRequest, AssumedStream, BIO_SECTORS, Load, Pace};
use crate::trial::{TrialLength, TrialResult};

/// Numbers of sequential and of random readers in each assumed load. Choice: no contention, contention among sequential readers, and with
/// random reads; each further load costs four trials; not varied.
const LOADS: [(u32, u32); 3] = [(1, 0), (4, 0), (1, 1)];
/// Maximum length of a trial. Choice: hundreds of windows of a slow disk; not varied.
const TRIAL: Nanos = Nanos::from_millis(10_000);
/// Maximum number of requests of a trial. Choice: the mean of 1,000 response times that vary by their mean has an error of 3%; not varied.
const TRIAL_REQUESTS: u64 = 1_000;
/// Number of requests of a stream before it repeats. Choice: a repeat is a seek, so it should be rare; more take longer to build; not
/// varied.
const STREAM_REQUESTS: u64 = 64;
/// Size of a random read in sectors. Derived: a page of 4 KiB in sectors of 512 bytes.
const PAGE_SECTORS: u32 = 4_096 / 512;
/// Windows in flight of a sequential reader: Linux reads the next one while the process reads the last one. Source: `page_cache_async_ra`
/// in `mm/readahead.c`.
const WINDOWS: u32 = 2;

/// Maximum number of requests simulated per comparison. Derived: two settings, and each trial may be repeated.
pub(super) const MAX_REQUESTS: u64 = 2 * 2 * LOADS.len() as u64 * TRIAL_REQUESTS;

/// Compares read-aheads on a device.
pub(super) struct SpeculativeReadAhead<'a> {
    pub device: &'a dyn DeviceProfile,
    pub knowledge: &'a KnowledgeStore,
    pub bounds: Bounds,
    /// The active setting, under which the loads run.
    pub setting: &'a Setting,
    pub preference: &'a Preference,
}

impl SpeculativeReadAhead<'_> {
    /// The mean gain of a read-ahead of `to` KiB over one of `from`, and the number of simulated requests. The gain is `None` if a stream
    /// would starve, or no request completed.
    pub fn gain(&self, from: u32, to: u32) -> (Option<f64>, u64) {
        let mut requests = 0;
        let mut of_load = |&(in_order, at_random): &(u32, u32)| {
            let mut under = |kib: u32| {
                let result = self.trial(&self.load(in_order, at_random, kib))?;
                requests += result.requests;
                Some((result.calls?.score(self.preference), result.tails))
            };
            let ((now, now_waits), (then, then_waits)) = (under(from)?, under(to)?);
            let starves = starvation::max_wait_ratio_of(&then_waits, &now_waits, judged_requests(length())) > 1.0;
            (!starves).then_some(then - now)
        };
        let gains: Option<Vec<f64>> = LOADS.iter().map(&mut of_load).collect();
        (gains.and_then(statistics::mean), requests)
    }

    fn trial(&self, load: &Load) -> Option<TrialResult> {
        let build = |setting: &Setting, limits: &Limits| self.knowledge.scheduler(setting.spec, limits, &setting.values);
        let rig = TrialRig { device: self.device, bounds: self.bounds, load, call_model: None, length: length() };
        rig.run(self.setting, None, &build, &mut |_| {})
    }

    /// An assumed load. Each sequential reader has a part of the device; random ones read anywhere.
    fn load(&self, in_order: u32, at_random: u32, kib: u32) -> Load {
        let pages = self.bounds.capacity_sectors / u64::from(PAGE_SECTORS);
        let streams = (0..in_order + at_random).map(|number| {
            let is_in_order = number < in_order;
            let sectors = if is_in_order { kib.saturating_mul(2).clamp(PAGE_SECTORS, BIO_SECTORS) } else { PAGE_SECTORS };
            let begins = pages / u64::from(2 * in_order) * u64::from(2 * number + 1);
            let page = |request: u64| match is_in_order {
                true => begins + request * u64::from(sectors / PAGE_SECTORS),
                false => scramble(request + 1) % pages.max(1),
            };
            let requests = (0..STREAM_REQUESTS).map(|request| {
                let lba = page(request) * u64::from(PAGE_SECTORS);
                AssumedRequest { op: Op::Read, sync: !is_in_order, sectors, lba, after: Nanos::ZERO }
            });
            let depth = if is_in_order { WINDOWS } else { 1 };
            AssumedStream { pace: Pace::Closed, depth, requests: requests.collect() }
        });
        Load::assumed(&streams.collect::<Vec<_>>(), TRIAL)
    }
}

fn length() -> TrialLength {
    TrialLength::new(TRIAL, TRIAL_REQUESTS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use device_model::sched;

    use super::*;

    /// The gain of a read-ahead of `to` KiB over one of `from`.
    fn gain(disk: &str, from: u32, to: u32) -> f64 {
        let device = sim::profile::load(disk).unwrap().device();
        let (capacity_sectors, limits) = (device.capacity_sectors(), Limits::default());
        let bounds = Bounds { capacity_sectors, limits, nr_requests: 256, read_ahead_kib: Some(from) };
        let (setting, knowledge) = (Setting::parse("deadline").unwrap(), KnowledgeStore::new(sched::all()));
        let preference = &Preference::default();
        let speculation = SpeculativeReadAhead { device: &*device, knowledge: &knowledge, bounds, setting: &setting, preference };
        let (gain, requests) = speculation.gain(from, to);
        assert!(requests <= MAX_REQUESTS, "{requests}");
        gain.unwrap()
    }

    #[test]
    fn a_disk_with_long_seeks_gains_by_a_longer_read_ahead_and_a_cloud_volume_hardly() {
        assert!(gain("sata7200", 128, 1024) > 0.5);
        assert!(gain("sata7200", 1024, 128) < -0.5);
        assert!(gain("cloud-volume", 128, 1024).abs() < 0.1);
    }
}
