//! Field trials: the agent on block devices of the real kernel, compared with constant settings.
//!
//! ```text
//! loads x rounds ──▶ a free device of each kind ──▶ every fixed setting, then the agent ──▶ crate::report::field
//! ```
//! Every setting gets the same load for the same time, on a device that is reset before each. Losses while the agent learns are included.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::report::field::{AGENT, AgentChange, Got, Pair, Served};
use anyhow::{Context as _, anyhow};
use control::Setting;
use observe::{Preference, merit};

use crate::validation;
use crate::validation::RealDevice;
use crate::validation::workloads::Workload;
use experiment::fio;
use progress::monitor::Monitor;

/// A device that the agent can tune.
///
/// ```
/// use research::field::AgentDevice;
/// use research::report::field::AgentChange;
///
/// /// The changes that the agent makes during `work`.
/// fn changes(device: &mut dyn AgentDevice, work: impl FnOnce()) -> anyhow::Result<Vec<AgentChange>> {
///     device.start_agent()?;
///     work();
///     device.stop_agent()
/// }
/// ```
pub trait AgentDevice: RealDevice + Send {
    /// Starts the agent on this device, and returns when it replies.
    ///
    /// # Errors
    /// It does not start.
    fn start_agent(&mut self) -> anyhow::Result<()>;

    /// Stops the agent, which restores the settings. Returns its actions, in order.
    ///
    /// # Errors
    /// It failed while running.
    fn stop_agent(&mut self) -> anyhow::Result<Vec<AgentChange>>;
}

/// A load: one workload, or several in sequence.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// Its parts, run in this order; at least one.
    pub parts: Vec<Workload>,
}

impl Load {
    /// A load of one workload.
    pub fn single(workload: &Workload) -> Load {
        Load { name: workload.name.clone(), parts: vec![workload.clone()] }
    }

    /// A load of several workloads in sequence.
    pub fn mix(workloads: &[Workload]) -> Load {
        let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
        Load { name: format!("mix of {}", names.join(", ")), parts: workloads.to_vec() }
    }
}

/// Equal devices.
pub struct Devices {
    /// Name of the kind.
    pub name: String,
    /// The devices; each runs one load at a time.
    pub devices: Vec<Box<dyn AgentDevice>>,
}

/// Parameters of field trials.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The loads.
    pub loads: Vec<Load>,
    /// Fixed settings, at least one; the first is the original setting for the agent.
    pub settings: Vec<Setting>,
    /// Measured seconds of each workload.
    pub seconds: f64,
    /// Number of repetitions.
    pub rounds: u32,
    /// Weights of throughput, response time and fairness.
    pub preference: Preference,
}

/// A load in a round, on devices of one kind.
#[derive(Clone, Copy)]
struct Task {
    kind: usize,
    load: usize,
    round: u32,
}

/// Results by setting, the agent last; and the agent's actions.
struct Done {
    got: Vec<Got>,
    changes: Vec<AgentChange>,
}

impl Trials {
    /// Runs all loads in all rounds, in parallel on all devices.
    ///
    /// # Errors
    /// A run failed, or was interrupted.
    pub fn run(&self, kinds: Vec<Devices>, monitor: &dyn Monitor) -> anyhow::Result<Vec<Pair>> {
        let names: Vec<String> = kinds.iter().map(|kind| kind.name.clone()).collect();
        let tasks = |kind: usize| {
            let rounds = 0..self.rounds;
            rounds.flat_map(move |round| (0..self.loads.len()).map(move |load| Task { kind, load, round }))
        };
        let left: Vec<Mutex<VecDeque<Task>>> = (0..kinds.len()).map(|kind| Mutex::new(tasks(kind).collect())).collect();
        let done: Mutex<Vec<(Task, anyhow::Result<Done>)>> = Mutex::default();
        let (failed, runs) = (AtomicBool::new(false), AtomicU64::new(0));
        let each = self.settings.len() as u64 + 1;
        monitor.begin(kinds.len() as u64 * self.loads.len() as u64 * u64::from(self.rounds) * each, "real runs");
        let ran = || monitor.progress(runs.fetch_add(1, Ordering::Relaxed) + 1);
        std::thread::scope(|scope| {
            for (kind, mut device) in
                kinds.into_iter().enumerate().flat_map(|(kind, all)| all.devices.into_iter().map(move |one| (kind, one)))
            {
                let (left, done, failed, ran) = (&left[kind], &done, &failed, &ran);
                scope.spawn(move || {
                    while let Some(task) = left.lock().ok().and_then(|mut left| left.pop_front()) {
                        if failed.load(Ordering::Relaxed) {
                            break;
                        }
                        let came = self.task(task, &mut *device, monitor, ran);
                        failed.fetch_or(came.is_err(), Ordering::Relaxed);
                        done.lock().map(|mut done| done.push((task, came))).unwrap_or_default();
                    }
                });
            }
        });
        monitor.end();
        monitor.check()?;
        let done = done.into_inner().map_err(|_| anyhow!("a run did not finish"))?;
        self.pairs(&names, done)
    }

    fn pairs(&self, names: &[String], mut done: Vec<(Task, anyhow::Result<Done>)>) -> anyhow::Result<Vec<Pair>> {
        done.sort_by_key(|(task, _)| (task.kind, task.load, task.round));
        let mut pairs: Vec<Pair> = Vec::new();
        for (task, came) in done {
            let load = &self.loads[task.load];
            let came = came.with_context(|| format!("{} on {}", load.name, names[task.kind]))?;
            if task.round == 0 {
                let settings = self.settings.iter().map(Setting::to_string).chain([AGENT.to_owned()]);
                pairs.push(Pair {
                    disk: names[task.kind].clone(),
                    load: load.name.clone(),
                    is_mix: load.parts.len() > 1,
                    served: settings.map(|setting| Served { setting, rounds: Vec::new() }).collect(),
                    changes: Vec::new(),
                });
            }
            let pair = pairs.last_mut().context("no first round")?;
            pair.served.iter_mut().zip(came.got).for_each(|(served, got)| served.rounds.push(got));
            pair.changes.push(came.changes);
        }
        Ok(pairs)
    }

    /// Runs a load under every setting and under the agent. Each round starts with a different setting, so that drift favours none.
    fn task(&self, task: Task, device: &mut dyn AgentDevice, monitor: &dyn Monitor, ran: &dyn Fn()) -> anyhow::Result<Done> {
        let load = &self.loads[task.load];
        let count = self.settings.len() + 1;
        let mut got: Vec<Option<Got>> = vec![None; count];
        let mut changes = Vec::new();
        for turn in 0..count {
            let number = (turn + task.round as usize + task.load) % count;
            let setting = self.settings.get(number);
            let in_force = setting.unwrap_or(&self.settings[0]);
            device.set(in_force, &validation::host_under(in_force, &self.host()))?;
            if setting.is_none() {
                device.start_agent()?;
            }
            let came = self.parts(load, task.round, device, monitor);
            if setting.is_none() {
                changes = device.stop_agent()?;
            }
            got[number] = Some(came?);
            device.settle()?;
            ran();
        }
        Ok(Done { got: got.into_iter().flatten().collect(), changes })
    }

    /// The page-cache settings that any load needs. All loads get them, as devices share the page cache.
    fn host(&self) -> Vec<(String, i64)> {
        let mut host: Vec<(String, i64)> =
            self.loads.iter().flat_map(|load| &load.parts).flat_map(|part| part.host.clone()).collect();
        host.sort();
        host.dedup_by(|a, b| a.0 == b.0);
        host
    }

    /// Every part of a load, one after the other.
    fn parts(&self, load: &Load, round: u32, device: &mut dyn AgentDevice, monitor: &dyn Monitor) -> anyhow::Result<Got> {
        let mut all = Vec::new();
        for part in &load.parts {
            monitor.check()?;
            let jobs = validation::jobs(&device.path(), part, self.seconds, round, 1.0)?;
            all.push(fio::parse(&fio::run(&jobs, self.seconds + validation::RAMP_S, monitor)?)?);
        }
        Ok(self.got(&all))
    }

    /// Geometric means over the parts: a sum of rates would be dominated by the fastest part.
    fn got(&self, parts: &[fio::Output]) -> Got {
        let mean = |of: &dyn Fn(&fio::Output) -> Option<f64>| statistics::sample::geometric_mean(parts.iter().filter_map(of));
        let score = |part: &fio::Output| {
            let fio::Overall { bytes_per_s, response_s } = part.overall;
            merit::score(&self.preference, bytes_per_s, response_s, 1.0)
        };
        Got {
            throughput_mb_s: mean(&|part| Some(part.overall.bytes_per_s / 1e6)).unwrap_or(0.0),
            mean_ms: mean(&|part| Some(1e3 * part.overall.response_s)).unwrap_or(0.0),
            read_p99_ms: mean(&|part| part.directions[0].map(|[_, _, p99]| p99)),
            fsync_p99_ms: mean(&|part| part.directions[2].map(|[_, _, p99]| p99)),
            merit: statistics::mean(parts.iter().map(score)).unwrap_or(0.0),
        }
    }
}
