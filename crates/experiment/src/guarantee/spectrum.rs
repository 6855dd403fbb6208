//! Of all that can be asked of a reference disk, what is hardest for the host.

use std::num::NonZeroU64;

use crate::planner::{Basis, Rules, Survey, Volume};
use block::Nanos;
use sim::profile::Profile;

use crate::placement::{Asks, Cluster, ClusterArray, ClusterVolume, size};
use crate::pool::Workers;
use crate::synthetic::asks::{Pattern, Places};
use crate::tenants::Reference;

/// The spectrum of locality, size, operation and depth (as the training load of section III.A covers it).
const LOCALITIES: [f64; 4] = [0.0, 0.5, 0.9, 1.0];
const SIZES_KIB: [i64; 3] = [4, 64, 1024];
const READS: [u32; 3] = [100, 67, 0];
const OUTSTANDING: [u32; 2] = [1, 32];

/// How long each is sampled.
const SAMPLE: Nanos = Nanos::from_millis(1_000);

/// The worst of all patterns.
#[derive(Clone, Debug)]
pub(super) struct Worst {
    /// The part of the host's time that it takes to do what the reference disk does.
    pub demand: f64,
    /// The same of the pattern that is easiest.
    pub least: f64,
    /// The pattern.
    pub asks: Asks,
    /// The same in words.
    pub text: String,
}

/// What a tenant may have at most, each second of its reference disk's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Requests.
    pub iops: Option<NonZeroU64>,
    /// Bytes.
    pub bytes_per_s: Option<NonZeroU64>,
}

impl Limits {
    /// The part that they allow of what the reference disk does of these requests.
    fn part_allowed(self, volume: &Volume) -> f64 {
        let requests = volume.samples.iter().flat_map(|sample| &sample.requests);
        let (mut busy, mut count, mut bytes) = (Nanos::ZERO, 0, 0);
        for sampled in requests {
            busy += sampled.reference;
            count += 1;
            bytes += 512 * u64::from(sampled.request.sectors);
        }
        let part = |limit: Option<NonZeroU64>, done: u64| match limit {
            Some(limit) if done > 0 => u64::from(limit) as f64 * busy.as_secs_f64() / done as f64,
            _ => 1.0,
        };
        part(self.iops, count).min(part(self.bytes_per_s, bytes)).min(1.0)
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
    let volumes = patterns.iter().map(|(text, asks)| ClusterVolume {
        name: text.clone(),
        sectors,
        reference: Some(reference.clone()),
        asks: asks.clone(),
        on: None,
    });
    let array = ClusterArray { name: host.name().to_owned(), profile: host.clone(), capacity: 1.0 };
    let cluster = Cluster { arrays: vec![array], volumes: volumes.collect(), seed };
    let rules = Rules { basis: Basis::Reference, ..Rules::default() };
    let volumes = cluster.samples((1, SAMPLE), workers)?;
    let survey = Survey::new(&cluster.planned(), &volumes, rules);
    let demands: Vec<f64> =
        volumes.iter().enumerate().map(|(pattern, volume)| survey.demand(0, pattern) * limits.part_allowed(volume)).collect();
    let hardest = (0..demands.len()).max_by(|one, other| demands[*one].total_cmp(&demands[*other])).unwrap_or(0);
    let easiest = demands.iter().copied().fold(f64::INFINITY, f64::min);
    let (text, asks) = patterns[hardest].clone();
    Ok(Worst { demand: demands[hardest], least: easiest, asks, text })
}

fn patterns() -> anyhow::Result<Vec<(String, Asks)>> {
    let mut patterns = Vec::new();
    for locality in LOCALITIES {
        for kib in SIZES_KIB {
            for reads in READS {
                for outstanding in OUTSTANDING {
                    let pattern = Pattern::Local { locality, reads, sizes: size(kib)?, places: Places::Uniform };
                    patterns.push((words(locality, kib, reads, outstanding), Asks::always(outstanding, pattern)));
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
