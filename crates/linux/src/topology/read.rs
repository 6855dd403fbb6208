//! Reads the properties of block devices from sysfs.

use std::fs;
use std::io;
use std::path::Path;

use super::{Device, DriverKind, Partition, TopologyError};
use applier::sysfs::Sysfs;

/// Prefixes of device names by driver.
const KINDS: &[(&str, DriverKind)] = &[
    ("sd", DriverKind::Scsi),
    ("nvme", DriverKind::Nvme),
    ("vd", DriverKind::Virtual),
    ("xvd", DriverKind::Virtual),
    ("mmcblk", DriverKind::Mmc),
    ("sr", DriverKind::Removable),
    ("fd", DriverKind::Removable),
    ("loop", DriverKind::Loop),
    ("nbd", DriverKind::Remote),
    ("rbd", DriverKind::Remote),
    ("ublkb", DriverKind::Remote),
    ("dm-", DriverKind::DeviceMapper),
    ("md", DriverKind::Md),
    ("zram", DriverKind::Memory),
    ("ram", DriverKind::Memory),
    ("pmem", DriverKind::Memory),
];

/// See [`super::devices`].
pub(super) fn devices(sysfs: &Sysfs) -> Result<Vec<Device>, TopologyError> {
    let folder = sysfs.block("");
    let mut found = Vec::new();
    for name in names(&folder)? {
        match device(sysfs, name) {
            Ok(device) => found.push(device),
            // It was removed meanwhile.
            Err(TopologyError::Io { source, .. }) if matches!(source.kind(), io::ErrorKind::NotFound) => {}
            Err(TopologyError::Io { source, .. }) if source.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    let owners: Vec<(String, String)> = found
        .iter()
        .flat_map(|device| device.partitions.iter().map(|partition| (partition.name.clone(), device.name.clone())))
        .collect();
    for device in &mut found {
        for name in device.below.iter_mut().chain(&mut device.holders) {
            if let Some((_, owner)) = owners.iter().find(|(partition, _)| partition == name) {
                name.clone_from(owner);
            }
        }
        sort(&mut device.below);
    }
    let multipaths: Vec<String> =
        found.iter().filter(|device| is_multipath(sysfs, device)).map(|device| device.name.clone()).collect();
    for device in &mut found {
        device.left_alone = left_alone(sysfs, device, &multipaths);
    }
    Ok(found)
}

fn device(sysfs: &Sysfs, name: String) -> Result<Device, TopologyError> {
    let folder = &sysfs.block(&name);
    let kind = KINDS.iter().find(|(prefix, _)| is_named(&name, prefix)).map_or(DriverKind::Other, |(_, kind)| *kind);
    let mut partitions = Vec::new();
    for inner in names(folder)? {
        let place = folder.join(&inner);
        if place.join("partition").exists() {
            let (start, sectors) = (number(&place.join("start"))?, number(&place.join("size"))?);
            partitions.push(Partition {
                name: inner,
                number: dev(&place)?,
                start,
                sectors,
                holders: names(&place.join("holders"))?,
            });
        }
    }
    partitions.sort_by_key(|partition| partition.start);
    let mut holders = names(&folder.join("holders"))?;
    holders.extend(partitions.iter().flat_map(|partition| partition.holders.iter().cloned()));
    sort(&mut holders);
    Ok(Device {
        number: dev(folder)?,
        sequence: if folder.join("diskseq").exists() { number(&folder.join("diskseq"))? } else { 0 },
        kind,
        model: sysfs.model(&name),
        size_sectors: number(&folder.join("size"))?,
        rotational: optional(&folder.join("queue/rotational")).as_deref() == Some("1"),
        partitions,
        holders,
        below: names(&folder.join("slaves"))?,
        // The folder of hardware queues of the multi-queue layer.
        has_queue: folder.join("mq").is_dir(),
        is_zoned: zoned(folder).is_some(),
        left_alone: None,
        name,
    })
}

/// Why a device must not be tuned, as a predicate; `None` if it may.
fn left_alone(sysfs: &Sysfs, device: &Device, multipaths: &[String]) -> Option<String> {
    let folder = sysfs.block(&device.name);
    let says = |name: &str| optional(&folder.join(name));
    if device.size_sectors == 0 {
        return Some("is empty: no medium is in it, or nothing is attached to it".to_owned());
    }
    if device.kind == DriverKind::Memory {
        return Some("is memory: nothing waits there for a disk".to_owned());
    }
    if device.kind == DriverKind::Removable {
        return Some("is a drive with removable media, each with its own best setting".to_owned());
    }
    if let Some(zoned) = zoned(&folder) {
        return Some(format!("is a zoned device ({zoned}): the order of its writes is not free"));
    }
    if says("ro").as_deref() == Some("1") {
        return Some("is read-only".to_owned());
    }
    if says("hidden").as_deref() == Some("1") {
        return Some("is one path of several to an NVMe namespace, which the kernel hides".to_owned());
    }
    if let Some(holder) = device.holders.iter().find(|holder| multipaths.contains(holder)) {
        return Some(format!("is a path of the multipath device {holder}, which chooses among its paths"));
    }
    if multipaths.contains(&device.name) {
        return Some("is a multipath device: how it spreads requests over its paths is set elsewhere".to_owned());
    }
    None
}

/// The kind of a zoned device; `None` for others.
fn zoned(folder: &Path) -> Option<String> {
    optional(&folder.join("queue/zoned")).filter(|zoned| zoned != "none")
}

/// By the name that multipathd gives it, or because the kernel passes whole requests on: the device mapper does so for multipath alone, also
/// where another program made the device.
fn is_multipath(sysfs: &Sysfs, device: &Device) -> bool {
    let passes_requests = device.has_queue && device.kind == DriverKind::DeviceMapper;
    passes_requests || optional(&sysfs.block(&device.name).join("dm/uuid")).is_some_and(|uuid| uuid.starts_with("mpath-"))
}

/// Whether a name is this prefix followed by a number or letters: `sda`, `nvme0n1`, `dm-0`.
fn is_named(name: &str, prefix: &str) -> bool {
    let letters = matches!(prefix, "sd" | "vd" | "xvd");
    name.strip_prefix(prefix).and_then(|rest| rest.chars().next()).is_some_and(|next| {
        if letters { next.is_ascii_lowercase() } else { next.is_ascii_digit() || (prefix == "md" && next == '_') }
    })
}

/// The names in a folder, sorted; empty if there is no such folder.
fn names(folder: &Path) -> Result<Vec<String>, TopologyError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.ends_with("block") => return Ok(Vec::new()),
        Err(source) => return Err(TopologyError::Io { path: folder.to_owned(), source }),
    };
    let mut found: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    sort(&mut found);
    Ok(found)
}

/// Sorts names, with `sda10` after `sda2`, and removes duplicates.
fn sort(names: &mut Vec<String>) {
    names.sort_by_key(|name| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (letters, number) = name.split_at(name.len() - digits);
        (letters.to_owned(), number.parse::<u64>().unwrap_or_default())
    });
    names.dedup();
}

fn text(path: &Path) -> Result<String, TopologyError> {
    let text = fs::read_to_string(path).map_err(|source| TopologyError::Io { path: path.to_owned(), source })?;
    Ok(text.trim().to_owned())
}

/// The text of a file; `None` if the device does not have it.
fn optional(path: &Path) -> Option<String> {
    text(path).ok()
}

fn unknown(path: &Path, value: String, expected: &'static str) -> TopologyError {
    TopologyError::Unknown { path: path.to_owned(), value, expected }
}

fn number(path: &Path) -> Result<u64, TopologyError> {
    let text = text(path)?;
    text.parse().map_err(|_| unknown(path, text, "a number"))
}

/// Parses the file `dev`, for example `8:0`.
fn dev(folder: &Path) -> Result<(u32, u32), TopologyError> {
    let path = folder.join("dev");
    let text = text(&path)?;
    let parts = text.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| unknown(&path, text, "major:minor"))
}
