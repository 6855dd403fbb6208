//! Random workloads, and their fio arguments.
//!
//! They are the mixes of Table 1 of Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems"
//! ([`mixes`]): processes, share of reads, share at random, size. The paper's wait for every request; here half of those that go past the
//! page cache have several under way, as databases do, and a quarter only reads and goes through the page cache, so that reading ahead
//! matters. Nothing is written through the page cache: the kernel's threads would write it, indistinguishable from real work.

use std::fmt;

use block::StreamId;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::workload::random::{Mix, mixes};

/// Requests that each process may have under way.
const DEPTHS: [u32; 6] = [1, 1, 1, 4, 16, 32];
const KIB: u64 = 1024;
/// Sizes are whole pages, which every device can move past the page cache.
const PAGE: u64 = 4 * KIB;
/// Minimum requests that fit in a process's own part of the scratch file.
const LEAST_REQUESTS: u64 = 4;
/// What all processes together have under way at most. Whoever comes with real work waits for it, and so does the switch back to the
/// scheduler that was found: less than half a second on a hard disk.
const MOST_UNDER_WAY: u64 = 32;
const MOST_BYTES_UNDER_WAY: u64 = 16 << 20;

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    mix: Mix,
    /// Requests of each process that are under way at once.
    depth: u32,
    /// Whether it goes through the page cache. It only reads then.
    is_buffered: bool,
    /// For fio's own draws.
    seed: u64,
}

/// All workloads of a seed, one after the other.
pub fn loads(seed: u64) -> impl Iterator<Item = Load> + Send {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || {
        // Never without one: there is no end of them.
        let drawn = mixes(random.random()).next();
        let mut mix = drawn.unwrap_or(Mix { processes: 1, read_percent: 100, random_percent: 100, request_kib: 4 });
        let is_buffered = random.random_range(0..4) == 0;
        if is_buffered {
            mix.read_percent = 100;
        }
        let depth = if is_buffered { 1 } else { DEPTHS[random.random_range(0..DEPTHS.len())] };
        Load { mix, depth, is_buffered, seed: random.random_range(1..=u64::from(u32::MAX)) }
    })
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.mix.fmt(f)?;
        if self.depth > 1 {
            write!(f, ", up to {} under way for each", self.depth)?;
        }
        f.write_str(if self.is_buffered { ", through the page cache" } else { "" })
    }
}

/// Where a load may read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub begins: u64,
    /// How many bytes from there.
    pub bytes: u64,
}

impl Load {
    /// fio's arguments. The file is fio's standard input, so that there is no other that it could open; each process has its own part.
    /// Ends by itself after this many seconds.
    pub fn arguments(&self, place: Place, seconds: u64) -> Vec<String> {
        let Mix { processes, read_percent, random_percent, request_kib } = self.mix;
        let part = place.bytes / u64::from(processes.max(1)) / PAGE * PAGE;
        let request = (u64::from(request_kib) * KIB).next_multiple_of(PAGE).min(part / LEAST_REQUESTS / PAGE * PAGE).max(PAGE);
        let all = u64::from(processes.max(1));
        let depth = u64::from(self.depth).min(MOST_UNDER_WAY / all).min(MOST_BYTES_UNDER_WAY / all / request).max(1);
        let kind = match read_percent {
            100 => "randread",
            0 => "randwrite",
            _ => "randrw",
        };
        let engine = if depth > 1 { "libaio" } else { "psync" };
        let mut arguments: Vec<String> = [
            "--name=load",
            "--filename=/proc/self/fd/0",
            "--allow_file_create=0",
            "--fallocate=none",
            // Its jobs are threads of one process, which a single signal ends.
            "--thread",
            "--time_based",
            "--randrepeat=0",
            "--norandommap",
            "--eta=never",
            // Else it binds itself to one processor after the other to try their clocks, which its sandbox forbids.
            "--clocksource=clock_gettime",
        ]
        .map(str::to_owned)
        .into();
        arguments.extend([
            format!("--rw={kind}"),
            format!("--percentage_random={random_percent}"),
            format!("--bs={request}"),
            format!("--numjobs={processes}"),
            format!("--ioengine={engine}"),
            format!("--iodepth={depth}"),
            format!("--direct={}", u8::from(!self.is_buffered)),
            format!("--offset={}", place.begins),
            format!("--offset_increment={part}"),
            format!("--size={part}"),
            format!("--runtime={seconds}"),
            format!("--randseed={}", self.seed),
        ]);
        if depth > 1 {
            // Completions are matched by sectors: two requests for the same sectors at once could not be told apart.
            arguments.push("--serialize_overlap=1".to_owned());
        }
        if kind == "randrw" {
            arguments.push(format!("--rwmixread={read_percent}"));
        }
        arguments
    }
}

/// Runs one load at a time.
pub trait Generator: Send {
    /// Starts a load.
    ///
    /// # Errors
    /// It cannot be started, as a sentence.
    fn start(&mut self, load: &Load) -> Result<(), String>;

    /// Whether what this process asks is of the load.
    fn asks_as(&mut self, stream: StreamId) -> bool;

    /// Whether the load, or one that was stopped, is still there.
    ///
    /// # Errors
    /// It ended by itself, and why.
    fn is_there(&mut self) -> Result<bool, String>;

    /// Stops the load at once. What it asked may be under way for some time yet.
    fn stop(&mut self);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { begins: 1 << 20, bytes: (128 << 20) + 777 };

    fn number(arguments: &[String], name: &str) -> u64 {
        let found = arguments.iter().find_map(|argument| argument.strip_prefix(&format!("--{name}=")));
        found.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    #[test]
    fn every_process_of_every_load_stays_within_its_own_part_of_the_place() {
        for load in loads(7).take(500) {
            let arguments = load.arguments(PLACE, 60);
            let (part, request) = (number(&arguments, "size"), number(&arguments, "bs"));
            let (offset, processes) = (number(&arguments, "offset"), number(&arguments, "numjobs"));
            assert_eq!((offset, number(&arguments, "offset_increment")), (PLACE.begins, part), "{load}");
            assert!(offset + processes * part <= PLACE.begins + PLACE.bytes, "{load}: {arguments:?}");
            let under_way = processes * number(&arguments, "iodepth");
            assert!(under_way <= MOST_UNDER_WAY && under_way * request <= MOST_BYTES_UNDER_WAY, "{load}: {arguments:?}");
            assert!(request.is_multiple_of(PAGE) && part.is_multiple_of(PAGE) && request * LEAST_REQUESTS <= part, "{load}");
        }
    }

    #[test]
    fn what_goes_through_the_page_cache_never_writes() {
        let drawn: Vec<Load> = loads(3).take(500).collect();
        let is_read = |load: &&Load| load.arguments(PLACE, 60).contains(&"--rw=randread".to_owned());
        let buffered = drawn.iter().filter(|load| load.arguments(PLACE, 60).contains(&"--direct=0".to_owned()));
        assert!(buffered.clone().count() > 80 && buffered.clone().all(|load| is_read(&load)));
        assert!(drawn.iter().filter(|load| !is_read(load)).count() > 300, "most of them write");
    }

    #[test]
    fn a_seed_gives_the_same_loads_again_and_another_others() {
        let drawn = |seed| loads(seed).take(20).collect::<Vec<_>>();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
