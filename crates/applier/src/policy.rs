//! The applier's part of the agent's configuration: the socket, whether the machine's attributes may be set, and which cgroups may be
//! limited.
//!
//! All other keys belong to the agent, which checks them when it starts. The files are found according to the UAPI group's configuration
//! files specification:
//!
//! | | vendor | runtime | administrator |
//! |---|---|---|---|
//! | file | `/usr/lib/seekwise/agent.toml` | `/run/seekwise/agent.toml` | `/etc/seekwise/agent.toml` |
//! | drop-ins | `/usr/lib/seekwise/agent.toml.d/*.conf` | `/run/…` | `/etc/…` |
//!
//! The main file furthest to the right is read; then all drop-ins in the order of their names. A drop-in further to the right replaces
//! others with the same name. A link to `/dev/null` is an empty file, so it disables the files that it replaces.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::attribute::MACHINE_PREFIX;
use crate::cgroup::Allowed;
use crate::journal::AtExit;
use crate::pattern::Pattern;
use crate::sysfs::Sysfs;

/// From the vendor to the administrator.
const FOLDERS: [&str; 3] = ["usr/lib/seekwise", "run/seekwise", "etc/seekwise"];
const FILE: &str = "agent.toml";
/// The default of `floor_mb_s`: a command that reads its program and libraries, some 10 MB, still starts within seconds.
pub const FLOOR_MB_S: u64 = 2;
const MB: u64 = 1_000_000;

/// The location of the configuration.
#[derive(Clone, Debug)]
pub enum Sources {
    /// The paths of the specification below this folder: `/`, or a test's.
    Below(PathBuf),
    /// Only this file.
    Only(PathBuf),
}

impl Sources {
    /// The files to read, in this order.
    ///
    /// # Errors
    /// A folder of drop-ins cannot be listed, or the only file is missing.
    pub fn files(&self) -> Result<Vec<PathBuf>, Unreadable> {
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

/// The drop-ins of a folder by name; empty if there is no folder.
fn listed(folder: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>, Unreadable> {
    let unreadable = |error| Unreadable { path: folder.to_owned(), error };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
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

/// A file or folder that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    /// The file or folder.
    pub path: PathBuf,
    /// The cause.
    pub error: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for Unreadable {}

/// The applier's part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Path of the socket [default: `/run/seekwise/applier.sock`].
    pub socket: PathBuf,
    /// Whether the machine's attributes may be set [default: no]: if any `attributes` names one of them, for example `vm/swappiness`.
    pub may_touch_machine: bool,
    /// Which cgroups may be limited [default: none].
    pub cgroups: Allowed,
    /// What becomes of settings at the end.
    pub exits: Exits,
}

/// `exit` for all devices and of each `[[device]]`, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    for_all: AtExit,
    of_devices: Vec<(Selector, AtExit)>,
}

impl Exits {
    /// What becomes of this device's settings: as the last `[[device]]` that matches it and has the key says, else as for all.
    pub fn of(&self, sysfs: &Sysfs, device: &str) -> AtExit {
        let (model, wwid) = (sysfs.model(device).unwrap_or_default(), sysfs.wwid(device).unwrap_or_default());
        let mut from_last = self.of_devices.iter().rev();
        from_last.find(|(selector, _)| selector.matches(device, &model, &wwid)).map_or(self.for_all, |(_, exit)| *exit)
    }
}

/// The patterns of a `[[device]]`: all that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Selector {
    /// Of the kernel's name.
    pub name: Option<Pattern>,
    /// Of the model.
    pub model: Option<Pattern>,
    /// Of the world-wide name.
    pub wwid: Option<Pattern>,
}

impl Selector {
    /// Whether a device with these properties matches; one that is not known is empty.
    pub fn matches(&self, name: &str, model: &str, wwid: &str) -> bool {
        let each = [(&self.name, name), (&self.model, model), (&self.wwid, wwid)];
        each.into_iter().all(|(pattern, text)| pattern.as_ref().is_none_or(|pattern| pattern.matches(text)))
    }
}

/// The keys of a file that the applier uses.
#[derive(Deserialize)]
struct Keys {
    applier_socket: Option<PathBuf>,
    attributes: Option<Vec<String>>,
    exit: Option<AtExit>,
    #[serde(default)]
    device: Vec<DeviceKeys>,
    #[serde(default)]
    limits: LimitKeys,
}

/// The keys of `[limits]`.
#[derive(Default, Deserialize)]
struct LimitKeys {
    neighbours: Option<Vec<String>>,
    floor_mb_s: Option<u64>,
    io_cost: Option<bool>,
}

/// The keys of a `[[device]]`.
#[derive(Deserialize)]
struct DeviceKeys {
    #[serde(default)]
    attributes: Vec<String>,
    exit: Option<AtExit>,
    name: Option<Pattern>,
    model: Option<Pattern>,
    wwid: Option<Pattern>,
}

impl Policy {
    /// Reads the files in order. Of `attributes` for all devices the last file's apply; those of a `[[device]]` are added.
    ///
    /// # Errors
    /// The text names the file, and if possible the line: it cannot be read, is not TOML, or a value has the wrong type.
    pub fn load(sources: &Sources) -> Result<Policy, String> {
        let mut socket = PathBuf::from("/run/seekwise/applier.sock");
        let (mut for_all, mut for_some) = (false, false);
        let mut exits = Exits::default();
        let mut cgroups = Allowed { floor_bytes_per_s: FLOOR_MB_S * MB, ..Allowed::default() };
        let of_machine = |attributes: &[String]| attributes.iter().any(|pattern| pattern.starts_with(MACHINE_PREFIX));
        for path in sources.files().map_err(|error| error.to_string())? {
            let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
            let keys: Keys = basic_toml::from_str(&text).map_err(|error| wrong(&error))?;
            if let Some(given) = keys.applier_socket {
                if !given.is_absolute() {
                    let reason = "should be an absolute path, as in \"/run/seekwise/applier.sock\"";
                    return Err(wrong(&format_args!("applier_socket = {given:?}: {reason}")));
                }
                socket = given;
            }
            if let Some(attributes) = keys.attributes {
                for_all = of_machine(&attributes);
            }
            let LimitKeys { neighbours, floor_mb_s, io_cost } = keys.limits;
            if let Some(names) = neighbours {
                let check = |name: &String| {
                    Allowed::check(name).map_err(|reason| wrong(&format_args!("limits: neighbours: {name:?} {reason}")))
                };
                names.iter().try_for_each(check)?;
                cgroups.names = names;
            }
            cgroups.floor_bytes_per_s = floor_mb_s.map_or(cgroups.floor_bytes_per_s, |floor| floor.saturating_mul(MB));
            cgroups.io_cost = io_cost.unwrap_or(cgroups.io_cost);
            exits.for_all = keys.exit.unwrap_or(exits.for_all);
            for_some |= keys.device.iter().any(|device| of_machine(&device.attributes));
            let of_devices = keys
                .device
                .into_iter()
                .filter_map(|DeviceKeys { exit, name, model, wwid, .. }| exit.map(|exit| (Selector { name, model, wwid }, exit)));
            exits.of_devices.extend(of_devices);
        }
        Ok(Policy { socket, may_touch_machine: for_all || for_some, cgroups, exits })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::fs;

    use super::*;

    /// The policy from these files below a root, or the error without the root's path.
    fn load(files: &[(&str, &str)]) -> Result<Policy, String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let policy = Policy::load(&Sources::Below(root.path().to_owned()));
        policy.map_err(|error| error.replace(&root.path().display().to_string(), ""))
    }

    #[test]
    fn without_a_file_it_listens_at_the_usual_place_and_leaves_the_machine_alone() {
        let cgroups = Allowed { floor_bytes_per_s: 2_000_000, ..Allowed::default() };
        let usual = Policy {
            socket: PathBuf::from("/run/seekwise/applier.sock"),
            may_touch_machine: false,
            cgroups,
            exits: Exits::default(),
        };
        assert_eq!(load(&[]).unwrap(), usual);
        assert_eq!(
            load(&[("etc/seekwise/agent.toml", "mode = \"act\"\nattributes = [\"*\"]\n[learning]\nload = 1")]).unwrap(),
            usual
        );
    }

    #[test]
    fn the_machines_settings_are_allowed_by_name_for_all_or_for_some_devices() {
        let may = |files: &[(&str, &str)]| load(files).unwrap().may_touch_machine;
        let named = "attributes = [\"scheduler\", \"vm/swappiness\"]";
        assert!(may(&[("usr/lib/seekwise/agent.toml", named)]));
        assert!(!may(&[
            ("usr/lib/seekwise/agent.toml", named),
            ("etc/seekwise/agent.toml.d/1.conf", "attributes = [\"scheduler\"]")
        ]));
        assert!(may(&[("etc/seekwise/agent.toml.d/1.conf", "[[device]]\nname = \"sd*\"\nattributes = [\"vm/*\"]")]));
    }

    #[test]
    fn cgroups_may_be_limited_that_the_last_file_names() {
        let cgroups = |files: &[(&str, &str)]| load(files).unwrap().cgroups;
        let vendor = ("usr/lib/seekwise/agent.toml", "[limits]\nneighbours = [\"user.slice\"]\nfloor_mb_s = 1\nio_cost = true");
        assert_eq!(
            cgroups(&[vendor]),
            Allowed { names: vec!["user.slice".to_owned()], io_cost: true, floor_bytes_per_s: 1_000_000 }
        );
        let own = cgroups(&[vendor, ("etc/seekwise/agent.toml.d/1.conf", "[limits]\nneighbours = [\"backup.service\"]")]);
        assert_eq!((own.names.join(" "), own.floor_bytes_per_s), ("backup.service".to_owned(), 1_000_000));
        let error = load(&[("etc/seekwise/agent.toml", "[limits]\nneighbours = [\"../a\"]")]).unwrap_err();
        assert!(error.starts_with("/etc/seekwise/agent.toml: limits: neighbours: \"../a\" should be a unit, as in"), "{error}");
    }

    #[test]
    fn the_last_device_section_that_matches_decides_on_its_exit() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        for (device, model) in [("sda", "ST4000DM004\n"), ("sdb", "WD40\n")] {
            fs::create_dir_all(sysfs.block(device).join("device")).unwrap();
            fs::write(sysfs.block(device).join("device/model"), model).unwrap();
        }
        let of = |text: &str| {
            let exits = load(&[("etc/seekwise/agent.toml", text)]).unwrap().exits;
            ["sda", "sdb"].map(|device| exits.of(&sysfs, device) == AtExit::Keep)
        };
        assert_eq!(of(""), [false, false]);
        assert_eq!(of("exit = \"keep\""), [true, true]);
        assert_eq!(of("[[device]]\nmodel = \"ST*\"\nexit = \"keep\"\n"), [true, false]);
        assert_eq!(
            of("exit = \"keep\"\n[[device]]\nname = \"sda\"\nexit = \"restore\"\n[[device]]\nname = \"sd*\"\n"),
            [false, true]
        );
        assert!(load(&[("etc/seekwise/agent.toml", "exit = \"stay\"")]).unwrap_err().contains("stay"));
    }

    #[test]
    fn errors_name_file_and_reason() {
        let error = load(&[("etc/seekwise/agent.toml", "applier_socket = \"here\"")]).unwrap_err();
        assert!(error.starts_with("/etc/seekwise/agent.toml: applier_socket = \"here\": should be an absolute path"), "{error}");
        let error = load(&[("etc/seekwise/agent.toml", "mode = \"act\"\nattributes =")]).unwrap_err();
        assert!(error.starts_with("/etc/seekwise/agent.toml: ") && error.contains("line 2"), "{error}");
    }
}
