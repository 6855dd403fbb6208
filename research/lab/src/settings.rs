//! Settings of devices and of the page cache during measurements, written by the applier's writer and restored from its journal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use applier::attribute::MACHINE;
use applier::journal::Journal;
use applier::sysfs::{RealFiles, Sysfs};
use applier::{Moment, Outcome, Restored, Rules, Scope, SetRequest, Writer, restore_alone};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use terminal::eprint_line;

/// Default folder of the journal.
pub const JOURNAL: &str = "/var/lib/seekwise-lab";
/// Name of the lock in that folder.
const LOCK: &str = "lab.lock";

/// Writes settings. Their original values are on disk before the first write, so that they are restored at the latest by the next
/// [`open`](Settings::open) with this journal.
///
/// Each change has a writer of its own, which unlocks the device afterwards: the agent that `seekwise-lab field` measures sets the same
/// devices by its own applier.
pub struct Settings {
    journal: PathBuf,
    /// Held by this process, so that no other restores the settings of a measurement that runs.
    _lock: File,
}

impl Settings {
    /// Opens the journal in this folder, which is created if missing, and restores the settings of a process that was killed.
    ///
    /// # Errors
    /// Another process measures with this journal, the journal is writable by others, or it cannot be read.
    pub fn open(journal: &Path) -> anyhow::Result<Arc<Settings>> {
        let at = || format!("--journal {}", journal.display());
        fs::create_dir_all(journal).with_context(at)?;
        let lock = File::create(journal.join(LOCK)).with_context(at)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => anyhow::bail!("{}: another seekwise-lab uses this journal", at()),
            locked => locked.with_context(at)?,
        }
        for restored in restore_alone(journal, None).with_context(at)? {
            eprint_line(&format!("restored after an interrupted run: {}: {restored}", restored.scope));
        }
        Ok(Arc::new(Settings { journal: journal.to_owned(), _lock: lock }))
    }

    /// Sets attributes of a device or of the [machine](applier::attribute::MACHINE), all or none, and reads them back.
    ///
    /// # Errors
    /// Nothing is changed unless the message says so: the kernel has no such attribute or rejects a value, or another program changed
    /// the device.
    pub fn set(&self, device: &str, values: &[(String, String)]) -> anyhow::Result<()> {
        let mut files = RealFiles;
        let journal = Journal::open(&mut files, &self.journal)?;
        let rules = Rules { machine: true, ..Rules::default() };
        let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let at = Moment { now: linux::clock::now().at, unix_seconds };
        let scope = if device == MACHINE { Scope::Machine } else { Scope::Device(device.to_owned()) };
        let why = "measured by seekwise-lab".to_owned();
        let wanted = SetRequest { scope, values: values.to_vec(), expected: Vec::new(), why };
        Writer::new(Sysfs::real(), Box::new(files), journal, rules).set(at, &wanted)?;
        Ok(())
    }

    /// Restores the original settings of a device or of the machine, but never over changes of other programs.
    ///
    /// # Errors
    /// The journal cannot be read, or an original cannot be restored; it then stays in the journal.
    pub fn restore(&self, device: &str) -> anyhow::Result<()> {
        let restored = restore_alone(&self.journal, Some(device))?;
        let is_failure = |one: &&Restored| matches!(one.outcome, Outcome::Failed { .. });
        let failures: Vec<String> = restored.iter().filter(is_failure).map(|one| format!("{device}: {one}")).collect();
        ensure!(failures.is_empty(), "{}", failures.join("; "));
        Ok(())
    }
}
