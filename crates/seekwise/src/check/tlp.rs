//! TLP, which sets the schedulers of disks: `DISK_DEVICES` and `DISK_IOSCHED` (<https://linrunner.de/tlp/settings/disks.html>).

use super::root::{Origin, Root};
use super::setting::{Disk, Found, Setting, Tool};

/// Its drop-ins, read in the order of their names; then its file, which counts most.
const FOLDER: &str = "/etc/tlp.d";
const FILE: &str = "/etc/tlp.conf";
/// The disks if none are named.
const DEVICES: &str = "nvme0n1 sda";
/// Words that leave a disk alone.
const KEEP: [&str; 2] = ["keep", "_"];

/// Finds what it sets.
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
    // Disk by disk: what is beyond the shorter of both lists does nothing.
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
        // By name, or by id.
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

/// A value of a shell's assignment, without its comment.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value[1..].split(quote).next().unwrap_or_default().to_owned(),
        _ => value.split('#').next().unwrap_or_default().trim().to_owned(),
    }
}
