//! Puts programs together into a job file: gives every program its files and names, and keeps the whole within what the machine holds.
//!
//! A family describes its jobs with the sizes and rates it would like; [`Composer::finish`] then makes files smaller if all take more of
//! the device than they may, and paces what would keep flash busier than is worth simulating.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Drawn, Scope};
use experiment::chance;

/// Of the device's capacity, what all files together take at most. The file system needs some, and the rest leaves room to seek over.
const MOST_OF_CAPACITY: f64 = 0.65;

/// What all jobs together may ask flash for: a minute of it is then some 300,000 requests.
const FLASH_REQUESTS_PER_SECOND: f64 = 5_000.0;

/// I/Os larger than this become several requests: read-ahead's window.
const BYTES_PER_REQUEST: f64 = 131_072.0;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// Adds the jobs of one program, or of several that belong together.
pub(super) type Add = fn(&mut Composer);

/// Files' name and program, or the number of the job that alone uses them.
type Group = (&'static str, usize);

/// What a job works on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files {
    /// A file of this many bytes for each process.
    Own(u64),
    /// One file that all processes use, and other jobs of the same program that name it too.
    Shared(&'static str, u64),
    /// For each process this many files of between this many bytes.
    Many(u32, u64, u64),
}

/// How fast each process of a job goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As fast as it is answered.
    Closed,
    /// This many I/Os a second, evenly.
    Rate(f64),
    /// This many I/Os a second, independent of each other. Only for a job with one block size: fio takes the smallest as the measure.
    Poisson(f64),
    /// It thinks for this many milliseconds after this many I/Os.
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
    /// Which program of the load it belongs to.
    program: u32,
    begins_ms: u64,
    lasts_ms: u64,
}

impl Job {
    /// A process that does `pattern` (fio's `rw`) in blocks of 4 KiB on `files`.
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

    /// Percentage of reads where it does both.
    pub(super) fn mix_read(self, mix_read: u8) -> Job {
        Job { mix_read, ..self }
    }

    /// Bytes of each I/O.
    pub(super) fn block(self, bytes: u64) -> Job {
        Job { sizes: vec![(bytes, 100)], ..self }
    }

    /// Bytes of I/Os with the percentage of them, which add up to 100.
    pub(super) fn blocks(self, sizes: &[(u64, u8)]) -> Job {
        Job { sizes: sizes.to_vec(), ..self }
    }

    /// The number of its repetitions.
    pub(super) fn processes(self, processes: u32) -> Job {
        Job { processes, ..self }
    }

    /// How fast.
    pub(super) fn pace(self, pace: Pace) -> Job {
        Job { pace, ..self }
    }

    /// Keeps its files together, somewhere on the device; without, they are at the device's beginning.
    pub(super) fn directory(self, name: impl Into<String>) -> Job {
        Job { directory: Some(name.into()), ..self }
    }

    /// One more of fio's options.
    pub(super) fn set(mut self, key: &str, value: impl std::fmt::Display) -> Job {
        self.options.push(format!("{key}={value}"));
        self
    }

    /// Past the page cache if `direct`.
    pub(super) fn direct(self, direct: bool) -> Job {
        if direct { self.set("direct", 1) } else { self }
    }

    /// Asynchronous, past the page cache, with this many in flight.
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

    /// Requests that an I/O of it makes, about.
    fn requests_per_io(&self) -> f64 {
        (self.mean_bytes() / BYTES_PER_REQUEST).max(1.0)
    }

    /// Requests a second that all its processes make at most; `None` if nothing but the device limits them.
    fn requests_per_second(&self) -> Option<f64> {
        let ios = match self.pace {
            Pace::Closed => return None,
            Pace::Rate(ios) | Pace::Poisson(ios) => ios,
            Pace::Think(blocks, ms) => f64::from(blocks) * 1000.0 / ms,
        };
        Some(ios * f64::from(self.processes) * self.requests_per_io())
    }

    /// Makes it `factor` times as slow.
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

    /// Bytes that its files take.
    fn bytes(&self) -> u64 {
        match self.files {
            Files::Own(bytes) => bytes * u64::from(self.processes),
            Files::Shared(_, bytes) => bytes,
            Files::Many(number, _, most) => u64::from(number) * most * u64::from(self.processes),
        }
    }

    /// Jobs with the same one have the same files. The job is number `number`.
    fn group(&self, number: usize) -> Group {
        match self.files {
            Files::Shared(name, _) => (name, self.program as usize),
            Files::Own(_) | Files::Many(..) => ("", number),
        }
    }

    /// Makes its files smaller, or fewer where there are many; at least one block of each is left.
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
            // In bytes, which are right for several block sizes, too.
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

/// Bytes in the largest unit that they are a multiple of.
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

/// Where what is above it must be cut off so that all of `bytes` add up to `room`; infinite if they do not exceed it.
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

/// A load that is being drawn.
pub(super) struct Composer<'a> {
    random: &'a mut Xoshiro256PlusPlus,
    /// What the load is drawn for.
    pub(super) scope: &'a Scope,
    jobs: Vec<Job>,
    programs: u32,
    begins_ms: u64,
    lasts_ms: u64,
    phase_ends_s: Vec<f64>,
}

/// A load of one phase that lasts as long as the scope says.
pub(super) fn compose(random: &mut Xoshiro256PlusPlus, scope: &Scope, add: Add) -> Drawn {
    let mut load = Composer::new(random, scope);
    load.phase(u64::from(scope.seconds.max(1)) * 1000, |load| load.program(add));
    load.finish()
}

impl<'a> Composer<'a> {
    /// Nothing yet.
    pub(super) fn new(random: &'a mut Xoshiro256PlusPlus, scope: &'a Scope) -> Composer<'a> {
        Composer { random, scope, jobs: Vec::new(), programs: 0, begins_ms: 0, lasts_ms: 0, phase_ends_s: Vec::new() }
    }

    /// Adds a phase that begins where the one before ends. It begins by the clock, not when the jobs before are done: what still waits
    /// then depends on the scheduler.
    pub(super) fn phase(&mut self, lasts_ms: u64, add: impl FnOnce(&mut Composer)) {
        self.lasts_ms = lasts_ms;
        add(self);
        self.begins_ms += lasts_ms;
        self.phase_ends_s.push(self.begins_ms as f64 / 1000.0);
    }

    /// Adds a program, whose files have names of their own.
    pub(super) fn program(&mut self, add: Add) {
        add(self);
        self.programs += 1;
    }

    /// Adds a job to the program.
    pub(super) fn add(&mut self, job: Job) {
        self.jobs.push(Job { program: self.programs, begins_ms: self.begins_ms, lasts_ms: self.lasts_ms, ..job });
    }

    /// How long the phase lasts, in milliseconds.
    pub(super) fn lasts_ms(&self) -> f64 {
        self.lasts_ms as f64
    }

    /// One of several, each as likely.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        chance::one_of(self.random, choices)
    }

    /// A whole number, each as likely.
    pub(super) fn whole(&mut self, range: RangeInclusive<u32>) -> u32 {
        self.random.random_range(range)
    }

    /// A percentage, each as likely.
    pub(super) fn percent(&mut self, range: RangeInclusive<u8>) -> u8 {
        self.random.random_range(range)
    }

    /// A number whose logarithm is uniform: as often between 1 and 10 as between 10 and 100.
    pub(super) fn scaled(&mut self, least: f64, most: f64) -> f64 {
        chance::scaled(self.random, least, most)
    }

    /// Whether something happens that does with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        chance::happens(self.random, probability)
    }

    /// Bytes: between `least` and `most` times the machine's memory, or half the device if that is less.
    pub(super) fn memories(&mut self, least: f64, most: f64) -> u64 {
        let bytes = self.scope.memory_bytes as f64 * self.scaled(least, most);
        (bytes.min(self.scope.capacity_bytes as f64 / 2.0) as u64 / MIB * MIB).max(4 * MIB)
    }

    /// Bytes of a file that is not the main one: this many MiB, or half the memory if that is less.
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

    /// Makes the files of the phases that take most smaller until all fit, and in such a phase the largest ones: what is small and
    /// belongs to it, such as a log, keeps its size.
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

    /// Holds each phase to what flash is asked for at most: what is paced already by a common factor, the rest evenly.
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
