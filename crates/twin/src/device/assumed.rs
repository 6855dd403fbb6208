//! Hypothetical devices, for use without observed requests.

use std::sync::Arc;

use sim::profile::{DeviceProfile, ProfileError};

use super::array::Array;
use super::{flash, hdd};

/// Stripe unit of an assumed array in sectors: 64 KiB.
const UNIT: u64 = 128;

/// A hypothetical device.
#[derive(Clone, Debug, PartialEq)]
pub enum AssumedDevice {
    /// A hard disk, or an array of hard disks.
    Disk(AssumedDisk),
    /// Flash.
    Flash(AssumedFlash),
}

/// A hard disk. Seek times include the command overhead.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedDisk {
    /// Rotation time, in ms.
    pub turn_ms: f64,
    /// Seek time over 0.5% of the stroke, in ms.
    pub short_ms: f64,
    /// Seek time over half of the stroke, in ms.
    pub long_ms: f64,
    /// Factor on the media rate of a default disk of its size.
    pub faster: f64,
    /// Command overhead, in ms.
    pub overhead_ms: f64,
    /// Number of cache segments.
    pub segments: u32,
    /// Whether it reports writes before they reach the media.
    pub write_cache: bool,
    /// Queue depth.
    pub depth: u32,
    /// Whether it reorders queued requests.
    pub reorders: bool,
    /// RAID level and number of disks; `None` for a single disk.
    pub array: Option<(u32, usize)>,
}

/// Flash. Times are in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedFlash {
    /// Page read time.
    pub read_us: f64,
    /// Page program time.
    pub program_us: f64,
    /// Command overhead.
    pub overhead_us: f64,
    /// Number of dies.
    pub dies: u32,
    /// Write buffer in pages; 0 for none.
    pub buffer_pages: u32,
    /// Whether its link is faster than SATA.
    pub is_on_pcie: bool,
    /// Queue depth.
    pub depth: u32,
}

impl AssumedDevice {
    /// The profile of the device with this capacity.
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
