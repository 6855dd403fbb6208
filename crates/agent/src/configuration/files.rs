//! Where the configuration is, after the UAPI group's configuration files specification.
//!
//! | | vendor | runtime | administrator |
//! |---|---|---|---|
//! | file | `/usr/lib/seekwise/agent.toml` | `/run/seekwise/agent.toml` | `/etc/seekwise/agent.toml` |
//! | drop-ins | `/usr/lib/seekwise/agent.toml.d/*.conf` | `/run/…` | `/etc/…` |
//!
//! The one file furthest to the right is read, and then all drop-ins in the order of their names; one further to the right takes the
//! place of its namesakes. A link to `/dev/null` is an empty file, so it switches off what it takes the place of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ConfigurationError;

/// From the vendor's to the administrator's.
const FOLDERS: [&str; 3] = ["usr/lib/seekwise", "run/seekwise", "etc/seekwise"];
const FILE: &str = "agent.toml";

/// Where to look.
#[derive(Clone, Debug)]
pub enum Sources {
    /// Where the specification says, below this folder: `/`, or a test's.
    Below(PathBuf),
    /// This file and nothing else.
    Only(PathBuf),
}

impl Sources {
    /// The files to read, in this order.
    ///
    /// # Errors
    /// A folder of drop-ins cannot be listed, or the only file is not there.
    pub fn files(&self) -> Result<Vec<PathBuf>, ConfigurationError> {
        let root = match self {
            Sources::Only(file) => return Ok(vec![file.clone()]),
            Sources::Below(root) => root,
        };
        let folders = || FOLDERS.iter().map(|folder| root.join(folder));
        let main = folders().rev().map(|folder| folder.join(FILE)).find(|file| file.exists());
        let mut drop_ins = BTreeMap::new();
        for folder in folders().map(|folder| folder.join(format!("{FILE}.d"))) {
            drop_ins.extend(listed(&folder)?);
        }
        Ok(main.into_iter().chain(drop_ins.into_values()).collect())
    }
}

/// The drop-ins of a folder by their names; none if there is no folder.
fn listed(folder: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>, ConfigurationError> {
    let unreadable = |error| ConfigurationError::Unreadable { path: folder.to_owned(), error };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        if entry.path().extension().is_some_and(|extension| extension == "conf") {
            found.push((entry.file_name(), entry.path()));
        }
    }
    Ok(found)
}
