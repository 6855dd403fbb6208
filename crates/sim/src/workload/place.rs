//! Places the files of jobs on a device: determines the files of each job, its part of each, and its number of bytes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use block::Nanos;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Workload;
use super::error::WorkloadError;
use super::job::Job;
use super::layout::Layout;
use super::options::{Amount, Engine, JobKind as Pattern, Options};
use super::plan::{Plan, Target};
use super::requests::Requests;
use crate::host::{Action, File, FileId, Files};

/// Limit on the files of all jobs together; a file that two jobs share counts twice.
const MAX_FILES: usize = 1 << 18;

/// Larger devices are treated as having 8 EiB, so that byte counts fit into 64 bits.
const MAX_SECTORS: u64 = 1 << 54;

/// Limit on the blocks of all random maps together, which take a bit each.
const MAX_MAPPED: u64 = 1 << 33;

/// A workload whose files are placed on a device.
#[derive(Clone, Debug)]
pub struct PlacedWorkload {
    jobs: Arc<[Job]>,
    plans: Vec<Plan>,
    files: Arc<Files>,
}

impl PlacedWorkload {
    /// The jobs, as in the workload.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// All files; [`Action`]s refer to them by index.
    pub fn files(&self) -> Arc<Files> {
        self.files.clone()
    }

    /// Staggers the starts of the processes of a phase, as on a real machine: the interval between consecutive starts is drawn from
    /// `distance` by `seed`.
    #[must_use]
    pub fn with_staggered_starts(mut self, distance: RangeInclusive<Nanos>, seed: u64) -> PlacedWorkload {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut phase, mut late) = (0, Nanos::ZERO);
        for (job, plan) in self.jobs.iter().zip(&mut self.plans) {
            if job.phase() > phase {
                (phase, late) = (job.phase(), Nanos::ZERO);
            }
            plan.late = late;
            late += Nanos(random.random_range(distance.start().0..=distance.end().0));
        }
        self
    }

    /// The same jobs on the same files with other random numbers, different for each `draw`, in spite of `randrepeat` and `randseed`; 0 changes
    /// nothing.
    #[must_use]
    pub fn redrawn(mut self, draw: u64) -> PlacedWorkload {
        self.plans.iter_mut().for_each(|plan| plan.seed ^= mixed(draw.wrapping_mul(INCREMENT)));
        self
    }

    /// The same jobs on the same files with random numbers that depend on the run's `seed`, also where `randrepeat` or `randseed` make every
    /// run of fio the same: runs that are identical cannot show how much a result varies. Seed 1 changes nothing.
    #[must_use]
    pub fn drawn_by(mut self, seed: u64) -> PlacedWorkload {
        let draw = mixed(mixed(seed.wrapping_sub(1).wrapping_mul(INCREMENT)));
        let repeats = |job: &Job| job.options().order.repeatable || job.options().order.seed.is_some();
        self.jobs.iter().zip(&mut self.plans).filter(|(job, _)| repeats(job)).for_each(|(_, plan)| plan.seed ^= draw);
        self
    }

    /// A job's actions in order of issue, ignoring time: they end as in fio by `size`, `io_size`, `number_ios` or `loops`, and
    /// never if only time ends the job. Separate rate limits of reads and writes, which affect their order, are ignored as well.
    ///
    /// # Panics
    /// There is no such job.
    pub fn requests(&self, job: usize) -> impl Iterator<Item = Action> {
        self.stream(job)
    }

    pub(super) fn stream(&self, job: usize) -> Requests {
        let (job, plan) = (&self.jobs[job], &self.plans[job]);
        Requests::new(job.options(), plan, job.depth(plan.targets.len()))
    }

    /// The ranges that a job drops from the page cache when it starts.
    pub(super) fn to_invalidate(&self, job: usize) -> &[Target] {
        if self.jobs[job].options().files.invalidate { &self.plans[job].targets } else { &[] }
    }

    pub(super) fn plan(&self, job: usize) -> &Plan {
        &self.plans[job]
    }
}

/// A requested file.
struct RequestedFile {
    name: String,
    directory: String,
    bytes: u64,
    kind: FileKind,
    /// Whether it holds no data on the device when it is created, for all jobs so far.
    is_new: bool,
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileKind {
    /// A regular file, placed on the device.
    Regular,
    /// The whole device.
    Device,
    /// No storage: all files of the null engine, and devices such as /dev/null. I/O completes immediately.
    Nothing,
}

/// Linux's devices without storage.
const NULL_DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

impl FileKind {
    fn of(job: &Job, name: &str) -> FileKind {
        match name {
            _ if job.options().queue.engine == Engine::Null || NULL_DEVICES.contains(&name) => FileKind::Nothing,
            _ if name.starts_with("/dev/") => FileKind::Device,
            _ => FileKind::Regular,
        }
    }
}

/// The files of all jobs so far.
struct Register {
    requested: Vec<RequestedFile>,
    by_name: BTreeMap<(String, FileKind), FileId>,
    /// Number of uses of files by jobs.
    uses: usize,
    /// Capacity of the device, and the space free for files, in bytes.
    capacity: u64,
    free: u64,
}

impl Register {
    /// Registers a use of a file. Returns the file's index.
    fn add(&mut self, name: String, directory: String, bytes: u64, kind: FileKind, is_new: bool) -> Result<FileId, String> {
        self.uses += 1;
        if self.uses > MAX_FILES {
            return Err(format!("with its files there are more than {MAX_FILES} in all; lower nrfiles"));
        }
        let next = self.requested.len();
        let id = *self.by_name.entry((name.clone(), kind)).or_insert(next as FileId);
        if id as usize == next {
            self.requested.push(RequestedFile { name, directory, bytes, kind, is_new });
        }
        let file = &mut self.requested[id as usize];
        file.bytes = file.bytes.max(bytes);
        file.is_new &= is_new;
        Ok(id)
    }

    /// The size of a file that an earlier job uses; `None` if none does.
    fn size(&self, name: &str, kind: FileKind) -> Option<u64> {
        self.by_name.get(&(name.to_owned(), kind)).map(|&id| self.requested[id as usize].bytes)
    }

    /// Bytes available for a new file.
    fn room(&self) -> u64 {
        let taken =
            self.requested.iter().filter(|file| file.kind == FileKind::Regular).map(|file| file.bytes.next_multiple_of(4096));
        taken.fold(self.free, u64::saturating_sub)
    }
}

/// Places all files of `workload` on a device of `capacity_sectors` sectors.
pub(super) fn place(workload: &Workload, capacity_sectors: u64, seed: u64) -> Result<PlacedWorkload, WorkloadError> {
    let capacity_sectors = capacity_sectors.min(MAX_SECTORS);
    let capacity = capacity_sectors * 512;
    let free = Layout::new(capacity_sectors, seed).free_sectors() * 512;
    let mut register = Register { requested: Vec::new(), by_name: BTreeMap::new(), uses: 0, capacity, free };
    let (mut plans, mut mapped) = (Vec::new(), 0u64);
    for job in workload.jobs() {
        let fault = |message| job.fault(&workload.source, message);
        let plan = plan(job, seed, &mut register).map_err(fault)?;
        if job.options().random_map() {
            let block = u64::from(job.options().all_block_bounds().0);
            mapped = mapped.saturating_add(plan.targets.iter().map(|target| target.bytes / block).sum());
            if mapped > MAX_MAPPED {
                return Err(fault(format!(
                    "random maps of more than {MAX_MAPPED} blocks are not kept; give norandommap or a larger bs"
                )));
            }
        }
        plans.push(plan);
    }
    let files = lay_out(register.requested, workload, capacity_sectors, seed)?;
    Ok(PlacedWorkload { jobs: workload.jobs.clone(), plans, files: Arc::new(files) })
}

/// Allocates the extents of all files.
fn lay_out(requested: Vec<RequestedFile>, workload: &Workload, capacity: u64, seed: u64) -> Result<Files, WorkloadError> {
    let fault = |message| WorkloadError { source_name: workload.source.to_string(), line: None, message };
    let mut real = requested.iter().filter(|file| file.kind != FileKind::Nothing);
    if let Some(device) = requested.iter().find(|file| file.kind == FileKind::Device) {
        if let Some(other) = real.find(|file| file.name != device.name) {
            let message = format!(
                "{} is the whole device: there is no room for {} next to it; only one device is simulated",
                device.name, other.name
            );
            return Err(fault(message));
        }
        let file = |file: RequestedFile| match file.kind {
            FileKind::Nothing => File { name: file.name, bytes: file.bytes, extents: Vec::new(), is_new: false },
            _ => File::device(file.name, capacity),
        };
        return Ok(requested.into_iter().map(file).collect());
    }
    let needed = real.fold(0u64, |sum, file| sum.saturating_add(file.bytes.div_ceil(4096).saturating_mul(4096)));
    let too_large = |free: u64| {
        fault(format!("the files need {needed} bytes, but the device has {free} free for files; lower size or filesize"))
    };
    // Checked before the allocation, so that a far too large workload fails quickly.
    if needed / 512 > capacity {
        return Err(too_large(capacity * 512));
    }
    let mut layout = Layout::new(capacity, seed);
    let free = layout.free_sectors() * 512;
    let files = requested.into_iter().map(|file| {
        let extents = match file.kind {
            FileKind::Nothing => Vec::new(),
            _ => layout.place(&file.directory, file.bytes).ok_or_else(|| too_large(free))?,
        };
        Ok(File { name: file.name, bytes: file.bytes, extents, is_new: file.is_new })
    });
    files.collect()
}

/// The plan of `job`.
fn plan(job: &Job, run_seed: u64, register: &mut Register) -> Result<Plan, String> {
    let options = job.options();
    let seed = seed(job, run_seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed_f11e);
    let least = u64::from(options.all_block_bounds().0);
    let number = if options.files.names.is_empty() { options.files.number as usize } else { options.files.names.len() };
    let mut targets = Vec::new();
    for index in 0..number {
        let (name, directory) = name(job, index);
        let kind = FileKind::of(job, &name);
        if options.order.trims() && kind == FileKind::Regular {
            return Err(format!("rw: {name} is a regular file, but trims are for devices only; give filename=/dev/sda"));
        }
        let (whole, start, bytes) = match (kind, options.files.file_size) {
            (FileKind::Device, _) => part_of_device(job, register.capacity)?,
            _ if options.files.fill_device => part_of_file(job, register.size(&name, kind).unwrap_or_else(|| register.room()))?,
            (_, Some((low, high))) => {
                let bytes = random.random_range(low..=high);
                part_of_file(job, if low == high { bytes } else { (bytes - bytes % least).max(low) })?
            }
            (_, None) => match (options.files.size, register.size(&name, kind)) {
                // Without `size`, that of an earlier job applies.
                (None, Some(bytes)) => part_of_file(job, bytes)?,
                _ => part_by_size(job, number as u64)?,
            },
        };
        if bytes < least {
            return Err(format!("{name}: {bytes} bytes are less than one block of {least}; give a larger size or a smaller bs"));
        }
        targets.push(Target { file: register.add(name, directory, whole, kind, is_new(options))?, start, bytes });
    }
    let all = targets.iter().fold(0u64, |sum, target| sum.saturating_add(target.bytes));
    let size = amount(options.files.size, all).filter(|_| !options.files.fill_device).unwrap_or(all);
    // With `time_based`, fio still counts towards this limit, but only time ends the job.
    let limit = amount(options.files.io_size, size)
        .filter(|limit| *limit > 0)
        .unwrap_or(size)
        .saturating_mul(u64::from(options.length.loops));
    Ok(Plan { targets, limit, seed, late: Nanos::ZERO })
}

/// Whether fio creates the files of a job without filling them (`extend_file` in filesetup.c, fio 3.33): it does for jobs that only
/// write, without `overwrite`. The files then consist of holes or of space allocated by `fallocate`, neither of which is read from
/// the device. Irrelevant for direct I/O, which reads no pages.
fn is_new(options: &Options) -> bool {
    options.order.pattern.kind == Pattern::Write && !options.files.overwrite && !options.queue.direct
}

/// A job's seed, different for each job. It depends on `randseed` and, with `randrepeat=0`, on the run's seed.
fn seed(job: &Job, run_seed: u64) -> u64 {
    let options = job.options();
    // fio's default seed.
    let base = options.order.seed.unwrap_or(if options.order.repeatable { 0x89 } else { run_seed });
    mixed(base ^ (u64::from(job.stream()) + 1).wrapping_mul(INCREMENT))
}

/// The increment of splitmix64. Seeds that differ by it share most of the state of the generators seeded with them, unless they are
/// [`mixed`].
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads the differences of `seed` over all bits; 0 stays 0.
fn mixed(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

/// A file's path and directory.
fn name(job: &Job, index: usize) -> (String, String) {
    let options = job.options();
    let directories = &options.files.directories;
    let (directory, file) = match options.files.names.get(index) {
        Some(name) => (directories.first(), name.clone()),
        None => {
            let directory = directories.get(job.clone_number() as usize % directories.len().max(1));
            let name = options.files.name_format.replace("$jobname", job.section());
            let name = name.replace("$jobnum", &job.clone_number().to_string());
            (directory, name.replace("$filenum", &index.to_string()))
        }
    };
    let path = match directory {
        Some(directory) if !file.starts_with('/') => format!("{}/{file}", directory.trim_end_matches('/')),
        _ => file,
    };
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
    (path, directory)
}

/// Converts `amount`, if given, to bytes; percentages are of `whole`.
fn amount(amount: Option<Amount>, whole: u64) -> Option<u64> {
    amount.map(|amount| match amount {
        Amount::Bytes(bytes) => bytes,
        Amount::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
    })
}

/// The offset of a job's part of a file, in bytes; percentages are of `whole`.
fn start(job: &Job, whole: u64) -> Result<u64, String> {
    let options = job.options();
    let to = if options.files.offset_align > 0 { options.files.offset_align } else { u64::from(options.all_block_bounds().0) };
    let bytes = |value: Amount| match value {
        Amount::Bytes(bytes) => Some(bytes),
        // Rounded up, as in fio.
        Amount::Percent(_) => amount(Some(value), whole)?.div_ceil(to).checked_mul(to),
    };
    let increment =
        bytes(options.files.offset_increment).and_then(|increment| increment.checked_mul(u64::from(job.clone_number())));
    let sum = bytes(options.files.offset).zip(increment).and_then(|(offset, increment)| offset.checked_add(increment));
    sum.ok_or_else(|| "offset: with offset_increment it is beyond 2^64 bytes".to_owned())
}

/// The size of a device, and offset and length of the job's part, in bytes.
fn part_of_device(job: &Job, capacity: u64) -> Result<(u64, u64, u64), String> {
    let start = start(job, capacity)?;
    let bytes = amount(job.options().files.size, capacity).unwrap_or_else(|| capacity.saturating_sub(start));
    // A percentage is of the whole device, but limited to the part after the offset.
    let bytes = if matches!(job.options().files.size, Some(Amount::Percent(_))) {
        bytes.min(capacity.saturating_sub(start))
    } else {
        bytes
    };
    match start.checked_add(bytes) {
        Some(end) if end <= capacity && start < capacity => Ok((capacity, start, bytes)),
        _ => Err(format!(
            "{bytes} bytes from byte {start} on reach beyond the end of the device, which has {capacity} bytes; lower size or offset"
        )),
    }
}

/// Like [`part_of_device`], for a file whose size is known.
fn part_of_file(job: &Job, whole: u64) -> Result<(u64, u64, u64), String> {
    let start = start(job, whole)?;
    match whole.checked_sub(start).filter(|bytes| *bytes > 0) {
        Some(bytes) => Ok((whole, start, bytes)),
        None => Err(format!(
            "offset: it begins at byte {start}, beyond the end of a file of {whole} bytes; lower offset or raise filesize"
        )),
    }
}

/// Like [`part_of_device`], for one of `files` files among which `size` is divided.
fn part_by_size(job: &Job, files: u64) -> Result<(u64, u64, u64), String> {
    let bytes = match job.options().files.size {
        Some(Amount::Bytes(bytes)) => bytes / files,
        Some(Amount::Percent(percent)) => {
            return Err(format!(
                "size: {percent}% of a file that does not exist yet is undefined; give bytes, or filesize as well"
            ));
        }
        None => return Err("size is not given; it is needed for files, such as size=1g".to_owned()),
    };
    let start = start(job, bytes)?;
    let whole = start.checked_add(bytes).ok_or_else(|| format!("offset: {bytes} bytes from byte {start} on end beyond 2^64"))?;
    Ok((whole, start, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(text: &str) -> Result<PlacedWorkload, WorkloadError> {
        Workload::parse(text, "t.fio").unwrap().place(1 << 24, 1)
    }

    fn targets(placed: &PlacedWorkload) -> Vec<Vec<(String, u64, u64)>> {
        let of =
            |plan: &Plan| plan.targets.iter().map(|t| (placed.files[t.file as usize].name.clone(), t.start, t.bytes)).collect();
        placed.plans.iter().map(of).collect()
    }

    #[test]
    fn files_are_named_shared_and_sized_as_fio_does() {
        let placed = placed("[a]\nsize=32k\nnrfiles=2\nnumjobs=2\n[b]\nfilename=x:y\ndirectory=/d\nsize=64k\noffset=8k\noffset_increment=16k\nnumjobs=2\n").unwrap();
        let name = |text: &str| text.to_owned();
        assert_eq!(
            targets(&placed),
            [
                vec![(name("a.0.0"), 0, 16384), (name("a.0.1"), 0, 16384)],
                vec![(name("a.1.0"), 0, 16384), (name("a.1.1"), 0, 16384)],
                vec![(name("/d/x"), 8192, 32768), (name("/d/y"), 8192, 32768)],
                vec![(name("/d/x"), 24576, 32768), (name("/d/y"), 24576, 32768)],
            ]
        );
        assert_eq!(placed.files[4].bytes, 57344);
    }

    #[test]
    fn a_dev_file_is_the_whole_device() {
        let placed = placed("[a]\nfilename=/dev/sda\noffset=25%\nsize=50%\n[b]\nfilename=/dev/sda\n").unwrap();
        let name = || "/dev/sda".to_owned();
        assert_eq!(targets(&placed), [vec![(name(), 1 << 31, 1 << 32)], vec![(name(), 0, 1 << 33)]]);
    }

    #[test]
    fn files_that_do_not_fit_the_device_are_an_error_with_both_sizes() {
        for (text, words) in [
            ("[a]\nfilename=/dev/sda\nsize=9g\n", ["9663676416", "8589934592"]),
            ("[a]\nsize=100000t\n", ["109951162777600000", "8589934592"]),
            ("[a]\nsize=8g\n", ["8589934592", "free"]),
            ("[a]\nfilename=/dev/sda\n[b]\nsize=1m\n", ["/dev/sda", "b.0.0"]),
            ("[a]\nsize=2k\n", ["2048", "4096"]),
            ("[a]\nfilesize=8k\noffset=8k\n", ["8192", "filesize"]),
            ("[a]\n", ["size is not given", "1g"]),
            ("[a]\nsize=20%\n", ["20%", "filesize"]),
            ("[a]\nrw=trim\nsize=1m\n", ["regular", "/dev/sda"]),
            ("[a]\nsize=1m\nnrfiles=200000\nbs=1\nnumjobs=2\n", ["262144", "nrfiles"]),
            ("[a]\nsize=1m\noffset=100%\noffset_increment=16000000t\nnumjobs=3\n", ["2^64", "offset"]),
        ] {
            let error = placed(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }
}
