//! What a configuration sets, whoever does it.

use linux::topology::Device;

use super::root::{Origin, Root};

/// Who sets something, in the order in which they do at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The kernel's command line.
    CommandLine,
    /// systemd-sysctl, from `sysctl.d`.
    Sysctl,
    /// udev's rules.
    Udev,
    /// systemd-tmpfiles.
    Tmpfiles,
    /// tuned's active profile.
    Tuned,
    /// TLP.
    Tlp,
}

impl Tool {
    /// Why what it sets holds against an earlier tool.
    pub fn why_it_wins(self, loser: Tool) -> String {
        let why = match self {
            Tool::CommandLine => "the kernel reads it first",
            Tool::Sysctl => "sysctl.d is applied after it",
            Tool::Udev => "udev's rules run after it, and again at each change event of the device",
            Tool::Tmpfiles => "tmpfiles.d is applied after it",
            Tool::Tuned => "tuned starts after it",
            Tool::Tlp => "TLP starts after it",
        };
        let again = if loser == Tool::Udev { ", until a change event of the device" } else { "" };
        format!("{why}{again}")
    }
}

/// A setting as a configuration has it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Who sets it.
    pub tool: Tool,
    /// Where that is written.
    pub origin: Origin,
    /// The device; `None` for the whole machine.
    pub device: Option<String>,
    /// As in `scheduler`, `iosched/fifo_batch`, `vm.dirty_ratio`, `elevator`.
    pub key: String,
    /// The value as it is written.
    pub value: String,
    /// Why it does nothing, if that follows from how it is written.
    pub ineffective: Option<String>,
    /// A condition of it that cannot be decided here.
    pub condition: Option<String>,
}

impl Setting {
    /// A setting without conditions.
    pub fn new(tool: Tool, origin: Origin, device: Option<&str>, key: &str, value: &str) -> Setting {
        let (device, key, value) = (device.map(str::to_owned), key.to_owned(), value.to_owned());
        Setting { tool, origin, device, key, value, ineffective: None, condition: None }
    }
}

/// All that was found, each tool's in the order in which it applies it.
#[derive(Debug, Default)]
pub struct Found {
    /// Settings of devices that are there, and of the machine.
    pub settings: Vec<Setting>,
    /// Settings of devices that are not there, with the reason.
    pub unmatched: Vec<(Setting, String)>,
    /// What could not be read or understood, with its place.
    pub warnings: Vec<String>,
}

/// A block device as conditions see it.
pub struct Disk<'a> {
    /// From sysfs.
    pub device: &'a Device,
    /// Where its attributes are.
    pub root: &'a Root,
}

impl Disk<'_> {
    /// Its name, as in `sda`.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Where an attribute is, as in `queue/rotational`.
    pub fn path(&self, attribute: &str) -> String {
        format!("/sys/block/{}/{attribute}", self.name())
    }

    /// An attribute as its file has it; `None` if there is none.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.root.attribute(&self.path(name))
    }

    /// How many hardware queues it has.
    pub fn hardware_queues(&self) -> usize {
        let names = self.root.names(&self.path("mq"));
        names.iter().filter(|name| name.chars().all(|c| c.is_ascii_digit())).count()
    }
}

/// The attribute of a queue that a path names, and the pattern of the devices: `/sys/block/sd*/queue/scheduler`.
pub fn queue_attribute(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/sys/block/").or_else(|| path.strip_prefix("/sys/class/block/"))?;
    let (device, attribute) = rest.split_once('/')?;
    Some((device, attribute_key(attribute)?))
}

/// The key of an attribute of a device that queues or schedules requests; `None` for others.
pub fn attribute_key(attribute: &str) -> Option<&str> {
    match attribute {
        // Two names of one value.
        "bdi/read_ahead_kb" => Some("read_ahead_kb"),
        "device/queue_depth" => Some(attribute),
        _ => attribute.strip_prefix("queue/").filter(|key| !key.is_empty()),
    }
}

/// The key of a sysctl about writing back, swapping and caches, in either spelling, as in `vm.dirty_ratio`; `None` for others.
pub fn sysctl_key(name: &str) -> Option<String> {
    let name = name.replace('/', ".");
    let bare = name.strip_prefix("vm.")?;
    let is_about_disks =
        bare.starts_with("dirty") || matches!(bare, "swappiness" | "vfs_cache_pressure" | "page-cluster" | "laptop_mode");
    is_about_disks.then_some(name)
}
