//! Advice as a udev rule for one device.

use applier::sysfs::Sysfs;

use crate::topology::wwid;

/// The placeholder for the device in the rules of advice.
const ANY: &str = "KERNEL==\"sdX\"";

/// The condition of a udev rule for a device: its world-wide name, which does not change between boots as kernel names may; without one,
/// its kernel name.
pub fn condition(device: &str, wwid: Option<&str>) -> String {
    let Some(wwid) = wwid else { return format!("KERNEL==\"{}\"", quoted(device)) };
    // A virtual disk has a serial number; for others the world-wide name is an attribute of the device or of a parent.
    let attribute = if device.starts_with("vd") { "ATTR{serial}" } else { "ATTRS{wwid}" };
    format!("KERNEL==\"{}*\", {attribute}==\"{}\"", letters(device), quoted(wwid))
}

/// Replaces the placeholder in the lines of a rule by this device.
pub(super) fn name_device(sysfs: &Sysfs, device: &str, rule: &mut [String]) {
    let condition = condition(device, wwid(sysfs, device).as_deref());
    for line in rule {
        *line = line.replace(ANY, &condition).replace(", with the disk's name for sdX:", ":").replace("sdX", device);
    }
}

/// Text for a udev rule: pattern characters and quotation marks are replaced by `?`.
fn quoted(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '"' | '*' | '?' | '[' | ']' | '\\' | '|') { '?' } else { c }).collect()
}

/// The driver's part of a kernel name: `sd` of `sda`, `nvme` of `nvme0n1`.
fn letters(device: &str) -> &str {
    let end = device.find(|c: char| c.is_ascii_digit()).unwrap_or(device.len());
    if device.starts_with("sd") || device.starts_with("vd") { &device[..2] } else { &device[..end] }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_rule_of_advice_names_the_device_that_was_watched() {
        let folder = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(folder.path());
        std::fs::create_dir_all(sysfs.block("sdb").join("device")).unwrap();
        std::fs::write(sysfs.block("sdb").join("device/wwid"), "naa.5000c500a1b2c3d4\n").unwrap();
        let lines = || {
            let comment = "# /etc/udev/rules.d/60-seekwise.rules, with the disk's name for sdX:".to_owned();
            [comment, "ACTION==\"add|change\", KERNEL==\"sdX\", ATTR{queue/scheduler}=\"bfq\"".to_owned()]
        };
        let (mut by_wwid, mut by_name) = (lines(), lines());
        name_device(&sysfs, "sdb", &mut by_wwid);
        name_device(&sysfs, "sdc", &mut by_name);
        assert_eq!(by_wwid[0], "# /etc/udev/rules.d/60-seekwise.rules:");
        let condition = "KERNEL==\"sd*\", ATTRS{wwid}==\"naa.5000c500a1b2c3d4\"";
        assert_eq!(by_wwid[1], format!("ACTION==\"add|change\", {condition}, ATTR{{queue/scheduler}}=\"bfq\""));
        assert!(by_name[1].contains("KERNEL==\"sdc\", ATTR"), "{by_name:?}");
    }

    #[test]
    fn a_device_is_named_by_what_stays_the_same_after_the_next_boot() {
        for (device, wwid, expected) in [
            ("sdb", Some("naa.5000c500a1b2c3d4"), "KERNEL==\"sd*\", ATTRS{wwid}==\"naa.5000c500a1b2c3d4\""),
            ("nvme0n1", Some("eui.0025385b61500d3a"), "KERNEL==\"nvme*\", ATTRS{wwid}==\"eui.0025385b61500d3a\""),
            ("vda", Some("disk-1"), "KERNEL==\"vd*\", ATTR{serial}==\"disk-1\""),
            ("sdb", None, "KERNEL==\"sdb\""),
            ("sda", Some("a\" RUN+=\"rm"), "KERNEL==\"sd*\", ATTRS{wwid}==\"a? RUN+=?rm\""),
        ] {
            assert_eq!(condition(device, wwid), expected);
        }
    }
}
