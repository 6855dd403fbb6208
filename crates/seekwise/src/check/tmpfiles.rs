//! Files of the kernel that systemd-tmpfiles writes (tmpfiles.d(5)): `w /sys/block/sda/queue/scheduler - - - - bfq`.

use super::pattern::matches;
use super::root::{Origin, Root};
use super::setting::{Disk, Found, Setting, Tool, queue_attribute, sysctl_key};

/// Folders in order of precedence.
const FOLDERS: &[&str] = &["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"];

/// Collects the attributes that are written.
pub fn read(root: &Root, disks: &[Disk], found: &mut Found) {
    let mut written: Vec<(String, Origin)> = Vec::new();
    for text in root.drop_ins(FOLDERS, ".conf", &mut found.warnings) {
        for (origin, line) in text.lines().filter(|(_, line)| line.starts_with('w')) {
            let fields = fields(line);
            let [_, path, .., _, _] = fields.as_slice() else {
                found.warnings.push(format!("{origin}: {line:?} should be w PATH MODE USER GROUP AGE VALUE; the line is ignored"));
                continue;
            };
            let value = fields.get(6).map_or("", String::as_str);
            let first = written.iter().find(|(known, _)| known == path);
            // The first of several lines for a path applies.
            let ineffective = first.map(|(_, origin)| format!("{origin} is for the same path, and the first counts"));
            written.push((path.clone(), origin.clone()));
            add((origin, path, value), ineffective, disks, found);
        }
    }
}

fn add((origin, path, value): (Origin, &str, &str), ineffective: Option<String>, disks: &[Disk], found: &mut Found) {
    if let Some(key) = path.strip_prefix("/proc/sys/").and_then(sysctl_key) {
        found.settings.push(Setting { ineffective, ..Setting::new(Tool::Tmpfiles, origin, None, &key, value) });
        return;
    }
    let Some((pattern, key)) = queue_attribute(path) else { return };
    let before = found.settings.len();
    for disk in disks.iter().filter(|disk| matches(pattern, disk.name())) {
        let setting = Setting::new(Tool::Tmpfiles, origin.clone(), Some(disk.name()), key, value);
        found.settings.push(Setting { ineffective: ineffective.clone(), ..setting });
    }
    if found.settings.len() == before {
        let setting = Setting::new(Tool::Tmpfiles, origin, None, key, value);
        found.unmatched.push((setting, format!("there is no device {pattern} here")));
    }
}

/// Splits a line into fields; the seventh is the rest of the line.
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line;
    while fields.len() < 6 && !rest.is_empty() {
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(rest.len(), |end| end + 2),
            None => rest.find([' ', '\t']).unwrap_or(rest.len()),
        };
        let (field, behind) = rest.split_at(end);
        fields.push(field.trim_matches('"').to_owned());
        rest = behind.trim_start();
    }
    if !rest.is_empty() {
        fields.push(rest.to_owned());
    }
    fields
}
