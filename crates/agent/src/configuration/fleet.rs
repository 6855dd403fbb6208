//! `[fleet]`: the server for sharing outcomes, and participation in its rollouts.

use std::path::{Path, PathBuf};

use knowledge::Knowledge;
use toml::de::DeTable;

use super::key::{Key, Source, Wrong, find, number, path, text, unknown};

/// Settings of `[fleet]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// Address of the server; `None`: sharing is off and no connection is made.
    pub server: Option<PathBuf>,
    /// File with the password; `None`: no password.
    pub password_file: Option<PathBuf>,
    /// Minutes between exchanges.
    pub exchange_minutes: u32,
    /// Whether devices with mode = "act" participate in rollouts.
    pub rollouts: bool,
}

impl Default for FleetSettings {
    fn default() -> FleetSettings {
        FleetSettings { server: None, password_file: None, exchange_minutes: 10, rollouts: false }
    }
}

/// Stores a parsed value in the configuration.
type Put = Box<dyn FnOnce(&mut FleetSettings)>;

/// Keys of `[fleet]`. Choice: declared once for the parser, its errors and the reference; not varied.
pub(super) const KEYS: &[Key<Put>] = &[
    Key {
        name: "server",
        default: "\"postgresql://agent@10.0.0.5/fleet\"",
        doc: "Address of the PostgreSQL server. Default: none, so that nothing is shared and no connection is made.",
        read: |value| {
            let server = PathBuf::from(text(value)?);
            if !Knowledge::is_server(&server) {
                return Err("should begin with postgresql://, as in \"postgresql://agent@10.0.0.5/fleet\"".to_owned());
            }
            Ok(Box::new(move |fleet| fleet.server = Some(server)))
        },
    },
    Key {
        name: "password_file",
        default: "\"/run/credentials/seekwise-agent.service/fleet\"",
        doc: "File with the password, where one is needed. The address may hold it, too, but other users can read this file.",
        read: |value| {
            let path = path(value)?;
            Ok(Box::new(move |fleet| fleet.password_file = Some(path)))
        },
    },
    Key {
        name: "exchange_minutes",
        default: "10",
        doc: "Minutes between exchanges with the server.",
        read: |value| {
            let minutes = number(value, 1..=1440)? as u32;
            Ok(Box::new(move |fleet| fleet.exchange_minutes = minutes))
        },
    },
    Key {
        name: "rollouts",
        default: "false",
        doc: "Whether devices with mode = \"act\" take part in the server's rollouts of settings.",
        read: |value| {
            let rollouts = value.as_bool().ok_or("should be true or false")?;
            Ok(Box::new(move |fleet| fleet.rollouts = rollouts))
        },
    },
];

impl FleetSettings {
    /// Merges the table `[fleet]` of a file.
    pub(super) fn add(&mut self, source: &Source, table: &DeTable) -> Result<(), Wrong> {
        for (name, value) in table {
            let key: &str = name.get_ref();
            let Some(found) = find(KEYS, key) else {
                let known = KEYS.iter().map(|key| key.name);
                return Err((source.line(name.span().start), format!("fleet: {}", unknown(key, known))));
            };
            source.read(found, name, value)?(self);
        }
        Ok(())
    }

    /// Reads the password, without the trailing newline; `None` if no file is configured.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn password(&self) -> Result<Option<String>, String> {
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(self.password_file.as_deref().map(read).transpose()?.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}
