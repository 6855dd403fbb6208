//! The three disjoint worlds of `worlds.toml`: for training, for choices during development, and for reports.

use std::sync::OnceLock;

use anyhow::Context;
use serde::Deserialize;
use sim::host::HostSettings;
use sim::profile::{DeviceOptions, Profile};
use testbed::world::{Device, World};

use crate::devices;

/// The file.
const TEXT: &str = include_str!("../worlds.toml");

/// Memory of a generated world's host: this fraction of the device, within bounds in MiB, so that a small disk does not fit in memory.
const MEMORY_SHARE: u64 = 16;
const MEMORY_MIB: (u64, u64) = (64, 1024);

/// Devices and loads for one purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purpose {
    /// Names as defined at the head of the file.
    pub devices: Vec<String>,
    /// More families of drawn devices, for studies of tenants; empty except in the training world.
    #[serde(default)]
    pub training_devices: Vec<String>,
    /// More families of drawn devices, for hosts of tenants; empty in the training world.
    #[serde(default)]
    pub shared_devices: Vec<String>,
    /// Names as defined at the head of the file.
    pub loads: Vec<String>,
}

/// The worlds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worlds {
    /// Training data of controllers.
    pub learn: Purpose,
    /// For design choices during development.
    pub build: Purpose,
    /// For reported results only.
    pub report: Purpose,
}

/// Prefix of a generated device in [`Purpose::devices`].
pub const DRAWN: &str = "drawn:";
/// Prefix of built-in job files in [`Purpose::loads`].
pub const SHIPPED: &str = "shipped:";
/// Stands for traces in [`Purpose::loads`].
pub const TRACES: &str = "traces";

/// Reads the file.
///
/// # Errors
/// The file is invalid; never for the built-in file, which a test checks.
pub fn worlds() -> anyhow::Result<&'static Worlds> {
    static READ: OnceLock<Worlds> = OnceLock::new();
    if let Some(worlds) = READ.get() {
        return Ok(worlds);
    }
    let worlds: Worlds = toml::from_str(TEXT).context("worlds.toml")?;
    Ok(READ.get_or_init(|| worlds))
}

/// One of the three worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// For training.
    Learn,
    /// For design choices.
    Build,
    /// For reported results.
    Report,
}

impl Which {
    /// Its flag on the command line; `None` for the default world.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Which::Learn => Some("--learn-world"),
            Which::Build => Some("--build-world"),
            Which::Report => None,
        }
    }

    /// Its purpose, to follow "the world" in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Which::Learn => "for training",
            Which::Build => "for design choices",
            Which::Report => "for reported results",
        }
    }

    /// Its devices and loads.
    ///
    /// # Errors
    /// The file is invalid, which a test rules out.
    pub fn purpose(self) -> anyhow::Result<&'static Purpose> {
        let worlds = worlds()?;
        Ok(match self {
            Which::Learn => &worlds.learn,
            Which::Build => &worlds.build,
            Which::Report => &worlds.report,
        })
    }
}

/// A device as named in `worlds.toml`; families are generated from `seed` and `number`. The host's memory is in proportion to the device.
///
/// # Errors
/// The device is unknown.
pub fn drawn(device: &str, seed: u64, number: u32) -> anyhow::Result<World> {
    let mut world = match device.strip_prefix(DRAWN) {
        Some(name) => {
            let family = devices::find(name).with_context(|| format!("{device}: unknown family of devices"))?;
            return Ok(with_memory(devices::draw(family, seed, number)?));
        }
        None => Device::parse(device)?.world()?,
    };
    set_memory(&mut world);
    Ok(world)
}

/// A host with memory in proportion to this device.
pub fn with_memory(profile: Profile) -> World {
    let mut world = World { profile, device: DeviceOptions::default(), host: HostSettings::default(), roster: None };
    set_memory(&mut world);
    world
}

fn set_memory(world: &mut World) {
    let capacity_mib = world.profile.capacity_sectors() / 2048;
    world.host.memory_mib = (capacity_mib / MEMORY_SHARE).clamp(MEMORY_MIB.0, MEMORY_MIB.1).cast_signed();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::{devices, loads};
    use testbed::shipped;

    /// Profiles added after the worlds were defined. More devices in a world would change its draws, and results would not be comparable.
    const LATER: &[&str] = &["cloud-volume", "sd-card"];

    /// The components of a device: profiles and families of generated ones.
    fn made_of(device: &str) -> Vec<String> {
        let device = device.split('@').next().unwrap();
        if let Some((level, settings)) = device.split_once(':').filter(|(level, _)| level.starts_with("raid")) {
            let disks = settings.split(',').filter_map(|setting| setting.strip_prefix("disk="));
            let disks: Vec<String> = disks.map(str::to_owned).collect();
            assert!(!disks.is_empty(), "{level}:{settings}");
            return disks;
        }
        match device {
            "raid5-5x-sata7200" => vec!["raid5-5x-sata7200".to_owned(), "sata7200".to_owned()],
            _ => vec![device.to_owned()],
        }
    }

    fn in_one_world(of: impl Fn(&Purpose) -> Vec<String>) -> BTreeMap<String, &'static str> {
        let worlds = worlds().unwrap();
        let mut found: BTreeMap<String, &str> = BTreeMap::new();
        for (name, purpose) in [("learn", &worlds.learn), ("build", &worlds.build), ("report", &worlds.report)] {
            for one in of(purpose) {
                let before = found.insert(one.clone(), name);
                assert!(before.is_none_or(|before| before == name), "{one} is in the worlds {} and {name}", before.unwrap());
            }
        }
        found
    }

    #[test]
    fn no_device_is_in_two_worlds_and_every_one_but_for_those_that_came_later_is_in_some() {
        let all_of = |purpose: &Purpose| -> Vec<String> {
            [&purpose.devices, &purpose.training_devices, &purpose.shared_devices].into_iter().flatten().cloned().collect()
        };
        let found = in_one_world(|purpose| all_of(purpose).iter().flat_map(|device| made_of(device)).collect());
        let profiles = sim::profile::BUILT_IN.iter().map(|(name, _)| *name).filter(|name| !LATER.contains(name)).map(str::to_owned);
        let drawn = devices::ALL.iter().map(|family| format!("{DRAWN}{}", family.name));
        let all: BTreeSet<String> = profiles.chain(drawn).collect();
        assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn no_load_is_in_two_worlds_and_every_one_is_in_some() {
        let found = in_one_world(|purpose| purpose.loads.clone());
        let drawn = loads::all().map(|family| family.name.to_owned());
        // Recipes and examples of tenants are for users: controllers are neither trained nor judged with them.
        let folders = shipped::ALL
            .iter()
            .map(|(name, _)| name.split('/').next().unwrap())
            .filter(|folder| !["recipes", "tenants"].contains(folder));
        let folders = folders.map(|folder| format!("{SHIPPED}{folder}"));
        let all: BTreeSet<String> = drawn.chain(folders).chain([TRACES.to_owned()]).collect();
        assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn the_papers_workloads_are_only_reported() {
        let worlds = worlds().unwrap();
        let elsewhere = worlds.learn.loads.iter().chain(&worlds.build.loads);
        assert!(elsewhere.into_iter().all(|load| !load.starts_with(SHIPPED) && load != TRACES));
    }
}
