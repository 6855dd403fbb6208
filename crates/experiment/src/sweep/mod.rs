//! Sweeps: loads × disks × settings × seeds, on all cores or many machines, into one Parquet data set.
//!
//! ```text
//! PLAN.toml ─▶ Plan: cases ─▶ tasks ─▶ Runner, on any thread ─▶ Row ─▶ Output: log, then part-NNNNN.parquet ─▶ report
//! ```
//! The result of a case depends only on the plan and the case number, not on the machine, time or order of execution, so other engines can
//! run a sweep: [`Plan::read`], [`Plan::task`] and [`Runner::run_task`] run anywhere, and [`Output::add`] takes the rows in any order and
//! returns each file that became complete.

mod clock;
mod columns;
mod log;
mod output;
mod plan;
mod report;
mod row;
mod runner;
mod settings;
mod table;
mod volumes;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use progress::monitor::{Interrupted, Suspended};
use testbed::pool::Workers;

use clock::{Stretch, Sum};
pub use columns::{ALL as COLUMNS, Better, Column, SCORE};
pub use output::{Output, PartFile, Shard, Stored, part_name};
pub use plan::{Case, Method, Plan, PlannedDisk, PlannedLoad};
pub use report::{Best, Report};
pub use row::Row;
pub use runner::Runner;
pub use settings::{Choice, Searched};
pub use table::{Values, columns_of};
pub use volumes::{VolumeRow, VolumesReport, VolumesRequest};

/// Result of running a sweep or one shard of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Cases of the shard.
    pub cases: u64,
    /// Cases run by this call.
    pub run: u64,
    /// Cases that could not be run.
    pub failed: u64,
    /// Error of the first failed case; `None` if none failed.
    pub first_error: Option<String>,
    /// Whether the data set is complete, other shards included.
    pub is_whole: bool,
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// Share of the threads' time spent in simulations, 0 to 1. Their time is processor time plus time waiting for files, for each other
    /// and for the last one to end.
    pub simulating_share: f64,
}

/// Runs the cases of a shard that have no result yet.
///
/// # Errors
/// The folder cannot be used, a file cannot be read, or the work was interrupted: [`Suspended`] says how many completed cases are kept.
pub fn run(plan: &Arc<Plan>, folder: &Path, shard: Shard, workers: Workers) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let output = Output::open(folder, plan, shard)?;
    let (cases, before, tasks) = (output.cases(), output.done(), output.tasks());
    let threads = workers.threads.min(tasks.len()).max(1);
    let (runner, output) = (Runner::new(plan, threads), Mutex::new(output));
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    workers.monitor.begin(cases, "cases");
    workers.monitor.progress(before);
    let (worked, waited, ends) = (Sum::default(), Sum::default(), Mutex::new(Vec::new()));
    let run_tasks = || -> anyhow::Result<()> {
        // In order, so that threads work on the same trace and share it.
        while let Some(&task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            let known = |case| output.lock().unwrap_or_else(PoisonError::into_inner).row(case).cloned();
            let ran = runner.run_task(task, &known, workers.monitor, &mut |row| {
                let writing = Stretch::begin();
                let part = {
                    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
                    let part = output.add(row)?;
                    workers.monitor.progress(output.done());
                    part
                };
                let written = part.map_or(Ok(()), PartFile::write);
                waited.add(writing.waited());
                written
            });
            if ran.is_err() {
                has_failed.store(true, Ordering::Relaxed);
                return ran;
            }
        }
        Ok(())
    };
    let worker = || {
        let whole = Stretch::begin();
        let ended = run_tasks();
        worked.add(whole.worked());
        ends.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        ended
    };
    let ended: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    workers.monitor.end();
    let ended = ended.into_iter().collect::<anyhow::Result<()>>();
    let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.map_err(|error| suspended(error, || format!("{} of {cases} cases", output.done())))?;
    let run = output.done() - before;
    let (failed, first_error) = output.failed();
    let first_error = first_error.map(str::to_owned);
    let is_whole = output.finish()?;
    let seconds = begun.elapsed().as_secs_f64();
    let over = Instant::now();
    let idle: f64 = ends.into_inner().unwrap_or_else(PoisonError::into_inner).iter().map(|end| (over - *end).as_secs_f64()).sum();
    let whole = worked.seconds() + waited.seconds() + runner.waited_s() + idle;
    let simulating_share = runner.simulating_s() / whole.max(1e-9);
    Ok(Outcome { cases, run, failed, first_error, is_whole, seconds, simulating_share })
}

/// Adds the completed parts of interrupted work to its error; other errors stay as they are.
fn suspended(error: anyhow::Error, kept: impl FnOnce() -> String) -> anyhow::Error {
    let is_interrupted = error.chain().any(|cause| cause.is::<Interrupted>());
    if is_interrupted { Suspended { kept: kept() }.into() } else { error }
}

/// Sample cases of an estimate, and the time limit of each in seconds.
const TRIED: u64 = 8;
const TRIED_S: f64 = 1.0;

/// Estimated cost of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Cases.
    pub cases: u64,
    /// Files of the data set.
    pub parts: u64,
    /// Estimated processor time, in seconds; `None` if no sample case could be run.
    pub core_s: Option<f64>,
}

/// Estimates the processor time of a sweep from a few evenly spaced cases, each run for at most one second.
///
/// # Errors
/// A file cannot be read, or the work was interrupted.
pub fn estimate(plan: &Arc<Plan>, workers: Workers) -> anyhow::Result<Estimate> {
    let (cases, parts) = (plan.cases(), plan.parts());
    let runner = Runner::new(plan, 1);
    let tried = TRIED.min(cases);
    workers.monitor.begin(tried, "trying cases");
    let mut took = Vec::new();
    for number in 0..tried {
        took.extend(runner.estimate_s(cases * (2 * number + 1) / (2 * tried), TRIED_S, workers.monitor)?);
        workers.monitor.progress(number + 1);
    }
    workers.monitor.end();
    let mean = statistics::mean(took);
    Ok(Estimate { cases, parts, core_s: mean.map(|mean| mean * cases as f64).filter(|seconds| seconds.is_finite()) })
}
