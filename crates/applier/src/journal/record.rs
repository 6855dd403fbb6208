//! A record of one attribute of one device: its original value, its current value, and a pending one if the process was killed while
//! writing it.

use serde::{Deserialize, Serialize};

use crate::attribute::MACHINE;
use crate::sysfs::{Files, Sysfs, SysfsError};

/// Version of the format.
const SCHEMA: u32 = 1;

/// Identifies a device. Settings are reset by a reboot or when a device is removed, so records of another boot or device are void.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The kernel's id of the boot.
    pub boot: String,
    /// The kernel's name, or [`MACHINE`].
    pub name: String,
    /// World-wide name, serial number or the like from the drive; empty if it has none.
    pub says: String,
    /// The kernel's sequence number of the device or medium since boot; `None` if settings survive a change of the medium, as for a loop
    /// device.
    pub sequence: Option<u64>,
    /// That number if settings survive a change of the medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<u64>,
    /// The kernel's number of the device's folder in sysfs, which another device of that name does not have; `None` if an earlier version
    /// wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<u64>,
}

/// Whether a record is of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// It is.
    Same,
    /// It is of another medium in the device, as of the file that a loop device had before.
    OtherMedium,
    /// It is of another device of that name, which is gone.
    Other,
}

/// Files below `/sys/block/*` that identify a drive, the most reliable first.
const SAYS: [&str; 7] = ["wwid", "device/wwid", "device/serial", "serial", "device/cid", "dm/uuid", "md/uuid"];

impl Identity {
    /// The identity of the device with this name; `None` if there is none.
    ///
    /// # Errors
    /// The id of the boot cannot be read, so earlier records could not be matched.
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
        let diskseq = files.read(&folder.join("diskseq")).ok().and_then(|text| text.parse().ok());
        let (sequence, medium) = if changes { (None, diskseq) } else { (diskseq, None) };
        let folder = files.folder_number(&folder, "queue").ok();
        Ok(Some(Identity { says: says.unwrap_or_default(), sequence, medium, folder, ..identity }))
    }

    /// Whether a record with this identity is of the device that has the name now.
    pub fn compare(&self, now: &Identity) -> Match {
        let differ = |one: Option<u64>, other: Option<u64>| one.is_some() && other.is_some() && one != other;
        let is_named_alike = (&self.boot, &self.name, &self.says, self.sequence) == (&now.boot, &now.name, &now.says, now.sequence);
        if !is_named_alike || differ(self.folder, now.folder) {
            Match::Other
        } else if differ(self.medium, now.medium) {
            Match::OtherMedium
        } else {
            Match::Same
        }
    }
}

/// Whether settings are restored when the agent ends or is killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtExit {
    /// The original values are restored, also after a crash.
    #[default]
    Restore,
    /// They stay until `restore` or a restart of the machine.
    Keep,
}

/// The record of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The version of the format.
    pub schema: u32,
    /// The device.
    pub device: Identity,
    /// The attribute's name.
    pub attribute: String,
    /// The scheduler that owns the attribute; `None` if it is not a scheduler's tunable.
    pub scheduler: Option<String>,
    /// The original value. `None` if the attribute did not exist: a tunable of a scheduler that the agent selected.
    pub original: Option<String>,
    /// The value read after the last change by the agent, or by the kernel as its side effect; `None` if the attribute does not exist now.
    pub ours: Option<String>,
    /// A value that is being written: if the process was killed, the attribute has this value, the previous one, or one that the kernel set
    /// as a side effect.
    pub pending: Option<String>,
    /// Whether it was added to the journal for the pending change.
    pub fresh: bool,
    /// Whether the agent has stood down after an external change: the attribute is neither set nor restored.
    pub released: bool,
    /// The value that a client said the agent had wanted when it reported an external change that the applier did not find: the attribute
    /// had the value that the agent had set. Such a report stops the agent and forgets no original.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<String>,
    /// Reason of the last change.
    pub why: String,
    /// Time of the last change, in seconds since 1970.
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
            claimed: None,
            why: String::new(),
            unix_seconds: 0,
            at_exit: AtExit::default(),
        }
    }
}

impl Record {
    /// Converts to a line with its checksum.
    pub(super) fn line(&self) -> String {
        // Strings, numbers and flags can always be serialized.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
    }

    /// Parses a line without its line break. The error describes the damage.
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

/// The field that all versions have.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}
