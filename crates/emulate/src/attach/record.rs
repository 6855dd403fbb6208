//! The record of what an emulated disk set up: on disk before each step, so that it can be undone after a kill.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::AttachError;
use super::queue::Settings;

/// File extension of a record that is being written.
const UNFINISHED: &str = "new";

/// The mount to set up.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The unique source name of the mount.
    pub source: String,
    /// The mount point, without symbolic links.
    pub mountpoint: PathBuf,
    /// The file of the disk.
    pub file: PathBuf,
}

/// The loop device that is requested.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct AttachRequest {
    /// Queue depth of the drive.
    pub depth: u32,
    /// Whether it is a rotational disk.
    pub rotational: bool,
    /// Whether to measure the transport overhead.
    pub measure: bool,
}

/// The set-up so far, and the original state.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct State {
    pub plan: Plan,
    pub device: Option<DeviceBefore>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct DeviceBefore {
    /// Such as `loop0`.
    pub name: String,
    pub before: Settings,
    pub driver_depth: u32,
}

/// A state on disk, with the lock of the process in charge of it.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: File,
    pub state: State,
}

/// The folder of records. It is volatile, like what they describe.
fn folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/seekwise");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("seekwise"),
        None => std::env::temp_dir().join(format!("seekwise-{}", user.as_raw())),
    }
}

/// Creates the folder. Root's is readable by all, as the agent reads its configuration there and connects to the applier's socket; a user's
/// is private.
fn create_folder(folder: &Path, is_shared: bool) -> io::Result<()> {
    let mode = if is_shared { 0o755 } else { 0o700 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(folder)
}

impl Record {
    /// Creates a record, or takes over that of a supervisor that died.
    pub fn begin(plan: Plan) -> Result<Record, AttachError> {
        let folder = folder();
        let error = |error: io::Error| AttachError::new(format_args!("{}: {error}", folder.display()));
        create_folder(&folder, rustix::process::geteuid().is_root()).map_err(error)?;
        // Its records are carried out as root: only the owner may write there.
        let metadata = fs::symlink_metadata(&folder).map_err(error)?;
        if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(AttachError::new(format_args!("{}: should be a folder that only its owner can write", folder.display())));
        }
        let path = folder.join(format!("{}.json", plan.source));
        let (lock_path, lock) = lock(&path).map_err(error)?;
        let Some(lock) = lock else {
            return Err(AttachError::new(format_args!("{}: another process looks after it", path.display())));
        };
        let state = read(&path).ok().filter(|state| state.plan == plan).unwrap_or(State { plan, device: None });
        let record = Record { path, lock_path, _lock: lock, state };
        record.write()?;
        Ok(record)
    }

    /// The records of dead processes.
    pub fn orphans() -> Vec<Record> {
        let folder = folder();
        remove_unfinished(&folder);
        let mut found = Vec::new();
        for path in files(&folder, "json") {
            let Ok((lock_path, Some(lock))) = lock(&path) else { continue };
            if let Ok(state) = read(&path) {
                found.push(Record { path, lock_path, _lock: lock, state });
            }
        }
        found
    }

    /// Writes the record to disk, atomically.
    pub fn write(&self) -> Result<(), AttachError> {
        let text = serde_json::to_string_pretty(&self.state).map_err(AttachError::new)?;
        let new = self.path.with_extension(UNFINISHED);
        let written = fs::write(&new, text).and_then(|()| File::open(&new)?.sync_all()).and_then(|()| fs::rename(&new, &self.path));
        written.map_err(|error| AttachError::new(format_args!("{}: {error}", self.path.display())))
    }

    /// Removes the record, after everything was taken down.
    pub fn end(self) {
        // If removal fails, the next start finds nothing to take down and removes it.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// The files in the folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == extension)).collect()
}

/// Removes half-written records of dead processes. One that cannot be removed stays until the record's next version replaces it.
fn remove_unfinished(folder: &Path) {
    for path in files(folder, UNFINISHED) {
        let Ok((lock_path, Some(_lock))) = lock(&path) else { continue };
        let _ = fs::remove_file(&path);
        // A record that was never complete has no other files.
        if !path.with_extension("json").exists() {
            let _ = fs::remove_file(&lock_path);
        }
    }
}

fn read(path: &Path) -> io::Result<State> {
    Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
}

fn lock(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    let path = path.with_extension("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
    let taken = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok((path, taken.then_some(file)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_half_written_is_removed_and_what_another_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["dead-1.new", "dead-1.lock", "dead-2.new", "dead-2.json", "dead-2.lock", "alive.new", "alive.json"] {
            fs::write(path(name), "{").unwrap();
        }
        let (_, _lock) = lock(&path("alive.json")).unwrap();
        remove_unfinished(folder.path());
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["alive.json", "alive.lock", "alive.new", "dead-2.json", "dead-2.lock"]);
    }

    #[test]
    fn roots_folder_is_public_and_a_users_is_private() {
        let root = tempfile::tempdir().unwrap();
        let mode = |name: &str, is_shared| {
            let folder = root.path().join(name);
            create_folder(&folder, is_shared).unwrap();
            fs::metadata(folder).unwrap().mode() & 0o777
        };
        assert_eq!(mode("shared", true), 0o755);
        assert_eq!(mode("own", false), 0o700);
    }
}
