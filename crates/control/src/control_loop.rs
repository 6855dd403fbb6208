//! Connects a target and a controller: collects events in windows, calls the controller at the end of each, and applies and logs its
//! decisions.

use std::sync::Arc;

use block::Nanos;

use crate::ab_test::Estimate;
use crate::controller::{Controller, Decision, Evidence};
use crate::fleet::FleetKnowledge;
use crate::setting::Setting;
use crate::target::Target;
use crate::verdict::Verdict;
use crate::{Window, WindowLength};
use observe::counters::Sample;
use observe::event::Event;
use observe::window::{Extractor, Tally};

/// Number of consecutive idle windows that are closed on time, before one window takes all further idle time. So a controller that waits
/// one window for a change to settle gets one more. Derived: one window to settle and one to judge.
const IDLE_WINDOWS: u64 = 2;

/// A decision and its result.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// Time of the decision.
    pub at: Nanos,
    /// The window on which it was based; `None` for the first decision.
    pub window: Option<u64>,
    /// The setting before.
    pub from: Arc<Setting>,
    /// The setting after.
    pub to: Arc<Setting>,
    /// The setting that would stay if control ended then; during a trial this is not `to`.
    pub stays: Arc<Setting>,
    /// The reason, for display.
    pub why: String,
    /// Expected improvement, as a difference of scores.
    pub expected_gain: Option<f64>,
    /// The comparison that decided. A change made for a trial gets that of the trial's end, as far as the loop still holds its record;
    /// `None` where no comparison decided.
    pub verdict: Option<Arc<Verdict>>,
    /// The evidence; `None` if there is none to show.
    pub evidence: Option<Arc<Evidence>>,
    /// Why it could not be applied, with `to` equal to `from`; `None` if it was applied.
    pub refused: Option<String>,
}

impl DecisionRecord {
    /// A record of a change that stays, without reason or evidence.
    pub fn new(at: Nanos, window: Option<u64>, from: Arc<Setting>, to: Arc<Setting>) -> DecisionRecord {
        DecisionRecord {
            at,
            window,
            from,
            stays: to.clone(),
            to,
            why: String::new(),
            expected_gain: None,
            verdict: None,
            evidence: None,
            refused: None,
        }
    }

    /// Whether the setting changed.
    pub fn is_change(&self) -> bool {
        self.from != self.to
    }

    /// The measured gain of `to`, by the comparison that decided; `None` if nothing was measured, or of another setting: the return from a
    /// trial has a verdict on the setting that was tried.
    pub fn measured_gain(&self) -> Option<Estimate> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.is_measured() && verdict.setting == *self.to)?;
        Some(verdict.gain)
    }
}

/// Runs one controller on one target.
///
/// The host calls [`begin`](ControlLoop::begin) once, [`event`](ControlLoop::event) for each event, and [`advance`](ControlLoop::advance)
/// when [`next_deadline`](ControlLoop::next_deadline) has passed.
///
/// ```
/// use block::Nanos;
/// use control::controller::{ControllerChoice, ControllerInput};
/// use control::{ControlLoop, Target};
///
/// /// Rotates through the candidates for a minute; returns the decisions.
/// fn run(target: &mut dyn Target) -> Result<Vec<String>, Box<dyn std::error::Error>> {
///     let controller = ControllerChoice::parse("rotate:window_ms=20000")?.build(&ControllerInput::default());
///     let mut control_loop = ControlLoop::new(controller);
///     control_loop.begin(Nanos::ZERO, target);
///     while let Some(now) = control_loop.next_deadline().filter(|now| *now <= Nanos::from_millis(60_000)) {
///         control_loop.advance(now, target);
///     }
///     Ok(control_loop.decisions().iter().map(|decision| decision.to.to_string()).collect())
/// }
/// ```
pub struct ControlLoop {
    controller: Box<dyn Controller>,
    extractor: Extractor,
    tally: Tally,
    setting: Option<Arc<Setting>>,
    number: u64,
    from: Nanos,
    length: WindowLength,
    /// Whether the controller ended the window, or its request limit was reached.
    is_due: bool,
    /// Number of times that the window was extended because too few requests had completed.
    went_on: u64,
    /// Whether the window has no event yet, and the number of idle windows directly before it.
    is_idle: bool,
    idle_windows: u64,
    decisions: Vec<DecisionRecord>,
    windows: Vec<Window>,
}

impl ControlLoop {
    /// Applies nothing until [`begin`](ControlLoop::begin).
    pub fn new(controller: Box<dyn Controller>) -> ControlLoop {
        ControlLoop {
            length: controller.window_length(),
            controller,
            extractor: Extractor::new(),
            tally: Tally::new(),
            setting: None,
            number: 0,
            from: Nanos::ZERO,
            is_due: false,
            went_on: 0,
            is_idle: true,
            idle_windows: 0,
            decisions: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// Applies the controller's initial setting.
    pub fn begin(&mut self, now: Nanos, target: &mut dyn Target) {
        let decision = self.controller.begin(now, target);
        self.from = now;
        self.tally.begin(now);
        self.apply(now, None, decision, target);
        self.length = self.controller.window_length();
    }

    /// Processes an event. Allocates memory only for new streams.
    pub fn event(&mut self, event: &Event) {
        self.is_idle = false;
        self.is_due |= self.controller.event(event);
        self.extractor.event(event);
        self.tally.event(event);
        self.is_due |= self.length.requests.is_some_and(|requests| self.extractor.requests() >= requests);
    }

    /// Passes on a sample of the counters, on a target without events.
    pub fn record_counters(&mut self, sample: &Sample) {
        self.controller.counted(sample);
    }

    /// Time at which [`advance`](ControlLoop::advance) is due if no event arrives first; a past time means now. `None` if no window ends by
    /// time.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.is_due { Some(self.from) } else { self.length.time.map(|time| self.from + Nanos(time.0 * (1 + self.went_on))) }
    }

    /// Like [`next_deadline`](Self::next_deadline), if no event arrives before `quiet_until`: after some idle windows, one window takes all
    /// remaining idle time, up to the last window boundary before that time. So a pause of any length costs only a few windows.
    pub fn next_deadline_before(&self, quiet_until: Nanos) -> Option<Nanos> {
        let deadline = self.next_deadline()?;
        let length = deadline - self.from;
        if self.is_due || !self.is_idle || self.idle_windows < IDLE_WINDOWS || length == Nanos::ZERO || deadline >= quiet_until {
            return Some(deadline);
        }
        let windows = (quiet_until - self.from).0.saturating_sub(1) / length.0;
        Some(self.from + Nanos(windows * length.0))
    }

    /// Ends the window if it is due, and applies the controller's decision.
    pub fn advance(&mut self, now: Nanos, target: &mut dyn Target) {
        if now <= self.from || self.next_deadline().is_none_or(|at| at > now) {
            return;
        }
        if !self.is_due && !self.is_idle && self.tally.completed() < self.controller.least_requests() {
            (self.is_idle, self.went_on) = (true, self.went_on + 1);
            return;
        }
        let duration = now - self.from;
        let setting = self.setting.clone().unwrap_or_else(|| Arc::new(target.setting()));
        let window = Window {
            number: self.number,
            from: self.from,
            to: now,
            setting,
            features: self.extractor.close(duration),
            outcome: self.tally.close(duration),
        };
        self.number += 1;
        self.from = now;
        self.is_due = false;
        self.went_on = 0;
        self.idle_windows = if std::mem::replace(&mut self.is_idle, true) { self.idle_windows + 1 } else { 0 };
        let decision = self.controller.decide(&window, target);
        self.apply(now, Some(window.number), decision, target);
        self.length = self.controller.window_length();
        self.windows.push(window);
    }

    fn apply(&mut self, now: Nanos, window: Option<u64>, decision: Decision, target: &mut dyn Target) {
        let from = self.setting.clone().unwrap_or_else(|| Arc::new(target.setting()));
        let Decision { setting, why, expected_gain, verdict, evidence } = decision;
        if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.is_measured())
            && let Some(change) = self.decisions.iter_mut().rev().find(|record| record.is_change())
            && *change.to == verdict.setting
            && *change.from == verdict.over
        {
            change.verdict = Some(verdict.clone());
        }
        let (to, refused) = match setting {
            Some(setting) if setting != *from => match target.apply(now, &setting) {
                Ok(()) => (Arc::new(setting), None),
                Err(error) => {
                    self.controller.refused(&setting, &error.reason);
                    (from.clone(), Some(error.to_string()))
                }
            },
            _ => (from.clone(), None),
        };
        self.setting = Some(to.clone());
        let stays = self.controller.final_setting().filter(|stays| **stays != *to);
        let stays = stays.map_or_else(|| to.clone(), |stays| Arc::new(stays.clone()));
        let record = DecisionRecord::new(now, window, from, to);
        self.decisions.push(DecisionRecord { stays, why, expected_gain, verdict, evidence, refused, ..record });
    }

    /// Every decision so far.
    pub fn decisions(&self) -> &[DecisionRecord] {
        &self.decisions
    }

    /// The setting that should stay if control ends now; `None` before control has begun.
    pub fn final_setting(&self) -> Option<Setting> {
        self.controller.final_setting().or(self.setting.as_deref()).cloned()
    }

    /// Every window so far.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Moves the decisions and windows so far out of the loop, to limit its memory.
    pub fn take(&mut self) -> (Vec<DecisionRecord>, Vec<Window>) {
        (std::mem::take(&mut self.decisions), std::mem::take(&mut self.windows))
    }

    /// Applies a setting chosen by the host because of facts that windows do not show; the controller continues from there.
    pub fn overrule(&mut self, now: Nanos, setting: &Setting, why: &str, target: &mut dyn Target) {
        let decision = self.controller.overruled(now, setting, why);
        let number = self.number.checked_sub(1);
        self.apply(now, number, decision, target);
    }

    /// Passes newer knowledge from other machines to the controller.
    pub fn know_fleet(&mut self, fleet: Arc<FleetKnowledge>) {
        self.controller.know_fleet(fleet);
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }
}
