//! Settings of memory management: `sysctl.d`, in the order of systemd-sysctl (sysctl.d(5)).

use super::root::{Root, Text};
use super::setting::{Found, Setting, Tool, sysctl_key};

/// Folders in order of precedence.
const FOLDERS: &[&str] = &["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
/// Read last by `sysctl --system`, and by systemd if a link in [`FOLDERS`] leads to it.
const OLD: &str = "/etc/sysctl.conf";

/// Collects the settings.
pub fn read(root: &Root, found: &mut Found) {
    let texts = root.drop_ins(FOLDERS, ".conf", &mut found.warnings);
    // `99-sysctl.conf` is a link to the old file on many systems.
    let is_linked = texts.iter().any(|text| root.target_name(&text.file).as_deref() == Some("sysctl.conf"));
    let old = if is_linked { None } else { root.read(OLD, &mut found.warnings) };
    texts.iter().chain(&old).for_each(|text| settings(text, found));
}

fn settings(text: &Text, found: &mut Found) {
    for (origin, line) in text.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';'])) {
        let Some((name, value)) = line.split_once('=') else {
            // A minus excludes a name from glob patterns.
            if !line.starts_with('-') {
                found.warnings.push(format!("{origin}: {line:?} should be NAME = VALUE; the line is ignored"));
            }
            continue;
        };
        if let Some(key) = sysctl_key(name.trim().trim_start_matches('-').trim()) {
            found.settings.push(Setting::new(Tool::Sysctl, origin, None, &key, value.trim()));
        }
    }
}
