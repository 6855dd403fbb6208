//! The current attributes of a device, or of the machine, and their limits.

use std::collections::BTreeMap;
use std::io;

use super::{Attribute, MACHINE, MAX_SECTORS, NONE, NR_REQUESTS, Owner, SCHEDULER, all, find};
use crate::sysfs::{Files, Sysfs, SysfsError};

/// The attributes of one device, or of the machine, read at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Values by the attribute's name. Attributes that this kernel does not have under the active scheduler are missing.
    pub values: BTreeMap<&'static str, String>,
    /// The schedulers available for this device, including those that the kernel would load; empty for the machine.
    pub offered: Vec<String>,
    /// Those whose modules the kernel loads when they are selected. The modules stay loaded.
    pub loadable: Vec<String>,
    /// Maximum request size of the driver in KiB; `None` without a queue.
    pub largest_request_kib: Option<i64>,
    /// Number of the driver's tags; `None` if it is unknown.
    pub tags: Option<i64>,
    /// Whether the kernel reports a rotational disk.
    pub turns: bool,
    /// Optimal transfer size of the device in bytes; 0 if it reports none.
    pub optimal_transfer_bytes: i64,
}

impl State {
    /// Reads the state of a device, or of the [machine](MACHINE).
    ///
    /// # Errors
    /// A file cannot be read, although the kernel has it.
    pub fn read(files: &dyn Files, sysfs: &Sysfs, device: &str) -> Result<State, SysfsError> {
        let mut state = State::read_values(files, sysfs, device, |_| true)?;
        if device != MACHINE {
            if let Some(text) = find(SCHEDULER).map(|scheduler| scheduler.text(files, sysfs, device)).transpose()?.flatten() {
                state.offered = offered(&text);
                state.loadable = loadable(files, sysfs, &state.offered);
                state.offered.extend_from_slice(&state.loadable);
            }
            let number = |path: &str| files.read(&sysfs.block(device).join(path)).ok()?.parse().ok();
            state.largest_request_kib = number("queue/max_hw_sectors_kb");
            state.tags = number("mq/0/nr_tags");
            state.turns = number("queue/rotational") == Some(1);
            state.optimal_transfer_bytes = number("queue/optimal_io_size").unwrap_or(0);
        }
        Ok(state)
    }

    /// Reads only the scheduler and these attributes, and no limits: a check of them each second should cost little.
    ///
    /// # Errors
    /// As [`read`](State::read).
    pub fn read_values(
        files: &dyn Files,
        sysfs: &Sysfs,
        device: &str,
        is_wanted: impl Fn(&Attribute) -> bool,
    ) -> Result<State, SysfsError> {
        let mut state = State::default();
        for attribute in all().iter().filter(|attribute| (attribute.owner == Owner::Machine) == (device == MACHINE)) {
            let is_absent = matches!(&attribute.owner, Owner::Scheduler(owner) if *owner != state.scheduler());
            if is_absent || !(attribute.name == SCHEDULER || is_wanted(attribute)) {
                continue;
            }
            let Some(text) = attribute.text(files, sysfs, device)? else { continue };
            state.values.insert(&attribute.name, active_word(&text).to_owned());
        }
        Ok(state)
    }

    /// The active scheduler; `none` if there is no choice.
    pub fn scheduler(&self) -> &str {
        self.get(SCHEDULER).unwrap_or(NONE)
    }

    /// The value of an attribute; `None` if the kernel does not have it here.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of an attribute as a number; `None` if it is none.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// The value of an attribute as a count; `None` if it is none.
    pub fn count(&self, name: &str) -> Option<u32> {
        self.number(name)?.try_into().ok()
    }

    /// The allowed range on this device; `None` if the value is a word.
    pub fn range(&self, attribute: &Attribute) -> Option<(i64, i64)> {
        let (least, most) = attribute.range()?;
        let most_here = match attribute.name.as_str() {
            MAX_SECTORS => self.largest_request_kib,
            _ => None,
        };
        Some((least, most_here.map_or(most, |here| most.min(here))))
    }

    /// Checks that a value may be written under this scheduler.
    ///
    /// # Errors
    /// It may not; the text names the allowed values.
    pub fn check(&self, attribute: &Attribute, value: &str, scheduler: &str) -> Result<(), String> {
        let name = &attribute.name;
        if let Owner::Scheduler(owner) = attribute.owner
            && owner != scheduler
        {
            return Err(format!("{name} is {owner}'s, and {scheduler} is or would be active; set scheduler to {owner} with it"));
        }
        if name == NR_REQUESTS && scheduler == NONE {
            return Err(format!(
                "{name} is not set under none: that would change the driver's own queue for good, across schedulers; a scheduler is needed"
            ));
        }
        let Some((least, most)) = self.range(attribute) else {
            let offered = self.offered.join(", ");
            return match self.offered.iter().any(|offered| offered == value) {
                true => Ok(()),
                false => Err(format!("{name}={value} should be one that this kernel offers here: {offered}")),
            };
        };
        match value.parse::<i64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(()),
            _ => Err(format!("{name}={value} should be a whole number from {least} to {most}")),
        }
    }
}

impl Attribute {
    /// The active value; `None` if the kernel does not have it here.
    pub(crate) fn value(&self, files: &dyn Files, sysfs: &Sysfs, device: &str) -> Result<Option<String>, SysfsError> {
        Ok(self.text(files, sysfs, device)?.map(|text| active_word(&text).to_owned()))
    }

    /// The file's text; `None` if the kernel does not have it here.
    fn text(&self, files: &dyn Files, sysfs: &Sysfs, device: &str) -> Result<Option<String>, SysfsError> {
        let path = self.path(sysfs, device);
        match files.read(&path) {
            Ok(text) => Ok(Some(text)),
            // Some files exist for every device, but cannot be read if the device lacks the feature, for example `wbt_lat_usec`.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(None)
            }
            Err(error) => Err(SysfsError::reading(&path, error)),
        }
    }
}

/// Schedulers in modules that are not loaded: the kernel loads one when it is selected (`elv_iosched_load_module`). A device that offers
/// only `none`, such as one below another device, accepts no scheduler, so it has none of these.
fn loadable(files: &dyn Files, sysfs: &Sysfs, offered: &[String]) -> Vec<String> {
    let missing: Vec<&str> =
        block::of_linux().map(|spec| spec.name).filter(|name| !offered.iter().any(|known| known == name)).collect();
    if missing.is_empty() || offered.iter().all(|known| known == NONE) {
        return Vec::new();
    }
    if files.read(&sysfs.modules_disabled()).is_ok_and(|text| text == "1") {
        return Vec::new();
    }
    let names = sysfs.block_modules(files).and_then(|folder| files.names(&folder).ok()).unwrap_or_default();
    // For example bfq.ko and kyber-iosched.ko.xz.
    let is_module = |name: &&str| {
        names.iter().any(|file| file.split(".ko").next().map(|file| file.trim_end_matches("-iosched")) == Some(*name))
    };
    missing.into_iter().filter(is_module).map(str::to_owned).collect()
}

/// The word in brackets, or else the whole text.
fn active_word(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(active, _)| active)
}

fn offered(text: &str) -> Vec<String> {
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::fs;

    use super::*;
    use crate::sysfs::RealFiles;

    /// The schedulers offered, and those of them that would be loaded, on a machine with these schedulers and modules.
    fn offers(schedulers: &str, modules: &[&str], modules_disabled: &str) -> (Vec<String>, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("sys/block/sda/queue/scheduler", schedulers);
        write("proc/sys/kernel/osrelease", "6.1.0-99-amd64\n");
        write("proc/sys/kernel/modules_disabled", modules_disabled);
        modules.iter().for_each(|module| write(&format!("lib/modules/6.1.0-99-amd64/kernel/block/{module}"), ""));
        let state = State::read(&RealFiles, &Sysfs::at(root.path()), "sda").unwrap();
        (state.offered, state.loadable)
    }

    #[test]
    fn schedulers_that_the_kernel_would_load_are_offered() {
        let modules = ["bfq.ko.xz", "kyber-iosched.ko", "t10-pi.ko"];
        let (offered, loadable) = offers("none [mq-deadline]", &modules, "0\n");
        assert_eq!((offered.join(" "), loadable.join(" ")), ("none mq-deadline kyber bfq".to_owned(), "kyber bfq".to_owned()));
        let nothing = |schedulers, disabled| offers(schedulers, &modules, disabled).1.is_empty();
        assert!(nothing("[none]", "0\n"), "a device that takes no scheduler is offered none");
        assert!(nothing("none [mq-deadline]", "1\n"), "modules may not be loaded");
        assert!(nothing("none [mq-deadline] kyber bfq", "0\n"), "all are there");
    }
}
