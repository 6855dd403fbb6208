//! Runs, each done once however many figures want it.
//!
//! Figures are drawn from a [`Store`] that notes what they ask for and do not find; that is run, and they are drawn again, until nothing is
//! missing. So no list says what a figure needs but the figure itself.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;
use control::controller::{Controller, ControllerInput, Fixed};
use control::experience::{Experience, WINDOW};
use control::{Setting, Window};
use observe::description::names;
use observe::merit::Tails;

use super::plan::{Load, ONLINE, Plan, TABLE_3};
use super::schemes::{FIVE, FOUND, PER_REQUEST, SETTINGS, Scheme, Training};
use crate::gather;
use experiment::bench::{Bench, Observed, tails};
use experiment::pool::Workers;
use progress::monitor::{Interrupted, Monitor};

/// Under what a workload is run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Under {
    /// One of [`SETTINGS`], from beginning to end.
    Fixed(&'static str),
    /// A scheme, which finds what Linux gives a disk.
    Scheme(Scheme),
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Schemes learn from fixed runs: those come first.
    pub under: Under,
    /// An index into the plan's disks.
    pub disk: usize,
    /// What.
    pub load: Load,
    /// From 0 on.
    pub repeat: u32,
}

/// What is kept of a run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Groups of jobs between stonewalls, in order; `None` where none of its jobs ran.
    pub phases: Vec<Option<Phase>>,
    /// When a window ended, in seconds, and the active setting from then on.
    pub decisions: Vec<(f64, String)>,
    /// Windows in all, and those under the per-request scheduler.
    pub windows: (u64, u64),
    /// From the first request to the last completion, in seconds.
    pub duration_s: f64,
    /// Bytes that the processes moved.
    pub bytes: u64,
    /// Mean response time of what the processes asked, in seconds.
    pub response_s: f64,
    /// Processor time of scheduler and controller.
    pub cpu_ns: Option<u64>,
    /// Windows of a fixed run, to be learned from.
    seen: Vec<Window>,
    /// What streams waited.
    pub tails: Tails,
}

/// What the block layer did in a phase, from the windows that lie in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// Length of those windows together.
    pub seconds: f64,
    /// Bytes that went to and from the device.
    pub bytes: f64,
    /// Synchronous requests, or all where there are none, and the time they waited in seconds.
    pub requests: f64,
    /// See `requests`.
    pub waited_s: f64,
    /// Fairness of each window by its length, added up.
    pub fairness_s: f64,
}

impl Served {
    /// Jain's index, mean over the time; 1 where no window lies in the phase.
    pub fn fairness(&self) -> f64 {
        if self.seconds > 0.0 { self.fairness_s / self.seconds } else { 1.0 }
    }
}

/// A group of jobs.
#[derive(Clone, Debug)]
pub struct Phase {
    /// When its first job began, in seconds.
    pub from_s: f64,
    /// When its last job was done.
    pub to_s: f64,
    /// Bytes that its jobs moved.
    pub bytes: u64,
    /// What they asked for, and the sum of its response times in seconds.
    pub calls: u64,
    /// See `calls`.
    pub waited_s: f64,
    /// Beneath them.
    pub served: Served,
    /// What its jobs waited.
    pub tails: Tails,
}

impl Phase {
    /// How long it took, in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// Runs that are done, and those that were asked for.
#[derive(Default)]
pub struct Store {
    done: BTreeMap<Key, Summary>,
    missing: RefCell<BTreeSet<Key>>,
}

impl Store {
    /// A run if it is done; else it is noted. `None` for ever if the program does not have the scheme.
    pub fn get(&self, key: &Key) -> Option<&Summary> {
        let found = self.done.get(key);
        let can_be = match key.under {
            Under::Fixed(_) => true,
            Under::Scheme(scheme) => scheme.is_there(),
        };
        if found.is_none() && can_be {
            self.missing.borrow_mut().insert(key.clone());
        }
        found
    }

    /// Does what was asked for. False if nothing was.
    ///
    /// # Errors
    /// A workload does not run, or it was interrupted.
    pub fn fill(&mut self, plan: &Plan, workers: Workers) -> anyhow::Result<bool> {
        let missing = std::mem::take(&mut *self.missing.borrow_mut());
        let taught: Vec<Key> = missing.iter().flat_map(|key| lessons(key, plan)).collect();
        let is_fixed = |key: &Key| matches!(key.under, Under::Fixed(_));
        let (mut fixed, schemes): (BTreeSet<Key>, BTreeSet<Key>) = missing.into_iter().partition(is_fixed);
        fixed.extend(taught);
        fixed.retain(|key| !self.done.contains_key(key));
        let any = !fixed.is_empty() || !schemes.is_empty();
        self.run(fixed.into_iter().collect(), plan, workers, "running schedulers")?;
        self.run(schemes.into_iter().collect(), plan, workers, "running schemes")?;
        Ok(any)
    }

    fn run(&mut self, keys: Vec<Key>, plan: &Plan, workers: Workers, what: &str) -> anyhow::Result<()> {
        let mut experiences: BTreeMap<(usize, Training), Arc<Experience>> = BTreeMap::new();
        for key in &keys {
            let kind = kind(key);
            if let Entry::Vacant(place) = experiences.entry(kind) {
                place.insert(Arc::new(self.experience(kind, plan)));
            }
        }
        let done = workers.map(what, &keys, |key| run_one(key, plan, &experiences[&kind(key)], workers.monitor))?;
        self.done.extend(keys.into_iter().zip(done));
        Ok(())
    }

    /// What a scheme of this kind learns from.
    fn experience(&self, (disk, training): (usize, Training), plan: &Plan) -> Experience {
        let settings: Vec<&'static str> = learned_about();
        let mut experience = Experience::new(names(), settings.iter().map(|&name| name.to_owned()).collect());
        for load in taught(training, plan) {
            let runs: Vec<(&[Window], &Tails)> = settings
                .iter()
                .filter_map(|&name| self.done.get(&Key { disk, load: load.clone(), under: Under::Fixed(name), repeat: 0 }))
                .map(|summary| (summary.seen.as_slice(), &summary.tails))
                .collect();
            let default = settings.iter().position(|&name| name == FOUND);
            // All or none: the results of a case stand in the order of the settings.
            if runs.len() == settings.len() {
                experience.cases.extend(gather::cases_of(&format!("{load:?}"), &plan.disks[disk].name, &runs, default));
            }
        }
        experience
    }
}

/// What decides which experience a run gets: the disk, and what was learned from.
fn kind(key: &Key) -> (usize, Training) {
    match key.under {
        Under::Fixed(_) => (key.disk, Training::None),
        Under::Scheme(scheme) => (key.disk, scheme.training),
    }
}

/// What experience is about.
fn learned_about() -> Vec<&'static str> {
    SETTINGS.iter().copied().filter(|name| FIVE.contains(name) || *name == PER_REQUEST).collect()
}

/// What is learned from.
fn taught(training: Training, plan: &Plan) -> Vec<Load> {
    let offline = TABLE_3.iter().map(|name| Load::Of(name));
    match training {
        Training::None => Vec::new(),
        Training::Offline => offline.collect(),
        Training::Online => offline.chain(ONLINE.iter().map(|name| Load::Of(name))).collect(),
        Training::AllBut(number, _) => (0..plan.batches).filter(|other| *other != number).map(Load::Batch).collect(),
    }
}

/// The fixed runs that a run learns from.
fn lessons(key: &Key, plan: &Plan) -> Vec<Key> {
    let (disk, training) = kind(key);
    let under = |load: &Load, name| Key { disk, load: load.clone(), under: Under::Fixed(name), repeat: 0 };
    taught(training, plan).iter().flat_map(|load| learned_about().into_iter().map(|name| under(load, name))).collect()
}

fn run_one(key: &Key, plan: &Plan, experience: &Arc<Experience>, monitor: &dyn Monitor) -> anyhow::Result<Summary> {
    let (name, text) = plan.job_file(&key.load)?;
    let seed = plan.seed_of(key.repeat);
    let bench = Bench::new(&text, &name, plan.disks[key.disk].world()?, seed)?;
    let (begins_with, controller): (Setting, Box<dyn Controller>) = match key.under {
        Under::Fixed(setting) => {
            let setting = Setting::parse(setting)?;
            (setting.clone(), Box::new(Fixed::new(setting, WINDOW)))
        }
        Under::Scheme(scheme) => {
            let ours = scheme.controller == Scheme::SEEKWISE.controller;
            // Of the paper's schemes only the two-layer one may choose the scheduler that learns by itself; ours may choose any.
            let learns = scheme.controller == Scheme::TWO_LAYER.controller;
            let names = SETTINGS.iter().filter(|name| FIVE.contains(name) || ours || learns && **name == PER_REQUEST);
            let candidates = names.map(|name| Setting::parse(name)).collect::<Result<_, _>>()?;
            let brief = ControllerInput { candidates, seed, experience: experience.clone(), ..ControllerInput::default() };
            (Setting::parse(FOUND)?, scheme.chosen(plan)?.build(&brief))
        }
    };
    let observed = match bench.run(&begins_with, controller, plan.measures_cpu, monitor) {
        Err(_) if monitor.check().is_err() => return Err(Interrupted.into()),
        observed => observed.with_context(|| format!("{name} on {}", plan.disks[key.disk].name))?,
    };
    Ok(summary(&bench, &observed, matches!(key.under, Under::Fixed(_))))
}

fn summary(bench: &Bench, observed: &Observed, is_fixed: bool) -> Summary {
    let (measure, steering) = (&observed.outcome.measure, observed.steered.steering());
    let decisions = steering.decisions().iter().filter(|decided| decided.window.is_some());
    let per_request = steering.windows().iter().filter(|window| window.setting.spec.learns()).count();
    Summary {
        phases: phases(bench, observed),
        decisions: decisions.map(|decided| (decided.at.as_secs_f64(), decided.to.to_string())).collect(),
        windows: (steering.windows().len() as u64, per_request as u64),
        duration_s: measure.duration().as_secs_f64(),
        bytes: measure.read_bytes + measure.written_bytes,
        response_s: measure.all.mean().as_secs_f64(),
        cpu_ns: observed.cpu_ns,
        seen: if is_fixed { steering.windows().to_vec() } else { Vec::new() },
        tails: tails(measure.streams.iter()),
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
        // One that reaches into another phase tells of both.
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
    /// A run of these phases, and nothing else of it.
    pub fn of_phases(phases: Vec<Option<Phase>>) -> Summary {
        let (decisions, seen) = (Vec::new(), Vec::new());
        let tails = Tails::new();
        Summary { phases, decisions, windows: (0, 0), duration_s: 0.0, bytes: 0, response_s: 0.0, cpu_ns: None, seen, tails }
    }
}

#[cfg(test)]
impl Store {
    /// These runs are done.
    pub fn of(done: impl IntoIterator<Item = (Key, Summary)>) -> Store {
        Store { done: done.into_iter().collect(), missing: RefCell::default() }
    }

    /// What was asked for and is not there.
    pub fn asked_for(&self) -> Vec<Key> {
        self.missing.borrow().iter().cloned().collect()
    }
}
