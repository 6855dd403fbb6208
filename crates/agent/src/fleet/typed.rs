//! The device type that is shared with other machines: kind, model and firmware, as named by the manufacturer. Names chosen by the owner are
//! never shared.

use applier::sysfs::Sysfs;
use control::fleet::DeviceType;
use linux::topology::{Device, DriverKind};

/// Vendors of software targets, whose model name is set by an administrator. Source: the INQUIRY vendors of LIO (`drivers/target`), SCST,
/// IET and FreeNAS.
const NAMED_BY_OWNERS: [&str; 5] = ["LIO-ORG", "SCST_BIO", "SCST_FIO", "IET", "FreeNAS"];
/// Maximum characters of a name. Choice: bounds the size of a row; NVMe has the longest names, of 40 characters; not varied.
const MAX_LETTERS: usize = 64;

/// The type of a device.
pub fn device_type(sysfs: &Sysfs, device: &Device) -> DeviceType {
    let folder = sysfs.block(&device.name).join("device");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).map(|text| tidy(&text)).unwrap_or_default();
    let is_named_by_maker = matches!(device.kind, DriverKind::Scsi | DriverKind::Nvme | DriverKind::Mmc)
        && !NAMED_BY_OWNERS.contains(&read("vendor").as_str());
    let media = if device.rotational { "rotational" } else { "solid state" };
    let kind = match device.kind {
        DriverKind::Scsi => "scsi",
        DriverKind::Nvme => "nvme",
        DriverKind::Virtual => "virtual",
        DriverKind::Mmc => "mmc",
        DriverKind::Removable => "removable",
        DriverKind::Loop => "loop",
        DriverKind::Remote => "remote",
        DriverKind::DeviceMapper => "device mapper",
        DriverKind::Md => "md",
        DriverKind::Memory => "memory",
        DriverKind::Other => "other",
    };
    let mut known = DeviceType { kind: format!("{kind}, {media}"), ..DeviceType::default() };
    if is_named_by_maker {
        known.model = device.model.as_deref().map(tidy).unwrap_or_default();
        known.firmware = ["firmware_rev", "rev", "fwrev"].map(read).into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    }
    known
}

/// Trims a text and removes control characters.
fn tidy(text: &str) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(MAX_LETTERS).collect()
}
