//! TLP, which sets the schedulers of disks: `DISK_DEVICES` and `DISK_IOSCHED` (<https://linrunner.de/tlp/settings/disks.html>).

use super::root::{Origin, Root};
use super::setting::{Disk, Found, Setting, Tool};

/// TLP's drop-ins, read in order of their names, then its main file, which takes precedence.
const FOLDER: &str = "/etc/tlp.d";
const FILE: &str = "/etc/tlp.conf";
/// Default disks.
const DEVICES: &str = "nvme0n1 sda";
/// Values that leave a disk unchanged.
const KEEP: [&str; 2] = ["keep", "_"];

/// Collects the settings of TLP.
pub fn read(root: &Root, disks: &[Disk], found: &mut Found) {
    let mut texts = root.drop_ins(&[FOLDER], ".conf", &mut found.warnings);
    texts.extend(root.read(FILE, &mut found.warnings));
    let (mut devices, mut schedulers) = (DEVICES.to_owned(), Vec::new());
    for text in &texts {
        for (origin, line) in text.lines().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let Some((name, value)) = line.split_once('=') else {
                found.warnings.push(format!("{origin}: {line:?} should be NAME=\"VALUE\"; the line is ignored"));
                continue;
            };
            let value = unquoted(value);
            match name.trim_end() {
                "DISK_DEVICES" => devices = value,
                "DISK_DEVICES+" => devices = format!("{devices} {value}"),
                "DISK_IOSCHED" => schedulers = with_origin(&value, &origin),
                "DISK_IOSCHED+" => schedulers.extend(with_origin(&value, &origin)),
                _ => {}
            }
        }
    }
    // Lists are matched by position; excess entries of the longer one have no effect.
    let mut devices = devices.split_whitespace();
    for (origin, scheduler) in schedulers {
        let device = devices.next();
        if KEEP.contains(&scheduler.as_str()) {
            continue;
        }
        let setting = |device| Setting::new(Tool::Tlp, origin.clone(), device, "scheduler", &scheduler);
        let Some(device) = device else {
            found.unmatched.push((setting(None), "DISK_DEVICES names fewer disks than DISK_IOSCHED has values".to_owned()));
            continue;
        };
        // Disks are given by name or by id.
        let name = root.target_name(&format!("/dev/disk/by-id/{device}")).unwrap_or_else(|| device.to_owned());
        match disks.iter().find(|disk| disk.name() == name) {
            Some(disk) => found.settings.push(setting(Some(disk.name()))),
            None => found.unmatched.push((setting(None), format!("there is no disk {device} here"))),
        }
    }
}

fn with_origin(value: &str, origin: &Origin) -> Vec<(Origin, String)> {
    value.split_whitespace().map(|word| (origin.clone(), word.to_owned())).collect()
}

/// Value of a shell assignment, without a trailing comment.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default().to_owned(),
        _ => value.split('#').next().unwrap_or_default().trim().to_owned(),
    }
}
