//! `[learning]`: where and when learning mode runs.

use std::path::PathBuf;

use control::controller::ControllerChoice;
use toml::de::DeTable;

use super::hours::Hours;
use super::key::{Key, Source, Wrong, find, number, path, text, texts, unknown};

/// The search controllers. Derived: the searches of `control::search`; the first is the default.
const SEARCHES: [&str; 4] = ["genetic", "ioperf", "random", "bayes"];
/// Maximum idle time in minutes: a week. Choice: refuses a device that would never be idle enough; not varied.
const MOST_MINUTES: i64 = 7 * 24 * 60;

/// Where and when learning mode runs.
#[derive(Clone, Debug)]
pub struct Learning {
    /// The scratch file or partition, the only one that is written to; `None`: learning mode is off.
    pub scratch: Option<PathBuf>,
    /// Hours in which learning mode may run; empty: any time.
    pub hours: Vec<Hours>,
    /// Minutes that the device must have been idle before learning mode starts.
    pub idle_minutes: u32,
    /// The search controller.
    pub controller: ControllerChoice,
}

impl Default for Learning {
    fn default() -> Learning {
        let spec = twin::controller::all().find(|spec| spec.name == SEARCHES[0]).unwrap_or(&twin::controller::SPEC);
        let values = spec.tunables.iter().map(|tunable| tunable.default).collect();
        Learning { scratch: None, hours: Vec::new(), idle_minutes: 15, controller: ControllerChoice { spec, values } }
    }
}

/// Stores a parsed value in the configuration.
type Put = Box<dyn FnOnce(&mut Learning)>;

/// Keys of `[learning]`. Choice: declared once for the parser, its errors and the reference; not varied.
pub(super) const KEYS: &[Key<Put>] = &[
    Key {
        name: "scratch",
        default: "\"/srv/seekwise.scratch\"",
        doc: "File or unused partition that workloads may overwrite. Learning mode requires it, and mode = \"act\" of its device.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |learning| learning.scratch = Some(path)))
        },
    },
    Key {
        name: "hours",
        default: "[\"02:00-05:00\"]",
        doc: "Hours in local time: \"02:00-05:00\", \"Sat,Sun 08:00-20:00\". Default: any time.",
        read: |value| {
            let hours = texts(value)?.into_iter().map(str::parse).collect::<Result<Vec<Hours>, String>>()?;
            Ok(Box::new(move |learning| learning.hours = hours))
        },
    },
    Key {
        name: "idle_minutes",
        default: "15",
        doc: "Minutes that the device must be idle before learning mode starts. 0: only the hours and a few idle seconds are required.",
        read: |value| {
            let minutes = number(value, 0..=MOST_MINUTES)? as u32;
            Ok(Box::new(move |learning| learning.idle_minutes = minutes))
        },
    },
    Key {
        name: "controller",
        default: "\"genetic\"",
        doc: "The search controller: genetic, ioperf, random or bayes, with its tunables after a colon.",
        read: |value| {
            let controller = searching(text(value)?)?;
            Ok(Box::new(move |learning| learning.controller = controller))
        },
    },
];

/// Parses a search controller with its tunables, as in `random:trials=4`.
///
/// # Errors
/// There is no such controller, or it is not a search controller.
pub fn searching(text: &str) -> Result<ControllerChoice, String> {
    let chosen = twin::controller::parse(text).map_err(|error| error.to_string())?;
    if SEARCHES.contains(&chosen.spec.name) {
        Ok(chosen)
    } else {
        Err(format!("{} is not a search controller; known: {}", chosen.spec.name, SEARCHES.join(", ")))
    }
}

impl Learning {
    /// Merges the table `[learning]` of a file.
    pub(super) fn add(&mut self, source: &Source, table: &DeTable) -> Result<(), Wrong> {
        for (name, value) in table {
            let key: &str = name.get_ref();
            let Some(found) = find(KEYS, key) else {
                let known = KEYS.iter().map(|key| key.name);
                return Err((source.line(name.span().start), format!("learning: {}", unknown(key, known))));
            };
            source.read(found, name, value)?(self);
        }
        Ok(())
    }
}
