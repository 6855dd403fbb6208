//! What an administrator writes down: a TOML file, all of it optional.
//!
//! ```toml
//! mode = "watch"                    # for devices that no [[device]] is about
//!
//! [[device]]
//! name = "sd*"                      # and model, and wwid: all that are given must match
//! mode = "act"
//! ```
//! Files are found as the UAPI group's configuration files specification says ([`applier::policy`]): the program works without any, a vendor's
//! file gives way to one in `/etc`, and drop-ins add to either. A key that is unknown or a value that cannot be is an error that names
//! file, line, key, value and what would be right; nothing begins with half a configuration.

mod hours;
mod keys;
mod learning;
mod pattern;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use applier::attribute::{MACHINE_PREFIX, READ_AHEAD};
use applier::policy::Unreadable;
use control::Setting;
use control::controller::ControllerChoice;
use control::experience::Experience;
use observe::Preference;

pub use applier::policy::Sources;
pub use hours::{Hours, WallTime};
pub use keys::{listen, vendor_file};
pub use learning::{Learning, searching};
pub use pattern::Pattern;

use linux::topology::Device;

/// What to do about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Watch it, and say what would be done.
    Watch,
    /// Tune it.
    Act,
    /// Do not even watch it.
    LeaveAlone,
}

impl Mode {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Watch => "watch",
            Mode::Act => "act",
            Mode::LeaveAlone => "leave-alone",
        }
    }
}

/// Whether the agent's settings are restored when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was there before the agent comes back.
    Restore,
    /// They stay until `seekwise-agent restore`, or the next boot.
    Keep,
}

/// What holds for one device.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to do about it.
    pub mode: Mode,
    /// Which controller decides.
    pub controller: ControllerChoice,
    /// What it chooses among.
    pub candidates: Vec<Setting>,
    /// What is wanted more: throughput, response time or fairness.
    pub preference: Preference,
    /// What may be touched, by name: `scheduler`, `iosched/*`.
    pub attributes: Vec<Pattern>,
    /// Maximum changes per minute; going back to the original setting is always allowed.
    pub changes_per_minute: u32,
    /// Whether settings are restored at the end.
    pub exit: Exit,
}

impl Settings {
    /// Whether this attribute may be touched. One of the machine only if it is named as such: `*` is everything of a device.
    pub fn may_touch(&self, attribute: &str) -> bool {
        let is_of_machine = attribute.starts_with(MACHINE_PREFIX);
        let counts = |pattern: &&Pattern| !is_of_machine || pattern.text().starts_with(MACHINE_PREFIX);
        self.attributes.iter().filter(counts).any(|pattern| pattern.matches(attribute))
    }

    /// Whether everything in which a setting differs from what was found may be touched.
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

/// The devices that a `[[device]]` is about, and what it says of them.
#[derive(Clone, Debug)]
struct Rule {
    name: Option<Pattern>,
    model: Option<Pattern>,
    wwid: Option<Pattern>,
    says: Vec<keys::Said>,
}

impl Rule {
    fn is_about(&self, device: &Device, wwid: Option<&str>) -> bool {
        let matches = |pattern: &Option<Pattern>, text: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches(text));
        matches(&self.name, &device.name)
            && matches(&self.model, device.model.as_deref().unwrap_or_default())
            && matches(&self.wwid, wwid.unwrap_or_default())
    }
}

/// Where metrics are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address of this machine.
    Tcp(std::net::SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Configuration {
    settings: Settings,
    rules: Vec<Rule>,
    /// Processor time that trials of one device may take, in thousandths of a core.
    pub budget_permille: i64,
    /// How many entries of its history the agent keeps.
    pub history: usize,
    /// Who the half that thinks runs as, if it was started as root without systemd.
    pub user: Option<String>,
    /// Where it keeps its history and its knowledge base.
    pub state_directory: PathBuf,
    /// Where it is asked.
    pub socket: PathBuf,
    /// Where the applier is asked.
    pub applier_socket: PathBuf,
    /// Where metrics are asked for; nowhere if there is nothing.
    pub metrics: Option<Listen>,
    /// Where and when it is learned.
    pub learning: Learning,
    /// The files that were read, the first read first.
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
                exit: Exit::Restore,
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
            read: Vec::new(),
        }
        .with_candidates()
    }
}

/// Why there is no configuration.
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
        /// Key, value and what would be right.
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

    /// What holds for this device, which has this [world-wide name](wwid). Of several `[[device]]` that are about it, the later one has the
    /// last word.
    pub fn settings(&self, device: &Device, wwid: Option<&str>) -> Settings {
        let about = self.rules.iter().filter(|rule| rule.is_about(device, wwid));
        let mut settings = self.settings.clone();
        about.flat_map(|rule| &rule.says).for_each(|said| said.put(&mut settings));
        settings
    }

    /// The same, where this controller decides for every device, whatever the files say.
    pub fn controlled_by(mut self, controller: ControllerChoice) -> Configuration {
        let all = Some(Pattern::new("*"));
        self.rules.push(Rule { name: all, model: None, wwid: None, says: vec![keys::Said::Controller(controller)] });
        self
    }

    /// What holds for what no `[[device]]` is about.
    pub fn for_all(&self) -> &Settings {
        &self.settings
    }

    /// Whether any device may be tuned.
    pub fn acts(&self) -> bool {
        let acts = |said: &keys::Said| matches!(said, keys::Said::Mode(Mode::Act));
        self.settings.mode == Mode::Act || self.rules.iter().any(|rule| rule.says.iter().any(acts))
    }

    /// What the controllers that are asked for learn from: what comes with the program if one of them does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn experience(&self) -> anyhow::Result<Arc<Experience>> {
        let in_rules = self.rules.iter().flat_map(|rule| &rule.says).filter_map(|said| match said {
            keys::Said::Controller(chosen) => Some(chosen),
            _ => None,
        });
        // The twin's knows no device of this machine, and takes memory.
        let learns = |chosen: &ControllerChoice| chosen.spec.name != twin::controller::SPEC.name;
        let any = std::iter::once(&self.settings.controller).chain(in_rules).any(learns);
        if any { experiment::experience::load(None) } else { Ok(Arc::default()) }
    }

    /// The default candidates: today's schedulers, and variants of them.
    fn with_candidates(mut self) -> Configuration {
        let set = control::candidates::SETS.iter().find(|set| set.name == keys::CANDIDATES);
        self.settings.candidates = set.map(|set| (set.settings)()).unwrap_or_default();
        self.settings.controller.values = self.settings.controller.spec.tunables.iter().map(|tunable| tunable.default).collect();
        self
    }
}
