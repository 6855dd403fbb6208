//! Hosts of tenants: disks of every age, arrays (also failed and rebuilding ones), flash (new, written and full), cards, and volumes with
//! limited rates.

use std::fmt;

use anyhow::Context as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::one_of;
use testbed::world::World;

use crate::devices::{self, DrawnDevice};
use crate::worlds::{self, Which};

/// Kinds of hosts, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostKind {
    /// Hard disks of the 1990s.
    OldDisk,
    /// Other hard disks.
    Disk,
    /// Arrays with all members.
    Array,
    /// Arrays with a failed member, rebuilding or not.
    FailedArray,
    /// Flash, new or written once.
    Flash,
    /// Flash that has been overwritten at random.
    FullFlash,
    /// Volumes with limited rates.
    Volume,
    /// SD cards and eMMC.
    Card,
}

impl HostKind {
    /// All of them, in the order of tables.
    pub const ALL: [HostKind; 8] = [
        HostKind::OldDisk,
        HostKind::Disk,
        HostKind::Array,
        HostKind::FailedArray,
        HostKind::Flash,
        HostKind::FullFlash,
        HostKind::Volume,
        HostKind::Card,
    ];

    fn of(family: &str, text: &str) -> HostKind {
        match family {
            _ if text.contains("\nfailed = ") => HostKind::FailedArray,
            _ if text.contains("kind = \"raid\"") => HostKind::Array,
            _ if text.contains("[limits]") => HostKind::Volume,
            "sd-cards" | "emmc" => HostKind::Card,
            _ if text.contains("initial_state = \"random\"") => HostKind::FullFlash,
            _ if text.contains("kind = \"ssd\"") => HostKind::Flash,
            "scsi-1990s" => HostKind::OldDisk,
            _ => HostKind::Disk,
        }
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostKind::OldDisk => "disk of the 1990s",
            HostKind::Disk => "disk",
            HostKind::Array => "array",
            HostKind::FailedArray => "failed array",
            HostKind::Flash => "flash",
            HostKind::FullFlash => "full flash",
            HostKind::Volume => "limited volume",
            HostKind::Card => "card",
        })
    }
}

/// A drawn host.
pub struct Host {
    /// The device, behind a host with memory in proportion to it.
    pub world: World,
    /// Its kind.
    pub kind: HostKind,
    /// The files of its profile.
    pub device: DrawnDevice,
}

/// Draws a host of a world: from each of its families of drawn devices with the same probability.
///
/// # Errors
/// The definition of a family is invalid.
pub fn draw(which: Which, random: &mut Xoshiro256PlusPlus, seed: u64, number: u32) -> anyhow::Result<Host> {
    let purpose = which.purpose()?;
    let (name, device) = one(random, &[&purpose.devices, &purpose.training_devices, &purpose.shared_devices], seed, number)?;
    let kind = HostKind::of(name, &device.text);
    Ok(Host { world: worlds::with_memory(devices::profile(device.clone())?), kind, device })
}

/// Draws a reference disk of a world, from its families without failed arrays, limited volumes and cards.
///
/// # Errors
/// As [`draw`].
pub fn reference(which: Which, random: &mut Xoshiro256PlusPlus, seed: u64, number: u32) -> anyhow::Result<DrawnDevice> {
    let purpose = which.purpose()?;
    Ok(one(random, &[&purpose.devices, &purpose.training_devices], seed, number)?.1)
}

/// The name of a family among these devices, and a device of it.
fn one<'a>(
    random: &mut Xoshiro256PlusPlus,
    lists: &[&'a Vec<String>],
    seed: u64,
    number: u32,
) -> anyhow::Result<(&'a str, DrawnDevice)> {
    let families = lists.iter().flat_map(|list| list.iter()).filter_map(|name| name.strip_prefix(worlds::DRAWN));
    let name = one_of(random, &families.collect::<Vec<_>>());
    let family = devices::find(name).with_context(|| format!("{name}: unknown family of devices"))?;
    Ok((name, devices::text(family, seed, number)))
}
