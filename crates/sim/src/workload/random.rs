//! Random mixes of disk access, drawn as in IOPerf.
//!
//! Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems", describe an access pattern by four
//! parameters (section 4) within the ranges of table 1, train on random patterns and test on a thousand others (section 6).
//!
//! ```text
//!  processes      3 bits   1 to 8        numjobs
//!  % of reads     7 bits   0 to 100      rwmixread
//!  % at random    7 bits   0 to 100      percentage_random
//!  request size  11 bits   0 to 2047     bs, in KiB
//! ```
//! The table gives no unit for the size. We use KiB: tiobench and IOzone, which the paper uses, could not issue most sizes in
//! sectors or bytes. Size 0 is not drawn.

use std::fmt::{self, Write as _};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Limit on mixes in one job file: fio starts at most 4,096 processes, and a mix has up to eight.
pub const MAX_MIXES: u32 = 512;

/// Size of each process's own part of the file that all mixes share.
const PART_MIB: u32 = 256;
const MAX_PROCESSES: u32 = 8;

/// One random mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Number of processes that issue requests concurrently: 1 to 8.
    pub processes: u32,
    /// Share of reads among the requests, in percent.
    pub read_percent: u32,
    /// Share of requests that are not sequential within the process, in percent.
    pub random_percent: u32,
    /// Size of a request in KiB: 1 to 2,047.
    pub request_kib: u32,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mix { processes, read_percent, random_percent, request_kib } = self;
        let plural = if *processes == 1 { "" } else { "es" };
        write!(f, "{processes} process{plural}, {read_percent}% reads, {random_percent}% at random, {request_kib} KiB")
    }
}

/// The infinite sequence of mixes for a seed: every parameter is drawn uniformly from its range, independently of the others.
pub fn mixes(seed: u64) -> impl Iterator<Item = Mix> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || Mix {
        processes: random.random_range(1..=MAX_PROCESSES),
        read_percent: random.random_range(0..=100),
        random_percent: random.random_range(0..=100),
        request_kib: random.random_range(1..=2047),
    })
}

/// The first `count` mixes of a seed, at most [`MAX_MIXES`], as an fio job file that runs them one after another for `seconds`
/// each. The paper runs a mix for 30 s in training and 300 s in tests.
pub fn job_file(seed: u64, count: u32, seconds: u32) -> String {
    let drawn: Vec<Mix> = mixes(seed).take(count.min(MAX_MIXES) as usize).collect();
    let summary = match drawn.as_slice() {
        [mix] => mix.to_string(),
        several => format!("{} random mixes of disk access, one after another", several.len()),
    };
    let mut text = head(&summary, seed, count, seconds);
    for (number, mix) in drawn.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = section(&mut text, number, *mix);
    }
    text
}

fn head(summary: &str, seed: u64, count: u32, seconds: u32) -> String {
    format!(
        "# {summary}
# From: Santos and others, Self-Tuning of Disk Input-Output in Operating Systems; Table 1
#
# Given: the ranges that the four parameters are drawn from.
# Assumed: the request size is in KiB; each process has {PART_MIB} MiB of one file to itself, through the page cache.
# Written by: seekwise workload random --seed {seed} --count {count} --seconds {seconds}

[global]
ioengine=psync
rw=randrw
filename=mixes
size={PART_MIB}m
offset_increment={PART_MIB}m
time_based
runtime={seconds}
"
    )
}

fn section(text: &mut String, number: usize, mix: Mix) -> fmt::Result {
    let stonewall = if number == 0 { "" } else { "stonewall\n" };
    writeln!(
        text,
        "\n[mix-{}]\n{stonewall}numjobs={}\nrwmixread={}\npercentage_random={}\nbs={}k",
        number + 1,
        mix.processes,
        mix.read_percent,
        mix.random_percent,
        mix.request_kib,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_table_1_are_used_to_their_ends_and_evenly() {
        let drawn: Vec<Mix> = mixes(1).take(40_000).collect();
        let check = |parameter: fn(&Mix) -> u32, from: u32, to: u32| {
            let values: Vec<u32> = drawn.iter().map(parameter).collect();
            assert_eq!((values.iter().min(), values.iter().max()), (Some(&from), Some(&to)));
            let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64;
            let (middle, width) = (f64::from(from + to) / 2.0, f64::from(to - from + 1));
            // The standard error of the mean is width / sqrt(12 n); five of them.
            assert!((mean - middle).abs() < 5.0 * width / (12.0 * values.len() as f64).sqrt(), "{mean} is far from {middle}");
        };
        check(|mix| mix.processes, 1, 8);
        check(|mix| mix.read_percent, 0, 100);
        check(|mix| mix.random_percent, 0, 100);
        check(|mix| mix.request_kib, 1, 2047);
    }

    #[test]
    fn a_seed_gives_the_same_file_again_and_another_seed_another() {
        assert_eq!(job_file(7, 5, 30), job_file(7, 5, 30));
        assert_ne!(job_file(7, 5, 30), job_file(8, 5, 30));
    }

    #[test]
    fn a_longer_file_begins_with_the_mixes_of_a_shorter_one() {
        let sections = |count| job_file(7, count, 30).split_once("[mix-1]").unwrap().1.to_owned();
        assert!(sections(9).starts_with(&sections(4)));
    }

    #[test]
    fn more_mixes_than_fio_can_start_are_not_written() {
        assert_eq!(job_file(1, u32::MAX, 30).matches("\n[mix-").count(), MAX_MIXES as usize);
    }
}
