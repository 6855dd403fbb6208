//! The arguments shared by `advise`, `compare` and `simulate`.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use experiment::comparison::regime::Regime;
use experiment::comparison::{Experiment, RequestObserver};
use observe::Preference;
use report::record::Record;
use sim::device::hdd::spec::QueuePolicy;
use sim::replay::Fit;
use sim::trace::Columns;
use sim::trace::merge::in_folders;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::trace::{ReplayOptions, SPEEDS};

use crate::number;
use terminal::Terminal;

/// Headings of options.
pub(crate) const HOST: &str = "Simulated host";
pub(crate) const REPLAY: &str = "Traces";

/// The load, and the host on which it is run.
#[derive(clap::Args)]
pub struct LoadArguments {
    /// A trace, an fio job file, or a built-in workload (`seekwise workload list`); several traces are merged by time
    ///
    /// `seekwise trace formats` lists the formats of traces. Several traces, or folders of them, are merged as `seekwise trace merge` does.
    #[arg(value_name = "TRACE|JOB.fio|WORKLOAD", required = true)]
    load: Vec<PathBuf>,
    #[command(flatten)]
    replay: ReplayArguments,
    /// Seed for job files: places of their files and random numbers
    ///
    /// Each seed is another run, in spite of `randrepeat`; seed 1 draws the numbers of fio.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed, help_heading = HOST)]
    seed: u64,
    /// Number of requests the disk accepts at once [default: the profile's]
    #[arg(long, value_name = "REQUESTS", value_parser = number::within::<u32>(1..=1024, "requests"), help_heading = HOST)]
    queue_depth: Option<u32>,
    /// The order in which the disk serves queued requests [default: the profile's]
    #[arg(long, value_enum, help_heading = HOST)]
    queue_policy: Option<QueuePolicyArgument>,
    /// A tunable of the host (`seekwise host list`); may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = HOST)]
    settings: Vec<String>,
    /// Weights of throughput, response time and fairness in a choice [default: 2,3,1]
    ///
    /// Each 1 to 3, summing to 6 or 7.
    #[arg(long, value_name = "T,R,F", help_heading = "Choice")]
    preference: Option<Preference>,
    /// Number of replays to run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"), help_heading = HOST)]
    threads: Option<u16>,
}

/// Default disk.
pub(crate) const DISK: &str = "sata7200";

/// The load, the disk, the host and the records.
#[derive(clap::Args)]
pub struct ExperimentArguments {
    #[command(flatten)]
    load: LoadArguments,
    /// The disk: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`
    #[arg(long, value_name = "NAME|FILE|ARRAY", default_value = DISK)]
    disk: String,
    /// The settings that controllers choose from: `kernel` (today's Linux), `kernel-tuned`, `linux`, `classic`, `paper` (the paper's five and per-request), `all`
    /// (every scheduler but those for tenants, with its defaults and in tuned variants), or settings such as
    /// `mq-deadline:fifo_batch=4,read_expire=100`, optionally followed by a space and host tunables; separated by semicolons, or given
    /// several times [default: kernel]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// Experience that controllers learn from (`seekwise-lab learn gather`) [default: built in]
    #[arg(long, value_name = "FILE.json")]
    experience: Option<PathBuf>,
    /// A knowledge base, created if it does not exist. The runs' windows, decisions with their reasons, requests under
    /// per-request and models are added to it, and controllers learn from those of earlier runs as well as from --experience.
    /// Their decisions therefore depend on the file's content
    #[arg(long, value_name = "FILE")]
    kb: Option<PathBuf>,
    /// Tenants and their guarantees (docs/reference/tenants.md) [default: from comments in the job file]
    #[arg(long, value_name = "FILE.toml")]
    tenants: Option<PathBuf>,
    /// Write one record per scheduler and controller to this folder
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Measure the schedulers' and controllers' processor time, too: the only figure that differs from run to run
    #[arg(long)]
    cpu_time: bool,
}

/// The order in which a disk serves its queue.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum QueuePolicyArgument {
    /// In order of arrival
    Fifo,
    /// Shortest seek time first: the fewest cylinders away
    Sstf,
    /// Shortest positioning time first: the soonest under the head
    Sptf,
}

impl From<QueuePolicyArgument> for QueuePolicy {
    fn from(argument: QueuePolicyArgument) -> QueuePolicy {
        match argument {
            QueuePolicyArgument::Fifo => QueuePolicy::Fifo,
            QueuePolicyArgument::Sstf => QueuePolicy::Sstf,
            QueuePolicyArgument::Sptf => QueuePolicy::Sptf,
        }
    }
}

impl LoadArguments {
    /// The experiment with this load on `disk`, or on the default disk.
    ///
    /// # Errors
    /// One of several loads is not a trace, or a folder cannot be read.
    pub fn experiment(&self, disk: Option<&str>) -> anyhow::Result<Experiment> {
        let (load, others) = self.loads()?;
        let same_devices = self.replay.same_devices;
        ensure!(!same_devices || !others.is_empty(), "--same-devices: is for several traces, and {} is one load", load.display());
        Ok(self.experiment_of(load, others, disk))
    }

    /// The only load given.
    ///
    /// # Errors
    /// Several are given.
    pub fn only(&self) -> anyhow::Result<&Path> {
        match &self.load[..] {
            [only] => Ok(only),
            [_, more, ..] => anyhow::bail!("{}: one trace, or one folder of them, is looked at", more.display()),
            [] => anyhow::bail!("name a trace or a folder of them"),
        }
    }

    /// As [`experiment`](LoadArguments::experiment), with these files instead of those given.
    pub fn experiment_of(&self, load: PathBuf, others: Vec<PathBuf>, disk: Option<&str>) -> Experiment {
        let ReplayArguments { format, columns, skip_bad, same_devices, closed, speed, fit } = &self.replay;
        let (format, columns, same_devices) = (format.clone(), columns.get().cloned(), *same_devices);
        let (skip_bad, closed, speed, fit) = (*skip_bad, *closed, *speed, (*fit).into());
        Experiment {
            load,
            replay: ReplayOptions { format, columns, skip_bad, others, memory: None, same_devices, closed, speed, fit },
            seed: self.seed,
            begin_apart: false,
            disk: disk.unwrap_or(DISK).to_owned(),
            queue_depth: self.queue_depth,
            queue_policy: self.queue_policy.map(QueuePolicy::from),
            host: self.settings.clone(),
            candidates: Vec::new(),
            preference: self.preference,
            experience: None,
            knowledge_base: None,
            tenants: None,
            record: None,
            measures_cpu: false,
        }
    }

    /// The first load, and further traces to merge.
    fn loads(&self) -> anyhow::Result<(PathBuf, Vec<PathBuf>)> {
        if let [only] = &self.load[..]
            && !only.is_dir()
        {
            return Ok((only.clone(), Vec::new()));
        }
        let mut files = in_folders(&self.load)?;
        for path in &files {
            ensure!(
                shipped::job_text(path)?.is_none(),
                "{}: is a job file; only traces can be run together, merged by time: run it by itself",
                path.display()
            );
        }
        let first = files.remove(0);
        Ok((first, files))
    }

    /// The weights, if given.
    pub fn preference(&self) -> Option<Preference> {
        self.preference
    }

    /// Number of threads, if given.
    pub fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

impl ExperimentArguments {
    /// Runs the load under each of the regimes.
    pub fn records(&self, regimes: Vec<Regime>, alone: bool) -> anyhow::Result<Vec<Record>> {
        self.records_observed(regimes, alone, None)
    }

    /// As [`records`](ExperimentArguments::records), with an observer that is called for each completed request.
    pub fn records_observed(
        &self,
        regimes: Vec<Regime>,
        alone: bool,
        observer: Option<RequestObserver>,
    ) -> anyhow::Result<Vec<Record>> {
        let terminal = Terminal::default();
        self.experiment()?.records_observed(regimes, alone, Workers::new(&terminal, self.load.threads()), observer)
    }

    /// The trace, job file or workload; the first of several traces.
    pub fn load(&self) -> &Path {
        self.load.load.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Whether the load consists of several traces.
    pub fn is_merged(&self) -> anyhow::Result<bool> {
        Ok(!self.load.loads()?.1.is_empty())
    }

    /// Whether the load is a job file rather than a trace.
    pub fn is_job_file(&self) -> anyhow::Result<bool> {
        let (load, others) = self.load.loads()?;
        Ok(others.is_empty() && shipped::job_text(&load)?.is_some())
    }

    fn experiment(&self) -> anyhow::Result<Experiment> {
        Ok(Experiment {
            candidates: self.candidates.clone(),
            experience: self.experience.clone(),
            knowledge_base: self.kb.clone(),
            tenants: self.tenants.clone(),
            record: self.record.clone(),
            measures_cpu: self.cpu_time,
            ..self.load.experiment(Some(&self.disk))?
        })
    }
}

/// Which column of a CSV file is what, for every command that opens a trace.
#[derive(clap::Args)]
pub struct ColumnsArgument {
    /// Roles and units of the columns of a CSV trace, by name or number from 1 [default: by its heading]
    ///
    /// For example time=timestamp,offset=2,size=3,op=kind,time-unit=s,offset-unit=bytes,size-unit=bytes. Optional are device, stream,
    /// latency, latency-unit (default: time-unit), read=VALUE and write=VALUE (their values of op) and separator (comma, semicolon,
    /// tab, space, pipe or a sign). Units of time are s, ms, us and ns; of the offset and the size bytes and sectors.
    #[arg(long, value_name = "KEY=COLUMN,...", help_heading = REPLAY)]
    columns: Option<Columns>,
}

impl ColumnsArgument {
    /// The columns, if they are given.
    pub fn get(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }
}

/// How a trace is replayed.
#[derive(clap::Args)]
pub struct ReplayArguments {
    /// The trace's format [default: recognised by content]
    #[arg(long, help_heading = REPLAY)]
    format: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// Skip and count damaged records instead of stopping at the first
    #[arg(long, help_heading = REPLAY)]
    skip_bad: bool,
    /// Identify devices and streams of several traces by name, or number without one: parts of one recording
    #[arg(long, help_heading = REPLAY)]
    same_devices: bool,
    /// Issue a request after the one that its stream waited for, not at its recorded time
    ///
    /// Each request is issued its recorded think time after the completion of the one that its stream waited for.
    #[arg(long, help_heading = REPLAY)]
    closed: bool,
    /// Speed-up: divide the trace's times by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed, help_heading = REPLAY)]
    speed: f64,
    /// Treatment of a trace that reaches beyond the end of the disk
    #[arg(long, value_enum, default_value = "exact", help_heading = REPLAY)]
    fit: FitArgument,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FitArgument {
    /// Reject it; requests keep their addresses
    Exact,
    /// Leave out areas of 16 MiB that the trace never touches
    Compact,
}

impl From<FitArgument> for Fit {
    fn from(argument: FitArgument) -> Fit {
        match argument {
            FitArgument::Exact => Fit::Exact,
            FitArgument::Compact => Fit::Compact,
        }
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if SPEEDS.contains(&value) => Ok(value),
        _ => Err("should be a number from 0.000001 to 1000000".to_owned()),
    }
}
