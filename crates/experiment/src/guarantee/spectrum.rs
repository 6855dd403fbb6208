//! Of all that can be asked of a reference disk, what is hardest for the host.

use std::num::NonZeroU64;

use block::Merges;
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};

use crate::capacity::{self, Extent, Rates, saturation, serve};
use crate::chance;
use crate::placement::{Asks, size};
use crate::pool::Workers;
use crate::synthetic::asks::{Draw, Pattern, Places};
use crate::tenants::Reference;

/// The spectrum of locality, size, operation and depth (as the training load of section III.A covers it).
const LOCALITIES: [f64; 4] = [0.0, 0.5, 0.9, 1.0];
const SIZES_KIB: [i64; 3] = [4, 64, 1024];
const READS: [u32; 3] = [100, 67, 0];
const OUTSTANDING: [u32; 2] = [1, 32];

/// The worst of all patterns.
#[derive(Clone, Debug)]
pub(super) struct Worst {
    /// The part of the host's time that it takes to do what the reference disk does.
    pub demand: f64,
    /// The same of the pattern that is easiest.
    pub least: f64,
    /// The pattern.
    pub kind: Kind,
}

/// What a tenant may have at most, each second of its reference disk's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Requests.
    pub iops: Option<NonZeroU64>,
    /// Bytes.
    pub bytes_per_s: Option<NonZeroU64>,
}

impl Limits {
    /// Requests a second of those that the reference disk serves of a pattern that they allow.
    fn allow(self, there: &Rates) -> f64 {
        let part = |limit: Option<NonZeroU64>, rate: f64| match limit {
            Some(limit) if rate > 0.0 => u64::from(limit) as f64 / rate,
            _ => 1.0,
        };
        there.requests * part(self.iops, there.requests).min(part(self.bytes_per_s, there.bytes)).min(1.0)
    }
}

/// Finds it for a volume of this many sectors.
///
/// # Errors
/// It was interrupted.
pub(super) fn worst(
    host: &Profile,
    (reference, limits): (&Reference, Limits),
    sectors: u64,
    seed: u64,
    workers: Workers,
) -> anyhow::Result<Worst> {
    let patterns = patterns()?;
    let needs = workers.map(&format!("what {reference} serves, on the host"), &patterns, |kind| {
        need(host, (reference, limits), sectors, kind, seed, workers)
    })?;
    let hardest = (0..needs.len()).max_by(|one, other| needs[*one].total_cmp(&needs[*other])).unwrap_or(0);
    let easiest = needs.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Worst { demand: needs[hardest], least: easiest, kind: patterns[hardest].clone() })
}

/// What part of the host is needed to serve a pattern as the reference disk does, within its limits.
///
/// # Errors
/// It was interrupted.
pub(super) fn need(
    host: &Profile,
    (reference, limits): (&Reference, Limits),
    sectors: u64,
    Kind { outstanding, pattern, .. }: &Kind,
    seed: u64,
    workers: Workers,
) -> anyhow::Result<f64> {
    let (stop, extent, depth) = (workers.monitor.stop(), Extent::default(), *outstanding as usize);
    let wanted = || (Draw::new(0..sectors, chance::source("pattern", seed, 0)), pattern.clone());
    let on_host = |merges| capacity::host(host, DeviceOptions::default(), QueueSettings { merges, ..QueueSettings::default() });
    let there = serve(reference.queue(), wanted(), depth, extent, stop)?;
    let here = serve(on_host(Merges::All), wanted(), depth, extent, stop)?;
    let saturation = saturation(on_host, wanted, &here, extent, stop)?;
    Ok(saturation.need(limits.allow(&there), here.work_each()))
}

/// A pattern.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// In words.
    pub text: String,
    outstanding: u32,
    pattern: Pattern,
}

impl Kind {
    /// What a volume is asked for that always has this pattern.
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
