//! Learning mode: while a device is idle, fio runs loads on a scratch file, settings are tried under them, and the results are kept.
//!
//! ```text
//! hours, idleness, scratch ─▶ Learner ─▶ Lesson ─▶ load: fio on the scratch file, and nowhere else
//!                                          │ ▲        │
//!                                          ▼ │        ▼
//!                         Memory ◀── a search steers: control::search::Tuner ─▶ the daemon's device_control ─▶ applier
//! ```
//! Santos, Romero, Taibo and Rodriguez, "Self-Tuning of Disk Input-Output in Operating Systems", section 7, plan two modes: a learning mode
//! "in which all workload is eliminated from the system and it is used just for the tuning process", and a normal mode, in which "the most
//! similar chromosome in the optimal solution population is located". Here no workload is eliminated: idle time is waited for, and any real work
//! comes ends the lesson.

mod fio;
mod foreign_io;
mod lesson;
mod load;
mod memory;
mod scratch;

use std::path::PathBuf;

pub use fio::{COMMAND, Fio, become_fio};
pub use foreign_io::{ForeignIo, Work};
pub use lesson::{Course, Learned, Lesson};
pub use load::{Generator, Load, Place, loads};
pub use memory::{FILE, Lived, Memory};
pub use scratch::Scratch;

use applier::sysfs::Sysfs;

/// What runs loads on the scratch file.
pub trait Equipment {
    /// The device that the scratch file is on, without opening it.
    ///
    /// # Errors
    /// It is not there, or on no device that can be tuned.
    fn device(&self) -> Result<String, String>;

    /// Opens the scratch file, for loads on this device that end by themselves after this many seconds.
    ///
    /// # Errors
    /// The scratch file must not be used, or is on another device; or there is no fio.
    fn generator(&self, device: &str, seconds: u64) -> Result<Box<dyn Generator>, String>;
}

/// fio, on a file of this machine.
pub struct Machine {
    /// Where the kernel says what is on what.
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
    /// The device that could be learned on.
    ///
    /// # Errors
    /// None could, as things are, and why.
    pub fn check(&self) -> Result<String, String> {
        let device = self.device()?;
        self.generator(&device, 1).map(|_| device)
    }
}
