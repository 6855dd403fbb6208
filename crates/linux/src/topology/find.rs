//! Finds a device by a name or path given by the user.

use std::fs;
use std::path::Path;

use super::{Device, TopologyError, devices, stacks};
use applier::sysfs::Sysfs;

/// The whole disk for a path such as `/dev/sda`, `/dev/disk/by-id/…` or `/dev/mapper/home`, or a name such as `sda`; and the partition, if
/// the path is one.
///
/// # Errors
/// There is no such device; the error lists the existing ones.
pub fn find(sysfs: &Sysfs, given: &str) -> Result<(Device, Option<String>), TopologyError> {
    let dev = sysfs.dev();
    let is_path = given.contains('/');
    let target = if is_path { fs::canonicalize(given).ok() } else { Some(dev.join(given)) };
    // Devices in subfolders of /dev have a ! in sysfs in place of the /, for example cciss!c0d0.
    let root = fs::canonicalize(&dev).unwrap_or_else(|_| dev.clone());
    let inside = |target: &Path| {
        let inner = target.strip_prefix(&root).or_else(|_| target.strip_prefix(&dev)).ok()?;
        Some(inner.to_str()?.replace('/', "!"))
    };
    let name = target.as_deref().and_then(inside);
    let devices = devices(sysfs)?;
    let found = name.and_then(|name| {
        let whole = devices.iter().find(|device| device.name == name);
        let part = || devices.iter().find(|device| device.partitions.iter().any(|partition| partition.name == name));
        whole.map(|device| (device.clone(), None)).or_else(|| Some((part()?.clone(), Some(name.clone()))))
    });
    found.ok_or_else(|| TopologyError::NoDevice {
        given: given.to_owned(),
        candidates: devices.iter().filter(|device| device.size_sectors > 0).map(|device| format!("/dev/{}", device.name)).collect(),
    })
}

/// Kernel name of the device whose queue the requests for device `number` go through.
///
/// # Errors
/// There is no such block device, or its requests do not go through exactly one queue.
pub fn queue_of(sysfs: &Sysfs, number: (u32, u32)) -> Result<String, String> {
    let devices = devices(sysfs).map_err(|error| error.to_string())?;
    let is_it = |device: &&Device| device.number == number || device.partitions.iter().any(|part| part.number == number);
    let Some(device) = devices.iter().find(is_it) else {
        let (major, minor) = number;
        return Err(format!(
            "is on a filesystem without a single block device ({major}:{minor}); btrfs, overlay, tmpfs and network filesystems are not \
             supported"
        ));
    };
    let queues = stacks(&devices).into_iter().find(|stack| stack.devices.contains(&device.name)).map(|stack| stack.queues);
    match queues.unwrap_or_default().as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("is on {}, which has no queue to tune", device.name)),
        several => Err(format!(
            "is on {}, which consists of several devices ({}); a single one is required",
            device.name,
            several.join(", ")
        )),
    }
}
