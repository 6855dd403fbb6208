//! Regimes of a run: a fixed scheduler, or a controller.

use anyhow::{Context, bail, ensure};
use block::Unit;
use control::Setting;
use control::controller::{ControllerChoice, ControllerSpec};
use report::record::{SchedulerSetting, Value};

use testbed::jobs;
use testbed::load::Load;
use testbed::world::World;

/// Setting with which a controller starts by default: Linux's for a disk.
pub const FOUND: &str = "mq-deadline";

/// The source of a run's setting.
pub enum Regime {
    /// A fixed setting.
    Scheduler(Setting),
    /// A controller.
    Controller {
        /// The controller with its tunables.
        chosen: ControllerChoice,
        /// The active setting before its first decision.
        begins_with: Setting,
    },
}

impl Regime {
    /// Name and non-default tunables: unique within a comparison.
    pub fn label(&self) -> String {
        match self {
            Regime::Scheduler(setting) => setting.to_string(),
            Regime::Controller { chosen, .. } => chosen.label(),
        }
    }

    /// Whether it is a controller.
    pub fn is_steered(&self) -> bool {
        matches!(self, Regime::Controller { .. })
    }

    /// The setting at the start of the run.
    pub fn begins_with(&self) -> &Setting {
        match self {
            Regime::Scheduler(setting) => setting,
            Regime::Controller { begins_with, .. } => begins_with,
        }
    }

    /// Converts to the format of records.
    pub fn record(&self) -> SchedulerSetting {
        let (name, tunables, values, host) = match self {
            Regime::Scheduler(setting) => (setting.spec.name, setting.spec.tunables, &setting.values, setting.host.clone()),
            Regime::Controller { chosen, .. } => (chosen.spec.name, chosen.spec.tunables, &chosen.values, Vec::new()),
        };
        let tunables = tunables.iter().zip(values).map(|(tunable, &value)| {
            let value = match tunable.unit {
                Unit::PercentHundredths if value % 100 == 0 => Value::Number(value / 100),
                Unit::OneOf(_) | Unit::PercentHundredths => Value::Word(tunable.text(value)),
                _ => Value::Number(value),
            };
            (tunable.name.to_owned(), value)
        });
        SchedulerSetting { name: name.to_owned(), label: self.label(), tunables: tunables.collect(), host }
    }
}

/// Parses the argument of `--scheduler`.
pub fn scheduler(text: &str) -> anyhow::Result<Setting> {
    Setting::parse(text).with_context(|| format!("--scheduler {text}"))
}

/// The set of schedulers that is compared by default.
pub const USUAL: &str = "kernel";

/// Parses the argument of `--scheduler`, which may also name a set of schedulers.
pub fn schedulers(text: &str) -> anyhow::Result<Vec<Setting>> {
    let specs: Vec<_> = match text {
        "kernel" => block::KERNEL.to_vec(),
        "classic" => device_model::sched::classic().collect(),
        "all" => device_model::sched::all().collect(),
        _ => return Ok(vec![scheduler(text)?]),
    };
    Ok(specs.into_iter().map(Setting::of).collect())
}

/// Parses the arguments of `--candidates`.
pub fn candidates(texts: &[String]) -> anyhow::Result<Vec<Setting>> {
    let candidates = control::candidates::parse(texts.iter().map(String::as_str));
    candidates.with_context(|| format!("--candidates {}", texts.join(";")))
}

/// Adds the setting with which a controller starts, if it is missing.
pub fn with_found(mut settings: Vec<Setting>) -> anyhow::Result<Vec<Setting>> {
    let found = scheduler(FOUND)?;
    if !settings.contains(&found) {
        settings.push(found);
    }
    Ok(settings)
}

/// Parses the argument of `--controller`: one of `known`, optionally with tunables.
pub fn controller(text: &str, known: &[&'static ControllerSpec]) -> anyhow::Result<ControllerChoice> {
    ControllerChoice::parse_among(known.iter().copied(), text).with_context(|| format!("--controller {text}"))
}

/// Rejects duplicate labels, as their rows could not be told apart.
pub fn expect_different(regimes: &[Regime]) -> anyhow::Result<()> {
    let labels: Vec<String> = regimes.iter().map(Regime::label).collect();
    for (i, (label, regime)) in labels.iter().zip(regimes).enumerate() {
        let argument = if matches!(regime, Regime::Scheduler(_)) { "--scheduler" } else { "--controller" };
        ensure!(!labels[..i].contains(label), "{argument} {label}: is given twice; once is right");
    }
    Ok(())
}

/// Checks that a setting's host tunables are among those with these names, the ones that the run can change; `given` is the option that
/// named it.
pub fn expect_settable(given: &str, setting: &Setting, names: &[String]) -> anyhow::Result<()> {
    let settable = block::HOST_TUNABLES.iter().filter(|tunable| names.iter().any(|name| name == tunable.name));
    setting.check_host(settable).with_context(|| format!("{given} {setting}"))
}

/// As [`expect_settable`], with the host tunables that a run of `load` can change.
///
/// # Errors
/// One of the setting's host tunables is not among them; for a block trace the message gives the reason.
pub fn expect_settable_for(given: &str, setting: &Setting, load: &dyn Load, world: &World) -> anyhow::Result<()> {
    let replay = load.replay(world);
    let names: Vec<String> = replay.host.into_iter().map(|(name, _)| name).collect();
    let is_known = |name: &str| block::HOST_TUNABLES.iter().any(|tunable| tunable.name == name);
    let is_above = |name: &str| replay.mode != jobs::MODE && is_known(name) && !names.iter().any(|settable| settable == name);
    if let Some((name, _)) = setting.host.iter().find(|(name, _)| is_above(name)) {
        bail!(
            "{given} {setting}: {} is a block trace, which was recorded below the page cache, so {name} has no effect on it; of the \
             host's tunables it meets only {}",
            load.digest().name,
            names.join(", ")
        );
    }
    expect_settable(given, setting, &names)
}

/// Maximum number of settings made by varying tunables, for a table that can be read.
pub const MOST_VARIED: usize = 256;

/// Each of the settings with every combination of values of the host's tunables, as `--vary KEY=VALUE,...` gives them.
///
/// # Errors
/// A key is unknown, given twice or named by a setting already, a value is not in its range or given twice, or these are more than
/// [`MOST_VARIED`].
pub fn varied(mut settings: Vec<Setting>, vary: &[String]) -> anyhow::Result<Vec<Setting>> {
    for text in vary {
        let of = || format!("--vary {text}");
        let (key, values) = text.split_once('=').with_context(|| format!("{}: should be KEY=VALUE,VALUE,...", of()))?;
        let with = |setting: &Setting, value: &str| -> anyhow::Result<Setting> {
            Setting::parse(&format!("{setting} {key}={value}")).with_context(of)
        };
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        let twice = values.iter().enumerate().find(|(number, value)| values[..*number].contains(value));
        ensure!(twice.is_none(), "{}: {} is given twice; once is right", of(), twice.map_or("", |(_, value)| value));
        let every = settings.iter().flat_map(|setting| values.iter().map(move |value| with(setting, value)));
        settings = every.take(MOST_VARIED + 1).collect::<anyhow::Result<_>>()?;
        ensure!(settings.len() <= MOST_VARIED, "{}: makes more than {MOST_VARIED} settings; give fewer values", of());
    }
    Ok(settings)
}
