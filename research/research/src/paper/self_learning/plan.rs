//! The plan of runs: the paper's workloads, their durations here, and batches of similar workloads.

use anyhow::{Context, ensure};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::shipped;
use testbed::world::Device;

/// Training workloads.
pub const TABLE_3: &[&str] = &[
    "sequential-reading",
    "concurrent-reading",
    "sequential-writing",
    "concurrent-writing",
    "linux-compilation",
    "http-server",
    "multimedia-server",
    "concurrent-access",
];
/// Test workloads.
pub const TABLE_4: &[&str] = &["file-reading", "file-writing", "sql-queries", "mixed-1", "mixed-2"];
/// Synthetic test workloads.
pub const TABLE_5: &[&str] = &["typical-database", "maximum-throughput", "data-streaming", "file-server", "multi-threaded-access"];
/// Stands for the day in which the paper continues training with "more real-world workloads" (section 5.2.1); none of them is a test.
pub const ONLINE: &[&str] = &[
    "youchoose/financial",
    "youchoose/open-mail",
    "youchoose/video-streaming",
    "youchoose/web-search",
    "fairio/varmail",
    "genetic/direct-io",
    "genetic/metadata",
    "genetic/random-read",
    "genetic/sequential-read",
    "genetic/sequential-write",
];

/// The disk that stands for the paper's WD2500JD: 7,200 rpm, one request at a time.
const MAIN_DISK: &str = "sata7200@1";
/// The same disk with command queueing, which the paper's did not have.
const SECOND_DISK: &str = "sata7200";

/// Seconds of the paper that a second of the built-in job files stands for: 600 s ("the application took 610 seconds to finish",
/// section 5.3.2) become 60 s.
const PAPER_SECONDS_A_SECOND: f64 = 10.0;
/// Factor by which runs are longer that compare window lengths, in the full plan: as long as the paper's.
const LONG: f64 = 10.0;

/// Workloads whose job files have a tenth of the paper's sizes, as well as a tenth of its durations.
const SIZES_OF_A_TENTH: &[&str] = &["mixed-1", "mixed-2"];

/// A workload to be run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// A workload of one of the tables.
    Of(&'static str),
    /// The same workload with other random numbers.
    Again(&'static str),
    /// The same workload at the paper's duration.
    Long(&'static str),
    /// A workload similar to one of Table 4, numbered from 0.
    Batch(u32),
    /// A workload that alternates between two kinds of load, at the paper's duration.
    Changing,
}

/// Extent of the experiments.
pub struct Plan {
    /// Duration of ordinary runs relative to the job file.
    factor: f64,
    /// Duration of runs that compare window lengths, relative to the job file.
    long_factor: f64,
    /// Repetitions of Tables 4 and 5, each with other random numbers.
    pub repeats: u32,
    /// Batches of the cross-validation.
    pub batches: u32,
    /// The main disk, then others.
    pub disks: Vec<Device>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Whether processor time is measured.
    pub measures_cpu: bool,
}

impl Plan {
    /// The full plan, or a quick one that takes minutes. Processor time is not measured.
    pub fn new(quick: bool, seed: u64) -> anyhow::Result<Plan> {
        let main = Device::parse(MAIN_DISK)?;
        Ok(if quick {
            Plan { factor: 0.35, long_factor: 0.5, repeats: 1, batches: 10, disks: vec![main], seed, measures_cpu: false }
        } else {
            let disks = vec![main, Device::parse(SECOND_DISK)?];
            // Twice, not ten times as in the paper: a whole run is to take at most 20 minutes on two processors.
            Plan { factor: 1.0, long_factor: LONG, repeats: 2, batches: 10, disks, seed, measures_cpu: false }
        })
    }

    /// A duration of the paper scaled to these runs, in milliseconds; at least 1.
    pub fn scaled_ms(&self, paper_s: f64, long: bool) -> i64 {
        let factor = if long { self.long_factor } else { self.factor };
        (paper_s * 1000.0 / PAPER_SECONDS_A_SECOND * factor).round().max(1.0) as i64
    }

    /// A number of requests of the paper scaled to these runs; at least 1.
    pub fn scaled_requests(&self, requests: u64, long: bool) -> u64 {
        let factor = if long { self.long_factor } else { self.factor };
        (requests as f64 / PAPER_SECONDS_A_SECOND * factor).round().max(1.0) as u64
    }

    /// The random seed for a repetition of a workload.
    pub fn seed_of(&self, load: &Load, repeat: u32) -> u64 {
        let seed = if matches!(load, Load::Again(_)) { !self.seed } else { self.seed };
        seed.wrapping_add(u64::from(repeat))
    }

    /// Name and text of a workload's job file.
    pub fn job_file(&self, load: &Load) -> anyhow::Result<(String, String)> {
        match load {
            Load::Of(name) | Load::Again(name) => Ok(((*name).to_owned(), lengthened(name, self.factor)?)),
            Load::Long(name) => Ok((format!("{name}-long"), lengthened(name, self.long_factor)?)),
            Load::Batch(number) => {
                let name = TABLE_4[*number as usize % TABLE_4.len()];
                let text = Variation::draw(self.seed, *number).apply(&lengthened(name, self.factor)?);
                Ok((format!("batch-{}-{name}", number + 1), text))
            }
            Load::Changing => Ok(("changing".to_owned(), changing(self.seed, 60.0 * self.long_factor))),
        }
    }

    /// Describes the batches for the reader.
    pub fn batches_text(&self) -> String {
        let one = |number: u32| {
            let Variation { sizes, counts, blocks, processes } = Variation::draw(self.seed, number);
            let name = TABLE_4[number as usize % TABLE_4.len()];
            format!("{name} with sizes ×{sizes:.2}, files ×{counts:.2}, blocks ×{blocks:.2}, processes ×{processes:.2}")
        };
        (0..self.batches).map(one).collect::<Vec<_>>().join("; ")
    }

    /// Describes the durations of the runs for the reader.
    pub fn length_text(&self) -> String {
        format!(
            "Runs of {:.0} s stand for runs of 600 s; windows and other times of the paper are shortened alike, so that its window of 60 s \
             is one of {} ms here. Figures 8 and 9 are from runs of {:.0} s, in which its 60 s are {} ms; there, sizes that a job file takes \
             to a tenth grow with the time.",
            60.0 * self.factor,
            self.scaled_ms(60.0, false),
            60.0 * self.long_factor,
            self.scaled_ms(60.0, true),
        )
    }
}

fn shipped_text(name: &str) -> anyhow::Result<String> {
    let full = if name.contains('/') { name.to_owned() } else { format!("self-learning/{name}") };
    let (text, _) = shipped::find(&full).with_context(|| format!("{full}: not a built-in workload"))?;
    ensure!(!text.is_empty(), "{full} is empty");
    Ok(text)
}

/// A built-in job file with its times multiplied by `factor` and its random numbers left to the run's seed. With a factor above 1 the sizes
/// in [`SIZES_OF_A_TENTH`] grow, too, so that the amount of work stays proportional.
fn lengthened(name: &str, factor: f64) -> anyhow::Result<String> {
    let text = shipped_text(name)?;
    let grows = factor > 1.0 && SIZES_OF_A_TENTH.contains(&name);
    let line = |line: &str| match line.split_once('=') {
        None if line == "[global]" => "[global]\nrandrepeat=0\n".to_owned(),
        Some(("runtime", value)) => match value.parse::<f64>() {
            Ok(seconds) => format!("runtime={}ms\n", (seconds * factor * 1000.0).round()),
            Err(_) => format!("{line}\n"),
        },
        Some((key @ ("size" | "filesize"), value)) if grows => match kibibytes(value) {
            Some(size) => format!("{key}={}k\n", (size as f64 * factor).round()),
            None => format!("{line}\n"),
        },
        _ => format!("{line}\n"),
    };
    Ok(text.lines().map(line).collect())
}

/// Files above this size are scaled down by [`LIVE_PART`] on a real file system.
const LARGE_KIB: u64 = 4 << 10;
const LIVE_PART: u64 = 8;

/// A workload's job file for a file system of the real kernel: each phase takes `seconds` at most, large files have an eighth of their size.
///
/// # Errors
/// There is no such workload.
pub fn live_text(name: &str, seconds: f64) -> anyhow::Result<String> {
    let smaller = |size: u64| if size > LARGE_KIB { size / LIVE_PART } else { size };
    let line = |line: &str| match line.split_once('=') {
        Some(("runtime", _)) => format!("runtime={}ms\n", (1000.0 * seconds).round()),
        Some((key @ ("size" | "filesize"), value)) => match kibibytes(value) {
            Some(size) => format!("{key}={}k\n", smaller(size)),
            None => format!("{line}\n"),
        },
        _ => format!("{line}\n"),
    };
    Ok(shipped_text(name)?.lines().map(line).collect())
}

/// Range of the phase lengths of [`Load::Changing`] as a share of the run: 20 s to 150 s of 600 s, so that windows of 10 s are much shorter
/// than a phase and windows of 300 s cover several.
const PHASE: std::ops::RangeInclusive<f64> = 0.033..=0.25;

/// Alternates concurrent reads of large files and random database queries (both kinds of Table 4), in phases of random length.
fn changing(seed: u64, seconds: f64) -> String {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xc4a6e);
    let mut text = "[global]\nioengine=psync\nrandrepeat=0\ntime_based\n".to_owned();
    let (mut left, mut number) = (seconds, 0);
    while left > 0.0 {
        let phase = (seconds * random.random_range(PHASE)).min(left);
        left = if left - phase < seconds * PHASE.start() { 0.0 } else { left - phase };
        let runtime = format!("runtime={}ms\n{}", (1000.0 * phase).round(), if number > 0 { "stonewall\n" } else { "" });
        if number % 2 == 0 {
            text += &format!("[files-{number}]\nrw=read\nbs=64k\nsize=2g\nnumjobs=8\n{runtime}");
        } else {
            text += &format!("[sql-{number}]\nrw=randrw\nrwmixread=80\nbs=16k\nfilename=tables\nsize=2g\nnumjobs=8\n{runtime}");
        }
        number += 1;
    }
    text
}

/// Parses a size as written in the built-in job files, in KiB.
fn kibibytes(value: &str) -> Option<u64> {
    let (number, unit) = value.split_at(value.len().checked_sub(1)?);
    let unit = match unit {
        "k" => 1,
        "m" => 1 << 10,
        "g" => 1 << 20,
        _ => return None,
    };
    Some(number.parse::<u64>().ok()? * unit)
}

/// Factors by which a batch differs from a workload of Table 4, each from 0.5 to 1.5.
struct Variation {
    sizes: f64,
    counts: f64,
    blocks: f64,
    processes: f64,
}

/// Files and blocks smaller than this keep their size, so that a single-block access remains one.
const SMALL_KIB: u64 = 16;

impl Variation {
    fn draw(seed: u64, number: u32) -> Variation {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ (u64::from(number) << 32) ^ 0xba7c);
        let mut draw = || random.random_range(0.5..=1.5);
        Variation { sizes: draw(), counts: draw(), blocks: draw(), processes: draw() }
    }

    /// Applied section by section: a job's size is the total of its files, so it changes with both their size and their number.
    fn apply(&self, text: &str) -> String {
        let mut out = String::new();
        let mut section: Vec<&str> = Vec::new();
        for line in text.lines() {
            if line.starts_with('[') {
                self.section(&section, &mut out);
                section.clear();
            }
            section.push(line);
        }
        self.section(&section, &mut out);
        out
    }

    fn section(&self, lines: &[&str], out: &mut String) {
        let find = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let whole = |value: u64, factor: f64| ((value as f64 * factor).round() as u64).max(1);
        let files = find("nrfiles").and_then(|value| value.parse().ok()).map(|files| whole(files, self.counts));
        let larger = |size: u64| if size < SMALL_KIB { size } else { whole(size / 4, self.sizes) * 4 };
        let file = find("filesize").and_then(kibibytes).map(larger);
        for line in lines {
            let changed = match line.split_once('=') {
                Some(("nrfiles", _)) => files.map(|files| format!("nrfiles={files}")),
                Some(("filesize", _)) => file.map(|size| format!("filesize={size}k")),
                Some(("size", value)) => match (files, file) {
                    (Some(files), Some(file)) => Some(format!("size={}k", files * file)),
                    _ => kibibytes(value).map(|size| format!("size={}k", larger(size))),
                },
                Some(("bs", value)) => {
                    let block = kibibytes(value).filter(|size| *size >= SMALL_KIB);
                    // A block must not be larger than its file.
                    let most = file.or_else(|| find("size").and_then(kibibytes).map(larger)).unwrap_or(u64::MAX);
                    let block = block.map(|size| (whole(size / 4, self.blocks) * 4).min(most.max(4)));
                    block.map(|size| format!("bs={size}k"))
                }
                Some(("numjobs", value)) => value.parse().ok().map(|jobs| format!("numjobs={}", whole(jobs, self.processes))),
                _ => None,
            };
            out.push_str(changed.as_deref().unwrap_or(line));
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use sim::workload::Workload;

    use super::*;

    #[test]
    fn every_workload_of_the_plan_is_a_job_file_of_the_wanted_length() {
        for quick in [true, false] {
            let plan = Plan::new(quick, 7).unwrap();
            let named = TABLE_3.iter().chain(TABLE_4).chain(TABLE_5).chain(ONLINE).map(|name| Load::Of(name));
            let long = TABLE_4.iter().map(|name| Load::Long(name));
            for load in named.chain(long).chain((0..10).map(Load::Batch)).chain([Load::Changing]) {
                let (name, text) = plan.job_file(&load).unwrap();
                let jobs = Workload::parse(&text, &name).unwrap();
                let longest = jobs.jobs().iter().filter_map(|job| job.options().length.runtime).max().unwrap().as_secs_f64();
                let most = 60.0 * if matches!(load, Load::Long(_)) { plan.long_factor } else { plan.factor };
                if load == Load::Changing {
                    let all: f64 = phases(&jobs).values().sum();
                    assert!((all - 60.0 * plan.long_factor).abs() < 0.033 * 60.0 * plan.long_factor, "{all} s");
                    continue;
                }
                assert!(jobs.jobs().iter().all(|job| !job.options().order.repeatable), "{name}: another seed changes nothing");
                assert!(longest <= most + 0.001 && longest >= most / 2.0 - 0.001, "{name}: {longest} s");
            }
        }
    }

    /// The duration of each phase in seconds.
    fn phases(jobs: &Workload) -> std::collections::BTreeMap<u32, f64> {
        let length = |job: &sim::workload::Job| (job.phase(), job.options().length.runtime.unwrap().as_secs_f64());
        jobs.jobs().iter().map(length).collect()
    }

    #[test]
    fn batches_of_any_seed_fit_on_the_disk_and_no_block_is_larger_than_its_file() {
        for seed in 0..40 {
            let plan = Plan::new(false, seed).unwrap();
            for number in 0..plan.batches {
                let (name, text) = plan.job_file(&Load::Batch(number)).unwrap();
                let placed = Workload::parse(&text, &name).unwrap().place(7_814_037_168, seed);
                assert!(placed.is_ok(), "seed {seed}: {}", placed.unwrap_err());
            }
        }
    }

    #[test]
    fn sizes_that_were_taken_to_a_tenth_grow_with_the_time_and_others_do_not() {
        let plan = Plan::new(false, 1).unwrap();
        let text = |load: Load| plan.job_file(&load).unwrap().1;
        assert!(text(Load::Long("mixed-2")).contains("filesize=2048000k\nsize=61440000k"), "{}", text(Load::Long("mixed-2")));
        assert!(text(Load::Long("sql-queries")).contains("size=2g"));
        assert!(text(Load::Of("mixed-2")).contains("filesize=200m\nsize=6000m"));
    }

    #[test]
    fn workloads_with_a_tenth_of_the_sizes_say_so_in_their_job_files() {
        for (name, text) in shipped::ALL {
            let Some(name) = name.strip_prefix("self-learning/") else { continue };
            assert_eq!(text.contains("a tenth of each size"), SIZES_OF_A_TENTH.contains(&name), "{name}");
        }
    }

    #[test]
    fn batches_differ_from_their_workload_and_from_each_other_and_are_the_same_again() {
        let text = |seed, number| Plan::new(true, seed).unwrap().job_file(&Load::Batch(number)).unwrap().1;
        assert_eq!(text(1, 3), text(1, 3));
        assert_ne!(text(1, 3), text(2, 3));
        assert_ne!(text(1, 3), text(1, 8));
    }

    #[test]
    fn a_window_is_as_much_shorter_as_the_run() {
        let (quick, full) = (Plan::new(true, 1).unwrap(), Plan::new(false, 1).unwrap());
        assert_eq!((full.scaled_ms(60.0, false), full.scaled_ms(60.0, true)), (6000, 60_000));
        assert_eq!((quick.scaled_ms(60.0, false), quick.scaled_ms(60.0, true)), (2100, 3000));
    }
}
