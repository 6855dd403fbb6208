//! The values of a job's options, one field each. [`table`](super::table) lists the options and how they are parsed.

use std::sync::Arc;

use block::{Nanos, Priority, PriorityClass};

use crate::host::Advice;

/// Reads, writes and trims, in the order in which job files give values for them.
pub const DIRECTIONS: usize = 3;

/// The kinds of jobs: `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Trims only.
    Trim,
    /// Reads and writes, by `rwmixread`.
    Mixed,
    /// Trims each block, then writes it.
    TrimWrite,
}

/// The order of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The operations.
    pub kind: Kind,
    /// Whether offsets are random.
    pub random: bool,
    /// `rw=randread:N`: a new random offset only for every N-th I/O.
    pub every: u32,
    /// `rw=read:N`: bytes skipped after each I/O, backwards if negative.
    pub skip: i64,
}

/// Offsets of the I/Os between two random ones: `rw_sequencer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// After the previous I/O.
    Sequential,
    /// The same as the previous I/O.
    Identical,
}

/// The sizes of I/Os in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// Multiples of the smaller size up to the larger one, both in bytes and inclusive, with equal probability; with `bs_unaligned`
    /// any size between them.
    Range(u32, u32),
    /// Sizes in bytes, and their percentages of the I/Os.
    Split(Vec<(u32, u8)>),
}

/// Bytes, or a percentage of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A percentage, 0 to 100.
    Percent(u8),
}

/// The choice of the next of several files: `file_service_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileService {
    /// In turn.
    RoundRobin,
    /// The next one when the current one is finished.
    Sequential,
    /// At random.
    Random,
}

/// The interface for I/O: `ioengine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// read(2), pread(2), readv(2) and their like: one call at a time.
    Sync,
    /// io_submit(2). With buffered I/O the call itself blocks, so only one is in flight.
    Libaio,
    /// io_uring(7): asynchronous even with buffered I/O.
    IoUring,
    /// aio_read(3): glibc serves one request at a time per file.
    PosixAio,
    /// The null engine transfers no data: every call completes at once, and its files need no space on the device.
    Null,
}

/// `sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Writes return as soon as the page cache, or with O_DIRECT the device, has accepted them.
    None,
    /// O_SYNC or O_DSYNC.
    EachWrite,
}

/// The jobs that end when one ends: `exit_what`, with `exitall` or `exitall_on_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitWhat {
    /// The jobs of its group.
    Group,
    /// The jobs that are running; the next phase starts.
    Running,
    /// All jobs.
    All,
}

/// `verify`, `do_verify` and related options, as far as they cause reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// Whether `verify` is given and not 0.
    pub on: bool,
    /// `do_verify`: whether written data are read back.
    pub reads: bool,
    /// `verify_only`: whether the data are only read back, not written.
    pub only: bool,
    /// `verify_backlog`: number of writes after which they are read back; 0 for the end of the pass.
    pub backlog: u32,
    /// `verify_backlog_batch`: number of reads at a time; 0 for as many as the backlog.
    pub batch: u32,
    /// `experimental_verify`: whether they are always read in the order of writing.
    pub experimental: bool,
}

/// The criterion of `steadystate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Whether it uses bytes per second; otherwise I/Os per second.
    pub bandwidth: bool,
    /// Whether it uses the slope of the regression line; otherwise the largest deviation from the mean.
    pub slope: bool,
    /// Upper bound of slope or deviation.
    pub limit: f64,
    /// Whether the limit is a percentage of the mean.
    pub percent: bool,
}

/// Priorities of single I/Os: `cmdprio_percentage`, or `cmdprio_bssplit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandPriorities {
    /// Rules for reads and for writes.
    pub rules: [Vec<CommandPriority>; 2],
}

/// A priority for a share of the I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandPriority {
    /// Size of the I/Os in bytes; `None` for any size.
    pub bytes: Option<u32>,
    /// Share of these I/Os in percent.
    pub share: u8,
    /// Class and level; `None`: those of `cmdprio_class` and `cmdprio`.
    pub priority: Option<Priority>,
}

/// The distribution of random offsets.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Uniform.
    Uniform,
    /// Zipf: theta, and the location of the most popular block, from 0 to 1; `None`: it depends on the seed.
    Zipf(f64, Option<f64>),
    /// Pareto: h, and the location of the most popular block as for Zipf.
    Pareto(f64, Option<f64>),
    /// Normal: deviation in percent of the file, and the location of the mean, from 0 to 1; `None`: the middle.
    Normal(f64, Option<f64>),
    /// Zones: percentage of the I/Os, percentage of the file.
    Zoned(Vec<(u8, u8)>),
    /// Zones: percentage of the I/Os, bytes of the file.
    ZonedAbsolute(Vec<(u8, u64)>),
}

/// `zonemode=strided`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Transferred before the next zone begins.
    pub size: u64,
    /// Size of a zone.
    pub range: u64,
    /// Gap between two zones.
    pub skip: u64,
}

/// All options of a job. Unless stated otherwise, a field is the option of that name in fio's HOWTO.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `name`: shown instead of the section's name.
    pub name: Option<Arc<str>>,
    /// `description`.
    pub description: Option<Arc<str>>,
    /// `rw` with its suffix.
    pub pattern: Pattern,
    /// `rw_sequencer`.
    pub sequencer: Sequencer,
    /// `rwmixread`, or 100 minus `rwmixwrite`; in percent.
    pub mix_read: u8,
    /// `bs`, `bsrange` or `bssplit`, for reads, writes and trims.
    pub block_sizes: [BlockSizes; DIRECTIONS],
    /// `blockalign` in bytes; `None` if not given.
    pub block_align: [Option<u64>; DIRECTIONS],
    /// `bs_unaligned`.
    pub unaligned: bool,
    /// `size`.
    pub size: Option<Amount>,
    /// `io_size`.
    pub io_size: Option<Amount>,
    /// `offset`.
    pub offset: Amount,
    /// `offset_increment`.
    pub offset_increment: Amount,
    /// `offset_align`; 0 if not given.
    pub offset_align: u64,
    /// `filesize`: smallest and largest.
    pub file_size: Option<(u64, u64)>,
    /// `nrfiles`.
    pub files: u32,
    /// `file_service_type`, and the number of consecutive I/Os to one file.
    pub file_service: (FileService, u32),
    /// `filename`, split.
    pub file_names: Arc<[String]>,
    /// `directory`, split.
    pub directories: Arc<[String]>,
    /// `filename_format`.
    pub file_name_format: Arc<str>,
    /// `fill_device`: the file takes all remaining space.
    pub fill_device: bool,
    /// `numjobs`.
    pub clones: u32,
    /// `iodepth`.
    pub depth: u32,
    /// `iodepth_batch_submit`; 0 stands for `iodepth`.
    pub batch_submit: u32,
    /// `iodepth_batch_complete_min`.
    pub batch_complete_min: u32,
    /// `iodepth_batch_complete_max`; 0 stands for the minimum.
    pub batch_complete_max: u32,
    /// `iodepth_low`; 0 stands for `iodepth`.
    pub depth_low: u32,
    /// `ioengine`.
    pub engine: Engine,
    /// `io_submit_mode=offload`: other threads submit, so the job itself does not block.
    pub offload: bool,
    /// `direct`.
    pub direct: bool,
    /// `fadvise_hint`: advice to the kernel on its reads; `None`: derived from `rw`.
    pub fadvise_hint: Option<Advice>,
    /// `overwrite`: whether the files of a writing job already exist and are filled.
    pub overwrite: bool,
    /// `invalidate`: whether the job's parts of its files are dropped from the page cache when it starts.
    pub invalidate: bool,
    /// `sync`.
    pub sync: SyncMode,
    /// `fsync`: number of writes between syncs; 0 for none.
    pub fsync: u32,
    /// `fdatasync`: number of writes between syncs; 0 for none.
    pub fdatasync: u32,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
    /// `rate` in bytes per second; 0 for no limit.
    pub rate: [u64; DIRECTIONS],
    /// `rate_iops`; 0 for no limit.
    pub rate_iops: [u64; DIRECTIONS],
    /// `rate_min` in bytes per second; 0 for none.
    pub rate_min: [u64; DIRECTIONS],
    /// `rate_iops_min`; 0 for none.
    pub rate_iops_min: [u64; DIRECTIONS],
    /// `rate_cycle`: interval over which `rate_min` and `rate_iops_min` are checked.
    pub rate_cycle: Nanos,
    /// `rate_process=poisson`.
    pub poisson: bool,
    /// `rate_ignore_thinktime`.
    pub rate_ignore_think: bool,
    /// `thinktime`.
    pub think: Nanos,
    /// `thinktime_blocks`; if neither it nor `thinktime_iotime` is given, 1 applies.
    pub think_blocks: Option<u32>,
    /// `thinktime_blocks_type=issue`.
    pub think_at_issue: bool,
    /// `thinktime_iotime`.
    pub think_every: Option<Nanos>,
    /// `runtime`.
    pub runtime: Option<Nanos>,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`.
    pub ramp: Nanos,
    /// `startdelay`: minimum and maximum.
    pub start_delay: (Nanos, Nanos),
    /// `stonewall`.
    pub stonewall: bool,
    /// `wait_for`.
    pub wait_for: Option<Arc<str>>,
    /// `exitall`.
    pub exit_all: bool,
    /// `exitall_on_error`.
    pub exit_all_on_error: bool,
    /// `exit_what`.
    pub exit_what: ExitWhat,
    /// `flow`: its weight among the jobs with the same `flow_id`; 0 for none.
    pub flow: u32,
    /// `flow_id`.
    pub flow_id: u32,
    /// `flow_sleep`.
    pub flow_sleep: Nanos,
    /// `steadystate`.
    pub steady: Option<Steady>,
    /// `steadystate_duration`, in whole seconds; 0 disables `steadystate`.
    pub steady_seconds: u32,
    /// `steadystate_ramp_time`.
    pub steady_ramp: Nanos,
    /// `verify` and related options.
    pub verify: Verify,
    /// `new_group`.
    pub new_group: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
    /// `loops`.
    pub loops: u32,
    /// `number_ios`.
    pub number_ios: Option<u64>,
    /// `percentage_random`.
    pub percentage_random: [u8; DIRECTIONS],
    /// `norandommap`.
    pub no_random_map: bool,
    /// `random_generator=lfsr`: every block is visited once, even with `norandommap`.
    pub linear_feedback: bool,
    /// `random_distribution`.
    pub distribution: [Distribution; DIRECTIONS],
    /// `zonemode=strided`.
    pub strided: bool,
    /// `zonesize`.
    pub zone_size: u64,
    /// `zonerange`; 0 stands for `zonesize`.
    pub zone_range: u64,
    /// `zoneskip`.
    pub zone_skip: u64,
    /// `randseed`.
    pub seed: Option<u64>,
    /// `randrepeat`. If false, random numbers depend on the run's seed.
    pub repeatable: bool,
    /// `prioclass`.
    pub priority_class: Option<PriorityClass>,
    /// `prio`.
    pub priority: Option<u8>,
    /// `cmdprio_percentage` or `cmdprio_bssplit`.
    pub command_priorities: CommandPriorities,
    /// `cmdprio_class`, for reads and for writes.
    pub command_class: [PriorityClass; 2],
    /// `cmdprio`, for reads and for writes.
    pub command_level: [u8; 2],
}

impl Default for Options {
    fn default() -> Options {
        let sizes = BlockSizes::Range(4096, 4096);
        Options {
            name: None,
            description: None,
            pattern: Pattern { kind: Kind::Read, random: false, every: 1, skip: 0 },
            sequencer: Sequencer::Sequential,
            mix_read: 50,
            block_sizes: [sizes.clone(), sizes.clone(), sizes],
            block_align: [None; DIRECTIONS],
            unaligned: false,
            size: None,
            io_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            file_size: None,
            files: 1,
            file_service: (FileService::RoundRobin, 1),
            file_names: Arc::new([]),
            directories: Arc::new([]),
            file_name_format: "$jobname.$jobnum.$filenum".into(),
            fill_device: false,
            clones: 1,
            depth: 1,
            batch_submit: 1,
            batch_complete_min: 1,
            batch_complete_max: 0,
            depth_low: 0,
            engine: Engine::Sync,
            offload: false,
            direct: false,
            fadvise_hint: None,
            invalidate: true,
            sync: SyncMode::None,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            overwrite: false,
            rate: [0; DIRECTIONS],
            rate_iops: [0; DIRECTIONS],
            rate_min: [0; DIRECTIONS],
            rate_iops_min: [0; DIRECTIONS],
            rate_cycle: Nanos::from_millis(1000),
            poisson: false,
            rate_ignore_think: false,
            think: Nanos::ZERO,
            think_blocks: None,
            think_at_issue: false,
            think_every: None,
            runtime: None,
            time_based: false,
            ramp: Nanos::ZERO,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            stonewall: false,
            wait_for: None,
            exit_all: false,
            exit_all_on_error: false,
            exit_what: ExitWhat::Group,
            flow: 0,
            flow_id: 0,
            flow_sleep: Nanos::ZERO,
            steady: None,
            steady_seconds: 0,
            steady_ramp: Nanos::ZERO,
            verify: Verify { reads: true, ..Verify::default() },
            new_group: false,
            group_reporting: false,
            loops: 1,
            number_ios: None,
            percentage_random: [100; DIRECTIONS],
            no_random_map: false,
            linear_feedback: false,
            distribution: [Distribution::Uniform, Distribution::Uniform, Distribution::Uniform],
            strided: false,
            zone_size: 0,
            zone_range: 0,
            zone_skip: 0,
            seed: None,
            repeatable: true,
            priority_class: None,
            priority: None,
            command_priorities: CommandPriorities::default(),
            command_class: [PriorityClass::RealTime; 2],
            command_level: [0; 2],
        }
    }
}

impl Options {
    /// The smallest and the largest I/O size of a direction, in bytes.
    pub(super) fn block_bounds(&self, direction: usize) -> (u32, u32) {
        match &self.block_sizes[direction] {
            BlockSizes::Range(low, high) => (*low, *high),
            BlockSizes::Split(sizes) => {
                let bytes = || sizes.iter().map(|&(bytes, _)| bytes);
                (bytes().min().unwrap_or(4096), bytes().max().unwrap_or(4096))
            }
        }
    }

    /// Whether the job issues I/O in this direction (0 for reads, 1 for writes, 2 for trims).
    pub(super) fn issues(&self, direction: usize) -> bool {
        match self.pattern.kind {
            Kind::Read => direction == 0,
            Kind::Write => direction == 1,
            Kind::Trim => direction == 2,
            Kind::Mixed => direction < 2,
            Kind::TrimWrite => direction > 0,
        }
    }

    /// The smallest and the largest I/O size over all directions that the job issues, in bytes.
    pub(super) fn all_block_bounds(&self) -> (u32, u32) {
        let bounds = (0..DIRECTIONS).filter(|&direction| self.issues(direction)).map(|direction| self.block_bounds(direction));
        bounds.fold((u32::MAX, 0), |(low, high), (least, most)| (low.min(least), high.max(most)))
    }

    /// The zones; `None` without `zonemode=strided`.
    pub(super) fn zones(&self) -> Option<Zones> {
        let range = if self.zone_range == 0 { self.zone_size } else { self.zone_range };
        self.strided.then_some(Zones { size: self.zone_size, range, skip: self.zone_skip })
    }

    /// The job's advice to the kernel when it opens its files (fio: `generic_open_file` and `td_io_open_file` in ioengines.c).
    pub fn advice(&self) -> Advice {
        self.fadvise_hint.unwrap_or(if self.pattern.random { Advice::Random } else { Advice::Sequential })
    }

    /// Whether every block is visited once before any is visited again.
    pub(super) fn random_map(&self) -> bool {
        let uniform = self.distribution.iter().all(|distribution| *distribution == Distribution::Uniform);
        let aligned = self.block_align.iter().any(Option::is_some);
        let once = !self.no_random_map || self.linear_feedback;
        self.pattern.random && once && uniform && !aligned && !self.strided
    }
}
