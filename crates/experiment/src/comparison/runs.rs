//! The runs of a comparison, one for each regime and those of streams alone, and their records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::{Nanos, Roster, StreamId};
use control::Setting;
use control::controller::{ControllerInput, Fixed};
use control::experience::WINDOW;
use guarantee::tenants::{self, Contract, Reference};
use report::record::{Kind, Record, SCHEMA, Tenancy};
use sim::host::{HostSettings, RunSummary};
use sim::run::{Pilot, RunError, ServerEvent, Steerable, StreamMeasure, Transferred, Watch};
use testbed::load::Load;
use testbed::pool::Workers;
use testbed::world::World;

use super::regime::Regime;
use super::remembered::Remembered;
use super::run_history::RunHistory;
use super::{minutes, record};
use crate::steered::{Steered, timed};
use crate::timed::Stopwatch;
use progress::monitor::{Interrupted, Monitor};

/// All runs of a comparison.
pub struct Plan {
    pub load: Box<dyn Load>,
    pub world: World,
    /// Contract of the tenants that share the disk. Schedulers get it as the roster of `world`.
    pub contract: Option<Contract>,
    pub regimes: Vec<Regime>,
    /// The input of every controller.
    pub brief: ControllerInput,
    /// Whether the runs are recorded for a knowledge base.
    pub remembers: bool,
    /// Scheduler under which streams also run alone, as required for slowdown and fairness; `None` skips these runs.
    pub alone: Option<Setting>,
    pub measures_cpu: bool,
    pub threads: usize,
    /// Receives the requests of the runs under regimes.
    pub observer: Option<RequestObserver>,
}

/// Called with each read, write and discard of a run when it completes at the device's queue, in that order.
pub type RequestObserver = Arc<dyn Fn(&Transferred) + Send + Sync>;

/// Passes events on to an observer of requests and to the pilot, if there is one.
struct Observed<'a> {
    pilot: Option<&'a mut dyn Pilot>,
    observer: &'a RequestObserver,
}

impl Pilot for Observed<'_> {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        if let Some(pilot) = &mut self.pilot {
            pilot.begin(plant);
        }
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted {
            if let ServerEvent::Finished(done) = event {
                (self.observer)(done);
            }
        }
        if let Some(pilot) = &mut self.pilot {
            pilot.events(noted);
        }
    }

    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        self.pilot.as_ref().and_then(|pilot| pilot.next_step(quiet_until))
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.pilot.as_mut().is_some_and(|pilot| pilot.step(now, plant))
    }
}

/// Results by stream.
type Streams = BTreeMap<StreamId, StreamMeasure>;

/// A unit of work for one core.
enum Task<'a> {
    /// Runs the load under the regime with this index.
    Under(usize),
    /// Runs each of these streams alone.
    Alone(&'a Setting, Vec<StreamId>),
    /// Runs the tenant with this index alone, on its reference disk and on this one.
    Tenant(usize, &'a Reference, &'a Roster),
}

enum Done {
    Under(usize, Box<Ran>),
    Alone(Streams),
    Tenant(usize, Box<tenants::Alone>),
}

/// Result of a run under a regime.
pub struct Ran {
    outcome: RunSummary,
    /// CPU time of schedulers and controller in nanoseconds, if measured.
    cpu_ns: Option<u64>,
    /// Windows and decisions, if a controller ran or the run is stored in a knowledge base.
    steered: Option<Steered>,
}

/// Results of all runs.
pub struct Results {
    runs: Vec<Ran>,
    alone: Option<Streams>,
    /// Results of tenants with a reference disk, run alone, by index.
    tenants: BTreeMap<usize, tenants::Alone>,
}

impl Plan {
    /// The longest tasks first, so that no core is left with one at the end: later regimes are more complex, controllers last, and the runs
    /// of streams alone can be divided.
    fn tasks(&self) -> Vec<Task<'_>> {
        let schedulers = (0..self.regimes.len()).rev().map(Task::Under);
        let alone = self
            .alone
            .iter()
            .flat_map(|setting| self.load.alone_parts(self.threads).into_iter().map(move |streams| Task::Alone(setting, streams)));
        let tenants = self.world.roster.iter().zip(&self.contract).flat_map(|(roster, contract)| {
            let references = contract.promises.iter().map(|promise| &promise.reference).enumerate();
            references.filter_map(move |(number, reference)| Some(Task::Tenant(number, reference.as_ref()?, roster)))
        });
        schedulers.chain(tenants).chain(alone).collect()
    }

    fn perform(&self, task: &Task, watch: &Watch) -> Result<Done, RunError> {
        match task {
            Task::Under(number) => Ok(Done::Under(*number, Box::new(self.run_under(&self.regimes[*number], watch)?))),
            Task::Alone(setting, streams) => {
                let build = || self.world.queue(self.world.scheduler(setting));
                Ok(Done::Alone(self.load.alone(streams, &build, watch)?.streams))
            }
            Task::Tenant(number, reference, roster) => {
                let alone = tenants::alone(&*self.load, roster, *number, reference, &self.world, watch)?;
                Ok(Done::Tenant(*number, Box::new(alone)))
            }
        }
    }

    /// Runs all tasks, with one progress bar.
    ///
    /// # Errors
    /// That of the first task that failed, in the order of tasks, or the work was interrupted.
    pub fn run(&self, workers: Workers) -> anyhow::Result<Results> {
        let tasks: Vec<(Task, Progress)> = self.tasks().into_iter().map(|task| (task, Progress::default())).collect();
        let length = match (self.load.expected_requests(), self.load.expected_end()) {
            (Some(requests), _) => Length::Requests(requests),
            (None, Some(end)) if end > Nanos::ZERO => Length::Time(end),
            (None, _) => Length::Unknown,
        };
        let all_done = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            // The thread that shows the progress must end even if the work panics.
            let _ends = SetAtEnd(&all_done);
            scope.spawn(|| show_progress(workers.monitor, length, &tasks, &all_done));
            workers.each(&tasks, |(task, progress)| {
                let (completed, reached) = (Some(&progress.completed), Some(&progress.reached));
                let performed = self.perform(task, &Watch { stop: Some(workers.monitor.stop()), completed, reached });
                progress.is_done.store(true, Ordering::Relaxed);
                match performed {
                    Err(RunError::Interrupted) => Err(Interrupted.into()),
                    performed => Ok(performed?),
                }
            })
        });
        Ok(gather(done?))
    }

    fn run_under(&self, regime: &Regime, watch: &Watch) -> Result<Ran, RunError> {
        let stopwatch = self.measures_cpu.then(|| Arc::new(Stopwatch::new()));
        let world = self.world.under(regime.begins_with());
        let queue = world.queue(timed(world.scheduler(regime.begins_with()), &stopwatch));
        let device = world.device();
        let mut steered = match regime {
            // No controller, but the run is recorded.
            Regime::Scheduler(setting) => self.remembers.then(|| {
                let watcher = Box::new(Fixed::new(setting.clone(), WINDOW));
                Steered::new(watcher, setting, &device, None)
            }),
            Regime::Controller { chosen, begins_with } => {
                Some(Steered::new(chosen.build(&self.brief), begins_with, &device, stopwatch.clone()))
            }
        };
        if let Some(steered) = steered.as_mut().filter(|_| self.remembers) {
            steered.keep_requests();
        }
        let pilot = steered.as_mut().map(|steered| steered as &mut dyn Pilot);
        let outcome = match &self.observer {
            None => self.load.run(queue, world.host, watch, pilot)?,
            Some(observer) => self.load.run(queue, world.host, watch, Some(&mut Observed { pilot, observer }))?,
        };
        Ok(Ran { outcome, cpu_ns: stopwatch.map(|stopwatch| stopwatch.spent_ns()), steered })
    }

    /// Stores the runs in the knowledge base.
    pub fn keep(&self, results: &Results, remembered: &Remembered, monitor: &dyn Monitor) {
        let source = source(&*self.load, &self.world);
        let lived = self.regimes.iter().zip(&results.runs).filter_map(|(regime, ran)| {
            Some(RunHistory {
                source: &source,
                seed: self.brief.seed,
                under: regime.label(),
                preference: &self.brief.preference,
                steered: ran.steered.as_ref()?,
            })
        });
        remembered.keep(lived, monitor);
    }

    /// The record of each regime's run.
    pub fn records(&self, results: &Results) -> Vec<Record> {
        let (trace, replay, disk) = (self.load.digest(), self.load.replay(&self.world), self.world.digest());
        let minutes = |steered: &Steered| minutes::minutes(steered.steering(), &self.brief);
        let one = |(position, (regime, Ran { outcome, cpu_ns, steered })): (usize, (&Regime, &Ran))| {
            let streams = record::streams(&*self.load, outcome, results.alone.as_ref());
            let mut figures = record::figures(outcome, self.world.profile.disks(), (&streams, results.alone.as_ref()), *cpu_ns);
            figures.sustainable_speed = self.load.overload(outcome).map(|overload| overload.sustainable_speed);
            let mut warnings = self.load.warnings(outcome);
            warnings.extend(unfit_costs(regime.begins_with(), &self.world));
            let (judged, all) = (record::judged(&streams, results.alone.as_ref()).len(), self.load.stream_count());
            if self.alone.is_some() && all > judged {
                warnings.push(format!("Fairness and slowdown are judged by the {judged} busiest of {all} streams."));
            }
            Record {
                schema: SCHEMA,
                kind: Kind::Simulate,
                seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
                trace: trace.clone(),
                disk: disk.clone(),
                position: position as u32,
                scheduler: regime.record(),
                steering: steered.as_ref().filter(|_| regime.is_steered()).map(minutes),
                replay: replay.clone(),
                warnings,
                figures,
                curves: record::curves(&outcome.measure),
                streams,
                jobs: record::rows(self.load.reported(), outcome),
                groups: record::rows(self.load.groups(), outcome),
                tenants: self.tenancy(outcome, results),
            }
        };
        self.regimes.iter().zip(&results.runs).enumerate().map(one).collect()
    }
}

impl Plan {
    /// Guarantees of the tenants and their results; `None` without a contract.
    fn tenancy(&self, outcome: &RunSummary, results: &Results) -> Option<Tenancy> {
        let contract = self.contract.as_ref()?;
        let alone: Vec<_> = (0..contract.promises.len()).map(|number| results.tenants.get(&number)).collect();
        tenants::judge(contract, outcome, &alone)
    }
}

/// A warning if io-cost has the kernel's default costs, which are those of a hard disk, on another device.
fn unfit_costs(setting: &Setting, world: &World) -> Option<String> {
    const COSTS: [&str; 6] = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
    if setting.spec.name != "io-cost" || world.profile.device().rotational() {
        return None;
    }
    let costs = setting.spec.tunables.iter().zip(&setting.values).filter(|(tunable, _)| COSTS.contains(&tunable.name));
    let is_default = costs.clone().all(|(tunable, value)| tunable.default == *value);
    let random = costs.into_iter().find(|(tunable, _)| tunable.name == "rrandiops").map_or(0, |(_, value)| *value);
    is_default.then(|| {
        format!(
            "io-cost has no cost model of {}: its defaults are those of a hard disk with {random} random reads a second, and hold a faster \
             device back; set {} (`seekwise learn iocost` measures them).",
            world.profile.name(),
            COSTS.join(", ")
        )
    })
}

/// Identifies the load with its replay and host settings, but without disk and seed. Runs with the same string have the same load.
pub fn source(load: &dyn Load, world: &World) -> String {
    let (digest, replay) = (load.digest(), load.replay(world));
    let mut source = format!("{} {}", digest.name, &digest.sha256[..8]);
    if replay.mode != "jobs" {
        source += &format!(" {} speed={} fit={}", replay.mode, replay.speed, replay.fit);
    }
    for ((name, value), default) in world.tunables().zip(HostSettings::default().values()) {
        if value != default {
            source += &format!(" {name}={value}");
        }
    }
    source
}

/// Progress of a task.
#[derive(Default)]
struct Progress {
    completed: AtomicU64,
    reached: AtomicU64,
    is_done: AtomicBool,
}

/// Expected length of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    /// A number of requests.
    Requests(u64),
    /// Simulated time at which it is expected to end.
    Time(Nanos),
    Unknown,
}

/// Steps of the progress bar for a task that ends by time.
const STEPS: u64 = 1000;

impl Length {
    /// Steps of one task; 0 if unknown.
    fn steps(self) -> u64 {
        match self {
            Length::Requests(requests) => requests,
            Length::Time(_) => STEPS,
            Length::Unknown => 0,
        }
    }

    /// Number of steps done.
    fn done(self, progress: &Progress) -> u64 {
        let Length::Time(end) = self else { return progress.completed.load(Ordering::Relaxed) };
        if progress.is_done.load(Ordering::Relaxed) {
            return STEPS;
        }
        let share = progress.reached.load(Ordering::Relaxed) as f64 / end.0 as f64;
        // Requests in flight at the expected end take longer.
        ((share * STEPS as f64) as u64).min(STEPS)
    }
}

/// Sets the flag when it is dropped, also in a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reports the progress of the tasks to the monitor until all are done.
fn show_progress(monitor: &dyn Monitor, length: Length, tasks: &[(Task, Progress)], all_done: &AtomicBool) {
    let what = match length {
        Length::Requests(_) => "replaying",
        Length::Time(_) => "simulating",
        Length::Unknown => "simulating, requests:",
    };
    monitor.begin(length.steps() * tasks.len() as u64, what);
    while !all_done.load(Ordering::Relaxed) {
        monitor.progress(tasks.iter().map(|(_, progress)| length.done(progress)).sum());
        std::thread::sleep(Duration::from_millis(20));
    }
    monitor.end();
}

fn gather(done: Vec<Done>) -> Results {
    let mut runs = Vec::new();
    let mut alone: Option<Streams> = None;
    let mut tenants = BTreeMap::new();
    for one in done {
        match one {
            Done::Under(number, ran) => runs.push((number, *ran)),
            Done::Alone(streams) => alone.get_or_insert_default().extend(streams),
            Done::Tenant(number, alone) => {
                tenants.insert(number, *alone);
            }
        }
    }
    runs.sort_by_key(|&(number, _)| number);
    Results { runs: runs.into_iter().map(|(_, ran)| ran).collect(), alone, tenants }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_by_time_is_as_far_as_its_own_clock_and_done_when_it_is_done() {
        let progress = Progress::default();
        let done = |length: Length| length.done(&progress);
        let time = Length::Time(Nanos::from_millis(8000));
        assert_eq!((time.steps(), done(time)), (1000, 0));
        progress.reached.store(Nanos::from_millis(2000).0, Ordering::Relaxed);
        progress.completed.store(77, Ordering::Relaxed);
        assert_eq!((done(time), done(Length::Requests(100)), done(Length::Unknown)), (250, 77, 77));
        progress.reached.store(Nanos::from_millis(9000).0, Ordering::Relaxed);
        assert_eq!(done(time), 1000);
        progress.reached.store(0, Ordering::Relaxed);
        progress.is_done.store(true, Ordering::Relaxed);
        assert_eq!(done(time), 1000, "its jobs ended before their time");
    }
}
