//! Finds other tools that set a queue's attributes. Linux does not record which process wrote a sysfs file, but rules and profiles on disk show
//! which tools would.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of udev rules, in order of precedence. Source: `udev(7)`.
const UDEV: [&str; 3] = ["etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d"];
/// tuned's file with the active profile. Source: `ACTIVE_PROFILE_FILE` in `tuned/consts.py`.
const TUNED_ACTIVE: &str = "etc/tuned/active_profile";
/// tuned's folders of profiles. Source: the profile directories in `tuned/consts.py`, of old and new releases.
const TUNED: [&str; 4] = ["etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles"];
/// Maximum size of a file of rules; larger files are ignored. Choice: bounds the memory and the time of a check; usual files have some KiB;
/// not varied.
const LONGEST: u64 = 1 << 20;

/// One sentence per tool that sets this attribute. `root` is the machine's `/`, or a folder of a test.
pub fn conflicting_tools(root: &Path, attribute: &str) -> Vec<String> {
    let rules = UDEV.iter().flat_map(|folder| files(&root.join(folder))).filter(|rule| {
        let is_rule = rule.extension().is_some_and(|extension| extension == "rules");
        is_rule && lines(rule).any(|line| line.contains(&format!("queue/{attribute}")))
    });
    let mut found: Vec<String> = rules.map(|rule| format!("the udev rule {} sets it", shown(root, &rule))).collect();
    found.extend(tuned(root, attribute));
    found
}

/// The active profile of tuned, if it sets the attribute.
fn tuned(root: &Path, attribute: &str) -> Option<String> {
    let active = fs::read_to_string(root.join(TUNED_ACTIVE)).ok()?;
    let name = active.split_whitespace().next()?.to_owned();
    let profile = TUNED.iter().map(|folder| root.join(folder).join(&name).join("tuned.conf")).find(|file| file.exists())?;
    // tuned's plugin `disk` uses other names for two attributes.
    let own = match attribute {
        "scheduler" => "elevator",
        "read_ahead_kb" => "readahead",
        other => other,
    };
    let names_it = lines(&profile).any(|line| line.starts_with(own) || line.contains(&format!("queue/{attribute}")));
    names_it.then(|| format!("tuned's profile '{name}' sets it ({})", shown(root, &profile)))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Lines without comments.
fn lines(file: &Path) -> impl Iterator<Item = String> + use<> {
    let is_short = fs::metadata(file).is_ok_and(|metadata| metadata.len() <= LONGEST);
    let text = if is_short { fs::read_to_string(file).unwrap_or_default() } else { String::new() };
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.starts_with(['#', ';'])).collect();
    lines.into_iter()
}

fn shown(root: &Path, file: &Path) -> String {
    Path::new("/").join(file.strip_prefix(root).unwrap_or(file)).display().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn rules_and_the_active_profile_that_name_an_attribute_are_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("etc/udev/rules.d/60-io.rules", "ACTION==\"add\", ATTR{queue/scheduler}=\"bfq\"\n");
        write("etc/udev/rules.d/70-other.rules", "# ATTR{queue/scheduler}=\"none\"\nATTR{queue/rotational}=\"0\"\n");
        write("etc/tuned/active_profile", "fast\n");
        write("usr/lib/tuned/fast/tuned.conf", "[disk]\nelevator=none\n");
        write("usr/lib/tuned/slow/tuned.conf", "[disk]\nreadahead=>4096\n");
        let found = conflicting_tools(root.path(), "scheduler");
        assert_eq!(
            found,
            [
                "the udev rule /etc/udev/rules.d/60-io.rules sets it",
                "tuned's profile 'fast' sets it (/usr/lib/tuned/fast/tuned.conf)"
            ]
        );
        assert!(
            conflicting_tools(root.path(), "read_ahead_kb").is_empty()
                && conflicting_tools(Path::new("/no/such/root"), "scheduler").is_empty()
        );
    }
}
