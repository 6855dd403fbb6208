//! Runs the cases of a sweep. Traces and loads are cached and shared by the runs that need them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Context as _;
use control::Setting;
use sim::run::{RunError, Watch};
use testbed::jobs::JobsLoad;
use testbed::load::Load;
use testbed::shipped;
use testbed::trace::{SurveyedTrace, TraceLoad};

use super::clock::{Stretch, Sum};
use super::columns;
use super::plan::{Case, Plan};
use super::row::Row;
use crate::comparison::figures_of;
use progress::monitor::{Interrupted, Monitor};

/// Memory for cached traces in bytes, shared out among `threads + 1` traces. A larger trace is read from its file in each run.
const TRACE_BYTES: usize = 256 << 20;
/// Minimum share of memory for a trace in bytes, for any number of threads.
const LEAST_TRACE_BYTES: usize = 10 << 20;

/// Runs the cases of a plan, on any number of threads.
pub struct Runner {
    plan: Arc<Plan>,
    traces: Recent<usize, SurveyedTrace>,
    /// Loads by the indices of load, disk and seed.
    loads: Recent<(usize, usize, usize), Box<dyn Load>>,
    trace_bytes: usize,
    simulating: Sum,
    waited: Sum,
}

impl Runner {
    /// A runner with caches for `threads` threads.
    pub fn new(plan: &Arc<Plan>, threads: usize) -> Runner {
        let at_once = threads + 1;
        Runner {
            plan: Arc::clone(plan),
            traces: Recent::new(at_once),
            // A thread runs all seeds of a setting before the next setting.
            loads: Recent::new(at_once * plan.seeds.len().min(64)),
            trace_bytes: (TRACE_BYTES / at_once).max(LEAST_TRACE_BYTES),
            simulating: Sum::default(),
            waited: Sum::default(),
        }
    }

    /// Processor time spent in simulations, in seconds, summed over threads.
    pub fn simulating_s(&self) -> f64 {
        self.simulating.seconds()
    }

    /// Time in which threads waited for loads, for a file or for another thread that reads it, in seconds, summed over threads.
    pub fn waited_s(&self) -> f64 {
        self.waited.seconds()
    }

    /// Runs the cases of a task in order and passes each row to `done` as soon as it is complete. Cases with a known row are skipped.
    ///
    /// # Errors
    /// The work was interrupted, a file cannot be read, or `done` failed. A load that cannot run on a disk is reported in its row instead.
    pub fn run_task(
        &self,
        task: u64,
        known: &dyn Fn(u64) -> Option<Row>,
        monitor: &dyn Monitor,
        done: &mut dyn FnMut(Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.plan.settings.is_empty() {
            return self.search(task, known, monitor, done);
        }
        for number in self.plan.task(task) {
            if known(number).is_none() {
                let case = self.plan.case(number);
                done(self.run_case(&case, &self.plan.settings[case.point], monitor)?)?;
            }
        }
        Ok(())
    }

    /// Runs a Bayesian search for one load and disk, beginning with the default setting.
    fn search(
        &self,
        task: u64,
        known: &dyn Fn(u64) -> Option<Row>,
        monitor: &dyn Monitor,
        done: &mut dyn FnMut(Row) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let plan = &*self.plan;
        let objective = columns::names().position(|name| name == plan.objective);
        let first = plan.task(task).start;
        // Settings already run, with their rows: results are deterministic, so a repeated setting reuses them.
        let mut tried: Vec<(Setting, Vec<Row>)> = Vec::new();
        let mut run = |setting: Setting| -> anyhow::Result<Option<f64>> {
            let mut rows = Vec::new();
            for seed in 0..plan.seeds.len() {
                let case = plan.case(first + (tried.len() * plan.seeds.len() + seed) as u64);
                let row = match known(case.number) {
                    Some(row) => row,
                    None => {
                        let same = tried.iter().find(|(other, _)| *other == setting).map(|(_, rows)| &rows[seed]);
                        let row = match same {
                            Some(row) => Row { case: case.number, ..row.clone() },
                            None => self.run_case(&case, &setting, monitor)?,
                        };
                        done(row.clone())?;
                        row
                    }
                };
                rows.push(row);
            }
            let merit = |row: &Row| columns::merit_of(&plan.objective, row.figures.get(objective?).copied().flatten());
            let merits: Option<Vec<f64>> = rows.iter().map(merit).collect();
            tried.push((setting, rows));
            Ok(merits.and_then(statistics::mean))
        };
        let mut search = plan.searched.begin()?;
        let mut merits = vec![run(plan.default.clone())?];
        let mut left = plan.points - 1;
        while left > 0 {
            let asked = plan.searched.asked(&mut search);
            let mut scores = Vec::new();
            for setting in asked {
                // The default counts as the first point if it is in the search space.
                if scores.is_empty() && merits.len() == 1 && setting == plan.default {
                    scores.push(merits[0]);
                    continue;
                }
                if left == 0 {
                    break;
                }
                let merit = run(setting)?;
                merits.push(merit);
                scores.push(merit);
                left -= 1;
            }
            search.learn(&scores);
        }
        Ok(())
    }

    /// Runs one case.
    ///
    /// # Errors
    /// The work was interrupted, or a file cannot be read. Other failures are reported in the row.
    pub fn run_case(&self, case: &Case, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Row> {
        monitor.check()?;
        let row = |sha256: String, outcome: Result<Vec<Option<f64>>, String>| {
            let (figures, error) = match outcome {
                Ok(figures) => (figures, None),
                Err(error) => (vec![None; columns::names().count()], Some(self.as_planned(case, error))),
            };
            Row { case: case.number, setting: setting.to_string(), load_sha256: sha256, error, figures }
        };
        let loading = Stretch::begin();
        let load = self.load(case, monitor)?;
        self.waited.add(loading.waited());
        let load = match load {
            Ok(load) => load,
            Err(error) => return Ok(row(String::new(), Err(error))),
        };
        let sha256 = load.digest().sha256;
        let simulating = Stretch::begin();
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let outcome = self.simulate(&**load, case, setting, &watch);
        self.simulating.add(simulating.worked());
        match outcome {
            Err(RunError::Interrupted) => Err(Interrupted.into()),
            outcome => Ok(row(sha256, lasting(outcome.map_err(anyhow::Error::from))?)),
        }
    }

    /// Replaces the load's path in an error by its name in the plan: paths differ between machines, the data set must not.
    fn as_planned(&self, case: &Case, error: String) -> String {
        let load = &self.plan.loads[case.load];
        let path = load.path.to_string_lossy();
        if *path == load.name { error } else { error.replace(&*path, &load.name) }
    }

    fn simulate(&self, load: &dyn Load, case: &Case, setting: &Setting, watch: &Watch) -> Result<Vec<Option<f64>>, RunError> {
        let world = self.plan.disks[case.disk].world.under(setting);
        let queue = world.queue(world.scheduler(setting));
        let outcome = load.run(queue, world.host, watch, None)?;
        let mut figures = figures_of(load, &outcome, &world);
        figures.sustainable_speed = load.overload(&outcome).map(|overload| overload.sustainable_speed);
        Ok(columns::values(&figures, &self.plan.preference))
    }

    /// The load of a case on its disk, or the reason why it cannot be run there.
    fn load(&self, case: &Case, monitor: &dyn Monitor) -> anyhow::Result<Result<Arc<Box<dyn Load>>, String>> {
        let Plan { loads, disks, seeds, replay, .. } = &*self.plan;
        let (load, world, seed) = (&loads[case.load], &disks[case.disk].world, seeds[case.seed]);
        self.loads.get((case.load, case.disk, case.seed), || {
            if load.is_jobs {
                let text = shipped::job_text(&load.path)?;
                let (text, source) = text.with_context(|| format!("{}: is no job file any more", load.name))?;
                return Ok(Box::new(JobsLoad::new(&text, &source, seed, world)?.drawn_by_seed()));
            }
            let trace =
                self.traces.get(case.load, || SurveyedTrace::read(&load.path, replay, self.trace_bytes, &Silent(monitor)))?;
            let trace = trace.map_err(|error| anyhow::anyhow!(error))?;
            Ok(Box::new(TraceLoad::placed(trace, replay, world)?.with_seed(seed)))
        })
    }

    /// Estimates how long a case runs on one core, in seconds of processor time, by running it for at most `limit_s`
    /// by the wall clock: on a busy machine the wall clock would tell how busy it is. `None` if it cannot
    /// be run, or if its progress is unknown.
    pub(super) fn estimate_s(&self, number: u64, limit_s: f64, monitor: &dyn Monitor) -> anyhow::Result<Option<f64>> {
        let case = self.plan.case(number);
        let setting = self.plan.settings.get(case.point).unwrap_or(&self.plan.default);
        let Ok(load) = self.load(&case, monitor)? else { return Ok(None) };
        let (is_over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let (completed, reached) = (AtomicU64::new(0), AtomicU64::new(0));
        let (begun, simulating) = (Instant::now(), Stretch::begin());
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if begun.elapsed().as_secs_f64() > limit_s || monitor.check().is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            });
            let watch = Watch { stop: Some(&stop), completed: Some(&completed), reached: Some(&reached) };
            let outcome = self.simulate(&**load, &case, setting, &watch);
            is_over.store(true, Ordering::Relaxed);
            outcome
        });
        monitor.check()?;
        let spent = simulating.worked().as_secs_f64();
        if outcome.is_ok() {
            return Ok(Some(spent));
        }
        let share = match (load.expected_requests(), load.expected_end()) {
            (Some(requests), _) => completed.load(Ordering::Relaxed) as f64 / requests as f64,
            (None, Some(end)) => reached.load(Ordering::Relaxed) as f64 / end.0 as f64,
            (None, None) => 0.0,
        };
        Ok((share > 0.0).then(|| spent / share.min(1.0)))
    }
}

/// Separates permanent errors of a load (inner `Err`) from I/O errors and interruptions, which may succeed on a retry (outer `Err`).
fn lasting<T>(outcome: anyhow::Result<T>) -> anyhow::Result<Result<T, String>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(error) if error.is::<Interrupted>() || error.chain().any(|cause| cause.is::<std::io::Error>()) => Err(error),
        Err(error) => Ok(Err(format!("{error:#}"))),
    }
}

/// A monitor for one of several parallel tasks: forwards interruption only.
struct Silent<'a>(&'a dyn Monitor);

impl Monitor for Silent<'_> {
    fn begin(&self, _total: u64, _what: &str) {}

    fn progress(&self, _done: u64) {}

    fn end(&self) {}

    fn warn(&self, _text: &str) {}

    fn stop(&self) -> &AtomicBool {
        self.0.stop()
    }
}

/// A cache of the most recently used values. Concurrent requests for one key compute it once.
struct Recent<K, T> {
    room: usize,
    /// Most recent last.
    slots: Mutex<Vec<(K, Arc<Slot<T>>)>>,
}

type Slot<T> = Mutex<Option<Result<Arc<T>, String>>>;

impl<K: PartialEq, T> Recent<K, T> {
    fn new(room: usize) -> Recent<K, T> {
        Recent { room: room.max(1), slots: Mutex::default() }
    }

    /// The value of a key, computed by the first caller. Permanent errors are cached as well.
    fn get(&self, key: K, make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Result<Arc<T>, String>> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = match slots.iter().position(|(other, _)| *other == key) {
                Some(place) => slots.remove(place),
                None => (key, Arc::default()),
            };
            let slot = Arc::clone(&entry.1);
            slots.push(entry);
            if slots.len() > self.room {
                slots.remove(0);
            }
            slot
        };
        // Concurrent callers for the same key block here until it is computed.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = &*slot {
            return Ok(made.clone());
        }
        let made = lasting(make())?.map(Arc::new);
        *slot = Some(made.clone());
        Ok(made)
    }
}
