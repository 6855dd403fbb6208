//! Advice as a udev rule for one device.

use applier::sysfs::Sysfs;
use experiment::advice::udev::{ANY_DISK, condition};

/// Replaces the unknown disk in the lines of a rule by this device.
pub(super) fn name_device(sysfs: &Sysfs, device: &str, rule: &mut [String]) {
    let (any, condition) = (condition(ANY_DISK, None), condition(device, sysfs.wwid(device).as_deref()));
    for line in rule {
        *line = line
            .replace(&any, &condition)
            .replace(&format!(", with the disk's name for {ANY_DISK}:"), ":")
            .replace(ANY_DISK, device);
    }
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
            let attributes = [("queue/scheduler".to_owned(), "bfq".to_owned())];
            [comment, experiment::advice::udev::rule(&condition(ANY_DISK, None), attributes)]
        };
        let (mut by_wwid, mut by_name) = (lines(), lines());
        name_device(&sysfs, "sdb", &mut by_wwid);
        name_device(&sysfs, "sdc", &mut by_name);
        assert_eq!(by_wwid[0], "# /etc/udev/rules.d/60-seekwise.rules:");
        let named = "ENV{DEVTYPE}==\"disk\", KERNEL==\"sd*\", ATTRS{wwid}==\"naa.5000c500a1b2c3d4\", ATTR{queue/scheduler}=\"bfq\"";
        assert!(by_wwid[1].ends_with(named), "{by_wwid:?}");
        assert!(by_name[1].contains("KERNEL==\"sdc\", ATTR"), "{by_name:?}");
    }
}
