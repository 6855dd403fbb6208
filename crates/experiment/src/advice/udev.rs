//! The one writer of udev rules: of advice for a disk that is not on this machine, for a device that was watched, and of the agent.

/// Name in rules of a disk that is not known.
pub const ANY_DISK: &str = "sdX";

/// A rule that writes attributes of a disk when it appears or changes: `attributes` are paths below its folder in `/sys/block` with their
/// values, in the order of writing. Without `DEVTYPE` the rule of a world-wide name would also match the partitions, whose attributes
/// udev cannot write.
pub fn rule(condition: &str, attributes: impl IntoIterator<Item = (String, String)>) -> String {
    let mut rule = format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {condition}");
    for (path, value) in attributes {
        rule += &format!(", ATTR{{{path}}}=\"{value}\"");
    }
    rule
}

/// The condition of a rule for a device: its world-wide name, which does not change between boots as kernel names may; without one, its
/// kernel name.
pub fn condition(device: &str, wwid: Option<&str>) -> String {
    let Some(wwid) = wwid else { return format!("KERNEL==\"{}\"", quoted(device)) };
    // A virtual disk has a serial number; for others the world-wide name is an attribute of the device or of a parent.
    let attribute = if device.starts_with("vd") { "ATTR{serial}" } else { "ATTRS{wwid}" };
    format!("KERNEL==\"{}*\", {attribute}==\"{}\"", letters(device), quoted(wwid))
}

/// Text for a rule: pattern characters and quotation marks are replaced by `?`.
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
    use super::*;

    #[test]
    fn a_rule_matches_the_disk_and_not_its_partitions_by_the_name_that_survives_a_boot() {
        let of = |device, wwid, attributes: &[(&str, &str)]| {
            rule(&condition(device, wwid), attributes.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())))
        };
        let begins = "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"";
        let (scheduler, batch) = (("queue/scheduler", "mq-deadline"), ("queue/iosched/fifo_batch", "1"));
        for (device, wwid, attributes, expected) in [
            (ANY_DISK, None, &[scheduler][..], "KERNEL==\"sdX\", ATTR{queue/scheduler}=\"mq-deadline\""),
            (
                "sdb",
                Some("naa.5000c500a1b2c3d4"),
                &[scheduler, batch],
                "KERNEL==\"sd*\", ATTRS{wwid}==\"naa.5000c500a1b2c3d4\", ATTR{queue/scheduler}=\"mq-deadline\", \
                 ATTR{queue/iosched/fifo_batch}=\"1\"",
            ),
            ("nvme0n1", Some("eui.0025385b61500d3a"), &[], "KERNEL==\"nvme*\", ATTRS{wwid}==\"eui.0025385b61500d3a\""),
            ("vda", Some("disk-1"), &[], "KERNEL==\"vd*\", ATTR{serial}==\"disk-1\""),
            ("dm-0", None, &[("queue/read_ahead_kb", "512")], "KERNEL==\"dm-0\", ATTR{queue/read_ahead_kb}=\"512\""),
            ("sda", Some("a\" RUN+=\"rm"), &[], "KERNEL==\"sd*\", ATTRS{wwid}==\"a? RUN+=?rm\""),
        ] {
            assert_eq!(of(device, wwid, attributes), format!("{begins}, {expected}"));
        }
    }
}
