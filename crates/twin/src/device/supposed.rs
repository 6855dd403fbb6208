//! A device that is supposed where no request was seen to fit one to.

use std::sync::Arc;

use sim::profile::{DeviceProfile, ProfileError};

use super::array::Array;
use super::{flash, hdd};

/// Sectors of a stripe unit of a supposed array: 64 KiB.
const UNIT: u64 = 128;

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub enum SupposedDevice {
    /// Platters and an arm, or an array of such disks.
    Disk(SupposedDisk),
    /// Flash.
    Flash(SupposedFlash),
}

/// A hard disk. Seeks are with a command's overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct SupposedDisk {
    /// A turn, in ms.
    pub turn_ms: f64,
    /// A seek over 0.5% of the stroke, in ms.
    pub short_ms: f64,
    /// One over half of it.
    pub long_ms: f64,
    /// Its media are so many times as fast as those of a usual disk of its size.
    pub faster: f64,
    /// What a command takes beside arm and media, in ms.
    pub overhead_ms: f64,
    /// Runs of reads that it keeps apart.
    pub segments: u32,
    /// Whether it reports writes early.
    pub write_cache: bool,
    /// Requests that it takes at once.
    pub depth: u32,
    /// Whether it serves them in another order.
    pub reorders: bool,
    /// Level and disks, if it is an array of such disks.
    pub array: Option<(u32, usize)>,
}

/// Flash. Times are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct SupposedFlash {
    /// Of reading a page.
    pub read_us: f64,
    /// Of programming one.
    pub program_us: f64,
    /// Of a command.
    pub overhead_us: f64,
    /// Dies that work at once.
    pub dies: u32,
    /// Pages of the write buffer; 0: there is none.
    pub buffer_pages: u32,
    /// Whether its link is faster than SATA's.
    pub is_on_pcie: bool,
    /// Requests that it takes at once.
    pub depth: u32,
}

impl SupposedDevice {
    /// The device, with so many 512-byte sectors.
    ///
    /// # Errors
    /// There can be no such device.
    pub fn profile(&self, capacity_sectors: u64) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        match self {
            SupposedDevice::Flash(flash) => flash::supposed(capacity_sectors, flash).folded_to(flash::SMALL_FLASH),
            SupposedDevice::Disk(disk) => {
                let single = hdd::supposed(capacity_sectors, disk);
                let array = disk.array.and_then(|(level, disks)| Array::of(&single, level, disks, UNIT, 0)?.profile());
                match array {
                    Some(array) => Ok(array),
                    None => Ok(single.profile()?.device()),
                }
            }
        }
    }
}
