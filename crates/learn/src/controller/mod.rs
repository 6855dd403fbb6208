//! The seam to what decides: given what was observed, what shall be set now, and why?

mod classified;
mod feedback;
mod fixed;
mod per_request;
mod rotate;
mod round;
mod round_robin;
mod seekwise;
mod two_layer;
mod workload;

use std::sync::Arc;

use block::{Nanos, SettingError, Tunable, Unit};

pub use classified::Classified;
pub use fixed::Fixed;
pub use per_request::PerRequest;
pub use rotate::Rotate;
pub use round_robin::RoundRobin;
pub use seekwise::Seekwise;

use crate::candidates;
use crate::event::Event;
use crate::experience::Experience;
use crate::model::Model;
use crate::plant::Plant;
use crate::preference::Preference;
use crate::sched;
use crate::setting::{self, Setting};
use crate::window::{Extent, Window};

/// Decides, window by window, what is set.
pub trait Controller: Send {
    /// What a person types.
    fn name(&self) -> &'static str;

    /// What to begin with, before anything was seen; asked once.
    fn begin(&mut self, now: Nanos, plant: &dyn Plant) -> Decision;

    /// How long the window shall be that begins now.
    fn extent(&self) -> Extent;

    /// Learns of each event, before the window does. True ends the window here: the workload is another one now.
    fn event(&mut self, event: &Event) -> bool {
        let _ = event;
        false
    }

    /// Says what shall be in force from the end of this window on.
    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision;

    /// Learns that what it decided could not be set; what was before is in force.
    fn refused(&mut self, setting: &Setting, reason: &str) {
        let _ = (setting, reason);
    }

    /// The model that it goes by now, if it trained one.
    fn model(&self) -> Option<&Model> {
        None
    }
}

/// A controller as the rest of the program sees it before there is one.
#[derive(Debug)]
pub struct ControllerSpec {
    /// What a person types.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The paper it follows, or what it is for.
    pub source: &'static str,
    /// Its parameters.
    pub tunables: &'static [Tunable],
    /// Makes one; the values stand in the order of `tunables` and within their ranges.
    pub build: fn(&Brief, &[i64]) -> Box<dyn Controller>,
}

/// All controllers.
pub static ALL: &[&ControllerSpec] =
    &[&fixed::SPEC, &rotate::SPEC, &round_robin::SPEC, &feedback::SPEC, &per_request::SPEC, &two_layer::SPEC, &seekwise::SPEC];

/// Declared once for the schemes that sense changes.
const LEAST_CORRELATION: Tunable = Tunable::new(Unit::Percent, 0..=100, 70).named(
    "least_correlation_percent",
    "The workload is another one if its distribution of requests correlates less than this with what it was; 0 is off.",
);

/// What every controller is told before it begins.
#[derive(Clone, Debug)]
pub struct Brief {
    /// What the user wants.
    pub preference: Preference,
    /// What it chooses among, at least one; sets of them are in [`candidates`](crate::candidates).
    pub candidates: Vec<Setting>,
    /// What it draws its random numbers from.
    pub seed: u64,
    /// What was lived through before, by whomever.
    pub experience: Arc<Experience>,
}

impl Default for Brief {
    /// Every scheduler with its defaults, the host left alone.
    fn default() -> Brief {
        Brief {
            preference: Preference::default(),
            candidates: (candidates::SETS[0].settings)(),
            seed: 1,
            experience: Arc::default(),
        }
    }
}

/// A controller and the values of its tunables.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The controller.
    pub spec: &'static ControllerSpec,
    /// In the order of its tunables.
    pub values: Vec<i64>,
}

/// Why a text names no controller with its settings.
#[derive(Debug, thiserror::Error)]
pub enum ChosenError {
    /// There is no controller of that name.
    #[error("there is no controller '{name}'; known are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The controllers that there are.
        known: Vec<&'static str>,
    },
    /// Its settings are wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl Chosen {
    /// Reads a controller's name and, behind a colon, any of its tunables as `key=value` with commas between. What is not named keeps
    /// its default.
    ///
    /// # Errors
    /// An unknown controller or key, a key given twice, a value that the tunable cannot have.
    pub fn parse(text: &str) -> Result<Chosen, ChosenError> {
        let (name, settings) = text.split_once(':').map_or((text, None), |(name, settings)| (name, Some(settings)));
        let known = || ALL.iter().map(|spec| spec.name).collect();
        let spec = find(name).ok_or_else(|| ChosenError::Unknown { name: name.to_owned(), known: known() })?;
        let values = block::parse_values(spec.name, spec.tunables, settings)?;
        Ok(Chosen { spec, values })
    }

    /// Makes one.
    pub fn build(&self, brief: &Brief) -> Box<dyn Controller> {
        (self.spec.build)(brief, &self.values)
    }

    /// The name, and the tunables that are not at their defaults. Where a scheduler has the same name, it says that it is a controller.
    pub fn label(&self) -> String {
        let label = setting::label(self.spec.name, self.spec.tunables, &self.values);
        let is_scheduler = sched::all().any(|scheduler| scheduler.name == self.spec.name);
        if is_scheduler { format!("{label} (controller)") } else { label }
    }
}

/// The controller of that name.
pub fn find(name: &str) -> Option<&'static ControllerSpec> {
    ALL.iter().copied().find(|spec| spec.name == name)
}

/// What a controller says.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What shall be set; `None` keeps what is.
    pub setting: Option<Setting>,
    /// For a person.
    pub why: String,
    /// By how much it should become better, as the difference of [`WindowOutcome::score`](crate::WindowOutcome::score)s.
    pub expected_gain: Option<f64>,
}

impl Decision {
    /// Everything stays as it is.
    pub fn keep(why: impl Into<String>) -> Decision {
        Decision { setting: None, why: why.into(), expected_gain: None }
    }

    /// This shall be set.
    pub fn set(setting: Setting, why: impl Into<String>) -> Decision {
        Decision { setting: Some(setting), why: why.into(), expected_gain: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_listed_and_every_controller_has_its_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/controller")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // A folder beside a controller's file holds the parts that would make the file too long.
        let files = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
        let mut files: Vec<String> = files.filter(|name| name != "mod").collect();
        let mut listed: Vec<String> = ALL.iter().map(|spec| spec.name.replace('-', "_")).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn every_controller_is_built_from_its_defaults_and_goes_by_its_name() {
        for spec in ALL {
            let chosen = Chosen::parse(spec.name).unwrap();
            for (value, tunable) in chosen.values.iter().zip(spec.tunables) {
                tunable.check(spec.name, *value).unwrap();
            }
            assert_eq!(chosen.build(&Brief::default()).name(), spec.name);
        }
    }

    #[test]
    fn what_is_no_controller_is_refused_with_what_would_be_right() {
        let message = |text: &str| Chosen::parse(text).unwrap_err().to_string();
        assert!(message("nonsense").starts_with("there is no controller 'nonsense'; known are fixed, "));
        assert!(message("rotate:window=5").starts_with("rotate has no tunable 'window'; known are window_ms"));
        assert_eq!(message("rotate:window_ms=0"), "rotate: window_ms=0 should be a whole number from 1 to 3600000 ms");
        assert!(message("rotate:").starts_with("rotate: '' should be"));
        assert!(message("rotate:window_ms=5,window_ms=6").contains("twice"));
    }
}
