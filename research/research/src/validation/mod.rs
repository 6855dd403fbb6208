//! Accuracy of the simulator: the same jobs run by fio on the real kernel and in the simulator.
//!
//! ```text
//! workloads x settings ──▶ RealDevice: applies the setting, runs fio ──▶ JSON ──┐
//!          │               (as often as wanted, in turn)                        ├──▶ crate::report::validation::Disk
//!          └─────────────▶ comparison, on the same profile ──▶ records ─────────┘
//! ```

mod choice;
pub mod drawn;
pub mod fit;
pub mod workloads;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::report::validation::{Agreement, Disk, FSYNC, Pairs, Row, Spread};
use anyhow::{Context as _, ensure};
use block::{Tunable, Unit};
use control::Setting;
use sim::device::hdd::spec::QueuePolicy;
use testbed::pool::Workers;
use testbed::shipped;

use choice::Recorded;
use experiment::comparison::Experiment;
use experiment::comparison::regime::Regime;
use experiment::fio;
pub use experiment::fio::{Got, run, version};
use progress::monitor::Quiet;
use workloads::Workload;

/// Bytes of the device that the workloads use: 8 GiB.
pub const BYTES: u64 = 8 << 30;

/// Warm-up before the measurement, in seconds, in which queues and caches fill.
pub(crate) const RAMP_S: f64 = 1.0;

/// Minimum number of simulated runs: they are cheap, and bistable results need several.
const SIMULATED: u32 = 9;

/// The directions, in the order of fio's report.
const DIRECTIONS: [&str; 3] = ["read", "write", FSYNC];

/// A block device of the real kernel on which settings are compared. Its settings are restored on drop.
///
/// ```
/// use std::path::Path;
///
/// use control::Setting;
/// use research::validation::RealDevice;
///
/// /// Ignores settings, and cannot be traced.
/// struct Stub;
///
/// impl RealDevice for Stub {
///     fn path(&self) -> String {
///         "/dev/stub".to_owned()
///     }
///     fn set(&mut self, _: &Setting, host: &[(String, i64)]) -> anyhow::Result<Vec<String>> {
///         Ok(host.iter().map(|(name, value)| format!("{name}={value}")).collect())
///     }
///     fn record(&mut self, _: &Path) -> anyhow::Result<bool> {
///         Ok(false)
///     }
///     fn recorded(&mut self) -> anyhow::Result<()> {
///         Ok(())
///     }
///     fn settle(&mut self) -> anyhow::Result<()> {
///         Ok(())
///     }
/// }
///
/// assert!(!Stub.record(Path::new("trace")).unwrap());
/// ```
pub trait RealDevice {
    /// Path of the device, such as `/dev/sdb`.
    fn path(&self) -> String;

    /// Applies a setting and tunables of the host. Returns the host tunables with which the simulator matches the device, as `key=value`.
    ///
    /// # Errors
    /// The kernel refuses a value, or reads back another one.
    fn set(&mut self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<Vec<String>>;

    /// Starts to trace the device's requests into this file. Returns false if its requests cannot be traced on this machine.
    ///
    /// # Errors
    /// The kernel refuses, or the file cannot be written.
    fn record(&mut self, file: &Path) -> anyhow::Result<bool>;

    /// Stops tracing and completes the file.
    ///
    /// # Errors
    /// The file cannot be written, or events were lost.
    fn recorded(&mut self) -> anyhow::Result<()>;

    /// Waits until all dirty pages are on the device. An emulated device is then reset to a new one.
    ///
    /// # Errors
    /// The device fails.
    fn settle(&mut self) -> anyhow::Result<()>;
}

/// The simulated counterpart of a device.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name in the report.
    pub name: String,
    /// Name or file of the profile, or an array such as `raid0:disk=atlas10k,disks=4`.
    pub disk: String,
    /// Queue depth; `None`: the profile's.
    pub queue_depth: Option<u32>,
    /// Queue policy; `None`: the profile's.
    pub queue_policy: Option<QueuePolicy>,
}

impl Model {
    /// The default selection: `sata7200` with queue depth 4 and FIFO order, `sata7200` with queue depth 32 and SPTF order, and `sd-card`.
    pub fn usual() -> Vec<Model> {
        let model = |disk: &str, queue_depth, queue_policy| Model {
            name: disk.to_owned(),
            disk: disk.to_owned(),
            queue_depth,
            queue_policy,
        };
        vec![
            model("sata7200", Some(4), Some(QueuePolicy::Fifo)),
            model("sata7200", Some(32), Some(QueuePolicy::Sptf)),
            model("sd-card", None, None),
        ]
    }

    fn queue(&self) -> String {
        match (self.queue_depth, self.queue_policy) {
            (None, None) => "default queue".to_owned(),
            (depth, policy) => {
                let depth = depth.map_or_else(|| "default".to_owned(), |depth| depth.to_string());
                let policy = policy.map_or_else(|| "default".to_owned(), |policy| format!("{policy:?}").to_lowercase());
                format!("queue depth {depth}, policy {policy}")
            }
        }
    }
}

/// Parameters of a comparison.
#[derive(Clone, Debug)]
pub struct ValidationRequest {
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The settings; empty means Linux's schedulers, plus variants of one tunable for some workloads.
    pub settings: Vec<Setting>,
    /// Measured seconds of each run, by the clock of the disk model.
    pub seconds: f64,
    /// Number of real runs of each.
    pub runs: u32,
    /// Speed of the real device relative to its model.
    pub scale: f64,
}

/// A workload under a setting.
struct Cell<'a> {
    workload: &'a Workload,
    setting: Setting,
    /// Results of each real run by direction: reads, writes and fsyncs; runs without any are omitted.
    real: [Vec<[f64; 3]>; 3],
    /// Host settings of the simulator that match the device.
    host: Vec<String>,
    /// Request recording of each real run, if enabled, with the performance of its processes.
    recorded: Vec<(PathBuf, fio::Overall)>,
}

impl ValidationRequest {
    /// Validates the request before anything is run.
    ///
    /// # Errors
    /// A scheduler does not exist in Linux or cannot be scaled, or times of jobs cannot be parsed.
    pub fn check(&self) -> anyhow::Result<()> {
        for setting in &self.settings {
            expect_of_linux(setting)?;
            ensure!(
                self.is_unscaled() || can_be_scaled(setting),
                "--scheduler {setting}: the time constants of bfq cannot be scaled; omit it or --scale"
            );
        }
        for workload in &self.workloads {
            ensure!(
                self.is_unscaled() || !workload.is_buffered(),
                "--workloads {}: uses the page cache, which --scale cannot speed up",
                workload.name
            );
            // Fail before minutes of real runs rather than after them.
            let text = jobs("/dev/loop0", workload, self.seconds, 0, self.scale)?;
            shipped::parse(&text, &workload.name)?;
        }
        Ok(())
    }

    fn is_unscaled(&self) -> bool {
        self.scale == 1.0
    }

    /// The items that are ranked: the settings of each workload, or the workloads if each has a setting of its own.
    pub fn pairs(&self) -> Pairs {
        let is_single = |workload: &Workload| workload.only_under.is_some();
        if self.settings.is_empty() && self.workloads.iter().all(is_single) { Pairs::Workloads } else { Pairs::Settings }
    }

    fn settings(&self, workload: &Workload) -> Vec<Setting> {
        if !self.settings.is_empty() {
            return self.settings.clone();
        }
        if let Some(only) = &workload.only_under {
            return vec![only.clone()];
        }
        let usual = block::KERNEL.iter().copied().map(Setting::of).chain(workload.tuned());
        usual.filter(|setting| self.is_unscaled() || can_be_scaled(setting)).collect()
    }

    /// Runs all workloads on one disk.
    ///
    /// # Errors
    /// A real or simulated run failed, or the work was interrupted.
    pub fn ask(&self, model: &Model, real: &mut dyn RealDevice, workers: Workers) -> anyhow::Result<Disk> {
        let device = real.path();
        let mut cells: Vec<Vec<Cell>> = Vec::new();
        for workload in &self.workloads {
            let cell = |setting| Cell { workload, setting, real: Default::default(), host: Vec::new(), recorded: Vec::new() };
            cells.push(self.settings(workload).into_iter().map(cell).collect());
        }
        let folder = tempfile::tempdir().context("cannot create a folder for the trace")?;
        let total = cells.iter().map(Vec::len).sum::<usize>() as u64 * u64::from(self.runs);
        workers.monitor.begin(total, "real runs");
        let mut done = 0;
        for round in 0..self.runs {
            for of_workload in &mut cells {
                // Each round begins with another setting, so that drift does not favour any.
                let count = of_workload.len();
                for turn in 0..count {
                    workers.monitor.check()?;
                    let cell = &mut of_workload[(turn + round as usize) % count];
                    self.measure(cell, round, real, folder.path(), workers).with_context(|| {
                        let Cell { workload, setting, .. } = &*cell;
                        format!("{device}: {} under {setting}", workload.name)
                    })?;
                    done += 1;
                    workers.monitor.progress(done);
                }
            }
        }
        workers.monitor.end();
        let cells: Vec<Cell> = cells.into_iter().flatten().collect();
        let rows = workers.map("simulated runs", &cells, |cell| self.compare(cell, model, &device))?.concat();
        let agreement = Agreement::all(&rows, self.pairs());
        let choices = workers.map("forecasts", &self.workloads, |workload| {
            let of_it = cells.iter().filter(|cell| cell.workload == workload && !cell.recorded.is_empty());
            let recorded = of_it.map(|cell| Recorded { setting: cell.setting.clone(), runs: cell.recorded.clone() });
            choice::choice(&workload.name, &recorded.collect::<Vec<_>>()).with_context(|| workload.name.clone())
        })?;
        Ok(Disk {
            device,
            disk: model.name.clone(),
            queue: model.queue(),
            scale: self.scale,
            rows,
            agreement,
            choices: choices.into_iter().flatten().collect(),
        })
    }

    fn measure(
        &self,
        cell: &mut Cell,
        round: u32,
        real: &mut dyn RealDevice,
        folder: &Path,
        workers: Workers,
    ) -> anyhow::Result<()> {
        cell.host = real.set(&faster(&cell.setting, self.scale), &host_under(&cell.setting, &cell.workload.host))?;
        let jobs = jobs(&real.path(), cell.workload, self.seconds, round, self.scale)?;
        // The twin chooses among schedulers with default tunables, on the unscaled disk; of one there is nothing to choose.
        let file = tempfile::Builder::new().tempfile_in(folder).context("cannot store the trace")?;
        let is_asked = self.is_unscaled() && cell.workload.only_under.is_none() && cell.setting == Setting::of(cell.setting.spec);
        let recording = (is_asked && real.record(file.path())?).then_some(file);
        let output = run(&jobs, (self.seconds + RAMP_S) / self.scale, workers.monitor)?;
        let output = fio::parse(&output)?;
        if let Some(file) = recording {
            real.recorded()?;
            let (_, path) = file.keep().context("cannot store the trace")?;
            cell.recorded.push((path, output.overall));
        }
        real.settle()?;
        for (all, got) in cell.real.iter_mut().zip(output.directions) {
            all.extend(got.map(|[throughput, mean, p99]| [throughput / self.scale, mean * self.scale, p99 * self.scale]));
        }
        Ok(())
    }

    /// Rows of a workload under a setting, one per direction.
    fn compare(&self, cell: &Cell, model: &Model, device: &str) -> anyhow::Result<Vec<Row>> {
        let runs: Vec<[Got; 3]> =
            (0..self.runs.max(SIMULATED)).map(|round| self.simulate(cell, model, device, round)).collect::<anyhow::Result<_>>()?;
        let mut rows = Vec::new();
        for (index, direction) in DIRECTIONS.iter().enumerate() {
            let simulated: Vec<[f64; 3]> = runs.iter().filter_map(|run| run[index]).collect();
            let real = &cell.real[index];
            if simulated.is_empty() || real.is_empty() {
                continue;
            }
            let spread = |runs: &[[f64; 3]], figure: usize| Spread::of(runs.iter().map(|run| run[figure]).collect());
            rows.push(Row {
                workload: cell.workload.name.clone(),
                scheduler: cell.setting.to_string(),
                direction: (*direction).to_owned(),
                real: std::array::from_fn(|figure| spread(real, figure)),
                simulated: std::array::from_fn(|figure| spread(&simulated, figure)),
            });
        }
        Ok(rows)
    }

    fn simulate(&self, cell: &Cell, model: &Model, device: &str, round: u32) -> anyhow::Result<[Got; 3]> {
        let jobs = jobs(device, cell.workload, self.seconds, round, 1.0)?;
        let mut file = tempfile::Builder::new().suffix(".fio").tempfile().context("cannot write a job file")?;
        file.write_all(jobs.as_bytes()).context("cannot write a job file")?;
        let mut experiment = Experiment::of_jobs(file.path(), &model.disk);
        (experiment.queue_depth, experiment.queue_policy) = (model.queue_depth, model.queue_policy);
        // The performance of some jobs, such as bfq with several streams, depends on the order in which they begin.
        (experiment.seed, experiment.begin_apart) = (u64::from(round) + 1, true);
        experiment.host = cell.host.clone();
        let quiet = Quiet::default();
        let run = |experiment: &Experiment| {
            let regime = Regime::Scheduler(Setting { host: Vec::new(), ..cell.setting.clone() });
            let records = experiment.records(vec![regime], false, Workers::new(&quiet, Some(1)))?;
            records.into_iter().next().context("no simulation result")
        };
        let mut record = run(&experiment)?;
        // The kernel has an estimate of the write bandwidth from earlier runs.
        if let Some(memory) = record.figures.memory.as_ref().filter(|memory| memory.throttled_s > 0.0) {
            let written_kib = 4.0 * memory.written_back_pages as f64 / record.figures.duration_s;
            experiment.host.push(format!("write_bandwidth_kib={}", (written_kib as i64).max(4)));
            record = run(&experiment)?;
        }
        ensure!(record.jobs.len() == 1, "the jobs form {} groups; should be one", record.jobs.len());
        let service = &record.jobs[0].service;
        // fio divides by the run time of the longest job, regardless of when each began.
        let lasted_s = record.streams.iter().map(|stream| stream.service.duration_s).fold(f64::MIN_POSITIVE, f64::max);
        let got = |figures: &Option<report::record::DirectionFigures>| {
            let figures = figures.as_ref()?;
            Some([figures.bytes as f64 / 1e6 / lasted_s, figures.response.mean_ms, figures.response.p99_ms])
        };
        Ok([got(&service.reads), got(&service.writes), got(&service.syncs)])
    }
}

/// A job file for fio and for the simulator: `seconds` by the clock of the model of a disk that is `scale` times as fast.
pub(crate) fn jobs(device: &str, workload: &Workload, seconds: f64, round: u32, scale: f64) -> anyhow::Result<String> {
    let us = |seconds: f64| format!("{}us", (1e6 * seconds / scale).round());
    Ok(format!(
        "[global]\nfilename={device}\nsize={BYTES}\ndirect=1\nioengine=libaio\ntime_based\nruntime={}\nramp_time={}\n\
         group_reporting\nlat_percentiles=1\nclat_percentiles=0\nnorandommap\nrandseed={}\n{}",
        us(seconds),
        us(RAMP_S),
        round + 1,
        workload.scaled(scale)?
    ))
}

/// Checks that today's Linux has a setting's scheduler.
///
/// # Errors
/// Linux has no such scheduler.
pub fn expect_of_linux(setting: &Setting) -> anyhow::Result<()> {
    let known = block::KERNEL.iter().map(|spec| spec.name);
    ensure!(
        known.clone().any(|name| name == setting.spec.name),
        "--scheduler {setting}: Linux has no such scheduler; it has {}",
        known.collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// The host tunables under a setting for a workload that needs some; those of the setting take precedence.
pub(crate) fn host_under(setting: &Setting, needed: &[(String, i64)]) -> Vec<(String, i64)> {
    let is_said = |name: &str| setting.host.iter().any(|(said, _)| said == name);
    needed.iter().filter(|(name, _)| !is_said(name)).chain(&setting.host).cloned().collect()
}

/// Whether all times can be scaled: bfq has constants in its code that are not tunables.
fn can_be_scaled(setting: &Setting) -> bool {
    setting.spec.name != "bfq"
}

/// The setting for a device that is faster by this factor: its times are divided by it.
fn faster(setting: &Setting, scale: f64) -> Setting {
    let scaled = |(tunable, value): (&Tunable, &i64)| match tunable.unit {
        Unit::Nanoseconds | Unit::Milliseconds | Unit::Centiseconds if scale != 1.0 => {
            ((*value as f64 / scale).round() as i64).clamp(tunable.min, tunable.max)
        }
        _ => *value,
    };
    let values = setting.spec.tunables.iter().zip(&setting.values).map(scaled).collect();
    Setting { values, ..setting.clone() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn what_a_setting_says_of_the_host_has_the_last_word() {
        let needed = [("dirty_ratio".to_owned(), 2), ("read_ahead_kb".to_owned(), 128)];
        let setting = Setting::parse("bfq read_ahead_kb=1024").unwrap();
        let host = host_under(&setting, &needed);
        assert_eq!(host, [("dirty_ratio".to_owned(), 2), ("read_ahead_kb".to_owned(), 1024)]);
    }

    fn question(scale: f64, settings: &[&str]) -> ValidationRequest {
        let settings = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
        let workloads = vec![workloads::find("sequential-readers").unwrap(), workloads::find("random-reads").unwrap()];
        ValidationRequest { workloads, settings, seconds: 3.0, runs: 1, scale }
    }

    #[test]
    fn without_named_settings_there_are_those_of_linux_and_those_that_show_a_tunable() {
        let texts = |scale| {
            let question = question(scale, &[]);
            question.settings(&question.workloads[0]).iter().map(Setting::to_string).collect::<Vec<_>>()
        };
        assert_eq!(texts(1.0), ["none", "mq-deadline", "kyber", "bfq", "bfq:slice_idle=0", "bfq:slice_idle=2"]);
        assert_eq!(texts(10.0), ["none", "mq-deadline", "kyber"]);
    }

    #[test]
    fn what_linux_has_not_or_cannot_be_scaled_is_refused() {
        let refused = |scale, setting| question(scale, &[setting]).check().unwrap_err().to_string();
        assert_eq!(refused(1.0, "cfq"), "--scheduler cfq: Linux has no such scheduler; it has none, mq-deadline, kyber, bfq");
        assert!(refused(10.0, "bfq").starts_with("--scheduler bfq: the time constants of bfq cannot be scaled"));
        question(10.0, &["kyber"]).check().unwrap();
    }

    #[test]
    fn a_faster_disk_gets_shorter_times() {
        let at_ten = |text: &str| faster(&Setting::parse(text).unwrap(), 10.0).to_string();
        assert_eq!(at_ten("mq-deadline"), "mq-deadline:read_expire=50,write_expire=500,prio_aging_expire=1000");
        assert_eq!(at_ten("none"), "none");
        assert_eq!(faster(&Setting::parse("kyber").unwrap(), 1.0).to_string(), "kyber");
        let question = question(10.0, &[]);
        let jobs = jobs("/dev/loop0", &question.workloads[0], question.seconds, 2, 10.0).unwrap();
        for line in ["runtime=300000us\n", "ramp_time=100000us\n", "randseed=3\n", "startdelay=70000us\n"] {
            assert!(jobs.contains(line), "{jobs}");
        }
    }
}
