//! Advice as files that other programs read: a rule for udev, a profile for tuned, a file for sysctl.d.

use control::Setting;
use experiment::advice::udev;
use report::printable;

use super::Piece;

/// The attributes of a setting, in the order in which they are written: the scheduler, its tunables that differ from their
/// defaults, the queue's; and those of the machine by their names for sysctl.
struct Attributes {
    queue: Vec<(String, String)>,
    machine: Vec<(String, i64)>,
}

fn attributes(piece: &Piece) -> Option<Attributes> {
    let setting = Setting::parse(&piece.setting).ok().filter(|_| piece.is_change)?;
    let mut queue = vec![("scheduler".to_owned(), setting.spec.name.to_owned())];
    let tunables = setting.spec.tunables.iter().zip(&setting.values);
    queue.extend(
        tunables
            .filter(|(tunable, value)| tunable.default != **value)
            .map(|(tunable, value)| (format!("iosched/{}", tunable.name), value.to_string())),
    );
    let is_of_machine = |name: &str| applier::attribute::find(&format!("vm/{name}")).is_some();
    queue.extend(
        setting.host.iter().filter(|(name, _)| !is_of_machine(name)).map(|(name, value)| (name.clone(), value.to_string())),
    );
    let machine = setting.host.into_iter().filter(|(name, _)| is_of_machine(name));
    Some(Attributes { queue, machine: machine.map(|(name, value)| (format!("vm.{name}"), value)).collect() })
}

/// The lines above each file.
fn head(piece: &Piece, place: &str, takes: &str) -> String {
    let gain = match (piece.gain_percent, piece.error_percent) {
        (Some(gain), Some(error)) => format!(", which promises {}", report::gains::with_error(gain, error)),
        _ => String::new(),
    };
    let (setting, in_force, id) = (&piece.setting, &piece.in_force, &piece.id);
    let head = format!("# Advice {id}: {setting} instead of {in_force}{gain}.\n# Put it into {place}, then: {takes}\n");
    head.lines().map(|line| printable(line) + "\n").collect()
}

/// Text of a file without settings.
fn nothing(piece: &Piece) -> String {
    format!("# Advice {}: {}\n", piece.id, printable(&piece.why))
}

/// A rule for udev.
pub fn udev(piece: &Piece) -> String {
    let Some(attributes) = attributes(piece) else { return nothing(piece) };
    let head =
        head(piece, "/etc/udev/rules.d/60-seekwise.rules", "udevadm control --reload; udevadm trigger --subsystem-match=block");
    let condition = udev::condition(&piece.device, piece.wwid.as_deref());
    let paths = attributes.queue.into_iter().map(|(name, value)| (format!("queue/{name}"), value));
    format!("{head}{}\n", udev::rule(&condition, paths))
}

/// A profile for tuned.
pub fn tuned(piece: &Piece) -> String {
    let Some(attributes) = attributes(piece) else { return nothing(piece) };
    let mut text = head(piece, "/etc/tuned/profiles/seekwise/tuned.conf", "tuned-adm profile seekwise");
    text += "[main]\nsummary=Recommendation of seekwise-agent for this machine's disk\n";
    // A profile that includes nothing would undo everything else of the active one.
    text += "# include=the active profile, as `tuned-adm active` names it\n";
    text += &format!("\n[seekwise_{}]\ntype=disk\ndevices={}\n", plain(&piece.device), piece.device);
    let (elevator, others) = attributes.queue.split_at(1);
    elevator.iter().for_each(|(_, value)| text += &format!("elevator={value}\n"));
    if !others.is_empty() {
        text += "\n[sysfs]\n";
        others.iter().for_each(|(name, value)| text += &format!("/sys/block/{}/queue/{name}={value}\n", piece.device));
    }
    if !attributes.machine.is_empty() {
        text += "\n[sysctl]\n";
        attributes.machine.iter().for_each(|(name, value)| text += &format!("{name}={value}\n"));
    }
    text
}

/// A section's name may have letters, digits and underlines.
fn plain(device: &str) -> String {
    device.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// A file for sysctl.d: machine-wide settings only.
pub fn sysctl(piece: &Piece) -> String {
    let Some(attributes) = attributes(piece) else { return nothing(piece) };
    let head = head(piece, "/etc/sysctl.d/60-seekwise.conf", "sysctl --system");
    if attributes.machine.is_empty() {
        let rest = "# All of it is of the device, which sysctl cannot set: --as udev has it.\n";
        return head + rest;
    }
    head + &attributes.machine.iter().map(|(name, value)| format!("{name} = {value}\n")).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advised(setting: &str, device: &str, wwid: Option<&str>) -> Piece {
        let is_change = setting != "mq-deadline";
        Piece {
            id: "sda-12345678".to_owned(),
            device: device.to_owned(),
            wwid: wwid.map(str::to_owned),
            in_force: "mq-deadline".to_owned(),
            setting: setting.to_owned(),
            is_change,
            why: "Leave mq-deadline alone: nothing is sure to be better.".to_owned(),
            gain_percent: is_change.then_some(25.0),
            error_percent: is_change.then_some(5.0),
            advice: empty(),
        }
    }

    fn empty() -> report::advice::Advice {
        report::advice::Advice {
            schema: report::record::SCHEMA,
            kind: report::record::Kind::Advise,
            seekwise_version: String::new(),
            load: String::new(),
            source: String::new(),
            is_simulated: false,
            requests: 0,
            lasts_s: 0.0,
            busy_s: 0.0,
            in_force: String::new(),
            preference: String::new(),
            verdict: report::advice::Verdict { setting: String::new(), is_change: false, text: String::new(), cost: Vec::new() },
            overload: None,
            aims: Vec::new(),
            effects: Vec::new(),
            candidates: Vec::new(),
            measured: Vec::new(),
            phases: Vec::new(),
            device: Vec::new(),
            sure: Vec::new(),
            udev: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_rule_names_the_device_so_that_it_is_found_after_a_reboot() {
        let rule = udev(&advised("mq-deadline:read_expire=100,fifo_batch=1", "sda", Some("naa.5000c500a1b2c3d4")));
        let last = rule.lines().last().unwrap_or_default();
        assert_eq!(
            last,
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", KERNEL==\"sd*\", ATTRS{wwid}==\"naa.5000c500a1b2c3d4\", ATTR{queue/scheduler}=\"mq-deadline\", ATTR{queue/iosched/read_expire}=\"100\", ATTR{queue/iosched/fifo_batch}=\"1\""
        );
        assert!(
            rule.starts_with("# Advice sda-12345678: mq-deadline:read_expire=100,fifo_batch=1 instead of mq-deadline"),
            "{rule}"
        );
        assert!(udev(&advised("bfq", "nvme0n1", None)).contains("KERNEL==\"nvme0n1\""));
        assert!(!udev(&advised("bfq", "sda", Some("a\" RUN+=\"rm"))).contains("\" RUN+="));
    }

    #[test]
    fn a_profile_sets_the_scheduler_by_its_plugin_and_the_rest_by_path() {
        let profile = tuned(&advised("bfq:slice_idle=0 read_ahead_kb=512 swappiness=10", "dm-0", None));
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
    fn sysctl_gets_what_is_of_the_machine_and_nothing_else() {
        let file = sysctl(&advised("bfq swappiness=10", "sda", None));
        assert!(file.ends_with("vm.swappiness = 10\n") && !file.contains("\nbfq"), "{file}");
        assert!(sysctl(&advised("bfq", "sda", None)).contains("--as udev has it"));
    }

    #[test]
    fn where_nothing_is_to_be_changed_every_file_says_so() {
        for file in [udev, tuned, sysctl] {
            let text = file(&advised("mq-deadline", "sda", None));
            assert_eq!(text, "# Advice sda-12345678: Leave mq-deadline alone: nothing is sure to be better.\n");
        }
    }
}
