//! Texts of advice.

use control::Setting;
use control::controller::Prediction;
use report::advice::{Advice, Verdict};
use report::record::{Kind, SCHEMA};
use statistics::percent;

use super::linux;

/// Advice before anything is known of a load: keep the active setting.
pub(super) fn nothing_known(load: String, source: String, lasts_s: f64, (active, preference): (&Setting, &str)) -> Advice {
    Advice {
        schema: SCHEMA,
        kind: Kind::Advise,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        load,
        source,
        is_simulated: false,
        requests: 0,
        lasts_s,
        busy_s: 0.0,
        in_force: active.to_string(),
        preference: preference.to_owned(),
        verdict: leave_alone(active, String::new()),
        overload: None,
        aims: Vec::new(),
        effects: Vec::new(),
        candidates: Vec::new(),
        measured: Vec::new(),
        phases: Vec::new(),
        device: Vec::new(),
        sure: Vec::new(),
        udev: linux::rule(active, active, None),
        notes: Vec::new(),
    }
}

pub(super) fn leave_alone(active: &Setting, why: String) -> Verdict {
    Verdict { setting: active.to_string(), is_change: false, text: format!("Leave {active} alone: {why}"), cost: Vec::new() }
}

/// A gain as text.
pub(super) fn text_of(gain: f64) -> String {
    report::gains::signed(percent(gain))
}

pub(super) fn text_with_error(prediction: &Prediction) -> String {
    report::gains::with_error(percent(prediction.gain), 100.0 * prediction.error)
}
