//! The paper's workloads: volumes that share a host, each guaranteed the performance of a reference disk.

use block::{Merges, Nanos, Tenant};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile, load};
use testbed::synthetic::Drawn;
use testbed::synthetic::{Arrival, Pattern, Phase, Places};

use crate::stage::{Actor, Stage};

/// The reference disk of sections IV.B to IV.D: two slow disks.
pub const REFERENCE: &str = "raid0:disk=barracuda,disks=2";
/// Outstanding requests where the paper says that they saturate the disks.
pub const SATURATING: u32 = 32;
/// Sectors per volume: most of the reference disks' capacity, 3.5 of 3.9 GiB.
pub const VOLUME: u64 = 7 << 20;

/// Percentages of requests that start where the previous one ended (section IV.B).
pub const LOCALITIES: [u32; 5] = [0, 25, 50, 75, 100];

/// Hosts: the name on the page, and the array.
pub const HOSTS: [(&str, &str); 4] = [
    ("RAID 0", "raid0:disk=atlas10k,disks=8"),
    ("RAID 1", "raid10:disk=atlas10k,disks=12"),
    ("RAID 5", "raid5:disk=atlas10k,disks=16"),
    ("flash", "raid0:disk=ssd-dftl,disks=6"),
];
/// Queue depth per disk of a host: each has a queue of its own, "at a lower level" (Fig. 4), so that no disk idles while a few requests all go
/// to others. The reference disks get one request each, by C-LOOK.
pub const AT_EACH_DISK: u32 = 8;
/// The host of section IV.C.
const THREE: &str = "raid0:disk=atlas10k,disks=3";

/// Section IV.C, in seconds: when workload 1 changes, and again; when workload 2 ends; when workload 1 ends (figure 8).
const CHANGES_S: [f64; 4] = [28.0, 81.0, 165.0, 185.0];
/// Duration of a quick run relative to a full one.
const QUICK: f64 = 0.2;
/// Duration for which volumes of different locality run together.
const SIDE_BY_SIDE_S: f64 = 60.0;
/// Relative duration on flash, which serves a hundred times as many requests as guaranteed, so that shorter runs are as accurate.
const ON_FLASH: f64 = 0.1;

/// Request depths, which the paper leaves open: it says only that requests "arrive quickly enough to saturate the disks", and that service
/// times are those of single requests.
pub struct Depths {
    /// The name on the page.
    pub name: &'static str,
    outstanding: u32,
    /// Queue depth of the host's array and of the reference disks; `None` for the defaults.
    at_array: Option<fn(&Profile) -> u32>,
}

/// Variations of figures 6 and 8.
pub const DEPTHS: [Depths; 6] = [
    Depths { name: "1 outstanding", outstanding: 1, at_array: None },
    Depths { name: "2 outstanding", outstanding: 2, at_array: None },
    Depths { name: "8 outstanding", outstanding: 8, at_array: None },
    Depths { name: "arrays take one request for each disk", outstanding: SATURATING, at_array: Some(|array| array.disks() as u32) },
    Depths { name: "arrays take one request at a time", outstanding: SATURATING, at_array: Some(|_| 1) },
    Depths { name: "1 outstanding, arrays take one request at a time", outstanding: 1, at_array: Some(|_| 1) },
];
/// Figure 9 on hosts with more fast disks, and with only one part of workload 2: which one causes the violations?
pub const REAL_VARIED: [(&str, &str, Option<usize>); 5] = [
    ("4 fast disks", "raid0:disk=atlas10k,disks=4", None),
    ("6 fast disks", "raid0:disk=atlas10k,disks=6", None),
    ("workload 2 is OpenMail only", THREE, Some(0)),
    ("workload 2 is WebSearch only", THREE, Some(1)),
    ("workload 2 is Financial only", THREE, Some(2)),
];

/// Volumes that run together on a host.
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

/// Durations relative to the paper's.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    factor: f64,
}

impl Lengths {
    /// The paper's durations, or a fifth of them.
    pub fn new(is_quick: bool) -> Lengths {
        Lengths { factor: if is_quick { QUICK } else { 1.0 } }
    }

    fn time(self, seconds: f64) -> Nanos {
        Nanos((seconds * self.factor * 1e9).round() as u64)
    }

    /// Ends of the parts of figures 8 and 9, in seconds: workload 1 or 2 changes; changes again; the second ends; all end.
    pub fn parts_s(self) -> [f64; 4] {
        CHANGES_S.map(|seconds| self.time(seconds).as_secs_f64())
    }
}

/// Extent of the experiments.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Durations.
    pub lengths: Lengths,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The requests of WebSearch, or of its stand-in.
    pub search: Pattern,
}

impl Scene {
    /// The host and its volumes, without guarantees.
    ///
    /// # Errors
    /// None for the built-in devices.
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
        // DiskSim's driver does not merge, and in the paper requests stay 4 KB.
        let queue = QueueSettings { merges: Merges::Never, ..QueueSettings::default() };
        let profile = load(host)?;
        let at_array = self.at_array(&profile).unwrap_or(AT_EACH_DISK * profile.disks() as u32);
        let device = DeviceOptions { queue_depth: Some(at_array), queue_policy: None };
        Ok(Stage { profile, queue, device, actors: loads.into_iter().map(actor).collect(), seed: plan.seed })
    }

    /// Queue depth of the array, if the scene varies it.
    fn at_array(self, profile: &Profile) -> Option<u32> {
        match self {
            Scene::LocalitiesIn(depths) | Scene::ChangeIn(depths) => DEPTHS[depths].at_array.map(|of| of(profile)),
            _ => None,
        }
    }

    /// Options of the reference disks in this scene.
    pub fn reference_device(self, profile: &Profile) -> DeviceOptions {
        DeviceOptions { queue_depth: self.at_array(profile), queue_policy: None }
    }

    /// The profile of the reference disks.
    ///
    /// # Errors
    /// None for the built-in devices.
    pub fn reference() -> anyhow::Result<Profile> {
        Ok(load(REFERENCE)?)
    }
}

/// Section IV: two reads per write, 4 KiB.
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

/// Stand-ins with the parameters of the job files `youchoose/…`; workloads that the paper shows limited by the disk saturate it here.
/// `only`: workload 2 consists of this one of its parts throughout.
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

/// Another segment of a trace: its two halves swapped. Generated requests differ anyway.
fn another_segment(pattern: &Pattern) -> Pattern {
    let Pattern::Recorded(drawn) = pattern else { return pattern.clone() };
    let mut drawn: Vec<Drawn> = drawn.to_vec();
    let half = drawn.len() / 2;
    drawn.rotate_left(half);
    Pattern::Recorded(drawn.into())
}

/// A search engine: random reads of 8 to 32 KiB with skewed popularity, one in seven continuing where the last ended.
pub fn web_search() -> Pattern {
    Pattern::Local { locality: 0.14, reads: 99, sizes: &[16, 16, 16, 32, 32, 32, 64], places: Places::Zipf }
}

pub fn open_mail() -> Pattern {
    Pattern::Local { locality: 0.05, reads: 67, sizes: &[8, 8, 8, 16, 16, 16, 16, 16, 16, 32], places: Places::Zipf }
}

/// Films read sequentially, in requests of 64 KiB.
pub fn video_streaming() -> Pattern {
    Pattern::InOrder(128)
}

pub fn financial() -> Pattern {
    Pattern::Local { locality: 0.02, reads: 9, sizes: &[4, 8, 8, 8, 16], places: Places::Zipf }
}
