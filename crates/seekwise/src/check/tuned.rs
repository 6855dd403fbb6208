//! The active profile of tuned, with those that it includes (tuned.conf(5), and the plugins disk, sysctl, sysfs and vm).
//!
//! An included profile comes first; in a section with the same name each key is replaced, or with `replace=1` the whole section.

use super::pattern::matches;
use super::root::{Origin, Root, Text};
use super::setting::{Disk, Found, Setting, Tool, queue_attribute, sysctl_key};

const ACTIVE: &str = "/etc/tuned/active_profile";
/// Folders of profiles, in order of precedence.
const FOLDERS: &[&str] = &["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// Maximum number of profiles, which bounds cycles of includes.
const MAX_PROFILES: usize = 64;

struct Value {
    key: String,
    value: String,
    origin: Origin,
    /// Location of the section that replaces it in an including profile; `None` if the value is effective.
    replaced: Option<Origin>,
}

#[derive(Default)]
struct Section {
    name: String,
    values: Vec<Value>,
}

impl Section {
    /// The effective value of a key.
    fn get(&self, key: &str) -> Option<&str> {
        self.values.iter().rev().find(|value| value.key == key && value.replaced.is_none()).map(|value| value.value.as_str())
    }

    /// The plugin of the section.
    fn kind(&self) -> &str {
        self.get("type").unwrap_or(&self.name)
    }

    fn is_for(&self, disk: &str) -> bool {
        let Some(devices) = self.get("devices") else { return true };
        let patterns = || devices.split([',', ';', ' ']).map(str::trim).filter(|pattern| !pattern.is_empty());
        let is_excluded = patterns().filter_map(|pattern| pattern.strip_prefix('!')).any(|pattern| matches(pattern, disk));
        let mut wanted = patterns().filter(|pattern| !pattern.starts_with('!')).peekable();
        !is_excluded && (wanted.peek().is_none() || wanted.any(|pattern| matches(pattern, disk)))
    }
}

/// Collects the settings of the active profile.
pub fn read(root: &Root, disks: &[Disk], found: &mut Found) {
    let Some(active) = root.read(ACTIVE, &mut found.warnings) else { return };
    let (mut sections, mut read) = (Vec::new(), Vec::new());
    for name in active.text.split_whitespace() {
        profile(root, name, &format!("{ACTIVE}:1"), (&mut sections, &mut read), &mut found.warnings);
    }
    sections.iter().for_each(|section| add(section, disks, found));
}

/// Merges the sections of a profile into those of the profiles that it includes.
fn profile(root: &Root, name: &str, named_by: &str, so_far: (&mut Vec<Section>, &mut Vec<String>), warnings: &mut Vec<String>) {
    let (sections, read) = so_far;
    if read.iter().any(|known| known == name) || read.len() >= MAX_PROFILES {
        return;
    }
    read.push(name.to_owned());
    let is_name = !name.contains('/') && !name.starts_with('.');
    let text = is_name.then(|| FOLDERS.iter().find_map(|folder| root.read(&format!("{folder}/{name}/tuned.conf"), warnings)));
    let Some(text) = text.flatten() else {
        warnings.push(format!("{named_by}: there is no profile {name} in {}", FOLDERS.join(", ")));
        return;
    };
    let own = parse(&text, warnings);
    for included in own.iter().filter(|section| section.name == "main").filter_map(|main| main.get("include")) {
        for name in included.split([',', ';', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
            profile(root, name, &text.file, (&mut *sections, &mut *read), warnings);
        }
    }
    for section in own.into_iter().filter(|section| section.name != "main") {
        match sections.iter_mut().find(|known| known.name == section.name) {
            Some(known) => merge(known, section),
            None => sections.push(section),
        }
    }
}

fn merge(known: &mut Section, section: Section) {
    if matches!(section.get("replace"), Some("1" | "true"))
        && let Some(first) = section.values.first()
    {
        known.values.iter_mut().for_each(|value| value.replaced = Some(first.origin.clone()));
    }
    known.values.extend(section.values);
}

fn parse(text: &Text, warnings: &mut Vec<String>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (origin, line) in text.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[') {
            match name.split_once(']') {
                Some((name, _)) => sections.push(Section { name: name.trim().to_owned(), values: Vec::new() }),
                None => warnings.push(format!("{origin}: {line:?} should be [SECTION]; the line is ignored")),
            }
            continue;
        }
        match (line.split_once('='), sections.last_mut()) {
            (Some((key, value)), Some(section)) => section.values.push(Value {
                key: key.trim().to_owned(),
                value: value.split(" #").next().unwrap_or_default().trim().trim_matches('"').to_owned(),
                origin,
                replaced: None,
            }),
            (Some(_), None) => warnings.push(format!("{origin}: {line:?} is in no section; the line is ignored")),
            (None, _) => warnings.push(format!("{origin}: {line:?} should be KEY=VALUE; the line is ignored")),
        }
    }
    sections
}

fn add(section: &Section, disks: &[Disk], found: &mut Found) {
    if matches!(section.get("enabled"), Some("0" | "false")) {
        return;
    }
    for value in &section.values {
        let setting = |device: Option<&str>, key: &str, text: &str| Setting {
            ineffective: value.replaced.as_ref().map(|origin| format!("{origin} replaces its section")),
            // Variables and functions are evaluated by tuned only.
            condition: text.contains("${").then(|| text.to_owned()),
            ..Setting::new(Tool::Tuned, value.origin.clone(), device, key, text)
        };
        match (section.kind(), value.key.as_str()) {
            ("disk", "elevator") => for_disks(section, disks, found, |disk| setting(disk, "scheduler", &value.value)),
            ("disk", "readahead") => match read_ahead_kib(&value.value) {
                Some(kib) => for_disks(section, disks, found, |disk| setting(disk, "read_ahead_kb", &kib)),
                None => found.warnings.push(format!("{}: readahead={} should be a number of KiB", value.origin, value.value)),
            },
            ("sysctl", name) => found.settings.extend(sysctl_key(name).map(|key| setting(None, &key, &value.value))),
            // Newer versions accept some under their bare names.
            ("vm", name) => found.settings.extend(sysctl_key(&format!("vm.{name}")).map(|key| setting(None, &key, &value.value))),
            ("sysfs", path) => {
                let Some((pattern, key)) = queue_attribute(path) else { continue };
                let matching = disks.iter().filter(|disk| matches(pattern, disk.name()));
                found.settings.extend(matching.map(|disk| setting(Some(disk.name()), key, &value.value)));
            }
            _ => {}
        }
    }
}

fn for_disks(section: &Section, disks: &[Disk], found: &mut Found, setting: impl Fn(Option<&str>) -> Setting) {
    let before = found.settings.len();
    // tuned ignores devices without a queue.
    let matching = disks.iter().filter(|disk| disk.device.has_queue && section.is_for(disk.name()));
    found.settings.extend(matching.map(|disk| setting(Some(disk.name()))));
    if found.settings.len() == before {
        let why = format!("there is no device {} here", section.get("devices").unwrap_or("with a queue"));
        found.unmatched.push((setting(None), why));
    }
}

/// Parses `readahead`: KiB, or sectors with suffix s; prefix > sets it only if the current value is smaller.
fn read_ahead_kib(text: &str) -> Option<String> {
    if text.contains("${") {
        return Some(text.to_owned());
    }
    let (least, text) = text.strip_prefix('>').map_or(("", text), |text| (">", text));
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let kib = if words.next().is_some_and(|unit| unit.starts_with('s')) { number / 2 } else { number };
    Some(format!("{least}{kib}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_by_patterns_and_left_out_by_a_mark() {
        let section = |devices: &str| Section {
            name: "disk".to_owned(),
            values: vec![Value {
                key: "devices".to_owned(),
                value: devices.to_owned(),
                origin: Origin { file: String::new(), line: 1 },
                replaced: None,
            }],
        };
        for (devices, sda, nvme) in
            [("sd*", true, false), ("!sda", false, true), ("sda, nvme0n1", true, true), ("*,!nvme*", true, false)]
        {
            assert_eq!((section(devices).is_for("sda"), section(devices).is_for("nvme0n1")), (sda, nvme), "{devices}");
        }
        assert!(Section::default().is_for("sda"));
    }

    #[test]
    fn read_ahead_is_in_kib_or_sectors() {
        for (text, kib) in [("4096", Some("4096")), (">4096", Some(">4096")), ("8192 s", Some("4096")), ("much", None)] {
            assert_eq!(read_ahead_kib(text).as_deref(), kib, "{text}");
        }
    }
}
