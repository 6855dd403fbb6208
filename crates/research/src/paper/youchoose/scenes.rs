//! The paper's loads: volumes that share a host, each promised a disk.

use std::sync::Arc;

use block::tenants::ConstantTime;
use block::{Merges, Nanos, Rate, Rates, Tenant};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile, load};

use super::runs::{Models, Plan};
use experiment::synthetic::asks::Drawn;
use experiment::synthetic::{Actor, Arrival, Pattern, Phase, Places, Stage};

/// What volumes are promised in sections IV.B to IV.D: two slow disks.
pub const REFERENCE: &str = "raid0:disk=barracuda,disks=2";
/// Requests outstanding where the paper says that they saturate the disks.
pub const SATURATING: u32 = 32;
/// Sectors of a volume: most of what the reference disks hold, 3.5 GiB of 3.9.
pub const VOLUME: u64 = 7 << 20;

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
pub const AT_EACH_DISK: u32 = 8;
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

/// What the paper leaves open about requests: it says only that they "arrive quickly enough to saturate the disks", and that service times
/// are those of single requests.
pub struct Depths {
    /// As the page calls it.
    pub name: &'static str,
    outstanding: u32,
    /// Requests that an array takes at once, the host's and the reference disks'; `None`: as otherwise.
    at_array: Option<fn(&Profile) -> u32>,
}

/// How that is varied in figures 6 and 8.
pub const DEPTHS: [Depths; 6] = [
    Depths { name: "1 outstanding", outstanding: 1, at_array: None },
    Depths { name: "2 outstanding", outstanding: 2, at_array: None },
    Depths { name: "8 outstanding", outstanding: 8, at_array: None },
    Depths { name: "arrays take one request for each disk", outstanding: SATURATING, at_array: Some(|array| array.disks() as u32) },
    Depths { name: "arrays take one request at a time", outstanding: SATURATING, at_array: Some(|_| 1) },
    Depths { name: "1 outstanding, arrays take one request at a time", outstanding: 1, at_array: Some(|_| 1) },
];
/// Figure 9 on hosts of more fast disks, and with one of the parts of workload 2 alone: which causes the violations?
pub const REAL_VARIED: [(&str, &str, Option<usize>); 5] = [
    ("4 fast disks", "raid0:disk=atlas10k,disks=4", None),
    ("6 fast disks", "raid0:disk=atlas10k,disks=6", None),
    ("workload 2 is OpenMail only", THREE, Some(0)),
    ("workload 2 is WebSearch only", THREE, Some(1)),
    ("workload 2 is Financial only", THREE, Some(2)),
];

/// What is run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// Figure 6, on one of [`HOSTS`].
    Localities(usize),
    /// Figure 6 on the paper's host, with one of [`DEPTHS`].
    LocalitiesIn(usize),
    /// Figure 8.
    Change,
    /// Figure 8, with one of [`DEPTHS`].
    ChangeIn(usize),
    /// Figure 9.
    Real,
    /// Figure 9 as one of [`REAL_VARIED`].
    RealIn(usize),
}

/// What of a volume's promise a scheduler understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promised {
    /// The disk, as a model that was trained on it.
    Disk,
    /// The disk, as its own shadow: no model is better.
    Shadow,
    /// The disk, as the paper models it.
    Printed,
    /// The same, with the operation as a feature.
    PrintedWithOperation,
    /// A hundred requests a second, as a disk that takes as long for each: "a special case of the RSS interface" (section V).
    Constant,
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
    pub fn stage(self, plan: &Plan) -> anyhow::Result<Stage> {
        let lengths = plan.lengths;
        let (host, loads) = match self {
            Scene::Localities(host) => (HOSTS[host].1, localities(lengths, host, SATURATING)),
            Scene::LocalitiesIn(depths) => (HOSTS[0].1, localities(lengths, 0, DEPTHS[depths].outstanding)),
            Scene::Change => (THREE, change(lengths, SATURATING)),
            Scene::ChangeIn(depths) => (THREE, change(lengths, DEPTHS[depths].outstanding)),
            Scene::Real => (THREE, real(lengths, &plan.search, None)),
            Scene::RealIn(varied) => (REAL_VARIED[varied].1, real(lengths, &plan.search, REAL_VARIED[varied].2)),
        };
        let actor = |(name, phases): (String, Vec<Phase>)| Actor { tenant: Tenant::new(name), sectors: VOLUME, phases };
        // DiskSim's driver merges nothing, and in the paper requests stay 4 KB.
        let queue = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
        let profile = load(host)?;
        let at_array = self.at_array(&profile).unwrap_or(AT_EACH_DISK * profile.disks() as u32);
        let device = DeviceOptions { queue_depth: Some(at_array), queue_policy: None };
        Ok(Stage { profile, queue, device, actors: loads.into_iter().map(actor).collect(), seed: plan.seed })
    }

    /// Requests that an array takes at once, where that is varied.
    fn at_array(self, profile: &Profile) -> Option<u32> {
        match self {
            Scene::LocalitiesIn(depths) | Scene::ChangeIn(depths) => DEPTHS[depths].at_array.map(|of| of(profile)),
            _ => None,
        }
    }

    /// How its reference disks are asked.
    pub fn reference_device(self, profile: &Profile) -> DeviceOptions {
        DeviceOptions { queue_depth: self.at_array(profile), queue_policy: None }
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
            Promised::Printed => actor.tenant.with_reference(Arc::clone(&models.printed)),
            Promised::PrintedWithOperation => actor.tenant.with_reference(Arc::clone(&models.printed_with_operation)),
            Promised::Constant => actor.tenant.with_reference(Arc::new(HUNDRED_IOPS)),
            Promised::Rate => actor.tenant.with_rates(Rates { reservation: Rate::iops(rate.round() as u64), ..Rates::default() }),
            Promised::Nothing => actor.tenant,
        };
        Actor { tenant, ..actor }
    });
    Stage { actors: actors.collect(), ..stage }
}

/// The throughput bound of sections IV.B and IV.C.
const HUNDRED_IOPS: ConstantTime = ConstantTime { request: Nanos::from_millis(10), sector: Nanos::ZERO };

/// Section IV: two reads to a write, 4 KiB.
fn local(percent: u32) -> Pattern {
    Pattern::Local { locality: f64::from(percent) / 100.0, reads: 67, sizes: &[8], places: Places::Uniform }
}

fn saturating(until: Nanos, depth: u32, pattern: Pattern) -> Phase {
    Phase { until, arrival: Arrival::Outstanding(depth), pattern }
}

fn localities(lengths: Lengths, host: usize, depth: u32) -> Vec<(String, Vec<Phase>)> {
    let is_flash = HOSTS[host].1.contains("ssd");
    let until = lengths.time(if is_flash { ON_FLASH } else { 1.0 } * SIDE_BY_SIDE_S);
    LOCALITIES.iter().map(|&percent| (format!("{percent}%"), vec![saturating(until, depth, local(percent))])).collect()
}

fn change(lengths: Lengths, depth: u32) -> Vec<(String, Vec<Phase>)> {
    let [first, second, other, last] = CHANGES_S.map(|seconds| lengths.time(seconds));
    let saturating = |until, pattern| saturating(until, depth, pattern);
    let changing = vec![saturating(first, local(100)), saturating(second, local(75)), saturating(last, local(0))];
    vec![("workload 1".to_owned(), changing), ("workload 2".to_owned(), vec![saturating(other, local(75))])]
}

/// Stand-ins with the figures of the job files `youchoose/…`; arrivals of those that the paper shows limited by the disk saturate it. `only`:
/// workload 2 is this one of its parts all the time.
fn real(lengths: Lengths, search: &Pattern, only: Option<usize>) -> Vec<(String, Vec<Phase>)> {
    let [first, second, other, _] = CHANGES_S.map(|seconds| lengths.time(seconds));
    let financial = Phase { until: other, arrival: Arrival::AtRandom(Nanos::from_micros(133_500)), pattern: financial() };
    let saturating = |until, pattern| saturating(until, SATURATING, pattern);
    let mut changing = vec![saturating(first, open_mail()), saturating(second, another_segment(search)), financial];
    if let Some(only) = only {
        changing = vec![Phase { until: other, ..changing.swap_remove(only) }];
    }
    vec![("workload 1".to_owned(), vec![saturating(other, search.clone())]), ("workload 2".to_owned(), changing)]
}

/// Another segment of a trace: its second half, and then its first. What is drawn differs by itself.
fn another_segment(pattern: &Pattern) -> Pattern {
    let Pattern::Recorded(drawn) = pattern else { return pattern.clone() };
    let mut drawn: Vec<Drawn> = drawn.to_vec();
    let half = drawn.len() / 2;
    drawn.rotate_left(half);
    Pattern::Recorded(drawn.into())
}

/// A search engine: random reads of 8 to 32 KiB, some places more popular than others, one in seven going on where the last ended.
pub fn web_search() -> Pattern {
    Pattern::Local { locality: 0.14, reads: 99, sizes: &[16, 16, 16, 32, 32, 32, 64], places: Places::Zipf }
}

pub fn open_mail() -> Pattern {
    Pattern::Local { locality: 0.05, reads: 67, sizes: &[8, 8, 8, 16, 16, 16, 16, 16, 16, 32], places: Places::Zipf }
}

/// Films in order, in reads of 64 KiB.
pub fn video_streaming() -> Pattern {
    Pattern::InOrder(128)
}

pub fn financial() -> Pattern {
    Pattern::Local { locality: 0.02, reads: 9, sizes: &[4, 8, 8, 8, 16], places: Places::Zipf }
}
