//! Learning mode: while a device is idle, fio runs loads on a scratch file, settings are tried under them, and the results are stored.
//!
//! ```text
//! hours, idleness, scratch ─▶ Learner ─▶ Lesson ─▶ load: fio on the scratch file only
//!                                          │ ▲        │
//!                                          ▼ │        ▼
//!                         Memory ◀── search: control::search::Tuner ─▶ DeviceControl ─▶ applier
//! ```
//! Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems", section 7, plan two modes: a learning mode
//! "in which all workload is eliminated from the system and it is used just for the tuning process", and a normal mode, in which "the most
//! similar chromosome in the optimal solution population is located". Here no workload is eliminated: learning waits for idle time, and
//! foreign I/O ends the lesson.

mod fio;
mod foreign_io;
mod lesson;
mod load;
mod memory;
mod scratch;

use std::path::PathBuf;

pub use fio::{COMMAND, Fio, become_fio};
pub use foreign_io::{ForeignIo, ForeignProcess};
pub use lesson::{Course, Learned, Lesson};
pub use load::{Generator, Load, Place, loads};
pub use memory::{FILE, LoadRecord, Memory};
pub use scratch::Scratch;

use applier::sysfs::Sysfs;

/// Access to the scratch file and to a load generator.
pub trait Equipment {
    /// Kernel name of the device that the scratch file is on, such as `sda`. Does not open the file.
    ///
    /// # Errors
    /// The file does not exist, or is on no device that can be tuned.
    fn device(&self) -> Result<String, String>;

    /// Opens the scratch file for loads on this device that run for at most this many seconds.
    ///
    /// # Errors
    /// The scratch file cannot be used safely or is on another device, or fio is not installed.
    fn generator(&self, device: &str, seconds: u64) -> Result<Box<dyn Generator>, String>;
}

/// fio on a file of this machine.
pub struct Machine {
    /// Maps files to devices.
    pub sysfs: Sysfs,
    /// The scratch file.
    pub scratch: PathBuf,
}

impl Equipment for Machine {
    fn device(&self) -> Result<String, String> {
        scratch::device_of(&self.sysfs, &self.scratch)
    }

    fn generator(&self, device: &str, seconds: u64) -> Result<Box<dyn Generator>, String> {
        let Scratch { file, place, device: its_own } = Scratch::open(&self.sysfs, &self.scratch)?;
        if its_own != device {
            return Err(format!("{}: is on {its_own}, not on {device}", self.scratch.display()));
        }
        Ok(Box::new(Fio::new(file, place, seconds)?))
    }
}

impl Machine {
    /// Checks the scratch file and fio, and returns the device.
    ///
    /// # Errors
    /// Learning mode cannot run: the reason.
    pub fn check(&self) -> Result<String, String> {
        let device = self.device()?;
        self.generator(&device, 1).map(|_| device)
    }
}
