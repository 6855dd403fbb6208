//! Composes programs into a job file: assigns files and names to each program, and keeps the total within the machine's limits.
//!
//! A family describes its jobs with the desired sizes and rates; [`Composer::finish`] then shrinks files if the total exceeds the allowed
//! share of the device, and limits the rate on flash so that the simulation is feasible.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance;

use super::{Drawn, Scope};

/// Maximum share of the device's capacity for all files. The file system needs some of the rest, and seeks need distance.
const MOST_OF_CAPACITY: f64 = 0.65;

/// Maximum requests per second of all jobs on flash: some 300,000 requests per minute.
const FLASH_REQUESTS_PER_SECOND: f64 = 5_000.0;

/// I/Os larger than this become several requests: read-ahead's window.
const BYTES_PER_REQUEST: f64 = 131_072.0;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// Adds the jobs of one program, or of several related ones.
pub(super) type Add = fn(&mut Composer);

/// Identity of shared files: their name and program; of private ones: an empty name and the number of the job.
type Group = (&'static str, usize);

/// Files of a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files {
    /// One file of this many bytes per process.
    Own(u64),
    /// One file shared by all processes, and by other jobs of the same program with the same name.
    Shared(&'static str, u64),
    /// Number of files per process, and their minimum and maximum size in bytes.
    Many(u32, u64, u64),
}

/// Request rate of each process of a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// Closed loop without think time.
    Closed,
    /// I/Os per second at a constant rate.
    Rate(f64),
    /// I/Os per second with independent arrivals. Only for a job with one block size, as fio derives the rate from the smallest.
    Poisson(f64),
    /// Think time in milliseconds (second) after this number of I/Os (first).
    Think(u32, f64),
}

/// A section of the job file.
#[derive(Clone, Debug)]
pub(super) struct Job {
    name: &'static str,
    pattern: &'static str,
    files: Files,
    directory: Option<String>,
    mix_read: u8,
    sizes: Vec<(u64, u8)>,
    processes: u32,
    pace: Pace,
    options: Vec<String>,
    /// Index of the program in the load.
    program: u32,
    begins_ms: u64,
    lasts_ms: u64,
}

impl Job {
    /// A process with access pattern `pattern` (fio's `rw`) in blocks of 4 KiB on `files`.
    pub(super) fn new(name: &'static str, pattern: &'static str, files: Files) -> Job {
        Job {
            name,
            pattern,
            files,
            directory: None,
            mix_read: 50,
            sizes: vec![(4 * KIB, 100)],
            processes: 1,
            pace: Pace::Closed,
            options: Vec::new(),
            program: 0,
            begins_ms: 0,
            lasts_ms: 0,
        }
    }

    /// Percentage of reads in a mixed pattern.
    pub(super) fn mix_read(self, mix_read: u8) -> Job {
        Job { mix_read, ..self }
    }

    /// Bytes of each I/O.
    pub(super) fn block(self, bytes: u64) -> Job {
        Job { sizes: vec![(bytes, 100)], ..self }
    }

    /// Sizes of I/Os in bytes, each with its percentage; these must add up to 100.
    pub(super) fn blocks(self, sizes: &[(u64, u8)]) -> Job {
        Job { sizes: sizes.to_vec(), ..self }
    }

    /// Number of processes.
    pub(super) fn processes(self, processes: u32) -> Job {
        Job { processes, ..self }
    }

    /// Request rate.
    pub(super) fn pace(self, pace: Pace) -> Job {
        Job { pace, ..self }
    }

    /// Places its files together somewhere on the device; by default they are at the device's beginning.
    pub(super) fn directory(self, name: impl Into<String>) -> Job {
        Job { directory: Some(name.into()), ..self }
    }

    /// Sets another option of fio.
    pub(super) fn set(mut self, key: &str, value: impl std::fmt::Display) -> Job {
        self.options.push(format!("{key}={value}"));
        self
    }

    /// Direct I/O if `direct`.
    pub(super) fn direct(self, direct: bool) -> Job {
        if direct { self.set("direct", 1) } else { self }
    }

    /// Asynchronous direct I/O with this queue depth.
    pub(super) fn depth(self, depth: u32) -> Job {
        self.set("ioengine", "libaio").direct(true).set("iodepth", depth)
    }

    fn read_share(&self) -> f64 {
        match self.pattern.split(':').next().unwrap_or("") {
            "read" | "randread" => 1.0,
            "write" | "randwrite" => 0.0,
            _ => f64::from(self.mix_read) / 100.0,
        }
    }

    fn mean_bytes(&self) -> f64 {
        self.sizes.iter().map(|&(bytes, share)| bytes as f64 * f64::from(share) / 100.0).sum()
    }

    /// Approximate number of requests per I/O.
    fn requests_per_io(&self) -> f64 {
        (self.mean_bytes() / BYTES_PER_REQUEST).max(1.0)
    }

    /// Maximum requests per second of all its processes; `None` if only the device limits them.
    fn requests_per_second(&self) -> Option<f64> {
        let ios = match self.pace {
            Pace::Closed => return None,
            Pace::Rate(ios) | Pace::Poisson(ios) => ios,
            Pace::Think(blocks, ms) => f64::from(blocks) * 1000.0 / ms,
        };
        Some(ios * f64::from(self.processes) * self.requests_per_io())
    }

    /// Divides its rate by `factor`.
    fn slow_down(&mut self, factor: f64) {
        match &mut self.pace {
            Pace::Closed => {}
            Pace::Rate(ios) | Pace::Poisson(ios) => *ios /= factor,
            Pace::Think(_, ms) => *ms *= factor,
        }
    }

    fn largest_block(&self) -> u64 {
        self.sizes.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
    }

    /// Total bytes of its files.
    fn bytes(&self) -> u64 {
        match self.files {
            Files::Own(bytes) => bytes * u64::from(self.processes),
            Files::Shared(_, bytes) => bytes,
            Files::Many(number, _, most) => u64::from(number) * most * u64::from(self.processes),
        }
    }

    /// Identity of its files, equal for jobs that share them. The job is number `number`.
    fn group(&self, number: usize) -> Group {
        match self.files {
            Files::Shared(name, _) => (name, self.program as usize),
            Files::Own(_) | Files::Many(..) => ("", number),
        }
    }

    /// Shrinks its files, or reduces their number if there are many; at least one block of each remains.
    fn shrink(&mut self, factor: f64) {
        let least = self.largest_block().max(64 * KIB);
        let shrunk = |bytes: u64| ((bytes as f64 * factor) as u64 / (64 * KIB) * (64 * KIB)).max(least);
        match &mut self.files {
            Files::Own(bytes) | Files::Shared(_, bytes) => *bytes = shrunk(*bytes),
            Files::Many(number, ..) => *number = ((f64::from(*number) * factor) as u32).max(1),
        }
    }

    fn write(&self, number: usize, text: &mut String) {
        let mut lines = vec![format!("\n[{}-{number}]", self.name), format!("rw={}", self.pattern)];
        if self.pattern.ends_with("rw") {
            lines.push(format!("rwmixread={}", self.mix_read));
        }
        lines.push(match self.sizes.as_slice() {
            [(bytes, _)] => format!("bs={}", amount(*bytes)),
            sizes => {
                let parts: Vec<String> = sizes.iter().map(|&(bytes, share)| format!("{}/{share}", amount(bytes))).collect();
                format!("bssplit={}", parts.join(":"))
            }
        });
        if let Some(directory) = &self.directory {
            lines.push(format!("directory=/{directory}-{}", self.program));
        }
        match self.files {
            Files::Own(bytes) => lines.push(format!("size={}", amount(bytes))),
            Files::Shared(name, bytes) => {
                lines.push(format!("filename={name}-{}\nsize={}", self.program, amount(bytes)));
            }
            Files::Many(number, least, most) => {
                lines.push(format!("nrfiles={number}\nfilesize={}-{}", amount(least), amount(most)));
            }
        }
        if self.processes > 1 {
            lines.push(format!("numjobs={}", self.processes));
        }
        lines.extend(self.options.iter().cloned());
        lines.extend(self.pace_lines());
        if self.begins_ms > 0 {
            lines.push(format!("startdelay={}", time(self.begins_ms)));
        }
        lines.push(format!("runtime={}", time(self.lasts_ms)));
        text.push_str(&lines.join("\n"));
        text.push('\n');
    }

    fn pace_lines(&self) -> Option<String> {
        let of_directions = |of: &dyn Fn(f64) -> String| match self.read_share() {
            1.0 | 0.0 => of(1.0),
            reads => format!("{},{}", of(reads), of(1.0 - reads)),
        };
        match self.pace {
            Pace::Closed => None,
            // In bytes, which is correct also for several block sizes.
            Pace::Rate(ios) => {
                let rate = |share: f64| format!("{}k", ((ios * share * self.mean_bytes() / 1024.0) as u64).max(1));
                Some(format!("rate={}", of_directions(&rate)))
            }
            Pace::Poisson(ios) => {
                let rate = |share: f64| ((ios * share).round() as u64).max(1).to_string();
                Some(format!("rate_iops={}\nrate_process=poisson", of_directions(&rate)))
            }
            Pace::Think(blocks, ms) => {
                let micros = (ms * 1000.0) as u64;
                let span = if micros < 10_000 { format!("{micros}us") } else { format!("{}ms", micros / 1000) };
                Some(format!("thinktime={span}\nthinktime_blocks={blocks}"))
            }
        }
    }
}

/// A size in the largest unit that divides it.
fn amount(bytes: u64) -> String {
    let units = [(GIB, "g"), (MIB, "m"), (KIB, "k")];
    match units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, letter)) => format!("{}{letter}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// Seconds, or milliseconds if they are not whole.
fn time(ms: u64) -> String {
    if ms.is_multiple_of(1000) { (ms / 1000).to_string() } else { format!("{ms}ms") }
}

/// The threshold at which larger values must be cut off so that the sum of `bytes` is `room`; infinite if it does not exceed that.
fn level(mut bytes: Vec<u64>, mut room: f64) -> f64 {
    bytes.sort_unstable();
    let mut left = bytes.len() as f64;
    for bytes in bytes {
        if bytes as f64 > room / left {
            return room / left;
        }
        room -= bytes as f64;
        left -= 1.0;
    }
    f64::INFINITY
}

/// A load under construction.
pub(super) struct Composer<'a> {
    random: &'a mut Xoshiro256PlusPlus,
    /// The machine for which the load is built.
    pub(super) scope: &'a Scope,
    jobs: Vec<Job>,
    programs: u32,
    begins_ms: u64,
    lasts_ms: u64,
    phase_ends_s: Vec<f64>,
}

/// A load of one phase with the scope's duration.
pub(super) fn compose(random: &mut Xoshiro256PlusPlus, scope: &Scope, add: Add) -> Drawn {
    let mut load = Composer::new(random, scope);
    load.phase(u64::from(scope.seconds.max(1)) * 1000, |load| load.program(add));
    load.finish()
}

impl<'a> Composer<'a> {
    /// A load without jobs.
    pub(super) fn new(random: &'a mut Xoshiro256PlusPlus, scope: &'a Scope) -> Composer<'a> {
        Composer { random, scope, jobs: Vec::new(), programs: 0, begins_ms: 0, lasts_ms: 0, phase_ends_s: Vec::new() }
    }

    /// Adds a phase that begins where the previous one ends. It begins by the clock, not when earlier jobs complete: their backlog then
    /// depends on the scheduler.
    pub(super) fn phase(&mut self, lasts_ms: u64, add: impl FnOnce(&mut Composer)) {
        self.lasts_ms = lasts_ms;
        add(self);
        self.begins_ms += lasts_ms;
        self.phase_ends_s.push(self.begins_ms as f64 / 1000.0);
    }

    /// Adds a program, with its own file names.
    pub(super) fn program(&mut self, add: Add) {
        add(self);
        self.programs += 1;
    }

    /// Adds a job to the program.
    pub(super) fn add(&mut self, job: Job) {
        self.jobs.push(Job { program: self.programs, begins_ms: self.begins_ms, lasts_ms: self.lasts_ms, ..job });
    }

    /// Duration of the phase in milliseconds.
    pub(super) fn lasts_ms(&self) -> f64 {
        self.lasts_ms as f64
    }

    /// One of several choices, uniformly.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        chance::one_of(self.random, choices)
    }

    /// A whole number, uniformly.
    pub(super) fn whole(&mut self, range: RangeInclusive<u32>) -> u32 {
        self.random.random_range(range)
    }

    /// A percentage, uniformly.
    pub(super) fn percent(&mut self, range: RangeInclusive<u8>) -> u8 {
        self.random.random_range(range)
    }

    /// A number with uniform logarithm: as likely between 1 and 10 as between 10 and 100.
    pub(super) fn scaled(&mut self, least: f64, most: f64) -> f64 {
        chance::scaled(self.random, least, most)
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        chance::happens(self.random, probability)
    }

    /// A size in bytes between `least` and `most` times the host's memory, but at most half the device.
    pub(super) fn memories(&mut self, least: f64, most: f64) -> u64 {
        let bytes = self.scope.memory_bytes as f64 * self.scaled(least, most);
        (bytes.min(self.scope.capacity_bytes as f64 / 2.0) as u64 / MIB * MIB).max(4 * MIB)
    }

    /// A size in bytes of a secondary file: a number of MiB in this range, but at most half the memory.
    pub(super) fn mebibytes(&mut self, range: RangeInclusive<u32>) -> u64 {
        (u64::from(self.whole(range)) * MIB).min(self.scope.memory_bytes / 2 / MIB * MIB).max(4 * MIB)
    }

    /// The job file.
    pub(super) fn finish(mut self) -> Drawn {
        self.fit();
        if self.scope.is_flash {
            self.pace();
        }
        let mut text = "[global]\ntime_based\n".to_owned();
        for (number, job) in self.jobs.iter().enumerate() {
            job.write(number, &mut text);
        }
        Drawn { text, phase_ends_s: self.phase_ends_s }
    }

    /// Shrinks files in the phases that use most space until all fit, the largest of a phase first: small related ones, such as a log, keep
    /// their size.
    fn fit(&mut self) {
        let mut phases: BTreeMap<u64, BTreeMap<Group, u64>> = BTreeMap::new();
        for (number, job) in self.jobs.iter().enumerate() {
            let bytes = phases.entry(job.begins_ms).or_default().entry(job.group(number)).or_default();
            *bytes = job.bytes().max(*bytes);
        }
        let all = |groups: &BTreeMap<Group, u64>| groups.values().sum::<u64>();
        let most = level(phases.values().map(all).collect(), self.scope.capacity_bytes as f64 * MOST_OF_CAPACITY);
        for (number, job) in self.jobs.iter_mut().enumerate() {
            let Some(groups) = phases.get(&job.begins_ms) else { continue };
            let most = level(groups.values().copied().collect(), most.min(all(groups) as f64));
            let bytes = groups.get(&job.group(number)).copied().unwrap_or(0) as f64;
            if bytes > most {
                job.shrink(most / bytes);
            }
        }
    }

    /// Limits each phase to the maximum rate for flash: paced jobs by a common factor, the rest evenly.
    fn pace(&mut self) {
        let mut begins: Vec<u64> = self.jobs.iter().map(|job| job.begins_ms).collect();
        begins.dedup();
        for begin in begins {
            let phase = || self.jobs.iter().filter(|job| job.begins_ms == begin);
            let paced: f64 = phase().filter_map(Job::requests_per_second).sum();
            let closed: u32 = phase().filter(|job| job.requests_per_second().is_none()).map(|job| job.processes).sum();
            let share = if closed > 0 { 0.5 } else { 1.0 };
            let slower = (paced / (FLASH_REQUESTS_PER_SECOND * share)).max(1.0);
            let each = (FLASH_REQUESTS_PER_SECOND - paced / slower) / f64::from(closed.max(1));
            for job in self.jobs.iter_mut().filter(|job| job.begins_ms == begin) {
                job.slow_down(slower);
                if let Pace::Closed = job.pace {
                    job.pace = Pace::Rate(each / job.requests_per_io());
                }
            }
        }
    }
}
