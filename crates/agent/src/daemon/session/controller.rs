//! Builds a device's controller from the configuration, the experience and the device.

use std::sync::Arc;

use control::Setting;
use control::controller::{ControllerChoice, ControllerInput, Fixed};
use control::experience::Experience;
use control::experience::WINDOW;
use linux::events::CountersOnly;
use twin::counters::ByCounters;

use super::Budget;
use super::sharing::Sharing;
use crate::configuration::Settings;
use crate::daemon::device_control::DeviceControl;

/// CPU time banked for the first decisions about a device, in milliseconds. With a small budget it takes long to bank again. Choice: on a
/// drive of 750 requests per second agent and applier took 0.38 s in the first 40 s; with 300, 0.54 s, and with 1,000, 1.7 to 2.1 s. The
/// controller is evaluated with 300 by default.
const BANKED_CPU_MS: i64 = 250;
/// Part of the budget that monitoring takes with any device, in thousandths of a core: events, counters, and the check for external
/// changes each second. Source: perf of agent and applier on a drive of 750 requests per second between decisions, 2 each.
const MONITORING_PERMILLE: i64 = 2;
/// Maximum candidates from results learned on this device. Choice: each costs trials; as many as a stored gene pool has; not varied.
const MAX_LEARNED_CANDIDATES: usize = 16;
/// Maximum candidates from outcomes of other machines. Choice: fewer than the learned ones, as other machines differ; not varied.
const MAX_SHARED_CANDIDATES: usize = 4;

/// Builds the configured controller with the candidates that may be set on the device. If requests are not traced, builds the controller that
/// works from counters.
pub(super) fn build_controller(
    settings: &Settings,
    budget: Budget,
    (experience, sharing): (&Arc<Experience>, &Sharing),
    device_control: &dyn DeviceControl,
    counters_only: Option<&CountersOnly>,
) -> Box<dyn control::Controller> {
    if sharing.is_held() {
        // A rollout's setting is measured and must not be replaced.
        return Box::new(Fixed::keeping(WINDOW));
    }
    let brief = ControllerInput {
        preference: settings.preference,
        candidates: candidates(settings, (experience, sharing), device_control),
        experience: experience.clone(),
        fleet: sharing.knowledge().clone(),
        // The built-in model is checked by a test; without a model the controller starts without predictions.
        ..ControllerInput::default()
    };
    if let Some(CountersOnly { known, .. }) = counters_only {
        return Box::new(ByCounters::new(&brief, known, budget.cpu_permille));
    }
    let ControllerChoice { spec, values } = &settings.controller;
    let mut values = values.clone();
    let twin_permille = (budget.cpu_permille - MONITORING_PERMILLE).max(1);
    for (value, tunable) in values.iter_mut().zip(spec.tunables) {
        // A value that the file gives for the controller takes precedence.
        match tunable.name {
            "budget_permille" if *value == tunable.default => *value = twin_permille,
            "saved_s" if *value == tunable.default => *value = (BANKED_CPU_MS / twin_permille).max(1),
            "memory_mib" if *value == tunable.default => *value = budget.memory_mib,
            _ => {}
        }
    }
    (spec.build)(&brief, &values)
}

/// The configured candidates, the best settings learned on this device, and the best of other machines, if they may be set.
fn candidates(
    settings: &Settings,
    (experience, sharing): (&Experience, &Sharing),
    device_control: &dyn DeviceControl,
) -> Vec<Setting> {
    let (active, device) = (device_control.setting(), device_control.identity().device);
    let pools = experience.pools.iter().rev().filter(|pool| pool.device == device);
    let learned = pools.filter_map(|pool| pool.settings().next());
    let mut candidates: Vec<Setting> = settings.candidates.clone();
    // Settings that helped other machines are tried here, and kept only if they help here.
    let shared =
        sharing.knowledge().settings().into_iter().take(MAX_SHARED_CANDIDATES).filter_map(|text| Setting::parse(&text).ok());
    for setting in learned.chain(shared) {
        let is_room = candidates.len() < settings.candidates.len() + MAX_LEARNED_CANDIDATES;
        if is_room && setting != active && !candidates.contains(&setting) {
            candidates.push(setting);
        }
    }
    candidates.retain(|candidate| settings.allows(candidate, &active));
    candidates
}
