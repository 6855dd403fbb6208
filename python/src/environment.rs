//! A simulation controlled step by step by an external agent, for reinforcement learning. One step is one window.
//!
//! ```text
//! Python: step(action) ─▶ channel ─▶ Remote: Controller ─▶ ControlLoop ─▶ simulated host
//!         observation  ◀─ channel ◀─ features, merit of the window ◀──────┘
//! ```

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use block::Nanos;
use control::controller::Controller;
use control::{Decision, Setting, Target, Window, WindowLength};
use experiment::comparison::{Experiment, regime};
use experiment::steered::Steered;
use observe::Preference;
use observe::window::FEATURES;
use progress::monitor::Quiet;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sim::run::{RunError, Watch};
use testbed::load::Load;
use testbed::world::World;

use crate::error::{Invalid, internal, raised};
use crate::experiments::{Keys, experiment};
use crate::work;

/// Interval at which Ctrl-C is checked while a window is simulated.
const POLLED: Duration = Duration::from_millis(40);

/// Observation and outcome of one window.
struct Seen {
    features: Vec<f64>,
    /// `None` if no request completed.
    merit: Option<f64>,
    at_s: f64,
    throughput_mb_s: f64,
    waited_ms: f64,
    setting: String,
}

/// The controller inside the simulation: sends each window to the agent and applies the action that it returns.
struct Remote {
    window: Nanos,
    preference: Preference,
    begins_with: Setting,
    candidates: Arc<Vec<Setting>>,
    seen: SyncSender<Seen>,
    actions: Receiver<usize>,
    stop: Arc<AtomicBool>,
    refused: Option<String>,
}

impl Controller for Remote {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        Decision::set(self.begins_with.clone(), "the setting before the first action")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(self.window), requests: None }
    }

    fn decide(&mut self, window: &Window, _target: &dyn Target) -> Decision {
        let outcome = &window.outcome;
        let merit = Some(outcome.score(&self.preference)).filter(|merit| merit.is_finite());
        let seen = Seen {
            features: window.features.0.to_vec(),
            merit,
            at_s: window.to.as_secs_f64(),
            throughput_mb_s: outcome.judged().0 / 1e6,
            waited_ms: outcome.judged().1 * 1e3,
            setting: window.setting.to_string(),
        };
        let action = self.seen.send(seen).ok().and_then(|()| self.actions.recv().ok());
        match action.and_then(|action| self.candidates.get(action)) {
            Some(setting) => Decision::set(setting.clone(), "the agent's action"),
            None => {
                // The agent has dropped its end of the channel.
                self.stop.store(true, Ordering::Relaxed);
                Decision::keep("the episode was ended")
            }
        }
    }

    fn refused(&mut self, setting: &Setting, reason: &str) {
        self.refused.get_or_insert(format!("{setting}: {reason}"));
    }
}

/// A running episode, with its thread and channels.
struct Episode {
    seen: Receiver<Seen>,
    actions: Option<SyncSender<usize>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), RunError>>>,
}

impl Episode {
    fn end(mut self) -> Result<(), RunError> {
        self.stop.store(true, Ordering::Relaxed);
        self.actions = None;
        drop(self.seen);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(RunError::Interrupted))) | Some(Ok(Ok(()))) | None => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(_)) => Err(RunError::Interrupted),
        }
    }
}

/// A load on a simulated disk whose setting an agent chooses.
#[pyclass(frozen, module = "seekwise")]
pub struct Tuned {
    experiment: Experiment,
    world: World,
    load: Mutex<(u64, Arc<dyn Load>)>,
    is_drawn: bool,
    candidates: Arc<Vec<Setting>>,
    begins_with: Setting,
    window: Nanos,
    preference: Preference,
    episode: Mutex<Option<Episode>>,
    /// Process that started the thread. Threads do not survive a fork.
    process: AtomicU64,
}

/// Features, merit, end in s, throughput in MB/s, response time in ms and setting of a window.
type Step = (Vec<f64>, Option<f64>, f64, f64, f64, String);

#[pymethods]
impl Tuned {
    #[new]
    #[pyo3(signature = (load, disk, candidates, initial, window_ms, keys, progress))]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn new(
        py: Python<'_>,
        load: &Bound<'_, PyAny>,
        disk: &str,
        candidates: Vec<String>,
        initial: &str,
        window_ms: u64,
        keys: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Tuned> {
        if !(10..=3_600_000).contains(&window_ms) {
            return Err(Invalid::of_key("window_ms", format!("{window_ms} should be from 10 to 3600000 ms")).into());
        }
        let experiment = experiment(load, disk, keys)?;
        let preference = experiment.preference.unwrap_or_default();
        let parse =
            |text: &str| Setting::parse(text).map_err(|problem| Invalid::of_key("candidates", format!("{text}: {problem}")));
        let settings = candidates.iter().map(|text| parse(text)).collect::<Result<Vec<Setting>, Invalid>>()?;
        let begins_with = parse(initial)?;
        if settings.is_empty() {
            return Err(Invalid::of_key("candidates", "is empty; give at least one setting".to_owned()).into());
        }
        let seed = Keys(keys).get::<u64>("seed")?.unwrap_or(1);
        let done = work::run(py, progress.as_ref(), |watcher| {
            let world = experiment.world()?;
            let load: Arc<dyn Load> = Arc::from(experiment.load(&world, watcher)?);
            let all = settings.iter().chain([&begins_with]);
            all.into_iter().try_for_each(|one| regime::expect_settable_for("--candidates", one, &*load, &world))?;
            Ok((world, load, experiment.job_text()?.is_some()))
        })?;
        let (world, load, is_drawn) = done.result;
        Ok(Tuned {
            experiment,
            world,
            load: Mutex::new((seed, load)),
            is_drawn,
            candidates: Arc::new(settings),
            begins_with,
            window: Nanos::from_millis(window_ms),
            preference,
            episode: Mutex::new(None),
            process: AtomicU64::new(process::id().into()),
        })
    }

    /// Restarts the load; `seed` applies to job files only. Returns the first window; `None` if the load ends before one.
    fn reset(&self, py: Python<'_>, seed: u64) -> PyResult<Option<Step>> {
        self.close(py)?;
        self.process.store(process::id().into(), Ordering::Relaxed);
        let load = self.of_seed(seed).map_err(raised)?;
        let (seen_in, seen) = sync_channel(0);
        let (actions, actions_in) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let remote = Remote {
            window: self.window,
            preference: self.preference,
            begins_with: self.begins_with.clone(),
            candidates: Arc::clone(&self.candidates),
            seen: seen_in,
            actions: actions_in,
            stop: Arc::clone(&stop),
            refused: None,
        };
        let (world, begins_with, stops) = (self.world.clone(), self.begins_with.clone(), Arc::clone(&stop));
        let run = move || {
            let mut steered = Steered::new(Box::new(remote), &begins_with, &world.device(), None);
            let under = world.under(&begins_with);
            let queue = under.queue(under.scheduler(&begins_with));
            load.run(queue, under.host, &Watch { stop: Some(&stops), ..Watch::default() }, Some(&mut steered)).map(|_| ())
        };
        let thread = std::thread::Builder::new().name("seekwise-tune".to_owned()).spawn(run)?;
        let episode = Episode { seen, actions: Some(actions), stop, thread: Some(thread) };
        *self.lock() = Some(episode);
        self.next_window(py)
    }

    /// Applies the candidate with this index and simulates one window; `None` once the load has ended.
    fn step(&self, py: Python<'_>, action: usize) -> PyResult<Option<Step>> {
        if self.process.load(Ordering::Relaxed) != u64::from(process::id()) {
            return Err(internal(
                "this environment was made before the process forked; its simulation did not come along: call reset()",
            ));
        }
        if action >= self.candidates.len() {
            return Err(Invalid::of_key("action", format!("{action} should be from 0 to {}", self.candidates.len() - 1)).into());
        }
        {
            let episode = self.lock();
            let Some(actions) = episode.as_ref().and_then(|episode| episode.actions.as_ref()) else {
                return Err(internal("there is no episode: call reset() first"));
            };
            if actions.send(action).is_err() {
                drop(episode);
                self.close(py)?;
                return Ok(None);
            }
        }
        self.next_window(py)
    }

    /// Ends the episode and joins its thread.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(episode) = self.lock().take() else { return Ok(()) };
        if self.process.load(Ordering::Relaxed) != u64::from(process::id()) {
            // After a fork the thread does not exist in this process and cannot be joined.
            std::mem::forget(episode);
            return Ok(());
        }
        py.detach(|| episode.end()).map_err(|error| raised(error.into()))
    }

    /// Name, unit and meaning of each feature of an observation.
    #[staticmethod]
    fn features() -> Vec<(&'static str, &'static str, &'static str)> {
        FEATURES.iter().map(|feature| (feature.name, feature.unit, feature.doc)).collect()
    }
}

impl Tuned {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Episode>> {
        self.episode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of_seed(&self, seed: u64) -> anyhow::Result<Arc<dyn Load>> {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if load.0 != seed && self.is_drawn {
            let experiment = Experiment { seed, ..self.experiment.clone() };
            *load = (seed, Arc::from(experiment.load(&self.world, &Quiet::default())?));
        }
        Ok(Arc::clone(&load.1))
    }

    fn next_window(&self, py: Python<'_>) -> PyResult<Option<Step>> {
        loop {
            let received = py.detach(|| self.lock().as_ref().map(|episode| episode.seen.recv_timeout(POLLED)));
            match received {
                Some(Ok(Seen { features, merit, at_s, throughput_mb_s, waited_ms, setting })) => {
                    return Ok(Some((features, merit, at_s, throughput_mb_s, waited_ms, setting)));
                }
                Some(Err(RecvTimeoutError::Timeout)) => {
                    if let Err(error) = py.check_signals() {
                        self.close(py)?;
                        return Err(error);
                    }
                }
                Some(Err(RecvTimeoutError::Disconnected)) | None => {
                    self.close(py)?;
                    return Ok(None);
                }
            }
        }
    }
}

impl Drop for Tuned {
    fn drop(&mut self) {
        let episode = self.lock().take();
        let is_here = self.process.load(Ordering::Relaxed) == u64::from(process::id());
        match episode {
            // Errors cannot be reported from a destructor.
            Some(episode) if is_here => drop(episode.end()),
            Some(episode) => std::mem::forget(episode),
            None => {}
        }
    }
}
