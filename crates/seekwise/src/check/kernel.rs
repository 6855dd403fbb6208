//! The kernel's command line: its options for schedulers have no effect since Linux 5.0.

use super::root::{Origin, Root};
use super::setting::{Found, Setting, Tool};

/// Command line of the running kernel, and configuration files of boot loaders.
const FILES: &[&str] = &["/proc/cmdline", "/etc/kernel/cmdline", "/etc/default/grub"];

/// Obsolete options of the block layer, with the reason why they have no effect.
const GONE: &[(&str, &str)] = &[
    (
        "elevator",
        "the kernel ignores elevator= since 5.0, when its single-queue schedulers went; a udev rule can set one for each device",
    ),
    ("scsi_mod.use_blk_mq", "SCSI always uses the multi-queue layer since 5.0"),
    ("dm_mod.use_blk_mq", "the device mapper always uses the multi-queue layer since 5.0"),
];

/// Collects the options.
pub fn read(root: &Root, found: &mut Found) {
    let release = root.attribute("/proc/sys/kernel/osrelease").unwrap_or_default();
    let major = release.split('.').next().and_then(|major| major.parse::<u32>().ok());
    for file in FILES {
        let Some(text) = root.read(file, &mut found.warnings) else { continue };
        for (origin, line) in text.lines().filter(|(_, line)| !line.starts_with('#')) {
            words(&origin, line, major.is_some_and(|major| major < 5), found);
        }
    }
}

fn words(origin: &Origin, line: &str, is_old: bool, found: &mut Found) {
    for word in line.split([' ', '\t', '"', '\'']) {
        let Some((name, value)) = word.split_once('=') else { continue };
        let Some((key, why)) = GONE.iter().find(|(key, _)| *key == name) else { continue };
        let setting = Setting::new(Tool::CommandLine, origin.clone(), None, key, value);
        found.settings.push(Setting { ineffective: (!is_old).then(|| (*why).to_owned()), ..setting });
    }
}
