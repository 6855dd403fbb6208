//! Hypothetical devices, for use without observed requests.

use std::sync::Arc;

use sim::profile::{DeviceProfile, ProfileError};

use super::array::Array;
use super::flash::{self, AssumedFlash};
use super::hdd::{self, AssumedDisk};

/// Stripe unit of an assumed array in sectors: 64 KiB. Choice: within the 16 to 256 KiB of controllers
/// (`research/research/src/devices/array.rs`); not varied.
const UNIT: u64 = 128;

/// A hypothetical device.
#[derive(Clone, Debug, PartialEq)]
pub enum AssumedDevice {
    /// A hard disk, or an array of hard disks.
    Disk(AssumedDisk),
    /// Flash.
    Flash(AssumedFlash),
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
