//! Advice as files that other programs read, besides the rule for udev: a profile for tuned, a file for sysctl.d.

use control::Setting;
use report::advice::Advice;
use report::printable;

use super::linux::{Attributes, SYSCTL_FILE};

/// Path of the profile.
const PROFILE: &str = "/etc/tuned/profiles/seekwise/tuned.conf";

/// The attributes of the recommended setting, or the file that says why there are none: nothing is to be changed, or Linux has no such
/// scheduler.
fn attributes(advice: &Advice) -> Result<Attributes, String> {
    let verdict = format!("# {}\n", printable(&advice.verdict.text));
    let Some(setting) = Setting::parse(&advice.verdict.setting).ok().filter(|_| advice.verdict.is_change) else {
        return Err(verdict);
    };
    match block::linux_name(setting.spec.name) {
        Some(_) => Ok(Attributes::of(&setting)),
        None => Err(format!("{verdict}# Linux has no {}: --as udev names the best that it has.\n", setting.spec.name)),
    }
}

/// The lines above a file's content.
fn head(advice: &Advice, path: &str, command: &str) -> String {
    format!("# {}\n# Put this into {path}, then: {command}\n", printable(&advice.verdict.text))
}

/// A profile for tuned. `device`: the kernel name of the disk.
pub fn tuned(advice: &Advice, device: &str) -> String {
    let attributes = match attributes(advice) {
        Ok(attributes) => attributes,
        Err(nothing) => return nothing,
    };
    let mut text = head(advice, PROFILE, "tuned-adm profile seekwise");
    text += "[main]\nsummary=Recommendation of seekwise for this machine's disk\n";
    // A profile that includes nothing undoes the rest of the active one.
    text += "# include=the active profile, as `tuned-adm active` names it\n";
    text += &format!("\n[seekwise_{}]\ntype=disk\ndevices={device}\n", section(device));
    // tuned's disk plugin sets the scheduler; it has no option for a scheduler's tunables.
    let (elevator, others) = attributes.queue.split_at(1);
    elevator.iter().for_each(|(_, value)| text += &format!("elevator={value}\n"));
    if !others.is_empty() {
        text += "\n[sysfs]\n";
        others.iter().for_each(|(path, value)| text += &format!("/sys/block/{device}/{path}={value}\n"));
    }
    if !attributes.memory.is_empty() {
        text += "\n[sysctl]\n";
        attributes.memory.iter().for_each(|(name, value)| text += &format!("vm.{name}={value}\n"));
    }
    text
}

/// A device's name as part of a section's name, which has letters, digits and underlines only.
fn section(device: &str) -> String {
    device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A file for sysctl.d: the settings of the machine only.
pub fn sysctl(advice: &Advice) -> String {
    let attributes = match attributes(advice) {
        Ok(attributes) => attributes,
        Err(nothing) => return nothing,
    };
    let head = head(advice, SYSCTL_FILE, "sysctl --system");
    if attributes.memory.is_empty() {
        return head + "# All of it is a setting of the disk, which sysctl cannot write: --as udev has it.\n";
    }
    head + &attributes.memory.iter().map(|(name, value)| format!("vm.{name} = {value}\n")).collect::<String>()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::advice::text::nothing_known;

    fn advised(setting: &str) -> Advice {
        let active = Setting::parse("mq-deadline").unwrap();
        let mut advice = nothing_known(String::new(), String::new(), 0.0, (&active, ""));
        advice.verdict = report::advice::Verdict {
            setting: setting.to_owned(),
            is_change: setting != active.to_string(),
            text: format!("Use {setting}."),
            cost: Vec::new(),
        };
        advice
    }

    #[test]
    fn a_profile_sets_the_scheduler_by_its_plugin_and_the_rest_by_path() {
        let profile = tuned(&advised("bfq:slice_idle=0 read_ahead_kb=512 swappiness=10"), "dm-0");
        for line in [
            "[main]",
            "[seekwise_dm_0]",
            "devices=dm-0",
            "elevator=bfq",
            "/sys/block/dm-0/queue/iosched/slice_idle=0",
            "/sys/block/dm-0/queue/read_ahead_kb=512",
            "vm.swappiness=10",
        ] {
            assert!(profile.lines().any(|one| one == line), "{line} is missing in\n{profile}");
        }
    }

    #[test]
    fn sysctl_has_the_settings_of_the_machine_only() {
        let file = sysctl(&advised("bfq swappiness=10"));
        assert!(file.ends_with("vm.swappiness = 10\n") && !file.contains("\nbfq"), "{file}");
        assert!(sysctl(&advised("bfq")).contains("--as udev has it"));
    }

    #[test]
    fn a_file_without_settings_says_why() {
        let unchanged = advised("mq-deadline");
        let absent = advised("cfq");
        for file in [|advice: &Advice| tuned(advice, "sda"), sysctl] {
            assert_eq!(file(&unchanged), "# Use mq-deadline.\n");
            assert_eq!(file(&absent), "# Use cfq.\n# Linux has no cfq: --as udev names the best that it has.\n");
        }
    }
}
