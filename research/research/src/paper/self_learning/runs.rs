//! Runs, each executed once even if several figures need it.
//!
//! Figures are drawn from a [`Store`] that notes each run that is requested but missing; those are executed and the figures drawn again, until
//! nothing is missing. So the runs that a figure needs are not listed anywhere else.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use block::{Knowledge, SchedulerSpec};
use control::Window;
use control::controller::{Controller, ControllerInput, Fixed};
use control::experience::{Experience, WINDOW};
use observe::description::names;
use observe::starvation::Tails;
use testbed::pool::Workers;

use super::plan::{Load, ONLINE, Plan, TABLE_3, TABLE_4};
use super::printed::{Classifier, Known, RequestLogger, ResponseTimes, Row, SPEC, SPEC_LOGISTIC, Sample, achieved, features};
use super::schemes::{
    FOUND, LEARNED, LOGISTIC, PER_REQUEST, REGULAR, RESPONSE_TIME, RESPONSE_TIME_LOGISTIC, SVM, Scheme, SchemeKind, Trained,
    Training, UPDATE_REQUESTS, setting,
};
use crate::gather;
use crate::model;
use experiment::bench::{Bench, Observed, tails};
use progress::monitor::{Interrupted, Monitor};

/// The scheduler or scheme of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Under {
    /// One of [`SETTINGS`](super::schemes::SETTINGS), kept for the whole run.
    Fixed(&'static str),
    /// A scheme, which begins with Linux's default scheduler for the disk, [`FOUND`].
    Scheme(Scheme),
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Comes first in the order: schemes learn from fixed runs, which must precede them.
    pub under: Under,
    /// An index into the plan's disks.
    pub disk: usize,
    /// The workload.
    pub load: Load,
    /// Repetition, from 0.
    pub repeat: u32,
}

impl Key {
    /// Whether the controller may activate a built-in scheduler that learns during the run.
    fn may_learn(&self) -> bool {
        matches!(self.under, Under::Scheme(scheme) if matches!(scheme.kind, SchemeKind::Guarded | SchemeKind::Seekwise))
    }
}

/// Results that are kept of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Groups of jobs between stonewalls, in order; `None` where none of its jobs ran.
    pub phases: Vec<Option<Phase>>,
    /// The end of each window in seconds, and the setting from then on.
    pub decisions: Vec<(f64, String)>,
    /// Number of windows: all, and those under a scheduler that decides per request.
    pub windows: (u64, u64),
    /// Requests completed in those windows: all, and those under a scheduler that decides per request.
    pub requests: (u64, u64),
    /// From the first request to the last completion, in seconds.
    pub duration_s: f64,
    /// Bytes that the processes moved.
    pub bytes: u64,
    /// Mean response time of the processes' calls, in seconds.
    pub response_s: f64,
    /// Processor time of scheduler and controller, in nanoseconds; `None` if not measured.
    pub cpu_ns: Option<u64>,
    /// Windows of a fixed run, for training; empty for schemes.
    seen: Vec<Window>,
    /// Requests for the training of Algorithm 3.
    samples: Vec<Sample>,
    /// Response times by stream.
    pub tails: Tails,
}

/// Block-layer results in a phase, from the windows that lie completely in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Total duration of those windows.
    pub seconds: f64,
    /// Bytes transferred to and from the device.
    pub bytes: f64,
    /// Synchronous requests, or all in windows without any, and the sum of their waiting times in seconds.
    pub requests: f64,
    /// See `requests`.
    pub waited_s: f64,
    /// Fairness integrated over time: the sum of each window's fairness times its duration.
    pub fairness_s: f64,
}

impl Served {
    /// Jain's index, averaged over time; 1 if no window lies in the phase.
    pub fn fairness(&self) -> f64 {
        if self.seconds > 0.0 { self.fairness_s / self.seconds } else { 1.0 }
    }
}

/// A group of jobs between two stonewalls.
#[derive(Clone, Debug)]
pub struct Phase {
    /// When its first job began, in seconds.
    pub from_s: f64,
    /// When its last job ended, in seconds.
    pub to_s: f64,
    /// Bytes that its jobs moved.
    pub bytes: u64,
    /// Number of calls of its jobs, and the sum of their response times in seconds.
    pub calls: u64,
    /// See `calls`.
    pub waited_s: f64,
    /// Block-layer results.
    pub served: Served,
    /// Response times by stream.
    pub tails: Tails,
}

impl Phase {
    /// Duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// Results of completed runs, and the keys of missing ones.
#[derive(Default)]
pub struct Store {
    done: BTreeMap<Key, Summary>,
    missing: RefCell<BTreeSet<Key>>,
    lessons: Lessons,
}

/// Models and training data derived from completed runs, each built once.
#[derive(Default)]
struct Lessons {
    /// Models of Algorithm 3, by disk and learner.
    response_times: BTreeMap<(usize, &'static str), Arc<ResponseTimes>>,
    /// The training data of classified schemes.
    trained: BTreeMap<Lesson, Trained>,
    /// Training data of our two-layer scheme, by disk and training.
    experience: BTreeMap<(usize, Training), Arc<Experience>>,
}

/// The parameters that determine a classified scheme's training: schemes that differ only in others share it.
type Lesson = (usize, Training, &'static str, usize, (u8, u8, u8), bool, u8);

fn lesson(disk: usize, scheme: &Scheme) -> Lesson {
    (disk, scheme.training, scheme.learner, scheme.candidates(), scheme.preference, scheme.by_calls, scheme.tolerance_percent)
}

impl Store {
    /// A run's results if it is complete; otherwise notes it as missing and returns `None`.
    pub fn get(&self, key: &Key) -> Option<&Summary> {
        let found = self.done.get(key);
        if found.is_none() {
            self.missing.borrow_mut().insert(key.clone());
        }
        found
    }

    /// Executes the missing runs. Returns false if there were none.
    ///
    /// # Errors
    /// A workload does not run, a model cannot be trained, or the work was interrupted.
    pub fn fill(&mut self, plan: &Plan, workers: Workers) -> anyhow::Result<bool> {
        let missing = std::mem::take(&mut *self.missing.borrow_mut());
        if missing.is_empty() {
            return Ok(false);
        }
        // Algorithm 3 is trained by runs of the regular scheduler, the others by fixed runs, of Algorithm 3 too.
        let taught: BTreeSet<Key> = missing.iter().flat_map(|key| lessons(key, plan)).collect();
        let all: BTreeSet<Key> = missing.into_iter().chain(taught).collect();
        let jump_start: BTreeSet<Key> =
            all.iter().filter(|key| is_by_request(key)).flat_map(|key| under_each(&[REGULAR], key.disk, &of_table_3())).collect();
        let all = all.into_iter().chain(jump_start);
        let (fixed, schemes): (Vec<Key>, Vec<Key>) = all.partition(|key| matches!(key.under, Under::Fixed(_)));
        let (by_request, fixed): (Vec<Key>, Vec<Key>) = fixed.into_iter().partition(is_by_request);
        self.run(fixed, plan, workers, "running schedulers")?;
        self.run(by_request, plan, workers, "running the per-request scheduler")?;
        self.run(schemes, plan, workers, "running schemes")?;
        Ok(true)
    }

    fn run(&mut self, keys: Vec<Key>, plan: &Plan, workers: Workers, what: &str) -> anyhow::Result<()> {
        let keys: BTreeSet<Key> = keys.into_iter().filter(|key| !self.done.contains_key(key)).collect();
        let keys: Vec<Key> = keys.into_iter().collect();
        self.learn(&keys, plan, workers)?;
        let lessons = &self.lessons;
        let done = workers.map(what, &keys, |key| run_one(key, plan, lessons, workers.monitor))?;
        self.done.extend(keys.into_iter().zip(done));
        Ok(())
    }

    /// Trains the models that these runs need.
    fn learn(&mut self, keys: &[Key], plan: &Plan, workers: Workers) -> anyhow::Result<()> {
        let mut response_times = BTreeSet::new();
        let mut classified: BTreeMap<Lesson, Scheme> = BTreeMap::new();
        for key in keys {
            match key.under {
                Under::Fixed(RESPONSE_TIME_LOGISTIC) => drop(response_times.insert((key.disk, LOGISTIC))),
                Under::Fixed(RESPONSE_TIME) => drop(response_times.insert((key.disk, SVM))),
                Under::Fixed(_) => {}
                Under::Scheme(scheme) if scheme.kind == SchemeKind::Guarded => {
                    if let Entry::Vacant(place) = self.lessons.experience.entry((key.disk, scheme.training)) {
                        place.insert(Arc::new(experience(&self.done, key.disk, scheme.training, plan)));
                    }
                }
                Under::Scheme(scheme) if scheme.is_classified() => {
                    response_times.insert((key.disk, SVM));
                    classified.insert(lesson(key.disk, &scheme), scheme);
                }
                Under::Scheme(_) => {}
            }
        }
        let missing: Vec<(usize, &'static str)> =
            response_times.into_iter().filter(|of| !self.lessons.response_times.contains_key(of)).collect();
        let done = &self.done;
        let models = workers.each(&missing, |&(disk, learner)| {
            let samples: Vec<Sample> = under_each(&[REGULAR], disk, &of_table_3())
                .iter()
                .filter_map(|key| done.get(key))
                .flat_map(|summary| summary.samples.iter().cloned())
                .collect();
            Ok(Arc::new(ResponseTimes::learn(&samples, model::learner(learner)?, plan.seed)?))
        })?;
        self.lessons.response_times.extend(missing.into_iter().zip(models));
        let missing: Vec<(Lesson, Scheme)> =
            classified.into_iter().filter(|(of, _)| !self.lessons.trained.contains_key(of)).collect();
        let trained = workers.map("training", &missing, |(of, scheme)| train(done, of.0, scheme, plan))?;
        self.lessons.trained.extend(missing.into_iter().map(|(of, _)| of).zip(trained));
        Ok(())
    }
}

/// Whether a run is under Algorithm 3 as printed.
fn is_by_request(key: &Key) -> bool {
    matches!(key.under, Under::Fixed(RESPONSE_TIME | RESPONSE_TIME_LOGISTIC))
}

/// The log of the runs that a scheme is trained with, and the classifier.
fn train(done: &BTreeMap<Key, Summary>, disk: usize, scheme: &Scheme, plan: &Plan) -> anyhow::Result<Trained> {
    let ranking = scheme.ranking()?;
    let names = &LEARNED[..scheme.candidates()];
    let mut log = Vec::new();
    let mut workloads: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for (number, load) in taught(scheme.training, plan).into_iter().enumerate() {
        for (index, &name) in names.iter().enumerate() {
            let Some(summary) = done.get(&Key { disk, load: load.clone(), under: Under::Fixed(name), repeat: 0 }) else { continue };
            for window in &summary.seen {
                let Some(phase) = summary.phase_of(window).filter(|_| window.outcome.requests > 0) else { continue };
                let next = workloads.len() as u32;
                let workload = *workloads.entry((number, phase)).or_insert(next);
                log.push(Row {
                    workload: Some(workload),
                    setting: index,
                    features: features(window),
                    achieved: achieved(window, scheme.by_calls),
                });
            }
        }
    }
    let classifier = Classifier::learn(&log, ranking, names.len(), model::learner(scheme.learner)?, plan.seed)?;
    Ok(Trained { ranking, log: Arc::new(log), classifier: Arc::new(classifier) })
}

/// Training data for our two-layer scheme.
fn experience(done: &BTreeMap<Key, Summary>, disk: usize, training: Training, plan: &Plan) -> Experience {
    let mut experience = Experience::new(names(), OURS_LEARNED.iter().map(|&name| name.to_owned()).collect());
    let default = OURS_LEARNED.iter().position(|&name| name == FOUND);
    for load in taught(training, plan) {
        let runs: Vec<(&[Window], &Tails)> = under_each(OURS_LEARNED, disk, std::slice::from_ref(&load))
            .iter()
            .filter_map(|key| done.get(key))
            .map(|summary| (summary.seen.as_slice(), &summary.tails))
            .collect();
        // All or none: the results of a case are indexed by setting.
        if runs.len() == OURS_LEARNED.len() {
            experience.cases.extend(gather::cases_of(&format!("{load:?}"), &plan.disks[disk].name, &runs, default));
        }
    }
    experience
}

/// Settings that our training data cover.
const OURS_LEARNED: &[&str] = &["noop", "sstf", "deadline", "anticipatory", "cfq", PER_REQUEST];

fn of_table_3() -> Vec<Load> {
    TABLE_3.iter().map(|name| Load::Of(name)).collect()
}

/// Training workloads.
fn taught(training: Training, plan: &Plan) -> Vec<Load> {
    match training {
        Training::None => Vec::new(),
        Training::Offline => of_table_3(),
        Training::Online => of_table_3().into_iter().chain(ONLINE.iter().map(|name| Load::Of(name))).collect(),
        Training::Seen => {
            let seen = TABLE_4.iter().map(|name| Load::Again(name));
            taught(Training::Online, plan).into_iter().chain(seen).collect()
        }
        Training::AllBut(number, _) => (0..plan.batches).filter(|other| *other != number).map(Load::Batch).collect(),
    }
}

fn under_each(names: &[&'static str], disk: usize, loads: &[Load]) -> Vec<Key> {
    let under = |load: &Load, name| Key { disk, load: load.clone(), under: Under::Fixed(name), repeat: 0 };
    loads.iter().flat_map(|load| names.iter().map(move |name| under(load, name))).collect()
}

/// The fixed runs that the training of a run needs.
fn lessons(key: &Key, plan: &Plan) -> Vec<Key> {
    match key.under {
        Under::Scheme(scheme) if scheme.is_classified() => under_each(LEARNED, key.disk, &taught(scheme.training, plan)),
        Under::Scheme(scheme) => under_each(OURS_LEARNED, key.disk, &taught(scheme.training, plan)),
        Under::Fixed(_) => Vec::new(),
    }
}

fn run_one(key: &Key, plan: &Plan, lessons: &Lessons, monitor: &dyn Monitor) -> anyhow::Result<Summary> {
    let (name, text) = plan.job_file(&key.load)?;
    let seed = plan.seed_of(&key.load, key.repeat);
    let bench = Bench::new(&text, &name, plan.disks[key.disk].world()?, seed)?;
    // Ours may change to per-request during a run; the paper's schemes choose among the five and Algorithm 3, which is added below.
    let bench = if key.may_learn() { bench } else { bench.without_learning() };
    let mut begins_with = setting(FOUND)?;
    let mut schedulers: Vec<(&'static SchedulerSpec, Box<dyn Knowledge>)> = Vec::new();
    let mut by_request = |spec, learner| -> anyhow::Result<()> {
        let model = lessons.response_times.get(&(key.disk, learner)).context("Algorithm 3 was not trained")?;
        let requests = plan.scaled_requests(UPDATE_REQUESTS, false);
        schedulers.push((spec, Box::new(Known::new(Arc::clone(model), requests, model::learner(learner)?))));
        Ok(())
    };
    let mut log = None;
    let controller: Box<dyn Controller> = match key.under {
        Under::Fixed(wanted) => {
            let fixed = Fixed::new(setting(wanted)?, WINDOW);
            match wanted {
                RESPONSE_TIME => by_request(&SPEC, SVM)?,
                RESPONSE_TIME_LOGISTIC => by_request(&SPEC_LOGISTIC, LOGISTIC)?,
                _ => begins_with = setting(wanted)?,
            }
            if wanted == REGULAR && of_table_3().contains(&key.load) {
                let (logger, logged) = RequestLogger::new(fixed);
                log = Some(logged);
                Box::new(logger)
            } else {
                Box::new(fixed)
            }
        }
        Under::Scheme(scheme) => {
            if scheme.is_classified() {
                by_request(&SPEC, SVM)?;
            }
            let experience = lessons.experience.get(&(key.disk, scheme.training)).cloned().unwrap_or_default();
            let brief = ControllerInput { seed, experience, ..ControllerInput::default() };
            scheme.build(plan, &brief, lessons.trained.get(&lesson(key.disk, &scheme)))?
        }
    };
    let observed = match bench.run_with(schedulers, &begins_with, controller, plan.measures_cpu, monitor) {
        Err(_) if monitor.check().is_err() => return Err(Interrupted.into()),
        observed => observed.with_context(|| format!("{name} on {}", plan.disks[key.disk].name))?,
    };
    let samples = log.map(|log| log.take()).unwrap_or_default();
    Ok(Summary { samples, ..summary(&bench, &observed, matches!(key.under, Under::Fixed(_))) })
}

fn summary(bench: &Bench, observed: &Observed, is_fixed: bool) -> Summary {
    let (measure, steering) = (&observed.outcome.measure, observed.steered.steering());
    let decisions = steering.decisions().iter().filter(|decided| decided.window.is_some());
    let by_request = |window: &&Window| [RESPONSE_TIME, RESPONSE_TIME_LOGISTIC, PER_REQUEST].contains(&window.setting.spec.name);
    let of_them: Vec<&Window> = steering.windows().iter().filter(by_request).collect();
    let requests = |windows: &mut dyn Iterator<Item = &Window>| windows.map(|window| window.outcome.requests).sum();
    Summary {
        phases: phases(bench, observed),
        decisions: decisions.map(|decided| (decided.at.as_secs_f64(), decided.to.to_string())).collect(),
        windows: (steering.windows().len() as u64, of_them.len() as u64),
        requests: (requests(&mut steering.windows().iter()), requests(&mut of_them.iter().copied())),
        duration_s: measure.duration().as_secs_f64(),
        bytes: measure.read_bytes + measure.written_bytes,
        response_s: measure.all.mean().as_secs_f64(),
        cpu_ns: observed.cpu_ns,
        seen: if is_fixed { steering.windows().to_vec() } else { Vec::new() },
        samples: Vec::new(),
        tails: tails(measure.streams.iter()),
    }
}

impl Summary {
    /// Jain's index, averaged over time; `None` if no window lies in a phase.
    pub fn fairness(&self) -> Option<f64> {
        let phases = || self.phases.iter().flatten().map(|phase| &phase.served);
        let seconds: f64 = phases().map(|served| served.seconds).sum();
        (seconds > 0.0).then(|| phases().map(|served| served.fairness_s).sum::<f64>() / seconds)
    }

    /// Number of decisions that changed the setting.
    pub fn changes(&self) -> u64 {
        let settings = || self.decisions.iter().map(|(_, setting)| setting.as_str());
        std::iter::once(FOUND).chain(settings()).zip(settings()).filter(|(before, after)| before != after).count() as u64
    }

    /// The phase in which a window lies; `None` if it overlaps a boundary.
    fn phase_of(&self, window: &Window) -> Option<usize> {
        let (from, to) = (window.from.as_secs_f64(), window.to.as_secs_f64());
        self.phases.iter().position(|phase| phase.as_ref().is_some_and(|phase| from >= phase.from_s && to <= phase.to_s))
    }
}

fn phases(bench: &Bench, observed: &Observed) -> Vec<Option<Phase>> {
    let mut phases: Vec<Option<Phase>> = Vec::new();
    for (job, span) in bench.placed().jobs().iter().zip(&observed.spans) {
        let number = job.phase() as usize;
        phases.resize(phases.len().max(number + 1), None);
        let Some(span) = span else { continue };
        let (from_s, to_s) = (span.started.as_secs_f64(), span.ended.as_secs_f64());
        let new = Phase { from_s, to_s, bytes: 0, calls: 0, waited_s: 0.0, served: Served::default(), tails: Tails::new() };
        let phase = phases[number].get_or_insert(new);
        phase.from_s = phase.from_s.min(from_s);
        phase.to_s = phase.to_s.max(to_s);
        if let Some(stream) = observed.outcome.measure.streams.get(&job.stream()) {
            phase.tails.extend(tails([(&job.stream(), stream)].into_iter()));
            phase.bytes += stream.bytes();
            phase.calls += stream.responses.count();
            phase.waited_s += stream.responses.mean().as_secs_f64() * stream.responses.count() as f64;
        }
    }
    for phase in phases.iter_mut().flatten() {
        phase.served = served(observed.steered.steering().windows(), phase);
    }
    phases
}

fn served(windows: &[Window], phase: &Phase) -> Served {
    let mut served = Served::default();
    for window in windows {
        // A window that overlaps a boundary mixes two phases.
        if window.from.as_secs_f64() < phase.from_s || window.to.as_secs_f64() > phase.to_s {
            continue;
        }
        let outcome = &window.outcome;
        served.seconds += window.duration().as_secs_f64();
        served.fairness_s += window.duration().as_secs_f64() * outcome.fairness;
        served.bytes += outcome.bytes as f64;
        if outcome.requests > 0 {
            let counted = if outcome.waited_for > 0 { outcome.waited_for } else { outcome.requests } as f64;
            served.requests += counted;
            served.waited_s += outcome.waited_s * counted;
        }
    }
    served
}

#[cfg(test)]
impl Summary {
    /// A summary with these phases and no other results.
    pub fn of_phases(phases: Vec<Option<Phase>>) -> Summary {
        let (decisions, seen) = (Vec::new(), Vec::new());
        let tails = Tails::new();
        let samples = Vec::new();
        Summary {
            phases,
            decisions,
            windows: (0, 0),
            requests: (0, 0),
            duration_s: 0.0,
            bytes: 0,
            response_s: 0.0,
            cpu_ns: None,
            seen,
            samples,
            tails,
        }
    }
}

#[cfg(test)]
impl Store {
    /// A store in which these runs are complete.
    pub fn of(done: impl IntoIterator<Item = (Key, Summary)>) -> Store {
        Store { done: done.into_iter().collect(), ..Store::default() }
    }

    /// Requested runs that are missing.
    pub fn asked_for(&self) -> Vec<Key> {
        self.missing.borrow().iter().cloned().collect()
    }
}
