//! Sweeps, run on this machine's cores or as tasks that any Python executor distributes.
//!
//! ```text
//! SweepPlan ─▶ SweepOutput::next ─▶ task numbers ─▶ an executor's worker: SweepWorker::run ─▶ rows as JSON ─▶ SweepOutput::add
//! ```
//! Only the process with the `SweepOutput` writes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use arrow_array::ArrayRef;
use experiment::sweep::{self, Output, Plan, Report, Row, Runner, Shard, Stored, Values, VolumesRequest};
use progress::Monitor as _;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use testbed::pool::Workers;

use crate::error::{Invalid, raised};
use crate::experiments::{Keys, experiment};
use crate::table::{Table, column};
use crate::work;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shard_of(text: Option<&str>) -> PyResult<Shard> {
    let parsed = text.map(str::parse).transpose();
    let parsed = parsed.map_err(|problem: String| Invalid::of_key("shard", format!("{:?} {problem}", text.unwrap_or_default())))?;
    Ok(parsed.unwrap_or(Shard::WHOLE))
}

/// A plan with its text, which can be sent to workers.
#[pyclass(frozen, module = "seekwise._seekwise")]
pub struct SweepPlan {
    plan: Arc<Plan>,
    #[pyo3(get)]
    text: String,
    #[pyo3(get)]
    source: String,
    /// Description of the files of its loads and disks on this machine.
    #[pyo3(get)]
    stored: String,
}

impl SweepPlan {
    fn of(text: String, source: String, folder: &Path) -> anyhow::Result<SweepPlan> {
        let plan = Arc::new(Plan::parse(&text, &source, folder)?);
        let stored = serde_json::to_string(&Stored::of(&plan)?)?;
        Ok(SweepPlan { plan, text, source, stored })
    }
}

#[pymethods]
impl SweepPlan {
    /// Parses a plan from text; `source` is its name in errors. Relative paths start at `folder`.
    #[new]
    fn new(py: Python<'_>, text: String, source: String, folder: PathBuf) -> PyResult<SweepPlan> {
        py.detach(|| SweepPlan::of(text, source, &folder)).map_err(raised)
    }

    /// Reads a plan from a file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<SweepPlan> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let source = path.to_string_lossy().into_owned();
        py.detach(|| SweepPlan::of(Plan::text(&path)?, source, &folder)).map_err(raised)
    }

    /// Converts a plan from JSON to TOML text.
    #[staticmethod]
    fn toml(json: &str) -> PyResult<String> {
        let text = || -> anyhow::Result<String> { Ok(toml::to_string(&serde_json::from_str::<serde_json::Value>(json)?)?) };
        text().map_err(|error| Invalid::of_key("plan", format!("cannot be written as TOML: {error:#}")).into())
    }

    /// Digest of `stored`.
    fn identity(&self) -> String {
        Sha256::digest(&self.stored).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The first key that differs from another `stored`, with both values.
    fn difference(&self, stored: &str) -> PyResult<Option<String>> {
        let difference = || -> anyhow::Result<Option<String>> {
            serde_json::from_str::<Stored>(&self.stored)?.difference(&serde_json::from_str::<Stored>(stored)?)
        };
        difference().map_err(raised)
    }

    /// Runs the missing cases on threads of this process. Returns the outcome as JSON.
    #[pyo3(signature = (folder, shard, threads, progress))]
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        shard: Option<&str>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let shard = shard_of(shard)?;
        let done = work::run(py, progress.as_ref(), |watcher| {
            let outcome = sweep::run(&self.plan, &folder, shard, Workers::new(watcher, threads))?;
            Ok(json!({"cases": outcome.cases, "run": outcome.run, "failed": outcome.failed, "first_error": outcome.first_error,
                      "is_whole": outcome.is_whole, "seconds": outcome.seconds, "simulating_share": outcome.simulating_share}))
        })?;
        Ok(done.result.to_string())
    }

    /// Opens the data set for results of workers.
    #[pyo3(signature = (folder, shard))]
    fn output(&self, py: Python<'_>, folder: PathBuf, shard: Option<&str>) -> PyResult<SweepOutput> {
        let shard = shard_of(shard)?;
        let plan = Arc::clone(&self.plan);
        let output = py.detach(|| Output::open(&folder, &plan, shard)).map_err(raised)?;
        let mut tasks = output.tasks();
        tasks.reverse();
        let begun = output.done();
        Ok(SweepOutput { plan, begun, tasks: Mutex::new(tasks), output: Mutex::new(Some(output)) })
    }

    /// A worker that runs tasks of the plan on this many threads of this process.
    fn worker(&self, threads: usize) -> SweepWorker {
        SweepWorker { runner: Runner::new(&self.plan, threads.max(1)), running: Mutex::default(), stopped: AtomicBool::new(false) }
    }
}

/// The data set of a sweep whose cases are run by workers.
#[pyclass(frozen, module = "seekwise._seekwise")]
pub struct SweepOutput {
    plan: Arc<Plan>,
    /// Number of cases finished before.
    begun: u64,
    /// Tasks that were not handed out yet, the first last.
    tasks: Mutex<Vec<u64>>,
    /// `None` once finished.
    output: Mutex<Option<Output>>,
}

#[pymethods]
impl SweepOutput {
    /// Takes at most `count` tasks; also returns the known rows of their cases.
    fn next<'py>(&self, py: Python<'py>, count: usize) -> PyResult<(Vec<u64>, Bound<'py, PyBytes>)> {
        let mut tasks = locked(&self.tasks);
        let from = tasks.len().saturating_sub(count);
        let next: Vec<u64> = tasks.drain(from..).rev().collect();
        let output = locked(&self.output);
        let known = |case| output.as_ref().and_then(|output| output.row(case));
        let known: Vec<&Row> = next.iter().flat_map(|&task| self.plan.task(task)).filter_map(known).collect();
        let json = if known.is_empty() { Vec::new() } else { serde_json::to_vec(&known).map_err(|error| raised(error.into()))? };
        Ok((next, PyBytes::new(py, &json)))
    }

    /// Number of tasks not yet submitted.
    fn left(&self) -> usize {
        locked(&self.tasks).len()
    }

    /// Numbers of all and of finished cases of this shard.
    fn cases(&self) -> (u64, u64) {
        locked(&self.output).as_ref().map_or((0, 0), |output| (output.cases(), output.done()))
    }

    /// Records the rows of a worker, and writes each file that has become complete.
    fn add(&self, py: Python<'_>, rows: &[u8]) -> PyResult<()> {
        let add = || -> anyhow::Result<()> {
            let rows: Vec<Row> = serde_json::from_slice(rows).context("a worker gave something else than rows")?;
            for row in rows {
                ensure!(row.case < self.plan.cases(), "a worker gave case {}; there are {}", row.case, self.plan.cases());
                let part = locked(&self.output).as_mut().map(|output| output.add(row)).transpose()?.flatten();
                if let Some(part) = part {
                    part.write()?;
                }
            }
            Ok(())
        };
        py.detach(add).map_err(raised)
    }

    /// Finishes the sweep. Returns the outcome as JSON.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let finish = || -> anyhow::Result<String> {
            let output = locked(&self.output).take().context("the sweep is finished already")?;
            let (cases, run) = (output.cases(), output.done() - self.begun);
            let (failed, first_error) = output.failed();
            let first_error = first_error.map(str::to_owned);
            let is_whole = output.finish()?;
            Ok(json!({"cases": cases, "run": run, "failed": failed, "first_error": first_error, "is_whole": is_whole}).to_string())
        };
        py.detach(finish).map_err(raised)
    }

    /// Closes the data set in a resumable state.
    fn close(&self) {
        *locked(&self.output) = None;
    }
}

/// Runs tasks of a plan, on any thread. Caches the traces read last.
#[pyclass(frozen, module = "seekwise._seekwise")]
pub struct SweepWorker {
    runner: Runner,
    running: Mutex<Vec<Arc<AtomicBool>>>,
    stopped: AtomicBool,
}

#[pymethods]
impl SweepWorker {
    /// Runs tasks. Returns their rows as JSON, without those in `known`.
    fn run<'py>(&self, py: Python<'py>, tasks: Vec<u64>, known: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let rows = work::run(py, None, |watcher| {
            let stop = watcher.stopper();
            locked(&self.running).push(Arc::clone(&stop));
            stop.fetch_or(self.stopped.load(Ordering::SeqCst), Ordering::SeqCst);
            let rows = self.rows(&tasks, known, watcher);
            locked(&self.running).retain(|other| !Arc::ptr_eq(other, &stop));
            rows
        })?;
        Ok(PyBytes::new(py, &rows.result))
    }

    /// Cancels running and pending tasks.
    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        locked(&self.running).iter().for_each(|stop| stop.store(true, Ordering::SeqCst));
    }
}

impl SweepWorker {
    fn rows(&self, tasks: &[u64], known: &[u8], watcher: &work::Watcher) -> anyhow::Result<Vec<u8>> {
        let known: Vec<Row> = if known.is_empty() { Vec::new() } else { serde_json::from_slice(known)? };
        let known = |case: u64| known.iter().find(|row| row.case == case).cloned();
        let mut rows: Vec<Row> = Vec::new();
        for &task in tasks {
            watcher.check()?;
            self.runner.run_task(task, &known, watcher, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
        }
        Ok(serde_json::to_vec(&rows)?)
    }
}

/// A column of the data set.
fn array(values: &Values) -> ArrayRef {
    match values {
        Values::Counts(values) => column::integer(values.iter().copied()),
        Values::Numbers(values) => column::float(values.iter().copied()),
        Values::Words(values) => column::text(values.iter().map(Option::as_deref)),
    }
}

/// Rows of a sweep that have been written, in order of the cases.
#[pyfunction]
pub fn sweep_table(py: Python<'_>, folder: PathBuf) -> PyResult<Table> {
    let read = || -> anyhow::Result<Table> {
        let stored = Stored::read(&folder)?;
        let paths = (0..stored.parts).map(|part| folder.join(sweep::part_name(part))).filter(|path| path.is_file());
        let mut batches = Vec::new();
        for path in paths {
            let columns = sweep::columns_of(&path)?;
            batches.push(Table::new(columns.iter().map(|(name, values)| (name.as_str(), array(values))).collect())?);
        }
        ensure!(!batches.is_empty(), "{}: has no finished file yet; run the sweep on", folder.display());
        Ok(Table::joined(batches)?)
    };
    py.detach(read).map_err(raised)
}

/// Report of `seekwise sweep report`, as text and as JSON.
#[pyfunction]
pub fn sweep_report(py: Python<'_>, folder: PathBuf, objective: Option<&str>) -> PyResult<(String, String)> {
    let read = || -> anyhow::Result<(String, String)> {
        let report = Report::read(&folder, objective)?;
        let none = || format!("{}: no load has results under {} yet; run the sweep on", folder.display(), report.default);
        ensure!(!report.best.is_empty(), none());
        Ok((report.text(), serde_json::to_string(&report)?))
    };
    py.detach(read).map_err(raised)
}

/// Recommendations for every volume of a trace: report of `seekwise sweep volumes`, as text and as JSON.
#[pyfunction]
#[pyo3(signature = (load, disk, output, keys, top, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub fn sweep_volumes(
    py: Python<'_>,
    load: &Bound<'_, PyAny>,
    disk: Option<&str>,
    output: PathBuf,
    keys: &Bound<'_, PyDict>,
    top: usize,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let mut experiment = experiment(load, disk.unwrap_or("sata7200"), keys)?;
    experiment.replay.same_devices = Keys(keys).get("same_devices")?.unwrap_or_default();
    let request = VolumesRequest { path: experiment.load.clone(), experiment, names_disk: disk.is_some() };
    let done = work::run(py, progress.as_ref(), |watcher| {
        let report = request.run(&output, Workers::new(watcher, threads))?;
        Ok((report.text(top), serde_json::to_string(&report)?))
    })?;
    Ok(done.result)
}
