//! The same jobs by the real fio on the real kernel, and in the simulator: how true the simulator is.
//!
//! ```text
//! workloads x schedulers ──▶ Real: sets the scheduler, runs fio ──▶ JSON ──┐
//!          │                 (as often as wanted, in turn)                 ├──▶ report::truth::Truth
//!          └───────────────▶ comparison, on the same profile ──▶ records ──┘
//! ```

mod fio;

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use learn::Setting;
use report::truth::{Row, SCHEMA, Spread, Truth};
use sim::device::hdd::spec::QueuePolicy;

use crate::comparison::Experiment;
use crate::comparison::regime::Regime;
use crate::pool::Crew;
pub use fio::{Got, run, version};

macro_rules! workloads {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("workloads/", $name, ".fio")))),*]
    };
}

/// Name and jobs of every workload, all direct and on the device itself.
pub static WORKLOADS: &[(&str, &str)] = workloads![
    "random-reads",
    "random-readers",
    "random-mix",
    "sequential-readers",
    "sequential-writers",
    "reader-and-writers",
    "reader-among-writers",
    "streams-and-readers",
    "database",
];

/// The workloads need this much of the device.
pub const BYTES: u64 = 8 << 30;

/// Seconds before what is measured, in which queues and caches fill.
const RAMP_S: f64 = 1.0;

/// The directions, in the order of fio's report.
const DIRECTIONS: [&str; 2] = ["read", "write"];

/// A block device of the real kernel.
pub trait Real {
    /// Where it is.
    fn path(&self) -> String;

    /// Puts a scheduler in force; says what the simulator's host must be set to for the same, as `key=value`.
    ///
    /// # Errors
    /// The kernel refuses, or takes another value than was written.
    fn set(&mut self, setting: &Setting) -> anyhow::Result<Vec<String>>;
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Question {
    /// Names of [`WORKLOADS`]; empty means all.
    pub workloads: Vec<String>,
    /// Under which schedulers.
    pub settings: Vec<Setting>,
    /// Seconds that are measured of each run.
    pub seconds: f64,
    /// Real runs of each.
    pub runs: u32,
    /// The profile that is simulated: a name or a file, or an array in a line.
    pub disk: String,
    /// Requests it takes at once; `None` leaves the profile's.
    pub queue_depth: Option<u32>,
    /// The order in which it serves them; `None` leaves the profile's.
    pub queue_policy: Option<QueuePolicy>,
    /// Whether fio may write to the device.
    pub writes: bool,
}

impl Question {
    /// The workloads that are run.
    ///
    /// # Errors
    /// One is unknown, or would write where nothing may be written.
    pub fn chosen(&self) -> anyhow::Result<Vec<(&'static str, &'static str)>> {
        let known = || WORKLOADS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let find = |name: &String| {
            let found = WORKLOADS.iter().copied().find(|(known, _)| known == name);
            found.with_context(|| format!("--workloads {name}: is not known; known are {}", known()))
        };
        let named: Vec<_> = self.workloads.iter().map(find).collect::<anyhow::Result<_>>()?;
        let is_allowed = |(_, jobs): &(&str, &str)| self.writes || !writes(jobs);
        if let Some((name, _)) = named.iter().find(|workload| !is_allowed(workload)) {
            anyhow::bail!("--workloads {name}: writes to the device, and --read-only says not to");
        }
        let all = WORKLOADS.iter().copied().filter(|_| named.is_empty());
        Ok(named.iter().copied().chain(all).filter(is_allowed).collect())
    }

    /// Runs everything.
    ///
    /// # Errors
    /// A run failed, real or simulated, or was interrupted.
    pub fn ask(&self, real: &mut dyn Real, crew: Crew) -> anyhow::Result<Truth> {
        let workloads = self.chosen()?;
        let fio = version()?;
        let (device, runs) = (real.path(), self.runs.max(1) as usize);
        // By workload and scheduler.
        let mut gave: Vec<Vec<Gave>> = workloads.iter().map(|_| self.settings.iter().map(|_| Gave::default()).collect()).collect();
        let total = (workloads.len() * self.settings.len() * runs) as u64;
        crew.monitor.begin(total, "real runs");
        let mut done = 0;
        for round in 0..runs {
            for (workload, (name, jobs)) in workloads.iter().enumerate() {
                // Each round begins with another scheduler: what drifts is no scheduler's.
                for turn in 0..self.settings.len() {
                    crew.monitor.check()?;
                    let which = (turn + round) % self.settings.len();
                    let setting = &self.settings[which];
                    let Gave { got, host } = &mut gave[workload][which];
                    *host = real.set(setting).with_context(|| format!("{device}: {setting}"))?;
                    let output = run(&self.jobs(&device, jobs), self.seconds + RAMP_S, crew.monitor)?;
                    let parsed = fio::parse(&output).with_context(|| format!("{name} under {setting}"))?;
                    for (all, got) in got.iter_mut().zip(parsed) {
                        all.extend(got);
                    }
                    done += 1;
                    crew.monitor.progress(done);
                }
            }
        }
        crew.monitor.end();
        let mut rows = Vec::new();
        for ((name, jobs), gave) in workloads.iter().zip(&gave) {
            for (setting, Gave { got: real, host }) in self.settings.iter().zip(gave) {
                let simulated = self.simulate(&self.jobs(&device, jobs), setting, host, crew)?;
                for ((direction, real), simulated) in DIRECTIONS.iter().zip(real).zip(simulated) {
                    let Some(simulated) = simulated.filter(|_| !real.is_empty()) else { continue };
                    let spread = |figure: usize| Spread::of(real.iter().map(|run| run[figure]).collect());
                    let (workload, scheduler, direction) = ((*name).to_owned(), setting.to_string(), (*direction).to_owned());
                    rows.push(Row { workload, scheduler, direction, real: std::array::from_fn(spread), simulated });
                }
            }
        }
        let queue = match (self.queue_depth, self.queue_policy) {
            (None, None) => "its own queue".to_owned(),
            (depth, policy) => {
                let depth = depth.map_or_else(|| "its own".to_owned(), |depth| depth.to_string());
                let policy = policy.map_or_else(|| "its own".to_owned(), |policy| format!("{policy:?}").to_lowercase());
                format!("queue depth {depth}, policy {policy}")
            }
        };
        Ok(Truth {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            fio,
            device,
            disk: self.disk.clone(),
            queue,
            seconds: self.seconds,
            runs: self.runs,
            agreement: Truth::agreement(&rows),
            rows,
        })
    }

    /// A job file for fio and for the simulator.
    fn jobs(&self, device: &str, jobs: &str) -> String {
        format!(
            "[global]\nfilename={device}\nsize={BYTES}\ndirect=1\nioengine=libaio\ntime_based\nruntime={}\nramp_time={RAMP_S}\n\
             group_reporting\nlat_percentiles=1\nclat_percentiles=0\nnorandommap\nrandseed=1\n{jobs}",
            self.seconds
        )
    }

    fn simulate(&self, jobs: &str, setting: &Setting, host: &[String], crew: Crew) -> anyhow::Result<[Got; 2]> {
        let mut file = tempfile::Builder::new().suffix(".fio").tempfile().context("cannot write a job file")?;
        file.write_all(jobs.as_bytes()).context("cannot write a job file")?;
        let mut experiment = Experiment::of_jobs(file.path(), &self.disk);
        (experiment.queue_depth, experiment.queue_policy) = (self.queue_depth, self.queue_policy);
        experiment.host = host.to_vec();
        let records = experiment.records(vec![Regime::Scheduler(setting.clone())], false, crew)?;
        let record = records.first().context("nothing was simulated")?;
        ensure!(record.jobs.len() == 1, "the jobs are of {} groups; one is right", record.jobs.len());
        let service = &record.jobs[0].service;
        // fio divides by the time of the job that ran longest, whenever each began.
        let lasted_s = record.streams.iter().map(|stream| stream.service.duration_s).fold(f64::MIN_POSITIVE, f64::max);
        let got = |figures: &Option<report::record::DirectionFigures>| {
            let figures = figures.as_ref()?;
            Some([figures.bytes as f64 / 1e6 / lasted_s, figures.response.mean_ms, figures.response.p99_ms])
        };
        Ok([got(&service.reads), got(&service.writes)])
    }
}

/// What the real runs of a workload under a scheduler gave.
#[derive(Default)]
struct Gave {
    /// Of each run that did any: reads, and writes.
    got: [Vec<[f64; 3]>; 2],
    /// How the simulator's host is set for the same.
    host: Vec<String>,
}

/// Whether jobs write.
fn writes(jobs: &str) -> bool {
    jobs.lines().any(|line| line.starts_with("rw=") && !line.ends_with("read"))
}
