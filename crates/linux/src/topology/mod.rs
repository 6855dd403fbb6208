//! The block devices of a machine, how they are stacked, and which of them are tuned.
//!
//! ```text
//!  vg-home  vg-root      top: the page cache takes the read-ahead of the device with the filesystem
//!      \    /
//!       md0              no queue of its own: requests are passed on at once
//!      /    \
//!    sda    sdb          leaves with a queue: requests wait here for a scheduler; all leaves of a stack have the same setting
//! ```
//! Linux lists the devices on top of a device, or of a partition of it, in its folder `holders`, and those below it in `slaves`.

mod find;
mod hotplug;
mod read;
mod stack;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use applier::sysfs::Sysfs;

pub use find::{find, queue_of};
pub use hotplug::HotPlug;
pub use stack::{Stack, stacks};

/// A whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name in `/sys/block`, for example `sda`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The kernel's sequence number of the disk: another device or medium under the same name and number has another one. 0 if the kernel
    /// has none (before 5.15).
    pub sequence: u64,
    /// The kind of device.
    pub kind: DriverKind,
    /// The model, name of the volume, or file behind a loop device; `None` if there is none.
    pub model: Option<String>,
    /// Capacity in 512-byte sectors.
    pub size_sectors: u64,
    /// Whether the kernel reports a rotational disk.
    pub rotational: bool,
    /// Partitions, in order of their sectors.
    pub partitions: Vec<Partition>,
    /// Devices on top of it or of one of its partitions.
    pub holders: Vec<String>,
    /// Devices below it: the whole disks, even if it uses a partition.
    pub below: Vec<String>,
    /// Whether requests queue here: a device without a queue passes them on at once, and has no scheduler.
    pub has_queue: bool,
    /// Whether its writes must arrive in order: then no request has it tuned. Some schedulers would reorder them, and its users get errors.
    pub is_zoned: bool,
    /// Why it is not tuned unless requested, as a predicate: `is read-only`. `None` if it is tuned.
    pub left_alone: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name, for example `sda1`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// First sector on the disk.
    pub start: u64,
    /// Size in 512-byte sectors.
    pub sectors: u64,
    /// Devices on top of it.
    pub holders: Vec<String>,
}

/// The kind of a device, by its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// SCSI, SATA and USB disks (`sd`).
    Scsi,
    /// An NVMe namespace.
    Nvme,
    /// A disk of a virtual machine (`virtio_blk`, Xen).
    Virtual,
    /// An SD card or eMMC.
    Mmc,
    /// A CD, DVD or floppy drive.
    Removable,
    /// A file as a device.
    Loop,
    /// A device over the network or from user space (`nbd`, `rbd`, `ublk`).
    Remote,
    /// The device mapper: LVM, encryption, multipath.
    DeviceMapper,
    /// Software RAID.
    Md,
    /// Memory (`zram`, `brd`, `pmem`).
    Memory,
    /// Something else.
    Other,
}

/// Why the block devices could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file of sysfs cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of sysfs has an unexpected value.
    #[error("{}: is {value}, not {expected}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The value.
        value: String,
        /// The expected value.
        expected: &'static str,
    },
    /// There is no such block device.
    #[error("{given}: is no block device; there are {}", candidates.join(", "))]
    NoDevice {
        /// The name or path given.
        given: String,
        /// The whole disks of the machine as paths, for example `/dev/sda`, without empty ones.
        candidates: Vec<String>,
    },
}

/// All whole block devices, in order of their names. Devices added or removed meanwhile may be missing or included.
///
/// # Errors
/// `/sys/block` cannot be read, or has an unexpected value.
pub fn devices(sysfs: &Sysfs) -> Result<Vec<Device>, TopologyError> {
    read::devices(sysfs)
}

/// The names of devices that were added, and of those that were removed, between two listings. A replaced device is in both.
pub fn changes<'a>(before: &'a [Device], after: &'a [Device]) -> (Vec<&'a str>, Vec<&'a str>) {
    let lacks = |devices: &[Device], one: &Device| !devices.iter().any(|other| other.is_same(one));
    let names = |of: &'a [Device], but: &[Device]| of.iter().filter(|one| lacks(but, one)).map(|one| one.name.as_str()).collect();
    (names(after, before), names(before, after))
}

impl Device {
    /// Whether this is the same device, and not another one under its name.
    pub fn is_same(&self, other: &Device) -> bool {
        (&self.name, self.number, self.sequence) == (&other.name, other.number, other.sequence)
    }
}
