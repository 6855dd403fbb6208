//! The pattern of requests that is hardest for the host relative to a reference disk.

use std::num::NonZeroU64;

use block::Merges;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};
use testbed::chance;
use testbed::pool::Workers;
use testbed::synthetic::{Draw, Pattern, Places};

use crate::capacity::{self, Extent, Need, Rates, Saturation, saturation, serve, serve_with_neighbour};
use crate::placement::{Asks, size};
use crate::tenants::Reference;

/// The spectrum of locality, size, operation and depth (as the training load of section III.A covers it).
const LOCALITIES: [f64; 4] = [0.0, 0.5, 0.9, 1.0];
const SIZES_KIB: [i64; 3] = [4, 64, 1024];
const READS: [u32; 3] = [100, 67, 0];
const OUTSTANDING: [u32; 2] = [1, 32];

/// Sizes of volumes up to this ratio are measured as one.
const ALIKE: u64 = 16;

/// The need of a guarantee with its worst pattern.
#[derive(Clone, Debug)]
pub(super) struct Worst {
    /// The need.
    pub need: Need,
    /// The part of the host that it needs next to other tenants, even if there are none yet.
    pub part_beside: f64,
    /// The part that it needs with the easiest pattern.
    pub least: f64,
    /// The pattern that needs most.
    pub kind: Kind,
}

/// Limits of a tenant, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Requests.
    pub iops: Option<NonZeroU64>,
    /// Bytes.
    pub bytes_per_s: Option<NonZeroU64>,
}

impl Limits {
    /// Requests per second of a pattern within these limits, given the reference disk's service of it.
    fn allow(self, there: &Rates) -> f64 {
        let part = |limit: Option<NonZeroU64>, rate: f64| match limit {
            Some(limit) if rate > 0.0 => u64::from(limit) as f64 / rate,
            _ => 1.0,
        };
        there.requests * part(self.iops, there.requests).min(part(self.bytes_per_s, there.bytes)).min(1.0)
    }
}

/// A host's service of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnHost {
    alone: Rates,
    saturation: Saturation,
    /// The host's work in seconds for a request between a neighbour's; no less than alone.
    shared_cost_s: f64,
}

impl OnHost {
    /// Measures a pattern alone, saturating and with a neighbour.
    ///
    /// # Errors
    /// It was interrupted.
    pub(super) fn measure(host: &Profile, kind: &Kind, sectors: u64, seed: u64, workers: Workers) -> anyhow::Result<OnHost> {
        let (stop, extent, depth) = (workers.monitor.stop(), Extent::default(), kind.outstanding as usize);
        let build = |merges| capacity::host(host, DeviceOptions::default(), QueueSettings { merges, ..QueueSettings::default() });
        let wanted = || kind.wanted(sectors, seed);
        let alone = serve(build(Merges::All), wanted(), depth, extent, stop)?;
        let saturation = saturation(build, wanted, &alone, extent, stop)?;
        let shared = serve_with_neighbour(build(Merges::All), wanted(), depth, host.capacity_sectors(), extent, stop)?;
        Ok(OnHost { alone, saturation, shared_cost_s: shared.work_each().max(alone.work_each()) })
    }

    /// The need of serving the pattern like the reference disk, within limits: alone on the host, or with others.
    pub(super) fn need(&self, there: &Rates, limits: Limits, is_shared: bool) -> Need {
        let cost_s = if is_shared { self.shared_cost_s } else { self.alone.work_each() };
        let work = self.saturation.need(there.requests, cost_s);
        let part = if there.requests > 0.0 { limits.allow(there) / there.requests } else { 0.0 };
        Need::new(work, there.service(), self.alone.service(), cost_s).times(part)
    }
}

/// A reference disk's service of a pattern.
///
/// # Errors
/// It was interrupted.
pub(super) fn on_reference(reference: &Reference, kind: &Kind, sectors: u64, seed: u64, workers: Workers) -> anyhow::Result<Rates> {
    Ok(serve(reference.queue(), kind.wanted(sectors, seed), kind.outstanding as usize, Extent::default(), workers.monitor.stop())?)
}

/// The worst case of each kind of guarantee: a reference disk with limits, for a volume of this size in sectors.
///
/// # Errors
/// It was interrupted.
pub(super) fn worst(
    host: &Profile,
    kinds: &[(&Reference, Limits, u64)],
    is_shared: bool,
    seed: u64,
    workers: Workers,
) -> anyhow::Result<Vec<Worst>> {
    let patterns = patterns()?;
    let sizes = measured_sizes(kinds.iter().map(|(.., sectors)| *sectors).collect());
    let pairs =
        |count: usize| (0..count).flat_map(|one| (0..patterns.len()).map(move |pattern| (one, pattern))).collect::<Vec<_>>();
    let hosted = workers.map("patterns on the host", &pairs(sizes.len()), |&(size, pattern)| {
        OnHost::measure(host, &patterns[pattern], sizes[size], seed, workers)
    })?;
    let referred = workers.map("patterns on reference disks", &pairs(kinds.len()), |&(kind, pattern)| {
        on_reference(kinds[kind].0, &patterns[pattern], kinds[kind].2, seed, workers)
    })?;
    let all = kinds.iter().enumerate().map(|(number, &(_, limits, sectors))| {
        let size = sizes.partition_point(|size| *size < sectors);
        let need = |pattern: usize, is_shared: bool| {
            let there = &referred[number * patterns.len() + pattern];
            hosted[size * patterns.len() + pattern].need(there, limits, is_shared)
        };
        let needs: Vec<Need> = (0..patterns.len()).map(|pattern| need(pattern, is_shared)).collect();
        let part = |pattern: usize| needs[pattern].part();
        let hardest = (0..needs.len()).max_by(|one, other| part(*one).total_cmp(&part(*other))).unwrap_or(0);
        Worst {
            need: needs[hardest],
            part_beside: (0..patterns.len()).map(|pattern| need(pattern, true).part()).fold(0.0, f64::max),
            least: needs.iter().map(Need::part).fold(f64::INFINITY, f64::min),
            kind: patterns[hardest].clone(),
        }
    });
    Ok(all.collect())
}

/// The sizes with which patterns are measured on the host, in ascending order: a volume counts with the next of them, which is at most
/// [`ALIKE`] times its size. A larger volume needs no less.
fn measured_sizes(mut sizes: Vec<u64>) -> Vec<u64> {
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let mut measured: Vec<u64> = Vec::new();
    for size in sizes {
        if measured.last().is_none_or(|last| size.saturating_mul(ALIKE) < *last) {
            measured.push(size);
        }
    }
    measured.reverse();
    measured
}

/// A pattern.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Description in words.
    pub text: String,
    outstanding: u32,
    pattern: Pattern,
}

impl Kind {
    fn wanted(&self, sectors: u64, seed: u64) -> (Draw, Pattern) {
        (Draw::new(0..sectors, chance::source("pattern", seed, 0)), self.pattern.clone())
    }

    /// The workload of a volume that always has this pattern.
    pub(super) fn asks(&self) -> Asks {
        Asks::always(self.outstanding, self.pattern.clone())
    }
}

fn patterns() -> anyhow::Result<Vec<Kind>> {
    let mut patterns = Vec::new();
    for locality in LOCALITIES {
        for kib in SIZES_KIB {
            for reads in READS {
                for outstanding in OUTSTANDING {
                    let pattern = Pattern::Local { locality, reads, sizes: size(kib)?, places: Places::Uniform };
                    patterns.push(Kind { text: words(locality, kib, reads, outstanding), outstanding, pattern });
                }
            }
        }
    }
    Ok(patterns)
}

fn words(locality: f64, kib: i64, reads: u32, outstanding: u32) -> String {
    let place = match locality {
        0.0 => "random ".to_owned(),
        1.0 => "sequential ".to_owned(),
        _ => format!("{:.0}% sequential ", 100.0 * locality),
    };
    let what = match reads {
        0 => "writes".to_owned(),
        100 => "reads".to_owned(),
        _ => format!("requests, {reads}% of them reads,"),
    };
    format!("{place}{what} of {kib} KiB, {outstanding} outstanding")
}
