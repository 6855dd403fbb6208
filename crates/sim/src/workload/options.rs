//! The values of a job's options, one field each. [`table`](super::table) lists the options and how they are parsed.

use std::sync::Arc;

use block::{Nanos, Priority, PriorityClass};

use crate::host::Advice;

/// Reads, writes and trims, in the order in which job files give values for them.
pub const DIRECTIONS: usize = 3;

/// The kinds of jobs: `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
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
    pub kind: JobKind,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl Default for Verify {
    fn default() -> Verify {
        Verify { on: false, reads: true, only: false, backlog: 0, batch: 0, experimental: false }
    }
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

/// The order and kind of the I/Os, and the offsets they choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// `rw` with its suffix.
    pub pattern: Pattern,
    /// `rw_sequencer`.
    pub sequencer: Sequencer,
    /// `rwmixread`, or 100 minus `rwmixwrite`; in percent.
    pub mix_read: u8,
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
}

impl Default for Order {
    fn default() -> Order {
        Order {
            pattern: Pattern { kind: JobKind::Read, random: false, every: 1, skip: 0 },
            sequencer: Sequencer::Sequential,
            mix_read: 50,
            percentage_random: [100; DIRECTIONS],
            no_random_map: false,
            linear_feedback: false,
            distribution: std::array::from_fn(|_| Distribution::Uniform),
            strided: false,
            zone_size: 0,
            zone_range: 0,
            zone_skip: 0,
            seed: None,
            repeatable: true,
        }
    }
}

impl Order {
    /// Whether the job issues I/O in this direction (0 for reads, 1 for writes, 2 for trims).
    pub(super) fn issues(&self, direction: usize) -> bool {
        match self.pattern.kind {
            JobKind::Read => direction == 0,
            JobKind::Write => direction == 1,
            JobKind::Trim => direction == 2,
            JobKind::Mixed => direction < 2,
            JobKind::TrimWrite => direction > 0,
        }
    }

    /// Whether the job discards.
    pub(super) fn trims(&self) -> bool {
        self.issues(2)
    }

    /// Whether random offsets are distributed uniformly in all directions.
    pub(super) fn is_uniform(&self) -> bool {
        self.distribution.iter().all(|distribution| *distribution == Distribution::Uniform)
    }

    /// The zones; `None` without `zonemode=strided`.
    pub(super) fn zones(&self) -> Option<Zones> {
        let range = if self.zone_range == 0 { self.zone_size } else { self.zone_range };
        self.strided.then_some(Zones { size: self.zone_size, range, skip: self.zone_skip })
    }
}

/// The sizes of I/Os and the alignment of their offsets.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// `bs`, `bsrange` or `bssplit`, for reads, writes and trims.
    pub sizes: [BlockSizes; DIRECTIONS],
    /// `blockalign` in bytes; `None` if not given.
    pub align: [Option<u64>; DIRECTIONS],
    /// `bs_unaligned`.
    pub unaligned: bool,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { sizes: std::array::from_fn(|_| BlockSizes::Range(4096, 4096)), align: [None; DIRECTIONS], unaligned: false }
    }
}

impl Blocks {
    /// The smallest and the largest I/O size of a direction, in bytes.
    pub(super) fn bounds(&self, direction: usize) -> (u32, u32) {
        match &self.sizes[direction] {
            BlockSizes::Range(low, high) => (*low, *high),
            BlockSizes::Split(sizes) => {
                let bytes = || sizes.iter().map(|&(bytes, _)| bytes);
                (bytes().min().unwrap_or(4096), bytes().max().unwrap_or(4096))
            }
        }
    }
}

/// The files of a job, and its part of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
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
    pub number: u32,
    /// `file_service_type`, and the number of consecutive I/Os to one file.
    pub service: (FileService, u32),
    /// `filename`, split.
    pub names: Arc<[String]>,
    /// `directory`, split.
    pub directories: Arc<[String]>,
    /// `filename_format`.
    pub name_format: Arc<str>,
    /// `fill_device`: the file takes all remaining space.
    pub fill_device: bool,
    /// `overwrite`: whether the files of a writing job already exist and are filled.
    pub overwrite: bool,
    /// `invalidate`: whether the job's parts of its files are dropped from the page cache when it starts.
    pub invalidate: bool,
}

impl Default for Files {
    fn default() -> Files {
        Files {
            size: None,
            io_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: 0,
            file_size: None,
            number: 1,
            service: (FileService::RoundRobin, 1),
            names: Arc::new([]),
            directories: Arc::new([]),
            name_format: "$jobname.$jobnum.$filenum".into(),
            fill_device: false,
            overwrite: false,
            invalidate: true,
        }
    }
}

/// The calls for I/O, and the number of I/Os in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
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
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            depth: 1,
            batch_submit: 1,
            batch_complete_min: 1,
            batch_complete_max: 0,
            depth_low: 0,
            engine: Engine::Sync,
            offload: false,
            direct: false,
            fadvise_hint: None,
        }
    }
}

impl Queue {
    /// The maximum number of I/Os in flight, over `files` files.
    pub(super) fn depth(&self, files: usize) -> u32 {
        match self.engine {
            // Each submitting thread has one call in flight.
            _ if self.offload => self.depth,
            Engine::Sync => 1,
            // io_submit(2) of buffered I/O returns when the I/O is complete.
            Engine::Libaio if !self.direct => 1,
            Engine::Libaio | Engine::IoUring | Engine::Null => self.depth,
            // In glibc one thread serves the requests of each file, so one I/O per file is in flight.
            Engine::PosixAio => self.depth.min(u32::try_from(files.max(1)).unwrap_or(u32::MAX)),
        }
    }
}

/// Writes and calls that wait for the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Syncs {
    /// `sync`.
    pub mode: SyncMode,
    /// `fsync`: number of writes between syncs; 0 for none.
    pub fsync: u32,
    /// `fdatasync`: number of writes between syncs; 0 for none.
    pub fdatasync: u32,
    /// `end_fsync`.
    pub end_fsync: bool,
    /// `fsync_on_close`.
    pub fsync_on_close: bool,
}

impl Default for Syncs {
    fn default() -> Syncs {
        Syncs { mode: SyncMode::None, fsync: 0, fdatasync: 0, end_fsync: false, fsync_on_close: false }
    }
}

/// Limits of the rate of I/O, and the rates below which a job fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// `rate` in bytes per second; 0 for no limit.
    pub bytes: [u64; DIRECTIONS],
    /// `rate_iops`; 0 for no limit.
    pub ios: [u64; DIRECTIONS],
    /// `rate_min` in bytes per second; 0 for none.
    pub min_bytes: [u64; DIRECTIONS],
    /// `rate_iops_min`; 0 for none.
    pub min_ios: [u64; DIRECTIONS],
    /// `rate_cycle`: interval over which `rate_min` and `rate_iops_min` are checked.
    pub cycle: Nanos,
    /// `rate_process=poisson`.
    pub poisson: bool,
    /// `rate_ignore_thinktime`.
    pub ignore_think: bool,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates {
            bytes: [0; DIRECTIONS],
            ios: [0; DIRECTIONS],
            min_bytes: [0; DIRECTIONS],
            min_ios: [0; DIRECTIONS],
            cycle: Nanos::from_millis(1000),
            poisson: false,
            ignore_think: false,
        }
    }
}

impl Rates {
    /// The limit of a direction whose smallest I/O has `block` bytes, in bytes per second; 0 for no limit.
    pub(super) fn bytes_per_second(&self, direction: usize, block: u64) -> u64 {
        self.bytes[direction].max(self.ios[direction].saturating_mul(block))
    }
}

/// Pauses between I/Os.
#[derive(Clone, Debug, PartialEq)]
pub struct ThinkTime {
    /// `thinktime`.
    pub span: Nanos,
    /// `thinktime_blocks`; if neither it nor `thinktime_iotime` is given, 1 applies.
    pub blocks: Option<u32>,
    /// `thinktime_blocks_type=issue`.
    pub at_issue: bool,
    /// `thinktime_iotime`.
    pub every: Option<Nanos>,
}

impl Default for ThinkTime {
    fn default() -> ThinkTime {
        ThinkTime { span: Nanos::ZERO, blocks: None, at_issue: false, every: None }
    }
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Length {
    /// `runtime`.
    pub runtime: Option<Nanos>,
    /// `time_based`.
    pub time_based: bool,
    /// `ramp_time`.
    pub ramp: Nanos,
    /// `loops`.
    pub loops: u32,
    /// `number_ios`.
    pub number_ios: Option<u64>,
}

impl Default for Length {
    fn default() -> Length {
        Length { runtime: None, time_based: false, ramp: Nanos::ZERO, loops: 1, number_ios: None }
    }
}

/// The start and end of a job in relation to others, and the rows of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// `numjobs`.
    pub clones: u32,
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
    /// `new_group`.
    pub new_group: bool,
    /// `group_reporting`.
    pub group_reporting: bool,
}

impl Default for Together {
    fn default() -> Together {
        Together {
            clones: 1,
            start_delay: (Nanos::ZERO, Nanos::ZERO),
            stonewall: false,
            wait_for: None,
            exit_all: false,
            exit_all_on_error: false,
            exit_what: ExitWhat::Group,
            new_group: false,
            group_reporting: false,
        }
    }
}

/// The share of a job in the I/Os of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// `flow`: its weight among the jobs with the same `flow_id`; 0 for none.
    pub weight: u32,
    /// `flow_id`.
    pub id: u32,
    /// `flow_sleep`.
    pub sleep: Nanos,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { weight: 0, id: 0, sleep: Nanos::ZERO }
    }
}

/// The end of a job when its throughput is steady.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyState {
    /// `steadystate`.
    pub rule: Option<Steady>,
    /// `steadystate_duration`, in whole seconds; 0 disables `steadystate`.
    pub seconds: u32,
    /// `steadystate_ramp_time`.
    pub ramp: Nanos,
}

impl Default for SteadyState {
    fn default() -> SteadyState {
        SteadyState { rule: None, seconds: 0, ramp: Nanos::ZERO }
    }
}

/// The I/O priorities of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityOptions {
    /// `prioclass`.
    pub class: Option<PriorityClass>,
    /// `prio`.
    pub level: Option<u8>,
    /// `cmdprio_percentage` or `cmdprio_bssplit`.
    pub commands: CommandPriorities,
    /// `cmdprio_class`, for reads and for writes.
    pub command_class: [PriorityClass; 2],
    /// `cmdprio`, for reads and for writes.
    pub command_level: [u8; 2],
}

impl Default for PriorityOptions {
    fn default() -> PriorityOptions {
        PriorityOptions {
            class: None,
            level: None,
            commands: CommandPriorities::default(),
            command_class: [PriorityClass::RealTime; 2],
            command_level: [0; 2],
        }
    }
}

impl PriorityOptions {
    /// The priority of the job: best effort, level 4, unless `prio` or `prioclass` is given.
    pub fn of_job(&self) -> Priority {
        let class = self.class.unwrap_or(PriorityClass::BestEffort);
        // fio passes level 0, the highest, to ioprio_set(2) if only the class is given.
        let silent = if self.class.is_some() { 0 } else { Priority::DEFAULT.level };
        Priority { class, level: self.level.unwrap_or(silent) }
    }

    /// The priority of reads and that of writes for which a rule names none.
    pub(super) fn of_commands(&self) -> [Priority; 2] {
        [0, 1].map(|i| Priority { class: self.command_class[i], level: self.command_level[i] })
    }
}

/// All options of a job. Unless stated otherwise, a field of a part is the option of that name in fio's HOWTO.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// `name`: shown instead of the section's name.
    pub name: Option<Arc<str>>,
    /// `description`.
    pub description: Option<Arc<str>>,
    /// The order and kind of the I/Os, and the offsets they choose.
    pub order: Order,
    /// The sizes of I/Os and the alignment of their offsets.
    pub blocks: Blocks,
    /// The files of a job, and its part of each.
    pub files: Files,
    /// The calls for I/O, and the number of I/Os in flight.
    pub queue: Queue,
    /// Writes and calls that wait for the device.
    pub sync: Syncs,
    /// Limits of the rate of I/O, and the rates below which a job fails.
    pub rate: Rates,
    /// Pauses between I/Os.
    pub think: ThinkTime,
    /// The end of a job.
    pub length: Length,
    /// The start and end of a job in relation to others, and the rows of the report.
    pub together: Together,
    /// The share of a job in the I/Os of several.
    pub flow: Flow,
    /// The end of a job when its throughput is steady.
    pub steady: SteadyState,
    /// The I/O priorities of a job.
    pub priority: PriorityOptions,
    /// Read-back of written data.
    pub verify: Verify,
}

impl Options {
    /// The smallest and the largest I/O size over all directions that the job issues, in bytes.
    pub(super) fn all_block_bounds(&self) -> (u32, u32) {
        let bounds =
            (0..DIRECTIONS).filter(|&direction| self.order.issues(direction)).map(|direction| self.blocks.bounds(direction));
        bounds.fold((u32::MAX, 0), |(low, high), (least, most)| (low.min(least), high.max(most)))
    }

    /// The job's advice to the kernel when it opens its files (fio: `generic_open_file` and `td_io_open_file` in ioengines.c).
    pub fn advice(&self) -> Advice {
        self.queue.fadvise_hint.unwrap_or(if self.order.pattern.random { Advice::Random } else { Advice::Sequential })
    }

    /// Whether every block is visited once before any is visited again.
    pub(super) fn random_map(&self) -> bool {
        let order = &self.order;
        let aligned = self.blocks.align.iter().any(Option::is_some);
        let once = !order.no_random_map || order.linear_feedback;
        order.pattern.random && once && order.is_uniform() && !aligned && !order.strided
    }
}
