//! Read-ahead for files that nobody has opened yet.
//!
//! Linux decides when a file is opened how far it is read ahead (`file_ra_state_init` in `mm/readahead.c`): when a load shows what it would
//! gain, it is too late for that load. But what processes that read in order gain depends on the device more than on them, so they are
//! supposed:
//!
//! ```text
//!                  ┌─▶ one reader ─────────────────┐
//! fitted device ───┼─▶ four at once ───────────────┼─▶ each read-ahead beside the one in force
//!                  └─▶ one beside random reads ────┘
//! ```
//! Until such a load comes, a longer read-ahead costs next to nothing: reads at random are not read ahead (`page_cache_sync_ra`), and of a
//! mapped file Linux stops reading around what is touched after 100 misses (`MMAP_LOTSAMISS` in `mm/filemap.c`). Once one has come, what it
//! gets is measured and the twin is asked about it, as about any other.

use block::{KnowledgeStore, Limits, Nanos, Op};
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use observe::merit;
use sim::profile::DeviceProfile;
use sim::scramble::scramble;

use crate::ask::{Stage, judged_requests};
use crate::load::{BIO_SECTORS, Load, Pace, SupposedRequest, SupposedStream};
use crate::trial::{Extent, Tried};

/// Readers in order and at random, of every load that is supposed.
const LOADS: [(u32, u32); 3] = [(1, 0), (4, 0), (1, 1)];
/// How long a trial is, and after how many requests it ends before.
const LASTS: Nanos = Nanos::from_millis(10_000);
const REQUESTS: u64 = 1_000;
/// Requests before a stream begins again.
const OF_A_STREAM: u64 = 64;
/// What is read at random, in sectors: a page.
const PAGE_SECTORS: u32 = 8;
/// A process comes to the last window while the next one is being read.
const WINDOWS: u32 = 2;

/// Requests that it takes at most to try one read-ahead beside another: each trial is repeated where it was over too soon.
pub(super) const COSTS: u64 = 2 * 2 * LOADS.len() as u64 * REQUESTS;

/// A device for which files are yet to be opened.
pub(super) struct ToCome<'a> {
    pub device: &'a dyn DeviceProfile,
    pub knowledge: &'a KnowledgeStore,
    pub bounds: Bounds,
    /// Its scheduler serves them.
    pub setting: &'a Setting,
    pub preference: &'a Preference,
}

impl ToCome<'_> {
    /// What they gain in the mean with a read-ahead of `to` KiB over one of `from`, and how many requests were simulated. `None` where one of
    /// them would starve another, or nothing came of a trial.
    pub fn gain(&self, from: u32, to: u32) -> (Option<f64>, u64) {
        let mut requests = 0;
        let mut of_load = |&(in_order, at_random): &(u32, u32)| {
            let mut under = |kib: u32| {
                let tried = self.tried(&self.load(in_order, at_random, kib))?;
                requests += tried.requests;
                Some((tried.calls?.score(self.preference), tried.tails))
            };
            let ((now, now_waits), (then, then_waits)) = (under(from)?, under(to)?);
            let starves = merit::max_wait_ratio_of(&then_waits, &now_waits, judged_requests(extent())) > 1.0;
            (!starves).then_some(then - now)
        };
        let gains: Option<Vec<f64>> = LOADS.iter().map(&mut of_load).collect();
        (gains.map(|gains| gains.iter().sum::<f64>() / gains.len() as f64), requests)
    }

    fn tried(&self, load: &Load) -> Option<Tried> {
        let build = |setting: &Setting, limits: &Limits| self.knowledge.scheduler(setting.spec, limits, &setting.values);
        let stage = Stage { device: self.device, bounds: self.bounds, load, above: None, extent: extent() };
        stage.tried(self.setting, None, &build, &mut |_| {})
    }

    /// Every reader in order has a part of the device of its own; others read anywhere.
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
            let requests = (0..OF_A_STREAM).map(|request| {
                let lba = page(request) * u64::from(PAGE_SECTORS);
                SupposedRequest { op: Op::Read, sync: !is_in_order, sectors, lba, after: Nanos::ZERO }
            });
            let depth = if is_in_order { WINDOWS } else { 1 };
            SupposedStream { pace: Pace::Closed, depth, requests: requests.collect() }
        });
        Load::supposed(&streams.collect::<Vec<_>>(), LASTS)
    }
}

fn extent() -> Extent {
    Extent::lasting(LASTS, REQUESTS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use device_model::sched;

    use super::*;

    /// What files in order gain by a read-ahead of `to` KiB over one of `from`, with their default.
    fn gain(disk: &str, from: u32, to: u32) -> f64 {
        let device = sim::profile::load(disk).unwrap().device();
        let (capacity_sectors, limits) = (device.capacity_sectors(), Limits::default());
        let bounds = Bounds { capacity_sectors, limits, nr_requests: 256, read_ahead_kib: Some(from) };
        let (setting, knowledge) = (Setting::parse("deadline").unwrap(), KnowledgeStore::new(sched::all()));
        let preference = &Preference::default();
        let to_come = ToCome { device: &*device, knowledge: &knowledge, bounds, setting: &setting, preference };
        let (gain, requests) = to_come.gain(from, to);
        assert!(requests <= COSTS, "{requests}");
        gain.unwrap()
    }

    #[test]
    fn a_disk_that_seeks_far_gains_by_a_longer_read_ahead_and_a_volume_that_does_not_seek_hardly() {
        assert!(gain("sata7200", 128, 1024) > 0.5);
        assert!(gain("sata7200", 1024, 128) < -0.5);
        assert!(gain("cloud-volume", 128, 1024).abs() < 0.1);
    }
}
