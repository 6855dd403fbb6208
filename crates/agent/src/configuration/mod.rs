//! The configuration: TOML files with optional keys.
//!
//! ```toml
//! mode = "watch"                    # for devices that match no [[device]]
//!
//! [[device]]
//! name = "sd*"                      # and model, and wwid: all that are given must match
//! mode = "act"
//! ```
//! Files are found as specified by the UAPI group's configuration files specification ([`applier::policy`]): none is required, a file in
//! `/etc` replaces the vendor's, and drop-ins are merged into either. An unknown key or an invalid value is an error that names file, line,
//! key, value and the right values; a partial configuration is never used.

mod fleet;
mod hours;
mod key;
mod keys;
mod learning;
mod protect;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use applier::AtExit;
use applier::attribute::{MACHINE_PREFIX, READ_AHEAD};
use applier::policy::{Selector, Unreadable};
use control::Setting;
use control::controller::ControllerChoice;
use control::experience::Experience;
use endpoint::metrics::Listen;
use observe::Preference;

pub use self::protect::{Limits, Promised, reference};
pub use applier::pattern::Pattern;
pub use applier::policy::Sources;
pub use fleet::FleetSettings;
pub use hours::{Hours, WallTime};
pub use keys::vendor_file;
pub use learning::{Learning, searching};

use linux::topology::Device;

/// Mode of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Monitor it and recommend settings.
    Watch,
    /// Monitor it and apply settings.
    Act,
    /// Ignore it.
    LeaveAlone,
}

impl Mode {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Watch => "watch",
            Mode::Act => "act",
            Mode::LeaveAlone => "leave-alone",
        }
    }
}

/// The effective settings of one device.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its mode.
    pub mode: Mode,
    /// The controller.
    pub controller: ControllerChoice,
    /// The candidate settings.
    pub candidates: Vec<Setting>,
    /// Weights of throughput, response time and fairness.
    pub preference: Preference,
    /// Attributes that may be set, such as `scheduler`, `iosched/*`.
    pub attributes: Vec<Pattern>,
    /// Maximum changes per minute, 1 to 600; a return to the setting before a trial or a change, and to the original one, is always allowed.
    pub changes_per_minute: u32,
    /// Whether settings are restored at exit.
    pub exit: AtExit,
}

impl Settings {
    /// Whether this attribute may be set. `*` includes all attributes of a device, but no machine-wide ones.
    pub fn may_touch(&self, attribute: &str) -> bool {
        let is_of_machine = attribute.starts_with(MACHINE_PREFIX);
        let counts = |pattern: &&Pattern| !is_of_machine || pattern.text().starts_with(MACHINE_PREFIX);
        self.attributes.iter().filter(counts).any(|pattern| pattern.matches(attribute))
    }

    /// Whether all attributes in which `setting` differs from `found` may be set.
    pub fn allows(&self, setting: &Setting, found: &Setting) -> bool {
        let is_same = setting.spec.name == found.spec.name;
        let found_value = |index: usize, default: i64| if is_same { found.values[index] } else { default };
        let tunables = setting.spec.tunables.iter().zip(&setting.values).enumerate();
        let mut touched = tunables.filter(|(index, (tunable, value))| **value != found_value(*index, tunable.default));
        (is_same || self.may_touch("scheduler"))
            && touched.all(|(_, (tunable, _))| self.may_touch(&format!("iosched/{}", tunable.name)))
            && setting.host.iter().all(|(name, _)| self.may_touch(name) || self.may_touch(&format!("{MACHINE_PREFIX}{name}")))
    }
}

/// A `[[device]]`: patterns that select devices, and the values for them.
#[derive(Clone, Debug)]
struct Rule {
    selector: Selector,
    says: Vec<keys::Said>,
}

impl Rule {
    fn is_about(&self, device: &Device, wwid: Option<&str>) -> bool {
        self.selector.matches(&device.name, device.model.as_deref().unwrap_or_default(), wwid.unwrap_or_default())
    }
}

/// The configuration of the agent.
#[derive(Clone, Debug)]
pub struct Configuration {
    settings: Settings,
    rules: Vec<Rule>,
    /// CPU budget of each device, for monitoring and simulation, in thousandths of a core: 1 to 1000.
    pub budget_permille: i64,
    /// Number of history entries to keep.
    pub history: usize,
    /// User to switch to if started as root without systemd; `None`: stays root.
    pub user: Option<String>,
    /// Directory of the history and the knowledge base.
    pub state_directory: PathBuf,
    /// Control socket of the daemon.
    pub socket: PathBuf,
    /// Socket of the applier.
    pub applier_socket: PathBuf,
    /// Address of the metrics server; `None`: no metrics.
    pub metrics: Option<Listen>,
    /// Where and when learning mode runs.
    pub learning: Learning,
    /// The server for sharing outcomes.
    pub fleet: FleetSettings,
    /// Guarantees to units.
    pub promises: Vec<Promised>,
    /// Units that may be limited to keep guarantees.
    pub limits: Limits,
    /// The files that were read, in that order.
    pub read: Vec<PathBuf>,
}

impl Default for Configuration {
    fn default() -> Configuration {
        Configuration {
            settings: Settings {
                mode: Mode::Watch,
                controller: ControllerChoice { spec: &twin::controller::SPEC, values: Vec::new() },
                candidates: Vec::new(),
                preference: Preference::default(),
                attributes: vec![Pattern::new("scheduler"), Pattern::new("iosched/*"), Pattern::new(READ_AHEAD)],
                changes_per_minute: 10,
                exit: AtExit::Restore,
            },
            rules: Vec::new(),
            budget_permille: 4,
            history: 1_000,
            user: None,
            state_directory: PathBuf::from("/var/lib/seekwise-agent"),
            socket: PathBuf::from("/run/seekwise-agent/agent.sock"),
            applier_socket: PathBuf::from("/run/seekwise/applier.sock"),
            metrics: None,
            learning: Learning::default(),
            fleet: FleetSettings::default(),
            promises: Vec::new(),
            limits: Limits::default(),
            read: Vec::new(),
        }
        .with_candidates()
    }
}

/// Why a configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {reason}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Key, value and the right values.
        reason: String,
    },
}

impl From<Unreadable> for ConfigurationError {
    fn from(Unreadable { path, error }: Unreadable) -> ConfigurationError {
        ConfigurationError::Unreadable { path, error }
    }
}

impl Configuration {
    /// Reads the files, in their order.
    ///
    /// # Errors
    /// One of them cannot be read, or something in it is wrong.
    pub fn load(sources: &Sources) -> Result<Configuration, ConfigurationError> {
        let mut configuration = Configuration::default();
        for path in sources.files()? {
            let text =
                std::fs::read_to_string(&path).map_err(|error| ConfigurationError::Unreadable { path: path.clone(), error })?;
            configuration.add(&text).map_err(|(line, reason)| ConfigurationError::Wrong { path: path.clone(), line, reason })?;
            configuration.read.push(path);
        }
        Ok(configuration)
    }

    /// The effective settings of this device with this world-wide name. If several `[[device]]` match, the last one applies.
    pub fn settings(&self, device: &Device, wwid: Option<&str>) -> Settings {
        let about = self.rules.iter().filter(|rule| rule.is_about(device, wwid));
        let mut settings = self.settings.clone();
        about.flat_map(|rule| &rule.says).for_each(|said| said.put(&mut settings));
        settings
    }

    /// Replaces the controller of every device, overriding the files.
    pub fn controlled_by(mut self, controller: ControllerChoice) -> Configuration {
        // Without patterns it matches every device.
        self.rules.push(Rule { selector: Selector::default(), says: vec![keys::Said::Controller(controller)] });
        self
    }

    /// The settings of devices that match no `[[device]]`.
    pub fn for_all(&self) -> &Settings {
        &self.settings
    }

    /// Whether any device may be tuned.
    pub fn acts(&self) -> bool {
        let acts = |said: &keys::Said| matches!(said, keys::Said::Mode(Mode::Act));
        self.settings.mode == Mode::Act || self.rules.iter().any(|rule| rule.says.iter().any(acts))
    }

    /// The shipped experience if any configured controller learns from it, else an empty one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn experience(&self) -> anyhow::Result<Arc<Experience>> {
        let in_rules = self.rules.iter().flat_map(|rule| &rule.says).filter_map(|said| match said {
            keys::Said::Controller(chosen) => Some(chosen),
            _ => None,
        });
        // The twin does not use it, and it takes memory.
        let learns = |chosen: &ControllerChoice| chosen.spec.name != twin::controller::SPEC.name;
        let any = std::iter::once(&self.settings.controller).chain(in_rules).any(learns);
        if any { experiment::experience::load(None) } else { Ok(Arc::default()) }
    }

    /// With the default candidates: the current Linux schedulers and variants of them.
    fn with_candidates(mut self) -> Configuration {
        let set = control::candidates::SETS.iter().find(|set| set.name == keys::CANDIDATES);
        self.settings.candidates = set.map(|set| (set.settings)()).unwrap_or_default();
        self.settings.controller.values = self.settings.controller.spec.tunables.iter().map(|tunable| tunable.default).collect();
        self
    }
}
