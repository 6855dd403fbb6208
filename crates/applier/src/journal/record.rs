//! One attribute of one device: what it was, what it is, and what it may be if the process was killed in between.

use serde::{Deserialize, Serialize};

use crate::attribute::MACHINE;
use crate::sysfs::{Files, Sysfs, SysfsError};

/// The only version so far.
const SCHEMA: u32 = 1;

/// Which device it is. The kernel remembers no settings over a boot, or once a device is gone: what is of another boot or device is void.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The kernel's id of the boot.
    pub boot: String,
    /// The kernel's name, or [`MACHINE`].
    pub name: String,
    /// What the drive says of itself: its world-wide name, its serial number or the like; empty if it says nothing.
    pub says: String,
    /// The kernel's number of the device or its medium since boot; `None` where a new medium keeps the settings, as in a loop device.
    pub sequence: Option<u64>,
}

/// What drives say of themselves, the surest first: below `/sys/block/*`.
const SAYS: [&str; 7] = ["wwid", "device/wwid", "device/serial", "serial", "device/cid", "dm/uuid", "md/uuid"];

impl Identity {
    /// Of the device of this name. `None` if there is none.
    ///
    /// # Errors
    /// The kernel does not say which boot this is, so that nothing could be told from what was before.
    pub fn of(files: &dyn Files, sysfs: &Sysfs, name: &str) -> Result<Option<Identity>, SysfsError> {
        let boot = files.read(&sysfs.boot_id()).map_err(|error| SysfsError::reading(&sysfs.boot_id(), error))?;
        let identity = Identity { boot, name: name.to_owned(), ..Identity::default() };
        if name == MACHINE {
            return Ok(Some(identity));
        }
        let folder = sysfs.block(name);
        if files.names(&folder).is_err() {
            return Ok(None);
        }
        let says = SAYS.iter().find_map(|file| files.read(&folder.join(file)).ok().filter(|text| !text.is_empty()));
        let changes = name.starts_with("loop") || files.read(&folder.join("removable")).is_ok_and(|text| text == "1");
        let sequence = if changes { None } else { files.read(&folder.join("diskseq")).ok().and_then(|text| text.parse().ok()) };
        Ok(Some(Identity { says: says.unwrap_or_default(), sequence, ..identity }))
    }
}

/// Whether settings are restored when the agent ends or is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtExit {
    /// What was there before comes back, also after a crash.
    #[default]
    Restore,
    /// They stay until `restore` or a restart of the machine.
    Keep,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the format.
    pub schema: u32,
    /// The device.
    pub device: Identity,
    /// The attribute's name.
    pub attribute: String,
    /// Whose tunable it is, if it is a scheduler's.
    pub scheduler: Option<String>,
    /// The value before the agent's. `None` if it was not there: a tunable of a scheduler that the agent selected.
    pub original: Option<String>,
    /// What was read after the agent, or the kernel because of it, changed it last; `None` if it is not there now.
    pub ours: Option<String>,
    /// What is being written just now: if the process was killed, the attribute may be this, what it was, or what the kernel sets by
    /// itself.
    pub pending: Option<String>,
    /// It was not in the journal before what is pending.
    pub fresh: bool,
    /// The agent has stood down after an external change: it is neither set nor restored.
    pub released: bool,
    /// Why it was changed last.
    pub why: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// Whether it is restored when the agent ends.
    pub at_exit: AtExit,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            schema: SCHEMA,
            device: Identity::default(),
            attribute: String::new(),
            scheduler: None,
            original: None,
            ours: None,
            pending: None,
            fresh: false,
            released: false,
            why: String::new(),
            unix_seconds: 0,
            at_exit: AtExit::default(),
        }
    }
}

impl Record {
    /// As a line, with its check.
    pub(super) fn line(&self) -> String {
        // Strings, numbers and flags can always be written.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
    }

    /// From a line without its end. Says what is wrong with it.
    pub(super) fn parse(line: &[u8]) -> Result<Record, String> {
        let text = std::str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
        let (check, json) = text.split_once(' ').ok_or_else(|| format!("is {text:?}; a check and a record are wanted"))?;
        if u32::from_str_radix(check, 16) != Ok(crc32fast::hash(json.as_bytes())) {
            return Err("its check does not match: it is damaged, or was edited by hand".to_owned());
        }
        let schema = serde_json::from_str::<Schema>(json).map_err(|error| error.to_string())?.schema;
        if schema != SCHEMA {
            return Err(format!("is of version {schema}, which another version of this program wrote; {SCHEMA} is understood"));
        }
        serde_json::from_str(json).map_err(|error| error.to_string())
    }
}

/// What every version has.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}
