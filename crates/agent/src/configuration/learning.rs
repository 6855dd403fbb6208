//! `[learning]`: where and when it is learned.

use std::path::PathBuf;

use control::controller::ControllerChoice;
use toml::de::DeTable;

use super::hours::Hours;
use super::keys::{Key, Source, Wrong, find, number, path, text, texts, unknown};

/// The controllers that search.
const SEARCHES: [&str; 4] = ["genetic", "ioperf", "random", "bayes"];
/// A week.
const MOST_MINUTES: i64 = 7 * 24 * 60;

/// Where and when it is learned.
#[derive(Clone, Debug)]
pub struct Learning {
    /// The only file or partition to which is written; nothing is learned if none is named.
    pub scratch: Option<PathBuf>,
    /// In these hours; whenever the device is idle if there are none.
    pub hours: Vec<Hours>,
    /// Idle time of the device before learning begins.
    pub idle_minutes: u32,
    /// The controller that searches.
    pub controller: ControllerChoice,
}

impl Default for Learning {
    fn default() -> Learning {
        let spec = twin::controller::all().find(|spec| spec.name == SEARCHES[0]).unwrap_or(&twin::controller::SPEC);
        let values = spec.tunables.iter().map(|tunable| tunable.default).collect();
        Learning { scratch: None, hours: Vec::new(), idle_minutes: 15, controller: ControllerChoice { spec, values } }
    }
}

/// Puts a value in its place.
type Put = Box<dyn FnOnce(&mut Learning)>;

/// What is said below `[learning]`.
pub(super) const KEYS: &[Key<Put>] = &[
    Key {
        name: "scratch",
        default: "\"/srv/seekwise.scratch\"",
        doc: "The file, or unused partition, that workloads may overwrite. Nothing is learned unless it is named, and the device acts.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |learning| learning.scratch = Some(path)))
        },
    },
    Key {
        name: "hours",
        default: "[\"02:00-05:00\"]",
        doc: "When, in the machine's time: \"02:00-05:00\", \"Sat,Sun 08:00-20:00\". At any time if it is not given.",
        read: |value| {
            let hours = texts(value)?.into_iter().map(str::parse).collect::<Result<Vec<Hours>, String>>()?;
            Ok(Box::new(move |learning| learning.hours = hours))
        },
    },
    Key {
        name: "idle_minutes",
        default: "15",
        doc: "After the device was idle for so long. With 0 the hours alone decide, and it waits for some seconds without work only.",
        read: |value| {
            let minutes = number(value, 0..=MOST_MINUTES)? as u32;
            Ok(Box::new(move |learning| learning.idle_minutes = minutes))
        },
    },
    Key {
        name: "controller",
        default: "\"genetic\"",
        doc: "Which controller searches: genetic, ioperf, random or bayes, with its tunables behind a colon.",
        read: |value| {
            let controller = searching(text(value)?)?;
            Ok(Box::new(move |learning| learning.controller = controller))
        },
    },
];

/// Reads a controller that searches.
///
/// # Errors
/// There is none of this name, or it does not search.
pub fn searching(text: &str) -> Result<ControllerChoice, String> {
    let chosen = twin::controller::parse(text).map_err(|error| error.to_string())?;
    if SEARCHES.contains(&chosen.spec.name) {
        Ok(chosen)
    } else {
        Err(format!("{} does not search; {} do", chosen.spec.name, SEARCHES.join(", ")))
    }
}

impl Learning {
    /// Takes in a table of this name.
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
