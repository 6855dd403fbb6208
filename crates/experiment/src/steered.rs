//! A simulated host that a controller tunes during a run.
//!
//! ```text
//! sim::run ──ServerEvent──▶ Steered ──Event──▶ control::ControlLoop ──▶ Controller
//!    │                   │                      │
//!    └── &mut Steerable ─┴─▶ Simulated: Target ◀─┘ Setting
//! ```

use std::sync::Arc;

use block::{Knowledge, KnowledgeStore, Nanos, Scheduler, SchedulerSpec, Tunable};
use control::target::{Bounds, Identity, Placebo};
use control::{ControlLoop, Controller, Setting, Target, TargetError};
use observe::Event;
use sim::run::{Pilot, ServerEvent, Steerable};
use twin::event;

use crate::request_log::RequestLog;
use crate::timed::{Stopwatch, Timed};

/// Connects a controller to a run.
pub struct Steered {
    steering: ControlLoop,
    active: ActiveSetting,
    stopwatch: Option<Arc<Stopwatch>>,
    /// Requests completed under a scheduler that learns; `None` if they are not kept.
    requests: Option<RequestLog>,
    /// The target that the controller is given instead, which applies nothing.
    placebo: Option<Option<Placebo>>,
}

/// The active setting, as far as the simulator does not report it.
struct ActiveSetting {
    device: String,
    spec: &'static SchedulerSpec,
    values: Vec<i64>,
    /// The original values of the host's tunables.
    before: Vec<i64>,
    stopwatch: Option<Arc<Stopwatch>>,
    /// Knowledge of the schedulers that learn.
    knowledge: KnowledgeStore,
    /// Schedulers that can be set: the program's, and those added by an experiment.
    schedulers: Vec<&'static SchedulerSpec>,
}

impl ActiveSetting {
    fn identity(&self) -> Identity {
        Identity { plant: "simulator".to_owned(), device: self.device.clone() }
    }
}

impl Steered {
    /// The run begins under `begins_with` on a disk with the name `device`. `stopwatch` counts the processor time of the controller and of
    /// every scheduler that it sets.
    pub fn new(controller: Box<dyn Controller>, begins_with: &Setting, device: &str, stopwatch: Option<Arc<Stopwatch>>) -> Steered {
        let active = ActiveSetting {
            device: device.to_owned(),
            spec: begins_with.spec,
            values: begins_with.values.clone(),
            before: Vec::new(),
            stopwatch: stopwatch.clone(),
            knowledge: KnowledgeStore::new(device_model::sched::all()),
            schedulers: device_model::sched::all().collect(),
        };
        Steered { steering: ControlLoop::new(controller), active, stopwatch, requests: None, placebo: None }
    }

    /// For runs in which no scheduler that learns is set, except the one at the start or those [added](Steered::add_scheduler) afterwards.
    /// Gathering the others' knowledge takes a third of the time of a run and is skipped.
    #[must_use]
    pub fn without_learning(mut self) -> Steered {
        let begins_with = self.active.spec.name;
        self.active.schedulers.retain(|spec| !spec.learns() || spec.name == begins_with);
        self.active.knowledge = KnowledgeStore::new(std::iter::empty());
        self
    }

    /// Applies nothing from now on, and tells the controller that it did ([`Placebo`]).
    #[must_use]
    pub fn without_effect(self) -> Steered {
        Steered { placebo: Some(None), ..self }
    }

    /// Adds a scheduler of an experiment with its knowledge; it can then be set like any other.
    pub fn add_scheduler(&mut self, spec: &'static SchedulerSpec, knowledge: Box<dyn Knowledge>) {
        self.active.schedulers.push(spec);
        self.active.knowledge.add(spec, knowledge);
    }

    /// Starts to keep requests completed under a scheduler that learns.
    pub fn keep_requests(&mut self) {
        self.requests = Some(RequestLog::default());
    }

    /// The kept requests; `None` without [`Steered::keep_requests`].
    pub fn kept_requests(&self) -> Option<&RequestLog> {
        self.requests.as_ref()
    }

    /// The simulated device.
    pub fn identity(&self) -> Identity {
        self.active.identity()
    }

    /// The control loop with its decisions.
    pub fn steering(&self) -> &ControlLoop {
        &self.steering
    }
}

impl Pilot for Steered {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        self.active.before = (0..plant.tunables().len()).filter_map(|index| plant.value(index)).collect();
        let Steered { steering, active, stopwatch, placebo, .. } = self;
        let mut simulated = Simulated { plant, active };
        Stopwatch::whole(stopwatch, || with_effect(&mut simulated, placebo, |target| steering.begin(Nanos::ZERO, target)));
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        let Steered { steering, stopwatch, active, requests, .. } = self;
        Stopwatch::uninterrupted(stopwatch, || {
            for event in noted.iter().map(event) {
                steering.event(&event);
                if let Event::Completed { request, dispatched, at } = event {
                    active.knowledge.learn(active.spec, &request, dispatched, at);
                }
            }
        });
        let Some(requests) = requests else { return };
        for event in noted.iter().map(event) {
            match event {
                Event::Completed { request, dispatched, at } if active.spec.learns() => requests.done(request, dispatched, at),
                Event::Completed { .. } => requests.interrupt(),
                _ => {}
            }
        }
    }

    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        self.steering.next_deadline_before(quiet_until)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        let Steered { steering, active, stopwatch, placebo, .. } = self;
        let before = steering.decisions().len();
        let mut simulated = Simulated { plant, active };
        Stopwatch::whole(stopwatch, || with_effect(&mut simulated, placebo, |target| steering.advance(now, target)));
        // A refused change may have been rolled back.
        steering.decisions()[before..].iter().any(|decided| decided.is_change() || decided.refused.is_some())
    }
}

/// Hands over the host, or one that applies nothing.
fn with_effect(simulated: &mut Simulated, placebo: &mut Option<Option<Placebo>>, control: impl FnOnce(&mut dyn Target)) {
    match placebo {
        None => control(simulated),
        Some(placebo) => control(placebo.get_or_insert_with(|| Placebo::of(simulated))),
    }
}

/// A short-lived view of the simulated host for the control loop.
struct Simulated<'a> {
    plant: &'a mut dyn Steerable,
    active: &'a mut ActiveSetting,
}

impl Simulated<'_> {
    /// The value for each of the host's tunables under a setting, or an error in the setting.
    fn wanted(&self, setting: &Setting) -> Result<Vec<i64>, String> {
        let spec = setting.spec;
        if !self.active.schedulers.iter().any(|known| known.name == spec.name) {
            return Err(format!("the simulator has no scheduler '{}'", spec.name));
        }
        if setting.values.len() != spec.tunables.len() {
            return Err(format!("{} has {} tunables, not {}", spec.name, spec.tunables.len(), setting.values.len()));
        }
        for (tunable, &value) in spec.tunables.iter().zip(&setting.values) {
            tunable.check(spec.name, value).map_err(|error| error.to_string())?;
        }
        let tunables = self.plant.tunables();
        setting.check_host(tunables).map_err(|error| error.to_string())?;
        let mut wanted: Vec<Option<i64>> = vec![None; tunables.len()];
        for (name, value) in &setting.host {
            let index = tunables.iter().position(|tunable| tunable.name == name);
            index.into_iter().for_each(|index| wanted[index] = Some(*value));
        }
        Ok(wanted.iter().zip(&self.active.before).map(|(wanted, before)| wanted.unwrap_or(*before)).collect())
    }

    fn apply_setting(&mut self, now: Nanos, setting: &Setting, host: &[i64]) -> Result<(), String> {
        for (index, &value) in host.iter().enumerate() {
            if self.plant.value(index) != Some(value) {
                self.plant.set(now, index, value).map_err(|error| error.to_string())?;
            }
        }
        if setting.spec.name != self.active.spec.name {
            let limits = self.plant.limits();
            let scheduler = self.active.knowledge.scheduler(setting.spec, &limits, &setting.values);
            self.plant.switch(now, timed(scheduler, &self.active.stopwatch));
        } else if setting.values != self.active.values {
            self.plant.retune(&setting.values);
        }
        (self.active.spec, self.active.values) = (setting.spec, setting.values.clone());
        Ok(())
    }
}

/// Wraps a scheduler in a stopwatch, if there is one.
pub fn timed(scheduler: Box<dyn Scheduler>, stopwatch: &Option<Arc<Stopwatch>>) -> Box<dyn Scheduler> {
    match stopwatch {
        Some(stopwatch) => Box::new(Timed::new(scheduler, stopwatch.clone())),
        None => scheduler,
    }
}

impl Target for Simulated<'_> {
    fn identity(&self) -> Identity {
        self.active.identity()
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        self.active.schedulers.clone()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        self.plant.tunables().iter().collect()
    }

    fn bounds(&self) -> Bounds {
        let plant = &*self.plant;
        Bounds {
            capacity_sectors: plant.capacity_sectors(),
            limits: plant.limits(),
            nr_requests: plant.nr_requests(),
            read_ahead_kib: None,
        }
    }

    fn setting(&self) -> Setting {
        let ActiveSetting { spec, values, before, .. } = &*self.active;
        let now = self.plant.tunables().iter().enumerate().filter_map(|(index, tunable)| {
            let value = self.plant.value(index).filter(|value| before.get(index) != Some(value))?;
            Some((tunable.name.to_owned(), value))
        });
        let mut host: Vec<(String, i64)> = now.collect();
        host.sort();
        Setting { spec, values: values.clone(), host }
    }

    fn switching_time(&self, from: &Setting, to: &Setting) -> Nanos {
        if from.spec.name == to.spec.name { Nanos::ZERO } else { self.plant.switch_time() }
    }

    fn apply(&mut self, now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        let refused = |reason: String| TargetError { setting: setting.to_string(), reason };
        // Validate everything before the first change.
        let host = self.wanted(setting).map_err(refused)?;
        self.apply_setting(now, setting, &host).map_err(refused)?;
        match host.iter().enumerate().find(|&(index, value)| self.plant.value(index) != Some(*value)) {
            Some((index, value)) => Err(refused(format!("{} is not {value} when read back", self.plant.tunables()[index].name))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use sim::host::{Host, HostSettings, Queue, QueueSettings};
    use sim::profile::DeviceOptions;
    use sim::run::Server;
    use sim::workload::Workload;

    use super::*;

    /// A host under deadline whose administrator has set `read_ahead_kb` to 512.
    fn host() -> Host {
        let profile = sim::profile::load("sata7200").unwrap();
        let spec = block::find("deadline").unwrap();
        let scheduler = (spec.build)(&block::Limits::default(), &spec.defaults());
        let queue = Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default());
        let workload = Workload::parse("[a]\nrw=read\nsize=1m\n", "a.fio").unwrap();
        let files = workload.place(profile.capacity_sectors(), 1).unwrap().files();
        Host::new(queue, files, HostSettings::parse("read_ahead_kb=512").unwrap()).unwrap()
    }

    fn active(plant: &dyn Steerable) -> ActiveSetting {
        let spec = block::find("deadline").unwrap();
        let before = (0..plant.tunables().len()).map(|index| plant.value(index).unwrap()).collect();
        let (device, values, knowledge) = ("sata7200".to_owned(), spec.defaults(), KnowledgeStore::new(device_model::sched::all()));
        let schedulers = device_model::sched::all().collect();
        ActiveSetting { device, spec, values, before, stopwatch: None, knowledge, schedulers }
    }

    /// Host tunables are not checked: the target has to refuse invalid ones.
    fn setting(text: &str) -> Setting {
        let mut words = text.split(' ');
        let scheduler = Setting::parse_scheduler(words.next().unwrap()).unwrap();
        let pairs = words.map(|word| word.split_once('=').unwrap());
        Setting { host: pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect(), ..scheduler }
    }

    /// Applies settings in order; returns the active setting after each, or the error.
    fn apply(texts: &[&str]) -> Vec<String> {
        let mut host = host();
        let plant = host.steerable().unwrap();
        let mut active = active(plant);
        let mut simulated = Simulated { plant, active: &mut active };
        let mut one = |text: &&str| match simulated.apply(Nanos::ZERO, &setting(text)) {
            Ok(()) => simulated.setting().to_string(),
            Err(error) => format!("{error}; active: {}", simulated.setting()),
        };
        texts.iter().map(&mut one).collect()
    }

    #[test]
    fn tunables_that_a_setting_does_not_name_return_to_their_original_values() {
        let settings =
            ["cfq:slice_idle=0 nr_requests=64 read_ahead_kb=1024", "cfq read_ahead_kb=2048", "deadline", "deadline:fifo_batch=4"];
        assert_eq!(apply(&settings), settings);
        assert_eq!(apply(&["noop read_ahead_kb=512"]), ["noop"], "512 is the administrator's value");
    }

    #[test]
    fn what_cannot_be_set_is_refused_and_leaves_everything_as_it_was() {
        let refused = apply(&[
            "cfq read_ahead_kb=1024",
            "noop swapiness=7",
            "noop nr_requests=64 read_ahead_kb=-1",
            "noop nr_requests=4 nr_requests=5",
        ]);
        let unknown = "cannot set noop swapiness=7: host has no tunable 'swapiness'; ";
        assert!(
            refused[1].starts_with(unknown) && refused[1].ends_with("did you mean swappiness?; active: cfq read_ahead_kb=1024"),
            "{}",
            refused[1]
        );
        assert!(refused[2].contains("read_ahead_kb=-1 should be a whole number from 0 to 65536 KiB"), "{}", refused[2]);
        assert!(refused[3].contains("nr_requests is given twice"), "{}", refused[3]);
        assert!(refused[1..].iter().all(|text| text.ends_with("; active: cfq read_ahead_kb=1024")), "{refused:?}");
        let wrong = |values| Setting { values, ..setting("deadline") };
        let mut host = host();
        let plant = host.steerable().unwrap();
        let mut active = active(plant);
        let mut simulated = Simulated { plant, active: &mut active };
        for (values, word) in [(vec![], "5 tunables, not 0"), (vec![0; 5], "read_expire=0 should be")] {
            let error = simulated.apply(Nanos::ZERO, &wrong(values)).unwrap_err();
            assert!(error.reason.contains(word), "{error}");
        }
    }

    #[test]
    fn a_placebo_is_told_settings_and_the_host_keeps_its_own() {
        let mut host = host();
        let plant = host.steerable().unwrap();
        let mut active = active(plant);
        let (mut placebo, mut said) = (Some(None), String::new());
        let mut simulated = Simulated { plant, active: &mut active };
        with_effect(&mut simulated, &mut placebo, |target| {
            target.apply(Nanos::ZERO, &setting("cfq:slice_idle=0 nr_requests=64")).unwrap();
            said = target.setting().to_string();
        });
        assert_eq!((said.as_str(), simulated.setting().to_string().as_str()), ("cfq:slice_idle=0 nr_requests=64", "deadline"));
        with_effect(&mut simulated, &mut None, |target| target.apply(Nanos::ZERO, &setting("cfq")).unwrap());
        assert_eq!(simulated.setting().to_string(), "cfq");
    }

    #[test]
    fn only_another_scheduler_takes_time() {
        let mut host = host();
        let plant = host.steerable().unwrap();
        let mut active = active(plant);
        let simulated = Simulated { plant, active: &mut active };
        let time = |from, to| simulated.switching_time(&setting(from), &setting(to));
        assert_eq!(time("cfq", "deadline"), Nanos::from_millis(35));
        assert_eq!(time("cfq", "cfq:slice_idle=0 nr_requests=4"), Nanos::ZERO);
        assert!(simulated.schedulers().iter().any(|spec| spec.name == "per-request"));
        assert_eq!(simulated.tunables().len(), sim::host::TUNABLES.len());
    }
}
