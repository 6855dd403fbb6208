//! The controller `seekwise`: forecasts every candidate in the twin, runs a trial on the target where the information is worth its cost,
//! and keeps settings that prove better.
//!
//! ```text
//! window of 1 s ─▶ another load? ──yes─▶ recall the best setting of one like it; else back to the original
//!                    │ no
//!                    ▼
//!      2, 4, 8 … windows of a load: forecast ─▶ expected gain of each arm ─┐
//!                    ▼                                                      ▼
//!      every window: is any trial worth its cost? ──no─▶ leave it alone; later, as the load is expected to go on for longer
//!                    │ yes
//!                    ▼
//!      3 s of the arm ─▶ far worse, or a stream overdue? ──yes─▶ back at once
//!                    └─▶ back; after a second turn: sure to be better? ──yes─▶ it stays, and 3 s of the one before confirm it
//! ```
//! * *Warm-up* (`starvation`). Processes of a load often start one after another. Measurements from before the last one started are
//!   discarded.
//! * *Beliefs* ([`control::trials`]). The gain of a setting is estimated from the forecast, which may be wrong, and from windows under it
//!   next to windows of the active setting. Noise and drift are learned from the windows, so a bursty load needs more trials, or is left
//!   alone.
//! * *Fleet* (`fleet`). Measurements of other machines, under like loads on like devices, also count, weighted by how accurate they were
//!   before. They need no forecast, so such an arm is tried from a load's first seconds.
//! * *Trials* (`trying`). The trial with the highest positive value is started: the expected gain, over a remaining time equal to the
//!   load's age, less the expected loss and the cost of two switches, which is measured or derived from how requests arrive. A setting
//!   stays after two turns if it is better with a probability of 90%; gains too small to justify a change are not pursued, and a trial
//!   that has shown none is followed by ten minutes without one, but for a likely gain.
//! * *Confirmation* (`confirmation`). After an adoption the arm before serves for a turn: a load that changed in the moment of a trial is no
//!   gain. So does the original arm after a recall.
//! * *Safeguards* (`starvation`, `background`). A trial ends within half a second if it does harm, or if a stream has waited for half the
//!   bound of [starvation](observe::starvation); the arm is dropped for good if write-back gets too little and calls are not observed. After the
//!   trial, a setting ends as soon as a stream starves.
//! * *Learning* (`consult`). The load is inferred from all requests, under any setting. The device is fitted again after twice as many
//!   requests, or after a model mismatch, to requests under every setting: each shows another side of the device.
//! * *Memory* (`recall`). The first window of a load is compared with known loads of the device. The setting with a significant mean gain
//!   there is applied, and the original one is tried once to confirm it; settings that did worse are not tried for a while. Without a
//!   similar load, a run is the same as without a memory.
//! * *Speculative read-ahead* (`read_ahead`). Files gain only from a read-ahead that is active before they are opened, so such loads are
//!   assumed, where files have been read in order at all. The choice is verified once files are opened (`verify`), with forecasts corrected
//!   by earlier ones (`track_record`).
//! * *Budgeted.* Trials in the twin cost processor time: they are as long as the budget allows, one percent of a core by default.

mod arm;
mod background;
mod budget;
mod catalogue;
mod confirmation;
mod consult;
mod decide;
mod fleet;
mod known_loads;
mod observed;
mod phase;
mod pool;
mod present;
mod read_ahead;
mod recall;
mod rehearsal;
mod sample;
mod sources;
mod speculative_read_ahead;
mod starvation;
mod timeline;
mod track_record;
mod trying;
mod tuners;
mod verify;

use std::sync::Arc;

use block::Nanos;
use control::ab_test::Estimate;
use control::controller::ControllerInput;
use control::experience::WINDOW;
use control::fleet::FleetKnowledge;
use control::{Controller, Decision, Setting, Target, Window, WindowLength};
use observe::load_tracker::LoadTracker;
use observe::{Event, Preference};

use self::arm::{Arm, NEVER};
use self::budget::CpuBudget;
pub use self::catalogue::{SPEC, all, parse};
use self::consult::DeviceModel;
use self::fleet::Fleet;
use self::observed::Observed;
use self::phase::Phase;
use self::present::PresentLoad;
use self::read_ahead::ReadAhead;
use self::recall::Memory;
use self::timeline::Timeline;
use self::trying::{POSSIBLE, SETTLING, TRIAL_WINDOW, Trying};
use crate::forecast::differ_by_read_ahead;
use crate::recording::Recording;

/// Processor time of a simulated request, in nanoseconds. Inferring a load takes a twentieth of that.
/// Source: `cargo bench -p seekwise-twin`, 1 to 4 µs (commit 31882d22).
const SIMULATED_REQUEST_NS: f64 = 2_000.0;
/// Factor on the number of observed requests, or on the load's age, after which the device is fitted and a forecast made again.
/// Choice: errors fall with the square root of the number, by 30% here; a smaller factor costs processor time; not varied.
const REFIT: f64 = 2.0;
/// The factor after a model mismatch, or while an expected gain is uncertain. Choice: a forecast soon after new data against the budget;
/// with 2, bfq was active in 4 of 7 live runs, with this in 5 of 6 (commit a8afb2a8).
const EARLY_REFIT: f64 = 1.25;
/// If a process started within this time, another one is expected to.
const STREAM_START_GAP: Nanos = WINDOW;
/// A load is expected to last as long again as it has lasted (Lindy's law), and at least this many seconds. Choice: a load must last for a
/// trial and its turn back, and a longer bound would prompt trials of short loads; not varied.
const MIN_LOAD_S: f64 = 8.0;

/// Chooses among candidates by forecasts of a twin. It is driven by a [`ControlLoop`](control::ControlLoop).
///
/// ```
/// use block::Nanos;
/// use control::controller::ControllerInput;
/// use control::{Controller, Setting};
/// use twin::TwinController;
///
/// let candidates = ["mq-deadline", "bfq"].map(|text| Setting::parse(text).unwrap()).to_vec();
/// let controller = TwinController::new(&ControllerInput { candidates, ..ControllerInput::default() }, 10);
/// assert_eq!(controller.name(), "seekwise");
/// assert_eq!(controller.window_length().time, Some(Nanos::from_millis(1_000)), "decides once per second");
/// ```
pub struct TwinController {
    preference: Preference,
    arms: Vec<Arm>,
    cpu: CpuBudget,
    phase: Phase,
    /// The arm that was active at first: starvation is judged against it.
    original: usize,
    active: usize,
    previous: usize,
    seen: Observed,
    present: PresentLoad,
    timeline: Timeline,
    model: DeviceModel,
    trying: Trying,
    memory: Memory,
    fleet: Fleet,
    read_ahead: ReadAhead,
}

impl TwinController {
    /// Chooses among the candidates of the brief, with this budget in thousandths of a core.
    pub fn new(brief: &ControllerInput, budget_permille: i64) -> TwinController {
        TwinController {
            preference: brief.preference,
            arms: brief.candidates.iter().cloned().map(Arm::new).collect(),
            cpu: CpuBudget::new(budget_permille),
            phase: Phase::Watching,
            original: 0,
            active: 0,
            previous: 0,
            seen: Observed::new(),
            present: PresentLoad::new(),
            timeline: Timeline { least_chance: POSSIBLE, ..Timeline::default() },
            model: DeviceModel::default(),
            trying: Trying::new(brief.candidates.len(), 0),
            memory: Memory::new(brief.experience.clone()),
            fleet: Fleet::new(brief.fleet.clone()),
            read_ahead: ReadAhead::default(),
        }
    }

    /// The controller with a trial of every setting in turn, regardless of its value: for measurements of the value of a trial's result.
    #[must_use]
    pub fn trying_everything(mut self) -> TwinController {
        self.timeline.tries_everything = true;
        self
    }

    /// The controller with this number of seconds of budget in the bank.
    fn with_banked_seconds(self, banked_s: i64) -> TwinController {
        TwinController { cpu: self.cpu.with_banked_seconds(banked_s), ..self }
    }

    /// The controller with this much memory for observed requests, in MiB.
    fn with_memory(mut self, memory_mib: u64) -> TwinController {
        self.seen.recording = Recording::within(memory_mib as usize * (1 << 20));
        self
    }

    fn setting(&self) -> &Setting {
        &self.arms[self.active].setting
    }

    fn arm_of(&self, setting: &Setting) -> Option<usize> {
        self.arms.iter().position(|arm| arm.setting == *setting)
    }

    /// Start of the representative part of the load. Before it, files are opened, queues and caches are empty, processes start one after
    /// another, and the first window may include the previous load.
    fn observed_from(&self) -> Nanos {
        self.timeline.complete_from.max(self.present.load.from + WINDOW)
    }

    /// Drops measurements from before the last process of the load started.
    fn extend_warmup_until_streams_started(&mut self, now: Nanos) {
        let longest = Nanos::from_secs_f64(MIN_LOAD_S);
        if now > self.present.load.from + longest + STREAM_START_GAP {
            return;
        }
        self.timeline.complete_from = self.seen.streams.complete_from(self.present.load.from, now, STREAM_START_GAP, longest);
        let observed_from = self.observed_from();
        if self.timeline.measured_from < observed_from {
            self.restart_measurement(observed_from);
            self.phase.take_pending();
            self.model.mismatch = None;
            self.arms.iter_mut().for_each(|arm| arm.measured = None);
            self.trying.trials.restart();
        }
    }

    fn next_decision(&mut self, window: &Window, target: &dyn Target) -> Decision {
        let now = window.to;
        self.seen.buckets.until(now);
        let background = self.seen.background.close(self.seen.buckets.tally(), window.duration().as_secs_f64());
        self.cpu.earn(window.duration(), window.outcome.requests);
        self.trying.ended = None;
        if let Some(decision) = self.end_harmful_trial(window, now, target) {
            return decision;
        }
        if self.phase.is_settling() {
            self.observe_settling(window, now >= self.timeline.settles_until);
            if now >= self.timeline.settles_until {
                // Requests that were queued before the change were served by another scheduler.
                self.phase.settled();
                self.timeline.measured_from = now;
                self.restart_unit();
                self.seen.streams.restart_measurement();
            }
            return Decision::keep("settling");
        }
        if !self.serves_as_original()
            && let Some(starving) = self.seen.streams.starving(now)
        {
            let was = self.setting().to_string();
            let verified = self.phase.pending().map(|pending| pending.from);
            let before = self.give_up_active(now);
            let back = verified.unwrap_or(before);
            let setting = &self.arms[back].setting;
            let why = format!("{starving} under {was}: back to {setting}");
            return self.change_to(now, back, why);
        }
        // A trial is of the load that was observed before it.
        let point = if self.trying.trial.is_none() { self.present.pooled_point(window, self.active) } else { None };
        if let Some((from, point)) = point {
            if let Some(began) = self.present.load.add_window(from, point) {
                return self.begin_load(began, now);
            }
            if !self.present.is_known {
                // This is the first load.
                self.present.is_known = true;
                self.present.load.from = from;
                (self.timeline.measured_from, self.timeline.next_forecast) = (self.observed_from(), self.observed_from() + WINDOW);
            }
        }
        if self.may_be_recognised(now)
            && let Some(decision) = self.recognise(now)
        {
            return decision;
        }
        self.extend_warmup_until_streams_started(now);
        let asked = self.seen.tags.filter(|(arm, _)| *arm == self.active);
        let (_, tags) = *self.seen.tags.insert(asked.unwrap_or_else(|| (self.active, target.bounds().nr_requests)));
        self.observe_score(window, tags);
        if self.trying.trial.is_none() {
            self.ask_fleet();
        }
        self.observe_background(background);
        if let Some(decision) = self.continue_trial(now).or_else(|| self.compare(now, tags)) {
            return decision;
        }
        if let Some(decision) = self.prepare_read_ahead(now, || target.bounds()) {
            return decision;
        }
        let mut decision = Decision::keep("waiting for more requests before the next forecast");
        if now >= self.timeline.next_forecast {
            decision = self.decide_by_new_forecast(now, target);
        }
        if decision.setting.is_some() {
            return decision;
        }
        self.begin_trial(now, target).unwrap_or(decision)
    }

    fn change_to(&mut self, now: Nanos, arm: usize, why: String) -> Decision {
        self.read_ahead.change = match self.read_ahead_of(self.active).zip(self.read_ahead_of(arm)) {
            Some((was, is)) if was != is => Some((was, is)),
            _ => self.read_ahead.change,
        };
        self.read_ahead.speculative.changed_to(self.read_ahead_of(arm));
        (self.previous, self.active) = (self.active, arm);
        let as_original = self.with_active_read_ahead(self.original);
        if as_original != self.original {
            // The load is served alike.
            self.trying.trials.expect([(as_original, Estimate { mean: 0.0, error: 0.0 })]);
        }
        let setting = self.setting().clone();
        // A new read-ahead only affects files that are opened later, so measurements continue.
        if !differ_by_read_ahead(&setting, &self.arms[self.previous].setting) {
            self.phase.settle();
            self.timeline.settles_until = now + SETTLING;
            self.restart_measurement(now);
            // A trial is of the load that was observed before it, so the load is not reset.
            if self.trying.trial.is_none() {
                self.present.load.reset();
            }
        }
        Decision::set(setting, why)
    }

    /// Starts a new measurement: the load is served differently from now on.
    fn restart_measurement(&mut self, now: Nanos) {
        self.timeline.measured_from = now;
        self.restart_unit();
        self.timeline.note_change(now);
    }
}

/// A gain, a difference of log scores, as text.
fn percent(gain: f64) -> String {
    let percent = statistics::percent(gain);
    if percent >= 0.0 { format!("{percent:.0}% better") } else { format!("{:.0}% worse", -percent) }
}

impl Controller for TwinController {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, now: Nanos, target: &dyn Target) -> Decision {
        let found = target.setting();
        let known = target.schedulers();
        self.arms.retain(|arm| known.iter().any(|spec| spec.name == arm.setting.spec.name));
        let arm = self.arm_of(&found).unwrap_or_else(|| {
            self.arms.insert(0, Arm::new(found.clone()));
            0
        });
        (self.original, self.active, self.previous) = (arm, arm, arm);
        self.forget_trials();
        self.present.load = LoadTracker::new(now);
        (self.timeline.measured_from, self.timeline.next_forecast) = (self.observed_from(), self.observed_from() + WINDOW);
        self.memory.known_loads = known_loads::loads(&self.memory.experience, &target.identity().device, &self.preference);
        self.read_ahead.original_kib = target.bounds().read_ahead_kib;
        Decision::keep("no requests observed yet")
    }

    fn window_length(&self) -> WindowLength {
        let time = if self.trying.trial.is_some() { TRIAL_WINDOW } else { WINDOW };
        WindowLength { time: Some(time), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        let measured_from = (!self.serves_as_original()).then_some(self.timeline.measured_from);
        self.seen.event(event, measured_from);
        if let Event::Completed { request, .. } = event {
            self.read_ahead.observe(request);
        }
        false
    }

    fn decide(&mut self, window: &Window, target: &dyn Target) -> Decision {
        let decision = self.next_decision(window, target);
        self.with_sources(decision)
    }

    fn know_fleet(&mut self, fleet: Arc<FleetKnowledge>) {
        self.fleet.know(fleet);
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        if let Some(arm) = self.arm_of(setting) {
            self.arms[arm].blocked_until = NEVER;
        }
        self.phase = Phase::Watching;
        self.active = self.previous;
        self.resume_trial_if_refused(setting);
        let kib = self.read_ahead_of(self.active);
        self.read_ahead.change = self.read_ahead.change.filter(|(_, is)| Some(*is) == kib);
        self.read_ahead.speculative.refused(kib);
    }

    fn overruled(&mut self, now: Nanos, setting: &Setting, reason: &str) -> Decision {
        // As after starvation: the active arm is not tried again under this load.
        let back = self.give_up_active(now);
        let back = self.arm_of(setting).unwrap_or(back);
        self.change_to(now, back, reason.to_owned())
    }

    fn final_setting(&self) -> Option<&Setting> {
        self.trying.trial.map(|trial| &self.arms[trial.from].setting)
    }
}

#[cfg(test)]
mod tests;
