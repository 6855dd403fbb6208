//! The queue settings of a block device in sysfs, and their quirks.
//!
//! - Writing `nr_requests` under the scheduler `none` shrinks the driver's tags permanently: across schedulers, `losetup -d` and a new
//!   `losetup`, while sysfs reports the old value again. That makes the drive queue of an emulated disk, and must be undone: write one less
//!   than the driver's depth, then the depth, both under `none`.
//! - Switching the scheduler resets `nr_requests`.
//! - Writing most other settings silently resets `read_ahead_kb`, so it is written last.
//! - Writing -1 to `wbt_lat_usec` selects the default, which depends on `rotational`.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::AttachError;

/// Settings in the order in which they are read and written, after `scheduler` and `nr_requests` and before `read_ahead_kb`.
const PLAIN: &[&str] = &["max_sectors_kb", "rotational"];

/// The queue of one block device.
#[derive(Clone, Debug)]
pub struct Queue {
    folder: PathBuf,
}

/// The settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// The scheduler's name.
    pub scheduler: String,
    /// Maximum requests in the scheduler.
    pub nr_requests: String,
    /// Maximum request in KiB.
    pub max_sectors_kb: String,
    /// 1 for a rotational disk.
    pub rotational: String,
    /// Target latency of write-back throttling in microseconds; `None` if the kernel has none.
    pub wbt_lat_usec: Option<String>,
    /// Read-ahead in KiB.
    pub read_ahead_kb: String,
}

impl Queue {
    /// The queue of a device, such as `loop0`.
    pub fn of(device: &str) -> Queue {
        Queue { folder: PathBuf::from("/sys/block").join(device).join("queue") }
    }

    /// Reads one setting.
    ///
    /// # Errors
    /// The device or setting does not exist.
    pub fn get(&self, name: &str) -> Result<String, AttachError> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| AttachError::new(format_args!("{}: {error}", path.display())))?;
        let text = text.trim();
        // The active scheduler is in brackets among the others.
        let active = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(active, _)| active);
        Ok(active.unwrap_or(text).to_owned())
    }

    /// Writes one setting.
    ///
    /// # Errors
    /// The setting does not exist, or the kernel rejects the value.
    pub fn set(&self, name: &str, value: &str) -> Result<(), AttachError> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|error| AttachError::new(format_args!("{}: writing {value}: {error}", path.display())))
    }

    /// Activates a scheduler with its tunables, by their names in `iosched/`, and verifies them by reading back. The third number is the
    /// rounding allowed: the kernel keeps times in jiffies of up to 10 ms.
    ///
    /// # Errors
    /// The kernel has no such scheduler or tunable, rejects a value, or changes it.
    pub fn set_scheduler<'a>(
        &self,
        name: &str,
        tunables: impl IntoIterator<Item = (&'a str, i64, i64)>,
    ) -> Result<(), AttachError> {
        // Writing the active scheduler keeps its tunables: only a switch restores the defaults.
        if name != "none" {
            self.set("scheduler", "none")?;
        }
        self.set("scheduler", name)?;
        let active = self.get("scheduler")?;
        if active != name {
            return Err(AttachError::new(format_args!("scheduler: is {active} after {name} was written")));
        }
        for (tunable, value, rounding) in tunables {
            let file = format!("iosched/{tunable}");
            self.set(&file, &value.to_string())?;
            let read = self.get(&file)?;
            if read.parse::<i64>().map_or(true, |read| (read - value).abs() > rounding) {
                return Err(AttachError::new(format_args!("{file}: is {read} after {value} was written")));
            }
        }
        Ok(())
    }

    /// Reads all settings that an emulated disk changes.
    ///
    /// # Errors
    /// The device does not exist.
    pub fn settings(&self) -> Result<Settings, AttachError> {
        Ok(Settings {
            scheduler: self.get("scheduler")?,
            nr_requests: self.get("nr_requests")?,
            max_sectors_kb: self.get("max_sectors_kb")?,
            rotational: self.get("rotational")?,
            wbt_lat_usec: self.get("wbt_lat_usec").ok(),
            read_ahead_kb: self.get("read_ahead_kb")?,
        })
    }

    /// Configures the queue like that of a drive with this depth. Returns the resulting depth, which is between 4 and the driver's.
    ///
    /// # Errors
    /// The kernel rejects a value.
    pub fn configure_as_drive(&self, depth: u32, driver_depth: u32, settings: &Settings) -> Result<u32, AttachError> {
        self.set("scheduler", "none")?;
        // The driver's tags are resized only when the value changes.
        let depth = depth.clamp(4, driver_depth);
        self.set("nr_requests", &(if depth == driver_depth { depth - 1 } else { driver_depth }).to_string())?;
        self.set("nr_requests", &depth.to_string())?;
        if settings.scheduler != "none" {
            self.set("scheduler", &settings.scheduler)?;
        }
        self.write_rest(settings)?;
        Ok(depth)
    }

    /// Restores the original settings, including hidden state. Continues after errors and returns all of them.
    pub fn restore(&self, before: &Settings, driver_depth: u32) -> Vec<AttachError> {
        let steps = [
            self.set("scheduler", "none"),
            self.set("nr_requests", &driver_depth.saturating_sub(1).to_string()),
            self.set("nr_requests", &driver_depth.to_string()),
            if before.scheduler == "none" { Ok(()) } else { self.set("scheduler", &before.scheduler) },
            match self.get("nr_requests") {
                Ok(now) if now == before.nr_requests => Ok(()),
                _ => self.set("nr_requests", &before.nr_requests),
            },
            self.write_rest(before),
        ];
        steps.into_iter().filter_map(Result::err).collect()
    }

    fn write_rest(&self, settings: &Settings) -> Result<(), AttachError> {
        for (name, value) in PLAIN.iter().zip([&settings.max_sectors_kb, &settings.rotational]) {
            self.set(name, value)?;
        }
        if let Some(value) = &settings.wbt_lat_usec {
            self.set("wbt_lat_usec", "-1")?;
            if self.get("wbt_lat_usec")? != *value {
                self.set("wbt_lat_usec", value)?;
            }
        }
        self.set("read_ahead_kb", &settings.read_ahead_kb)?;
        let read = self.get("read_ahead_kb")?;
        if read == settings.read_ahead_kb {
            return Ok(());
        }
        Err(AttachError::new(format_args!("read_ahead_kb: is {read} after {} was written", settings.read_ahead_kb)))
    }
}

/// The queue depth of the loop driver.
pub(super) fn loop_depth() -> u32 {
    let text = fs::read_to_string("/sys/module/loop/parameters/hw_queue_depth");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(128)
}

/// The names of the loop devices on this file.
pub(super) fn loops_of(file: &std::path::Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("loop") && backing_file(&name).is_some_and(|backing| backing == file.as_os_str().to_string_lossy()) {
            found.push(name);
        }
    }
    Ok(found)
}

/// The file of a loop device; `None` if it is free.
pub(super) fn backing_file(device: &str) -> Option<String> {
    let text = fs::read_to_string(PathBuf::from("/sys/block").join(device).join("loop/backing_file")).ok()?;
    Some(text.trim_end().to_owned())
}
