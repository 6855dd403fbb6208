//! What is said of a device to others: its kind, its model and its firmware, as its maker names them. Never what its owner chose.

use applier::sysfs::Sysfs;
use control::fleet::DeviceType;
use linux::topology::{Device, Kind};

/// Vendors of software targets, whose "model" is a name that an administrator gave.
const NAMED_BY_OWNERS: [&str; 5] = ["LIO-ORG", "SCST_BIO", "SCST_FIO", "IET", "FreeNAS"];
/// Letters that are kept of a text.
const MAX_LETTERS: usize = 64;

/// The type of a device.
pub fn device_type(sysfs: &Sysfs, device: &Device) -> DeviceType {
    let folder = sysfs.block(&device.name).join("device");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map(|text| tidy(&text)).unwrap_or_default();
    let is_named_by_maker =
        matches!(device.kind, Kind::Scsi | Kind::Nvme | Kind::Mmc) && !NAMED_BY_OWNERS.contains(&read("vendor").as_str());
    let media = if device.rotational { "rotational" } else { "solid state" };
    let kind = match device.kind {
        Kind::Scsi => "scsi",
        Kind::Nvme => "nvme",
        Kind::Virtual => "virtual",
        Kind::Mmc => "mmc",
        Kind::Removable => "removable",
        Kind::Loop => "loop",
        Kind::Remote => "remote",
        Kind::DeviceMapper => "device mapper",
        Kind::Md => "md",
        Kind::Memory => "memory",
        Kind::Other => "other",
    };
    let mut known = DeviceType { kind: format!("{kind}, {media}"), ..DeviceType::default() };
    if is_named_by_maker {
        known.model = device.model.as_deref().map(tidy).unwrap_or_default();
        known.firmware = ["firmware_rev", "rev", "fwrev"].map(read).into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    }
    known
}

/// Printable letters of one line.
fn tidy(text: &str) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(MAX_LETTERS).collect()
}
