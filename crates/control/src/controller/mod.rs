//! Interface of controllers, which choose settings from the observed windows.

mod evidence;
mod fixed;
mod rotate;

use std::sync::Arc;

use block::{Nanos, SettingError, Tunable};

pub use evidence::{Evidence, Prediction};
pub use fixed::Fixed;
pub use rotate::Rotate;

use crate::candidates;
use crate::experience::{Experience, GenePool};
use crate::fleet::FleetKnowledge;
use crate::setting;
use crate::setting::Setting;
use crate::target::Target;
use crate::verdict::Verdict;
use crate::{Window, WindowLength};
use device_model::sched;
use observe::counters::Sample;
use observe::event::Event;
use observe::preference::Preference;

/// Decides the setting at the end of each window.
///
/// ```
/// use block::Nanos;
/// use control::{Controller, Decision, Setting, Target, Window, WindowLength};
///
/// /// Selects bfq while several streams are active.
/// struct ByStreams;
///
/// impl Controller for ByStreams {
///     fn name(&self) -> &'static str {
///         "by-streams"
///     }
///     fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
///         Decision::keep("no window yet")
///     }
///     fn window_length(&self) -> WindowLength {
///         WindowLength { time: Some(Nanos::from_millis(1_000)), requests: None }
///     }
///     fn decide(&mut self, window: &Window, _target: &dyn Target) -> Decision {
///         let streams = window.features.get("streams").unwrap_or(0.0);
///         let name = if streams > 1.5 { "bfq" } else { "mq-deadline" };
///         match Setting::parse(name) {
///             Ok(setting) => Decision::set(setting, format!("{streams} streams")),
///             Err(error) => Decision::keep(error.to_string()),
///         }
///     }
/// }
/// ```
pub trait Controller: Send {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// The decision before any window; called once.
    fn begin(&mut self, now: Nanos, target: &dyn Target) -> Decision;

    /// Length of the window that begins now.
    fn window_length(&self) -> WindowLength;

    /// Minimum number of completed requests of a window that ends by time. A window with fewer is extended by the same time, unless it had
    /// no event in that time, so that a load of few requests can also be judged. Default 0: every window ends on time.
    fn least_requests(&self) -> u64 {
        0
    }

    /// Called for each event before it is added to the window. Returning true ends the window there because the workload changed.
    fn event(&mut self, event: &Event) -> bool {
        let _ = event;
        false
    }

    /// Called for each sample of the counters, on a target without events.
    fn counted(&mut self, sample: &Sample) {
        let _ = sample;
    }

    /// Decides the setting from the end of this window on.
    fn decide(&mut self, window: &Window, target: &dyn Target) -> Decision;

    /// Called if its decision could not be applied; the previous setting is still active.
    fn refused(&mut self, setting: &Setting, reason: &str) {
        let _ = (setting, reason);
    }

    /// Gene pools of this device to store in the knowledge base; see [`search`](crate::search). Empty by default.
    fn gene_pools(&self, device: &str) -> Vec<GenePool> {
        let _ = device;
        Vec::new()
    }

    /// Replaces the knowledge from other machines by a newer version.
    fn know_fleet(&mut self, fleet: Arc<FleetKnowledge>) {
        let _ = fleet;
    }

    /// Whether it is still searching for the best setting of the load, rather than monitoring the chosen one. Default: false.
    fn is_searching(&self) -> bool {
        false
    }

    /// The setting that should stay if control ends now; `None` if that is the active one. They differ during a trial.
    fn final_setting(&self) -> Option<&Setting> {
        None
    }

    /// Called if the host replaces the setting because of harm that windows do not show. Returns the decision to log.
    fn overruled(&mut self, now: Nanos, setting: &Setting, reason: &str) -> Decision {
        let _ = now;
        Decision::set(setting.clone(), reason)
    }

    /// The model that it has trained, to store in the knowledge base; `None` if it trains none.
    fn model(&self) -> Option<TrainedModel> {
        None
    }
}

/// A model that a controller has trained, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainedModel {
    /// The learner's name.
    pub learner: &'static str,
    /// The model as JSON.
    pub json: String,
    /// Names of its features, in order.
    pub features: Vec<String>,
}

/// Description of a controller, with the function that builds it.
#[derive(Debug)]
pub struct ControllerSpec {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper it implements, or its purpose.
    pub source: &'static str,
    /// Its parameters.
    pub tunables: &'static [Tunable],
    /// Builds a controller; the values are in the order of `tunables` and within their ranges.
    pub build: fn(&ControllerInput, &[i64]) -> Box<dyn Controller>,
}

/// The controllers of this crate. Those that need the simulator or a learner are listed in `twin` and `research`.
pub static ALL: &[&ControllerSpec] = &[&fixed::SPEC, &rotate::SPEC];

/// Input of every controller.
#[derive(Clone, Debug)]
pub struct ControllerInput {
    /// The user's preference.
    pub preference: Preference,
    /// The settings to choose among, at least one; see [`candidates`] for named sets.
    pub candidates: Vec<Setting>,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Measurements of earlier workloads, from any source.
    pub experience: Arc<Experience>,
    /// Measurements of other machines on devices of the same type.
    pub fleet: Arc<FleetKnowledge>,
}

impl Default for ControllerInput {
    /// The default candidates, without experience and model.
    fn default() -> ControllerInput {
        ControllerInput {
            preference: Preference::default(),
            candidates: (candidates::SETS[0].settings)(),
            seed: 1,
            experience: Arc::default(),
            fleet: Arc::default(),
        }
    }
}

/// A controller and the values of its tunables.
#[derive(Clone, Debug)]
pub struct ControllerChoice {
    /// The controller.
    pub spec: &'static ControllerSpec,
    /// The values, in the order of its tunables.
    pub values: Vec<i64>,
}

/// Why a text could not be parsed as a controller with its tunables.
#[derive(Debug, thiserror::Error)]
pub enum ControllerChoiceError {
    /// Unknown controller.
    #[error("there is no controller '{name}'; known are {}{}", known.join(", "), block::did_you_mean(name, known.iter().copied()))]
    Unknown {
        /// The name given.
        name: String,
        /// The known controllers.
        known: Vec<&'static str>,
    },
    /// A tunable is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl ControllerChoice {
    /// Parses `name` or `name:key=value,...` with one of [`ALL`]. Tunables not named keep their defaults.
    ///
    /// # Errors
    /// The controller or a key is unknown, a key is given twice, or a value is out of range.
    pub fn parse(text: &str) -> Result<ControllerChoice, ControllerChoiceError> {
        ControllerChoice::parse_among(ALL.iter().copied(), text)
    }

    /// Like [`parse`](ControllerChoice::parse), with one of these specifications.
    ///
    /// # Errors
    /// Those of [`parse`](ControllerChoice::parse).
    pub fn parse_among(
        specs: impl Iterator<Item = &'static ControllerSpec> + Clone,
        text: &str,
    ) -> Result<ControllerChoice, ControllerChoiceError> {
        let (name, settings) = text.split_once(':').map_or((text, None), |(name, settings)| (name, Some(settings)));
        let known = || specs.clone().map(|spec| spec.name).collect();
        let found = specs.clone().find(|spec| spec.name == name);
        let spec = found.ok_or_else(|| ControllerChoiceError::Unknown { name: name.to_owned(), known: known() })?;
        let values = block::parse_values(spec.name, spec.tunables, settings)?;
        Ok(ControllerChoice { spec, values })
    }

    /// Builds the controller.
    pub fn build(&self, input: &ControllerInput) -> Box<dyn Controller> {
        (self.spec.build)(input, &self.values)
    }

    /// The name, and the tunables that differ from their defaults. Marked as a controller if a scheduler has the same name.
    pub fn label(&self) -> String {
        let label = setting::label(self.spec.name, self.spec.tunables, &self.values);
        let is_scheduler = sched::all().any(|scheduler| scheduler.name == self.spec.name);
        if is_scheduler { format!("{label} (controller)") } else { label }
    }
}

/// The decision of a controller.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The setting to apply; `None` keeps the current one.
    pub setting: Option<Setting>,
    /// The reason, for display.
    pub why: String,
    /// Expected improvement, as a difference of [`WindowOutcome::score`](observe::WindowOutcome::score)s.
    pub expected_gain: Option<f64>,
    /// The comparison that decided; `None` unless this decision rests on one.
    pub verdict: Option<Arc<Verdict>>,
    /// The evidence; `None` if there is none to show.
    pub evidence: Option<Arc<Evidence>>,
}

impl Decision {
    /// Keeps the current setting.
    pub fn keep(why: impl Into<String>) -> Decision {
        Decision { setting: None, why: why.into(), expected_gain: None, verdict: None, evidence: None }
    }

    /// Applies this setting.
    pub fn set(setting: Setting, why: impl Into<String>) -> Decision {
        Decision { setting: Some(setting), ..Decision::keep(why) }
    }

    /// Adds the comparison that decided.
    pub fn with_verdict(self, verdict: Verdict) -> Decision {
        Decision { verdict: Some(Arc::new(verdict)), ..self }
    }

    /// Adds the evidence.
    pub fn with_evidence(self, evidence: Evidence) -> Decision {
        Decision { evidence: Some(Arc::new(evidence)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_listed_and_every_controller_has_its_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/controller")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // A directory named after a controller's file holds its submodules.
        let files = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
        let mut files: Vec<String> = files.filter(|name| name != "mod" && name != "evidence").collect();
        let mut listed: Vec<String> = ALL.iter().map(|spec| spec.name.replace('-', "_")).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn every_controller_is_built_from_its_defaults_and_reports_its_name() {
        for spec in ALL {
            let chosen = ControllerChoice::parse(spec.name).unwrap();
            for (value, tunable) in chosen.values.iter().zip(spec.tunables) {
                tunable.check(spec.name, *value).unwrap();
            }
            assert_eq!(chosen.build(&ControllerInput::default()).name(), spec.name);
        }
    }

    #[test]
    fn an_invalid_controller_is_refused_with_the_valid_ones() {
        let message = |text: &str| ControllerChoice::parse(text).unwrap_err().to_string();
        assert!(message("nonsense").starts_with("there is no controller 'nonsense'; known are fixed, "));
        assert!(message("rotate:window=5").starts_with("rotate has no tunable 'window'; known are window_ms"));
        assert_eq!(message("rotate:window_ms=0"), "rotate: window_ms=0 should be a whole number from 1 to 3600000 ms");
        assert!(message("rotate:").starts_with("rotate: '' should be"));
        assert!(message("rotate:window_ms=5,window_ms=6").contains("twice"));
    }
}
