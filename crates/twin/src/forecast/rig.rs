//! A load and a device, ready for trials under different settings.

use block::{KnowledgeStore, Limits, Nanos, Scheduler};
use control::Setting;
use control::target::Bounds;
use observe::Event;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, DeviceProfile};
use sim::run::Watch;

use super::candidates::NR_REQUESTS;
use crate::call_model::CallModel;
use crate::load::Load;
use crate::trial::{self, Change, Services, Successor, TrialLength, TrialResult};

/// Time of a live switch, as a fraction of the warm-up: by then every stream has issued a request. Choice: most of the warm-up remains for
/// the scheduler to settle; not varied.
const SWITCH_AT: f64 = 0.25;
/// Time of the switch in a repeated trial, as a fraction of the warm-up. Choice: as [`SWITCH_AT`], but at another moment of the load; not
/// varied.
const REPEATED_SWITCH_AT: f64 = 0.35;

/// Builds the scheduler of a setting for a queue with these limits.
type Build<'a> = &'a dyn Fn(&Setting, &Limits) -> Box<dyn Scheduler>;

/// The setting before a live switch during a trial, and the time of the switch.
#[derive(Clone, Copy)]
pub(crate) struct SwitchFrom<'a> {
    setting: &'a Setting,
    /// Time of the switch, as a fraction of the warm-up.
    at: f64,
}

impl SwitchFrom<'_> {
    /// A switch from this setting, at the usual time.
    pub fn new(setting: &Setting) -> SwitchFrom<'_> {
        SwitchFrom { setting, at: SWITCH_AT }
    }

    /// A switch at another time, for a repeated trial.
    pub fn repeated(setting: &Setting) -> SwitchFrom<'_> {
        SwitchFrom { setting, at: REPEATED_SWITCH_AT }
    }

    fn changes_scheduler(&self, setting: &Setting) -> bool {
        self.setting.spec.name != setting.spec.name
    }

    /// Whether a trial of this length is long enough for the scheduler of `setting` to settle.
    pub fn fits_in(&self, setting: &Setting, length: &TrialLength) -> bool {
        !self.changes_scheduler(setting) || length.shows_live_switch(setting.spec)
    }
}

/// A load and a device, ready for trials under different settings. Trials are independent.
pub(crate) struct TrialRig<'a> {
    /// The simulated device.
    pub device: &'a dyn DeviceProfile,
    /// Queue limits.
    pub bounds: Bounds,
    /// The requests.
    pub load: &'a Load,
    /// Predicts calls from requests; `None` if no calls were observed.
    pub call_model: Option<&'a CallModel>,
    /// Length of a trial.
    pub length: TrialLength,
}

impl TrialRig<'_> {
    /// Runs a trial under `setting`, with a live switch if `from` is given. A trial that ends too early because the setting is much faster
    /// is repeated with a shorter warm-up. `on_event` receives the events of the first trial. `None` if no trial is possible.
    pub fn run(
        &self,
        setting: &Setting,
        from: Option<SwitchFrom>,
        build: Build,
        on_event: &mut dyn FnMut(&Event),
    ) -> Option<TrialResult> {
        let result = self.run_for((setting, from), build, self.length, on_event)?;
        if result.until >= self.length.warmup + Nanos(self.length.judged.0 / 2) {
            return Some(result);
        }
        // The request limit was reached, mostly during the warm-up.
        let again = self.run_for((setting, from), build, self.length.scaled_to(result.until), &mut |_| {})?;
        Some(TrialResult { requests: result.requests + again.requests, ..again })
    }

    /// Runs one trial of this length; `None` if it is too short for a live switch to this scheduler.
    pub fn run_for(
        &self,
        (setting, from): (&Setting, Option<SwitchFrom>),
        build: Build,
        length: TrialLength,
        on_event: &mut dyn FnMut(&Event),
    ) -> Option<TrialResult> {
        if from.is_some_and(|from| !from.fits_in(setting, &length)) {
            return None;
        }
        let bounds = &self.bounds;
        let room = setting.host.iter().find(|(name, _)| name == NR_REQUESTS).and_then(|(_, room)| u32::try_from(*room).ok());
        let settings = QueueSettings {
            nr_requests: room.unwrap_or(bounds.nr_requests),
            max_sectors: bounds.limits.max_sectors,
            merges: bounds.limits.merges,
            ..QueueSettings::default()
        };
        let limits = settings.limits();
        let successor = from.map(|from| Successor {
            at: Nanos::from_secs_f64(from.at * length.warmup.as_secs_f64()),
            change: match from.changes_scheduler(setting) {
                true => Change::Scheduler(build(&Setting::of(setting.spec), &limits), setting.values.clone()),
                false => Change::Values(setting.values.clone()),
            },
        });
        let scheduler = build(from.map_or(setting, |from| from.setting), &limits);
        let queue = Queue::new(scheduler, self.device.build(DeviceOptions::default()), settings);
        trial::run(self.load, (queue, successor), length, self.call_model, &Watch::default(), on_event).ok()
    }
}

/// Trials with the knowledge about the device that learning schedulers have on the target.
pub(super) struct Trials<'a> {
    pub rig: TrialRig<'a>,
    pub knowledge: &'a mut KnowledgeStore,
    /// Number of requests simulated so far.
    pub requests: u64,
    /// The service of each stream under each setting, from its latest trial.
    pub services: Vec<(Setting, Services)>,
}

impl Trials<'_> {
    /// Like [`TrialRig::run`], but records the services. Learning schedulers learn from the trial if `teaches`.
    pub fn run(&mut self, setting: &Setting, from: Option<SwitchFrom>, teaches: bool) -> Option<TrialResult> {
        let mut lessons: Vec<Event> = Vec::new();
        let knowledge = &*self.knowledge;
        let build = |setting: &Setting, limits: &Limits| knowledge.scheduler(setting.spec, limits, &setting.values);
        let mut result = self.rig.run(setting, from, &build, &mut |event| {
            if teaches && matches!(event, Event::Completed { .. }) {
                lessons.push(*event);
            }
        })?;
        for lesson in lessons {
            if let Event::Completed { request, dispatched, at } = lesson {
                self.knowledge.learn(setting.spec, &request, dispatched, at);
            }
        }
        self.requests += result.requests;
        self.services.retain(|(before, _)| before != setting);
        self.services.push((setting.clone(), std::mem::take(&mut result.services)));
        Some(result)
    }
}
