//! Settings found in configurations, and the tools that apply them.

use linux::topology::Device;

use super::root::{Origin, Root};

/// Tools that apply settings, in the order of booting.
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
    /// Why its settings take precedence over those of earlier tools.
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

/// A setting in a configuration.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The tool that applies it.
    pub tool: Tool,
    /// File and line.
    pub origin: Origin,
    /// The device; `None` for the whole machine.
    pub device: Option<String>,
    /// Name, such as `scheduler`, `iosched/fifo_batch`, `vm.dirty_ratio`, `elevator`.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Why it has no effect, if that follows from its text alone.
    pub ineffective: Option<String>,
    /// A condition that cannot be evaluated here.
    pub condition: Option<String>,
}

impl Setting {
    /// A setting without conditions.
    pub fn new(tool: Tool, origin: Origin, device: Option<&str>, key: &str, value: &str) -> Setting {
        let (device, key, value) = (device.map(str::to_owned), key.to_owned(), value.to_owned());
        Setting { tool, origin, device, key, value, ineffective: None, condition: None }
    }
}

/// All settings found, in the order in which each tool applies them.
#[derive(Debug, Default)]
pub struct Found {
    /// Settings of existing devices, and of the machine.
    pub settings: Vec<Setting>,
    /// Settings of missing devices, with the reason.
    pub unmatched: Vec<(Setting, String)>,
    /// Files and lines that could not be read or parsed.
    pub warnings: Vec<String>,
}

/// A block device, for evaluating conditions.
pub struct Disk<'a> {
    /// The device in sysfs.
    pub device: &'a Device,
    /// Folder of its attributes.
    pub root: &'a Root,
}

impl Disk<'_> {
    /// Kernel name, such as `sda`.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Path of an attribute, such as `queue/rotational`.
    pub fn path(&self, attribute: &str) -> String {
        format!("/sys/block/{}/{attribute}", self.name())
    }

    /// Value of an attribute; `None` if it does not exist.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.root.attribute(&self.path(name))
    }

    /// Number of hardware queues.
    pub fn hardware_queues(&self) -> usize {
        let names = self.root.names(&self.path("mq"));
        names.iter().filter(|name| name.chars().all(|c| c.is_ascii_digit())).count()
    }
}

/// Splits a path such as `/sys/block/sd*/queue/scheduler` into queue attribute and device pattern; `None` for other paths.
pub fn queue_attribute(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/sys/block/").or_else(|| path.strip_prefix("/sys/class/block/"))?;
    let (device, attribute) = rest.split_once('/')?;
    Some((device, attribute_key(attribute)?))
}

/// Key of a device attribute about queueing or scheduling; `None` for other attributes.
pub fn attribute_key(attribute: &str) -> Option<&str> {
    match attribute {
        // Two names of one value.
        "bdi/read_ahead_kb" => Some("read_ahead_kb"),
        "device/queue_depth" => Some(attribute),
        _ => attribute.strip_prefix("queue/").filter(|key| !key.is_empty()),
    }
}

/// Key of a sysctl about write-back, swapping or caches, such as `vm.dirty_ratio`, in either spelling; `None` for others.
pub fn sysctl_key(name: &str) -> Option<String> {
    let name = name.replace('/', ".");
    let bare = name.strip_prefix("vm.")?;
    let is_about_disks =
        bare.starts_with("dirty") || matches!(bare, "swappiness" | "vfs_cache_pressure" | "page-cluster" | "laptop_mode");
    is_about_disks.then_some(name)
}
