//! The paper's loads: volumes that share a host, each promised a disk.

use std::sync::Arc;

use block::{Merges, Nanos, Rate, Rates, Tenant};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile, load};

use super::runs::Models;
use experiment::synthetic::{Actor, Arrival, Pattern, Phase, Places, Stage};

/// What volumes are promised in sections IV.B to IV.D: two slow disks.
pub const REFERENCE: &str = "raid0:disk=barracuda,disks=2";
/// Requests outstanding where the paper says that they saturate the disks.
const SATURATING: u32 = 32;
/// Sectors of a volume: most of what the reference disks hold, 3.5 GiB of 3.9.
const VOLUME: u64 = 7 << 20;

/// Percent of requests that begin where the one before ended (section IV.B).
pub const LOCALITIES: [u32; 5] = [0, 25, 50, 75, 100];

/// A host, as the page calls it, and its array.
pub const HOSTS: [(&str, &str); 4] = [
    ("RAID 0", "raid0:disk=atlas10k,disks=8"),
    ("RAID 1", "raid10:disk=atlas10k,disks=12"),
    ("RAID 5", "raid5:disk=atlas10k,disks=16"),
    ("flash", "raid0:disk=ssd-dftl,disks=6"),
];
/// Each disk of a host has a queue of its own, "at a lower level" (Fig. 4), so that none stands idle where all of a few requests are for
/// others. The reference disks are given one request each, by C-LOOK.
const AT_EACH_DISK: u32 = 8;
/// The host of section IV.C.
const THREE: &str = "raid0:disk=atlas10k,disks=3";

/// Section IV.C: workload 1 changes after this many seconds, and again; workload 2 is over, then 1 (figure 8).
const CHANGES_S: [f64; 4] = [28.0, 81.0, 165.0, 185.0];
/// Parts of a quick run.
const QUICK: f64 = 0.2;
/// How long volumes of different locality run side by side.
const SIDE_BY_SIDE_S: f64 = 60.0;
/// Flash serves a hundred times as many requests as they were promised, so that less of it tells as much.
const ON_FLASH: f64 = 0.1;

/// What is run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// Figure 6, on one of [`HOSTS`].
    Localities(usize),
    /// Figure 8.
    Change,
    /// Figure 9.
    Real,
}

/// What of a volume's promise a scheduler understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// The disk, as a model that was trained on it.
    Disk,
    /// The disk, as its own shadow: no model is better.
    Shadow,
    /// As many requests a second as the volume has on that disk, which has to be known before.
    Rate,
    /// That all are alike.
    Nothing,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    factor: f64,
}

impl Lengths {
    /// The paper's, or a fifth of them.
    pub fn new(is_quick: bool) -> Lengths {
        Lengths { factor: if is_quick { QUICK } else { 1.0 } }
    }

    fn time(self, seconds: f64) -> Nanos {
        Nanos((seconds * self.factor * 1e9).round() as u64)
    }

    /// When the parts of figures 8 and 9 end, in seconds: workload 1 or 2 changes, and again; the second is over; all is.
    pub fn parts_s(self) -> [f64; 4] {
        CHANGES_S.map(|seconds| self.time(seconds).as_secs_f64())
    }
}

impl Scene {
    /// Its volumes, to which nothing is promised yet, on their host.
    ///
    /// # Errors
    /// Never, for devices that come with the program.
    pub fn stage(self, lengths: Lengths, seed: u64) -> anyhow::Result<Stage> {
        let (host, loads) = match self {
            Scene::Localities(host) => (HOSTS[host].1, localities(lengths, host)),
            Scene::Change => (THREE, change(lengths)),
            Scene::Real => (THREE, real(lengths)),
        };
        let actor = |(name, phases): (String, Vec<Phase>)| Actor { tenant: Tenant::new(name), sectors: VOLUME, phases };
        // DiskSim's driver merges nothing, and in the paper requests stay 4 KB.
        let queue = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
        let profile = load(host)?;
        let device = DeviceOptions { queue_depth: Some(AT_EACH_DISK * profile.disks() as u32), queue_policy: None };
        Ok(Stage { profile, queue, device, actors: loads.into_iter().map(actor).collect(), seed })
    }

    /// The reference disks of its volumes.
    ///
    /// # Errors
    /// Never, for devices that come with the program.
    pub fn reference() -> anyhow::Result<Profile> {
        Ok(load(REFERENCE)?)
    }
}

/// A stage whose volumes are promised a disk, or rates.
pub fn promised(stage: Stage, promised: Promised, models: &Models, rates: &[f64]) -> Stage {
    let actors = stage.actors.into_iter().zip(rates).map(|(actor, rate)| {
        let tenant = match promised {
            Promised::Disk => actor.tenant.with_reference(Arc::clone(&models.trained)),
            Promised::Shadow => actor.tenant.with_reference(Arc::clone(&models.shadow)),
            Promised::Rate => actor.tenant.with_rates(Rates { reservation: Rate::iops(rate.round() as u64), ..Rates::default() }),
            Promised::Nothing => actor.tenant,
        };
        Actor { tenant, ..actor }
    });
    Stage { actors: actors.collect(), ..stage }
}

/// Section IV: two reads to a write, 4 KiB.
fn local(percent: u32) -> Pattern {
    Pattern::Local { locality: f64::from(percent) / 100.0, reads: 67, sizes: &[8], places: Places::Uniform }
}

fn saturating(until: Nanos, pattern: Pattern) -> Phase {
    Phase { until, arrival: Arrival::Outstanding(SATURATING), pattern }
}

fn localities(lengths: Lengths, host: usize) -> Vec<(String, Vec<Phase>)> {
    let is_flash = HOSTS[host].1.contains("ssd");
    let until = lengths.time(if is_flash { ON_FLASH } else { 1.0 } * SIDE_BY_SIDE_S);
    LOCALITIES.iter().map(|&percent| (format!("{percent}%"), vec![saturating(until, local(percent))])).collect()
}

fn change(lengths: Lengths) -> Vec<(String, Vec<Phase>)> {
    let [first, second, other, last] = CHANGES_S.map(|seconds| lengths.time(seconds));
    let changing = vec![saturating(first, local(100)), saturating(second, local(75)), saturating(last, local(0))];
    vec![("workload 1".to_owned(), changing), ("workload 2".to_owned(), vec![saturating(other, local(75))])]
}

/// Stand-ins with the figures of the job files `youchoose/…`; arrivals of those that the paper shows limited by the disk saturate it.
fn real(lengths: Lengths) -> Vec<(String, Vec<Phase>)> {
    let [first, second, other, _] = CHANGES_S.map(|seconds| lengths.time(seconds));
    let financial = Phase { until: other, arrival: Arrival::AtRandom(Nanos::from_micros(133_500)), pattern: financial() };
    let changing = vec![saturating(first, open_mail()), saturating(second, web_search()), financial];
    vec![("workload 1".to_owned(), vec![saturating(other, web_search())]), ("workload 2".to_owned(), changing)]
}

/// A search engine: random reads of 8 to 32 KiB, some places more popular than others, one in seven going on where the last ended.
pub fn web_search() -> Pattern {
    Pattern::Local { locality: 0.14, reads: 99, sizes: &[16, 16, 16, 32, 32, 32, 64], places: Places::Zipf }
}

fn open_mail() -> Pattern {
    Pattern::Local { locality: 0.05, reads: 67, sizes: &[8, 8, 8, 16, 16, 16, 16, 16, 16, 32], places: Places::Zipf }
}

fn financial() -> Pattern {
    Pattern::Local { locality: 0.02, reads: 9, sizes: &[4, 8, 8, 8, 16], places: Places::Zipf }
}
