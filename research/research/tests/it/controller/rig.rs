//! A plant of which it is written down how long a request takes under which setting, and the loads that are put on it.

use std::sync::Arc;

use block::{Nanos, Op, Priority, Request, SchedulerSpec, Tunable};
use control::controller::{ControllerInput, Fixed};
use control::experience::{Case, Experience};
use control::target::{Bounds, Identity};
use control::{ControlLoop, DecisionRecord, Setting, Target, TargetError};
use observe::Event;
use observe::description::{describe, names};
use observe::performance::Performance;
use research::controller::parse;

/// The load: a number of streams that each have one request under way.
#[derive(Clone, Copy)]
pub struct Load {
    pub op: Op,
    pub is_sequential: bool,
    pub streams: u32,
    pub sectors: u32,
}

/// One process reads a large file.
pub const SCAN: Load = Load { op: Op::Read, is_sequential: true, streams: 1, sectors: 256 };
/// Many processes read here and there.
pub const SCATTERED: Load = Load { op: Op::Read, is_sequential: false, streams: 8, sectors: 8 };
/// Two processes write here and there.
pub const WRITING: Load = Load { op: Op::Write, is_sequential: false, streams: 2, sectors: 32 };

/// How long a request takes under a setting, and how long the disk then stands idle, in microseconds.
pub type Speed<'a> = &'a dyn Fn(&Setting) -> (u64, u64);

/// Abilities and calls of the target.
pub struct Scripted {
    pub setting: Setting,
    pub refuses: Vec<&'static str>,
    pub asked: Vec<String>,
}

impl Target for Scripted {
    fn identity(&self) -> Identity {
        Identity { plant: "script".to_owned(), device: "none".to_owned() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        device_model::sched::all().collect()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: block::Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }

    fn setting(&self) -> Setting {
        self.setting.clone()
    }

    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::ZERO
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        self.asked.push(setting.to_string());
        if self.refuses.contains(&setting.spec.name) {
            return Err(TargetError { setting: setting.to_string(), reason: "it will not".to_owned() });
        }
        self.setting = setting.clone();
        Ok(())
    }
}

/// A plant that is steered.
pub struct Rig {
    pub plant: Scripted,
    pub steering: ControlLoop,
    now: Nanos,
    requests: u64,
}

impl Rig {
    /// The controller that `text` names, on a target with deadline active.
    pub fn new(text: &str, brief: &ControllerInput) -> Rig {
        Rig::refusing(text, brief, &[])
    }

    pub fn refusing(text: &str, brief: &ControllerInput, refuses: &[&'static str]) -> Rig {
        Rig::steered(ControlLoop::new(parse(text).unwrap().build(brief)), "deadline", refuses)
    }

    pub fn steered(steering: ControlLoop, begins_with: &str, refuses: &[&'static str]) -> Rig {
        let setting = Setting::parse(begins_with).unwrap();
        let plant = Scripted { setting, refuses: refuses.to_vec(), asked: Vec::new() };
        let mut rig = Rig { plant, steering, now: Nanos::ZERO, requests: 0 };
        rig.steering.begin(Nanos::ZERO, &mut rig.plant);
        rig
    }

    /// Puts a load on the plant for so long.
    pub fn run(&mut self, load: Load, seconds: f64, speed: Speed) {
        let end = Nanos((self.now.as_secs_f64() * 1e9 + seconds * 1e9) as u64);
        while self.now < end {
            let queued: Vec<Request> = (0..load.streams).map(|stream| self.request(load, stream)).collect();
            for &request in &queued {
                self.steering.event(&Event::Queued(request));
            }
            let mut idle = 0;
            for request in queued {
                let (service, rest) = speed(&self.plant.setting);
                self.wait(service);
                let dispatched = self.now - Nanos(service * 1000);
                self.steering.event(&Event::Completed { request, dispatched, at: self.now });
                idle = rest;
            }
            self.wait(idle);
        }
    }

    /// Nothing is asked for so long.
    pub fn idle(&mut self, seconds: u64) {
        self.wait(seconds * 1_000_000);
    }

    /// The same where the target says that nothing comes before.
    pub fn idle_at_once(&mut self, microseconds: u64) {
        let end = self.now + Nanos(microseconds * 1000);
        while let Some(at) = self.steering.next_deadline_before(end).filter(|&at| at < end) {
            self.steering.advance(at, &mut self.plant);
        }
        self.now = end;
    }

    fn wait(&mut self, microseconds: u64) {
        let end = self.now + Nanos(microseconds * 1000);
        while let Some(at) = self.steering.next_deadline().filter(|&at| at <= end) {
            // A request that is due since the window began is due one nanosecond later at the earliest.
            self.now = at.max(self.now + Nanos(1)).min(end.max(self.now + Nanos(1)));
            self.steering.advance(self.now, &mut self.plant);
        }
        self.now = end.max(self.now);
    }

    fn request(&mut self, load: Load, stream: u32) -> Request {
        self.requests += 1;
        let lba = if load.is_sequential {
            (u64::from(stream) << 32) + self.requests * u64::from(load.sectors)
        } else {
            self.requests * 7_919_000_003 % (1 << 38)
        };
        let Load { op, sectors, .. } = load;
        Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival: self.now }
    }

    /// The active setting.
    pub fn active_setting(&self) -> String {
        self.plant.setting.to_string()
    }

    /// Every decision so far.
    pub fn decided(&self) -> &[DecisionRecord] {
        self.steering.decisions()
    }

    /// Every change so far: when in seconds, and to what.
    pub fn changes(&self) -> Vec<(f64, String)> {
        let changes = self.decided().iter().filter(|decided| decided.is_change());
        changes.map(|decided| (decided.at.as_secs_f64(), decided.to.to_string())).collect()
    }

    /// Every decision so far, to be read.
    pub fn minutes(&self) -> String {
        let line = |decided: &DecisionRecord| format!("{:8.3} {}: {}\n", decided.at.as_secs_f64(), decided.to, decided.why);
        self.decided().iter().map(line).collect()
    }

    /// The latest reason.
    pub fn why(&self) -> &str {
        &self.decided().last().unwrap().why
    }

    /// Whether any decision said that.
    pub fn said(&self, part: &str) -> bool {
        self.decided().iter().any(|decided| decided.why.contains(part))
    }
}

/// The candidates.
pub fn candidates(texts: &[&str]) -> ControllerInput {
    ControllerInput { candidates: texts.iter().map(|text| Setting::parse(text).unwrap()).collect(), ..ControllerInput::default() }
}

/// The same for a controller that has experience.
pub fn experienced(texts: &[&str], experience: Experience) -> ControllerInput {
    ControllerInput { experience: Arc::new(experience), ..candidates(texts) }
}

/// The experience when each load is run under each setting for eight seconds.
pub fn gather(settings: &[&str], loads: &[(&str, Load, Speed)]) -> Experience {
    let mut experience = Experience::new(names(), settings.iter().map(|text| (*text).to_owned()).collect());
    for (name, load, speed) in loads {
        let mut cases = Vec::new();
        let mut results = Vec::new();
        for (under, text) in settings.iter().enumerate() {
            let fixed = Fixed::new(Setting::parse(text).unwrap(), Nanos::from_millis(1000));
            let mut rig = Rig::steered(ControlLoop::new(Box::new(fixed)), text, &[]);
            rig.run(*load, 8.5, *speed);
            let windows = rig.steering.windows();
            let outcome = &windows[4].outcome;
            let [throughput, response_s, fairness] =
                [outcome.throughput(), outcome.waited_s, outcome.fairness].map(|value| value as f32);
            results.push(Some(Performance { throughput, response_s, fairness, starves: false }));
            for window in windows {
                let row = describe(&window.features, &window.outcome);
                let features = row.into_iter().map(|value| value.is_finite().then_some(value as f32)).collect();
                let (workload, device) = ((*name).to_owned(), "none".to_owned());
                cases.push(Case { workload, device, under, features, results: Vec::new() });
            }
        }
        cases.iter_mut().for_each(|case| case.results.clone_from(&results));
        experience.cases.append(&mut cases);
    }
    experience
}

/// Four candidates.
pub const ALL: &[&str] = &["noop", "cfq", "sstf", "anticipatory"];

/// Anticipation is best for one sequential reader, the shortest way for many random ones.
pub fn by_load(is_scan: bool) -> impl Fn(&Setting) -> (u64, u64) {
    move |setting| match (setting.spec.name, is_scan) {
        ("anticipatory", true) | ("sstf", false) => (2000, 0),
        _ => (5000, 0),
    }
}
