//! The keys: meaning, default and range of each. The parser, the messages and the vendor's file use this table.

use block::did_you_mean;
use control::controller::ControllerChoice;
use control::{Setting, candidates};
use observe::Preference;
use toml::de::DeTable;

use endpoint::metrics::Listen;

use super::key::{Key, Source, Wrong, find, number, one_of, path, text, texts, unknown};
use super::{AtExit, Configuration, Mode, Pattern, Rule, Selector, Settings, fleet, learning, protect};

/// The default candidates. Choice: all settings that a running kernel can switch to; not varied.
pub const CANDIDATES: &str = "linux";
/// Maximum length of the history: an entry takes about half a KiB of memory. Choice: bounds the memory at 50 MB; not varied.
const MAX_ENTRIES: i64 = 100_000;
/// Maximum changes per minute: a change keeps a device idle for about 35 ms, so these take a third of its time. Choice: refuses a
/// configuration that mostly switches; not varied.
const MAX_CHANGES: i64 = 600;

/// The value of a key that applies to a device.
#[derive(Clone, Debug)]
pub enum Said {
    Mode(Mode),
    Controller(ControllerChoice),
    Candidates(Vec<Setting>),
    Preference(Preference),
    Attributes(Vec<Pattern>),
    ChangesPerMinute(u32),
    Exit(AtExit),
}

impl Said {
    /// Overwrites this value in the settings of a device.
    pub fn put(&self, settings: &mut Settings) {
        match self.clone() {
            Said::Mode(mode) => settings.mode = mode,
            Said::Controller(controller) => settings.controller = controller,
            Said::Candidates(candidates) => settings.candidates = candidates,
            Said::Preference(preference) => settings.preference = preference,
            Said::Attributes(attributes) => settings.attributes = attributes,
            Said::ChangesPerMinute(changes) => settings.changes_per_minute = changes,
            Said::Exit(exit) => settings.exit = exit,
        }
    }
}

/// Keys of devices: at the top of the file for all devices, in a `[[device]]` for some. Choice: declared once for the parser, its errors
/// and the reference; not varied.
const OF_DEVICES: &[Key<Said>] = &[
    Key {
        name: "mode",
        default: "\"watch\"",
        doc: "\"watch\" monitors and recommends, \"act\" also applies settings, \"leave-alone\" ignores the device.",
        read: |value| {
            let modes = [Mode::Watch, Mode::Act, Mode::LeaveAlone];
            one_of(value, &modes.map(|mode| (mode.name(), mode))).map(Said::Mode)
        },
    },
    Key {
        name: "controller",
        default: "\"seekwise\"",
        doc: "The controller, with its tunables after a colon; `seekwise controller list` lists controllers.",
        read: |value| twin::controller::parse(text(value)?).map(Said::Controller).map_err(|error| error.to_string()),
    },
    Key {
        name: "candidates",
        default: "[\"linux\"]",
        doc: "Candidate settings: sets such as \"kernel\", \"kernel-tuned\" and \"linux\", or single settings such as \"mq-deadline:fifo_batch=4\".",
        read: |value| {
            let texts = texts(value)?;
            let found = candidates::parse(texts.iter().copied()).map_err(|error| error.to_string())?;
            match found.iter().find(|setting| !block::of_linux().any(|spec| spec.name == setting.spec.name)) {
                Some(other) => Err(format!("Linux has no {}; it has {}", other.spec.name, kernel_names())),
                None => Ok(Said::Candidates(found)),
            }
        },
    },
    Key {
        name: "preference",
        default: "\"2,3,1\"",
        doc: "Weights of throughput, response time and fairness: each 1 to 3, total 6 or 7.",
        read: |value| text(value)?.parse().map(Said::Preference).map_err(|error: observe::PreferenceError| error.to_string()),
    },
    Key {
        name: "attributes",
        default: "[\"scheduler\", \"iosched/*\", \"read_ahead_kb\"]",
        doc: "Attributes that may be set. \"*\" means all attributes of a device; machine-wide ones, such as \"vm/swappiness\", must be named.",
        read: |value| {
            let patterns: Vec<Pattern> = texts(value)?.into_iter().map(Pattern::new).collect();
            patterns.iter().try_for_each(is_known)?;
            Ok(Said::Attributes(patterns))
        },
    },
    Key {
        name: "changes_per_minute",
        default: "10",
        doc: "Maximum changes per minute. Restoring the original setting is always allowed.",
        read: |value| number(value, 1..=MAX_CHANGES).map(|changes| Said::ChangesPerMinute(changes as u32)),
    },
    Key {
        name: "exit",
        default: "\"restore\"",
        doc: "When the agent exits: \"restore\" restores the original settings, \"keep\" leaves its settings active.",
        read: |value| one_of(value, &[("restore", AtExit::Restore), ("keep", AtExit::Keep)]).map(Said::Exit),
    },
];

/// Keys that select the devices of a `[[device]]`. Choice: declared once for the parser, its errors and the reference; not varied.
const OF_RULES: &[Key<Pattern>] = &[
    Key { name: "name", default: "\"sd*\"", doc: "The kernel's name.", read: |value| text(value).map(Pattern::new) },
    Key {
        name: "model",
        default: "\"*\"",
        doc: "The model name that the drive reports.",
        read: |value| text(value).map(Pattern::new),
    },
    Key {
        name: "wwid",
        default: "\"*\"",
        doc: "The world-wide name, which does not depend on the kernel's name.",
        read: |value| text(value).map(Pattern::new),
    },
];

/// Stores a parsed value in the configuration.
type Put = Box<dyn FnOnce(&mut Configuration)>;

/// Keys of the program. Choice: declared once for the parser, its errors and the reference; not varied.
const OF_PROGRAM: &[Key<Put>] = &[
    Key {
        name: "budget_permille",
        default: "4",
        doc: "CPU budget of each device, for monitoring and simulation, in thousandths of a core, plus 0.25 s for the first decisions.",
        read: |value| {
            let permille = number(value, 1..=1000)?;
            Ok(Box::new(move |configuration| configuration.budget_permille = permille))
        },
    },
    Key {
        name: "history",
        default: "1000",
        doc: "Number of history entries to keep.",
        read: |value| {
            let entries = number(value, 1..=MAX_ENTRIES)? as usize;
            Ok(Box::new(move |configuration| configuration.history = entries))
        },
    },
    Key {
        name: "user",
        default: "",
        doc: "User that the daemon switches to if it is started as root without systemd, for example user = \"nobody\".",
        read: |value| {
            let user = text(value)?.to_owned();
            Ok(Box::new(move |configuration| configuration.user = Some(user)))
        },
    },
    Key {
        name: "state_directory",
        default: "\"/var/lib/seekwise-agent\"",
        doc: "Directory of the history and the knowledge base.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |configuration| configuration.state_directory = path))
        },
    },
    Key {
        name: "socket",
        default: "\"/run/seekwise-agent/agent.sock\"",
        doc: "Control socket of the daemon, used by `seekwise-agent status` and similar commands.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |configuration| configuration.socket = path))
        },
    },
    Key {
        name: "applier_socket",
        default: "\"/run/seekwise/applier.sock\"",
        doc: "Socket of the applier, the privileged process that writes settings.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |configuration| configuration.applier_socket = path))
        },
    },
    Key {
        name: "metrics",
        default: "",
        doc: "Address of the metrics for Prometheus: \"127.0.0.1:9750\" or \"unix:/run/seekwise-agent/metrics.sock\". Default: no metrics.",
        read: |value| {
            let listen: Listen = text(value)?.parse()?;
            Ok(Box::new(move |configuration| configuration.metrics = Some(listen)))
        },
    },
];

fn kernel_names() -> String {
    let names = |specs: &[&block::SchedulerSpec]| specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
    format!("{}; kernels of some distributions also {}", names(block::KERNEL), names(block::OUT_OF_TREE))
}

/// Refuses a pattern that matches no attribute.
fn is_known(pattern: &Pattern) -> Result<(), String> {
    let known = || applier::attribute::all().iter().map(|attribute| attribute.name.as_str());
    if known().any(|name| pattern.matches(name)) {
        return Ok(());
    }
    let (text, near) = (pattern.text(), did_you_mean(pattern.text(), known()));
    Err(format!("unknown attribute '{text}'{near}; known: {}", known().collect::<Vec<_>>().join(", ")))
}

impl Configuration {
    /// Merges a file into this configuration. On an error, nothing is changed.
    pub(super) fn add(&mut self, text: &str) -> Result<(), Wrong> {
        let source = Source(text);
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (source.line(at), error.message().trim().replace('\n', " "))
        })?;
        // No partial configuration on errors.
        let mut changed = self.clone();
        for (name, value) in table.get_ref() {
            let key: &str = name.get_ref();
            if let Some(key) = find(OF_DEVICES, key) {
                source.read(key, name, value)?.put(&mut changed.settings);
            } else if let Some(key) = find(OF_PROGRAM, key) {
                source.read(key, name, value)?(&mut changed);
            } else if key == "learning" {
                let wrong = || (source.line(name.span().start), "learning: should be a table below a line [learning]".to_owned());
                changed.learning.add(&source, value.get_ref().as_table().ok_or_else(wrong)?)?;
            } else if key == "fleet" {
                let wrong = || (source.line(name.span().start), "fleet: should be a table below a line [fleet]".to_owned());
                changed.fleet.add(&source, value.get_ref().as_table().ok_or_else(wrong)?)?;
            } else if key == "limits" {
                let wrong = || (source.line(name.span().start), "limits: should be a table below a line [limits]".to_owned());
                changed.limits.add(&source, value.get_ref().as_table().ok_or_else(wrong)?)?;
            } else if key == "protect" {
                let wrong =
                    || (source.line(name.span().start), "protect: should be tables, each below a line [[protect]]".to_owned());
                for entry in value.get_ref().as_array().ok_or_else(wrong)?.iter() {
                    let promised = protect::promised(&source, entry.get_ref().as_table().ok_or_else(wrong)?, entry.span().start)?;
                    // An entry of a later file replaces the one with the same name.
                    changed.promises.retain(|other| (&other.unit, &other.device) != (&promised.unit, &promised.device));
                    changed.promises.push(promised);
                }
            } else if key == "device" {
                let wrong =
                    || (source.line(name.span().start), "device: should be tables, each below a line [[device]]".to_owned());
                for entry in value.get_ref().as_array().ok_or_else(wrong)?.iter() {
                    changed.rules.push(rule(&source, entry.get_ref().as_table().ok_or_else(wrong)?, entry.span().start)?);
                }
            } else {
                let known = OF_DEVICES
                    .iter()
                    .map(|key| key.name)
                    .chain(OF_PROGRAM.iter().map(|key| key.name))
                    .chain(["device", "learning", "fleet", "protect", "limits"]);
                return Err((source.line(name.span().start), unknown(key, known)));
            }
        }
        *self = changed;
        Ok(())
    }
}

fn rule(source: &Source, table: &DeTable, begins: usize) -> Result<Rule, Wrong> {
    let mut rule = Rule { selector: Selector::default(), says: Vec::new() };
    for (name, value) in table {
        let key: &str = name.get_ref();
        if let Some(found) = find(OF_RULES, key) {
            let pattern = Some(source.read(found, name, value)?);
            match key {
                "name" => rule.selector.name = pattern,
                "model" => rule.selector.model = pattern,
                _ => rule.selector.wwid = pattern,
            }
        } else if let Some(found) = find(OF_DEVICES, key) {
            rule.says.push(source.read(found, name, value)?);
        } else {
            let known = OF_RULES.iter().map(|key| key.name).chain(OF_DEVICES.iter().map(|key| key.name));
            return Err((source.line(name.span().start), format!("device: {}", unknown(key, known))));
        }
    }
    if rule.selector == Selector::default() {
        let reason = "device: selects no devices; set name, model or wwid, as in name = \"sd*\"";
        return Err((source.line(begins), reason.to_owned()));
    }
    Ok(rule)
}

/// The vendor's file: every key with its meaning and its default, in comments.
pub fn vendor_file() -> String {
    let mut text = String::from(
        "# Configuration of seekwise-agent. All lines are comments that show defaults; no configuration file is required.\n\
         # Do not edit this file, updates overwrite it. Write /etc/seekwise/agent.toml, or drop-ins\n\
         # /etc/seekwise/agent.toml.d/*.conf. Check them with `seekwise-agent configuration`, which prints the effective settings.\n",
    );
    let mut add = |name: &str, default: &str, doc: &str, margin: &str| {
        text += &format!("\n# {doc}\n");
        if !default.is_empty() {
            text += &format!("#{margin}{name} = {default}\n");
        }
    };
    OF_DEVICES.iter().for_each(|key| add(key.name, key.default, key.doc, ""));
    OF_PROGRAM.iter().for_each(|key| add(key.name, key.default, key.doc, ""));
    text += "\n# A [[device]] overrides any of the first seven keys for the devices that match its name, model and wwid (* and ? as in a\n\
             # shell). If several match, the last one applies.\n#[[device]]\n";
    for key in OF_RULES {
        text += &format!("#{} = {:<17} # {}\n", key.name, key.default, key.doc);
    }
    text += "#mode = \"act\"\n\n# Learning mode: while a device with mode = \"act\" is idle, workloads run on a scratch file and settings are tried.\n#[learning]\n";
    let mut add = |name: &str, default: &str, doc: &str| text += &format!("# {doc}\n#{name} = {default}\n");
    learning::KEYS.iter().for_each(|key| add(key.name, key.default, key.doc));
    text += "\n# Sharing: what changes of settings gained is exchanged with other machines over a PostgreSQL server.\n#[fleet]\n";
    let mut add = |name: &str, default: &str, doc: &str| text += &format!("# {doc}\n#{name} = {default}\n");
    fleet::KEYS.iter().for_each(|key| add(key.name, key.default, key.doc));
    text += "\n# A [[protect]] promises a unit response times or throughput. It names the unit and at least one promise. Its neighbours are limited\n\
             # (io.max of their cgroups) while that is needed to keep the promise.\n#[[protect]]\n";
    let mut add = |name: &str, default: &str, doc: &str| text += &format!("# {doc}\n#{name} = {default}\n");
    protect::OF_PROMISES.iter().for_each(|key| add(key.name, key.default, key.doc));
    text += "\n# Which units may be limited for promises. Nothing is limited that is not named here.\n#[limits]\n";
    let mut add = |name: &str, default: &str, doc: &str| text += &format!("# {doc}\n#{name} = {default}\n");
    protect::OF_LIMITS.iter().for_each(|key| add(key.name, key.default, key.doc));
    text
}
