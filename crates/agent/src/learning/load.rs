//! Random workloads, and their fio arguments.
//!
//! They are the mixes of Table 1 of Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems"
//! ([`mixes`]): processes, share of reads, share at random, size. The paper's processes wait for each request; here half of the direct
//! loads have several requests outstanding, as databases do, and a quarter of all loads only reads and uses the page cache, so that
//! read-ahead has an effect. No load writes through the page cache: kernel threads would write it, indistinguishable from foreign I/O.

use std::fmt;

use block::StreamId;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::workload::random::{Mix, mixes};

/// Queue depths of a process to draw from. Choice: half wait for each request, the others cover a queue of NCQ (32); not varied.
const DEPTHS: [u32; 6] = [1, 1, 1, 4, 16, 32];
/// Bytes in a KiB. Derived: 2¹⁰ bytes.
const KIB: u64 = 1024;
/// Request sizes are whole pages, which every device supports for direct I/O. Source: the page size of x86-64.
const PAGE: u64 = 4 * KIB;
/// Minimum requests that fit in a process's own part of the scratch file. Choice: fewer have no places to differ, more limit large
/// requests; not varied.
const MIN_REQUESTS: u64 = 4;
/// Maximum requests outstanding in total. Foreign I/O waits for them, and so does the switch back to the original scheduler: less than half
/// a second on a hard disk. Choice: the queue of NCQ; more delay foreign I/O; not varied.
const MAX_OUTSTANDING: u64 = 32;
/// Maximum bytes outstanding in total. Choice: as [`MAX_OUTSTANDING`], at 512 KiB each; not varied.
const MAX_OUTSTANDING_BYTES: u64 = 16 << 20;

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    mix: Mix,
    /// Queue depth of each process.
    depth: u32,
    /// Whether it uses the page cache. If so, it only reads.
    is_buffered: bool,
    /// fio's `--randseed`.
    seed: u64,
}

/// The endless sequence of workloads for this seed.
pub fn loads(seed: u64) -> impl Iterator<Item = Load> + Send {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || {
        // Never empty: the sequence is endless.
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
            write!(f, ", queue depth {}", self.depth)?;
        }
        f.write_str(if self.is_buffered { ", through the page cache" } else { "" })
    }
}

/// Where a load may read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub begins: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl Load {
    /// Whether it uses the page cache.
    pub fn is_buffered(&self) -> bool {
        self.is_buffered
    }

    /// fio's arguments for a run of this many seconds. The file is fio's standard input, so that it opens no other; each process has its
    /// own part.
    pub fn arguments(&self, place: Place, seconds: u64) -> Vec<String> {
        let Mix { processes, read_percent, random_percent, request_kib } = self.mix;
        let part = place.bytes / u64::from(processes.max(1)) / PAGE * PAGE;
        let request = (u64::from(request_kib) * KIB).next_multiple_of(PAGE).min(part / MIN_REQUESTS / PAGE * PAGE).max(PAGE);
        let all = u64::from(processes.max(1));
        let depth = u64::from(self.depth).min(MAX_OUTSTANDING / all).min(MAX_OUTSTANDING_BYTES / all / request).max(1);
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
            // Jobs as threads of one process, which one signal stops.
            "--thread",
            "--time_based",
            "--randrepeat=0",
            "--norandommap",
            "--eta=never",
            // By default fio pins itself to each processor to calibrate clocks, which the sandbox forbids.
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
    /// It cannot be started: the message.
    fn start(&mut self, load: &Load) -> Result<(), String>;

    /// Whether this process or thread belongs to the load.
    fn asks_as(&mut self, stream: StreamId) -> bool;

    /// Whether the load is running, or is stopping.
    ///
    /// # Errors
    /// It exited unexpectedly: the message.
    fn is_there(&mut self) -> Result<bool, String>;

    /// Drops the file from the page cache, so that a load through it keeps reading from the device. Called several times a second.
    fn forget_cached(&mut self) {}

    /// Stops the load without waiting: its outstanding requests may still complete later.
    fn stop(&mut self);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a device that these tests use. Choice: neither at the beginning nor of a round size, so that wrong arithmetic shows;
    /// not varied.
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
            let outstanding = processes * number(&arguments, "iodepth");
            assert!(outstanding <= MAX_OUTSTANDING && outstanding * request <= MAX_OUTSTANDING_BYTES, "{load}: {arguments:?}");
            assert!(request.is_multiple_of(PAGE) && part.is_multiple_of(PAGE) && request * MIN_REQUESTS <= part, "{load}");
        }
    }

    #[test]
    fn loads_through_the_page_cache_never_write() {
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
