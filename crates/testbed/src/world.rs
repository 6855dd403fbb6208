//! The device of a run and the host in front of it.

use anyhow::{Context, ensure};
use block::Roster;
use control::Setting;
use report::record::DiskDigest;
use sim::device::hdd::spec::QueuePolicy;
use sim::host::{HostSettings, Queue};
use sim::profile::{DeviceOptions, Profile};

/// A device and a host. Each run builds new ones, at rest.
#[derive(Clone, Debug)]
pub struct World {
    /// The device's profile.
    pub profile: Profile,
    /// Device options that override the profile.
    pub device: DeviceOptions,
    /// The host's tunables.
    pub host: HostSettings,
    /// The tenants that share the device, if there are any.
    pub roster: Option<Roster>,
}

impl World {
    /// A device as named by `--disk`, behind a host with default settings.
    ///
    /// # Errors
    /// There is no such device.
    pub fn new(disk: &str, queue_depth: Option<u32>, queue_policy: Option<QueuePolicy>) -> anyhow::Result<World> {
        let device = DeviceOptions { queue_depth, queue_policy };
        Ok(World { profile: sim::profile::load(disk)?, device, host: HostSettings::default(), roster: None })
    }

    /// A new queue in front of a new device, both at rest.
    pub fn queue(&self, scheduler: Box<dyn block::Scheduler>) -> Queue {
        let mut queue = Queue::new(scheduler, self.profile.build(self.device), self.host.queue());
        if let Some(roster) = &self.roster {
            queue.set_roster(roster);
        }
        queue
    }

    /// A new scheduler instance with this setting.
    pub fn scheduler(&self, setting: &Setting) -> Box<dyn block::Scheduler> {
        (setting.spec.build)(&self.host.queue().limits(), &setting.values)
    }

    /// A copy with the host tunables that a setting names.
    #[must_use]
    pub fn under(&self, setting: &Setting) -> World {
        World { host: self.host.with_named(&setting.host), ..self.clone() }
    }

    /// The device's name, with the depth and the policy of its queue if these are not the profile's.
    pub fn device(&self) -> String {
        let mut name = self.profile.name().to_owned();
        if let Some(depth) = self.device.queue_depth {
            name += &format!("@{depth}");
        }
        if let Some(policy) = self.device.queue_policy {
            name += &format!(" {}", policy.name());
        }
        name
    }

    /// The host's tunables with their values.
    pub fn tunables(&self) -> impl Iterator<Item = (String, i64)> {
        HostSettings::TUNABLES.iter().map(|tunable| tunable.name.to_owned()).zip(self.host.values())
    }

    /// Checks that all host tunables except `allowed` have their defaults.
    ///
    /// # Errors
    /// Another tunable was changed.
    pub fn expect_defaults_but(&self, allowed: &[&str]) -> anyhow::Result<()> {
        for ((name, value), default) in self.tunables().zip(HostSettings::default().values()) {
            ensure!(value == default || allowed.contains(&name.as_str()), "--set {name}={value} would change nothing");
        }
        Ok(())
    }

    /// The device's identity for the record.
    pub fn digest(&self) -> DiskDigest {
        use sha2::Digest;
        DiskDigest {
            name: self.profile.name().to_owned(),
            sha256: hexadecimal(&sha2::Sha256::digest(self.profile.text())),
            description: self.profile.description().to_owned(),
            capacity_sectors: self.profile.capacity_sectors(),
            queue_depth: self.profile.build(self.device).queue_depth() as u32,
            queue_policy: self.profile.queue_policy(self.device).name().to_owned(),
        }
    }
}

/// A device specification: a profile's name, file or array, optionally followed by `@` and a queue depth that overrides the
/// profile's.
#[derive(Clone, Debug)]
pub struct Device {
    /// The specification as it was given.
    pub name: String,
    profile: String,
    queue_depth: Option<u32>,
}

impl Device {
    /// Reads `NAME` or `NAME@DEPTH`.
    ///
    /// # Errors
    /// The text after `@` is not a depth from 1 to 1024.
    pub fn parse(text: &str) -> anyhow::Result<Device> {
        let (profile, depth) = match text.rsplit_once('@') {
            Some((profile, depth)) => (profile, Some(depth)),
            None => (text, None),
        };
        let wanted = || format!("--disk {text}: the depth of the queue should follow the @, 1 to 1024");
        let queue_depth = depth.map(|depth| depth.parse::<u32>().with_context(wanted)).transpose()?;
        ensure!(queue_depth.is_none_or(|depth| (1..=1024).contains(&depth)), wanted());
        Ok(Device { name: text.to_owned(), profile: profile.to_owned(), queue_depth })
    }

    /// The device behind a host with default settings, all at rest.
    ///
    /// # Errors
    /// There is no such device.
    pub fn world(&self) -> anyhow::Result<World> {
        World::new(&self.profile, self.queue_depth, None)
    }
}

/// A digest in lower-case hexadecimal digits.
pub fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
