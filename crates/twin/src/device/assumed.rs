//! An assumed device, where no request was observed to fit one to.

use std::sync::Arc;

use sim::profile::{DeviceProfile, ProfileError};

use super::array::Array;
use super::{flash, hdd};

/// Sectors of a stripe unit of an assumed array: 64 KiB.
const UNIT: u64 = 128;

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub enum AssumedDevice {
    /// Platters and an arm, or an array of such disks.
    Disk(AssumedDisk),
    /// Flash.
    Flash(AssumedFlash),
}

/// A hard disk. Seeks are with a command's overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedDisk {
    /// A turn, in ms.
    pub turn_ms: f64,
    /// A seek over 0.5% of the stroke, in ms.
    pub short_ms: f64,
    /// One over half of it.
    pub long_ms: f64,
    /// Factor on the media rate of a usual disk of its size.
    pub faster: f64,
    /// Overhead of a command, in ms.
    pub overhead_ms: f64,
    /// Segments of its cache.
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
pub struct AssumedFlash {
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

impl AssumedDevice {
    /// The device with this capacity.
    ///
    /// # Errors
    /// The parameters describe no possible device.
    pub fn profile(&self, capacity_sectors: u64) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        match self {
            AssumedDevice::Flash(flash) => flash::assumed(capacity_sectors, flash).folded_to(flash::SMALL_FLASH),
            AssumedDevice::Disk(disk) => {
                let single = hdd::assumed(capacity_sectors, disk);
                let array = disk.array.and_then(|(level, disks)| Array::of(&single, level, disks, UNIT, 0)?.profile());
                match array {
                    Some(array) => Ok(array),
                    None => Ok(single.profile()?.device()),
                }
            }
        }
    }
}
