//! Which block devices there are, how they stand on each other, and which of them is tuned.
//!
//! ```text
//!  vg-home  vg-root      top: the page cache reads ahead as the device says on which the filesystem is
//!      \    /
//!       md0              no queue of its own: what comes in is passed on at once
//!      /    \
//!    sda    sdb          leaves with a queue: here requests wait, and a scheduler has a choice; all of one stack are treated alike
//! ```
//! Linux names what stands on a device, or on a partition of it, in its folder `holders`, and what a device stands on in `slaves`.

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
pub use read::wwid;
pub use stack::{Stack, stacks};

/// A whole block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name in `/sys/block`, as in `sda`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The kernel's count of media: another one under the same name and number has another count. 0 where the kernel (before 5.15) does
    /// not count.
    pub sequence: u64,
    /// What kind it is.
    pub kind: Kind,
    /// What its maker or owner calls it: a model, the name of a volume, the file behind a loop device.
    pub model: Option<String>,
    /// Its size in 512-byte sectors.
    pub size_sectors: u64,
    /// Whether the kernel takes it for a disk that turns.
    pub rotational: bool,
    /// Its partitions, in order of their sectors.
    pub partitions: Vec<Partition>,
    /// Devices that stand on it or on one of its partitions.
    pub holders: Vec<String>,
    /// Devices that it stands on: whole disks, also where it is a partition of one.
    pub below: Vec<String>,
    /// Whether requests queue here: what has no queue passes them on at once, and has no scheduler.
    pub has_queue: bool,
    /// Why it is left alone unless asked for, as a sentence about it: `is read-only`.
    pub left_alone: Option<String>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name, as in `sda1`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Its first sector on the disk.
    pub start: u64,
    /// Its size in 512-byte sectors.
    pub sectors: u64,
    /// Devices that stand on it.
    pub holders: Vec<String>,
}

/// What a device is, by its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// Why the block devices are not known.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file of sysfs cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of sysfs says what this program does not understand.
    #[error("{}: is {value}, not {expected}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What it says.
        value: String,
        /// What it should say.
        expected: &'static str,
    },
    /// There is no such block device.
    #[error("{given}: is no block device; there are {}", candidates.join(", "))]
    NoDevice {
        /// What was given.
        given: String,
        /// The whole disks there are, as in `/dev/sda`, without those that hold nothing.
        candidates: Vec<String>,
    },
}

/// All whole block devices, in order of their names. What comes or goes meanwhile may be among them or not.
///
/// # Errors
/// `/sys/block` cannot be read, or says what is not understood.
pub fn devices(sysfs: &Sysfs) -> Result<Vec<Device>, TopologyError> {
    read::devices(sysfs)
}

/// What came and went from one look at the devices to the next: the names of those that are new, and of those that are gone. One that was
/// replaced by another is both.
pub fn changes<'a>(before: &'a [Device], after: &'a [Device]) -> (Vec<&'a str>, Vec<&'a str>) {
    let lacks = |devices: &[Device], one: &Device| !devices.iter().any(|other| other.is_same(one));
    let names = |of: &'a [Device], but: &[Device]| of.iter().filter(|one| lacks(but, one)).map(|one| one.name.as_str()).collect();
    (names(after, before), names(before, after))
}

impl Device {
    /// Whether this is the very same device, and not another one that has come under its name.
    pub fn is_same(&self, other: &Device) -> bool {
        (&self.name, self.number, self.sequence) == (&other.name, other.number, other.sequence)
    }
}
