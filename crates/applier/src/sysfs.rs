//! Paths of the kernel's settings, and the file operations on them and on the journal.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags};

use crate::other_writers::OtherWriters;

/// Name of the threads that [read at once](Files::read_at_once), by which observers of the device recognise them.
pub const READER: &str = "seekwise-reader";
/// Length of a read, unless the device's blocks are larger.
const PAGE: usize = 4096;

/// The root of `/sys`, `/proc` and `/dev`.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The machine's own root.
    pub fn real() -> Sysfs {
        Sysfs::at(Path::new("/"))
    }

    /// A root with folders `sys`, `proc` and `dev` that resemble the kernel's.
    pub fn at(root: &Path) -> Sysfs {
        Sysfs { root: root.to_owned() }
    }

    /// The folder of a whole disk, for example `sda`.
    pub fn block(&self, device: &str) -> PathBuf {
        self.root.join("sys/block").join(device)
    }

    /// The folder of a whole disk's queue.
    pub fn queue(&self, device: &str) -> PathBuf {
        self.block(device).join("queue")
    }

    /// The model of a disk, or what else the kernel has for it: the name of a card or of a mapping, the level of an array, the file of a
    /// loop device.
    pub fn model(&self, device: &str) -> Option<String> {
        self.first_of(device, &["device/model", "device/name", "dm/name", "md/level", "loop/backing_file"])
    }

    /// The world-wide name or serial number of a disk.
    pub fn wwid(&self, device: &str) -> Option<String> {
        self.first_of(device, &["wwid", "device/wwid", "serial"])
    }

    /// The content of the first of these files of a disk that has any.
    fn first_of(&self, device: &str, files: &[&str]) -> Option<String> {
        let texts = files.iter().filter_map(|file| std::fs::read_to_string(self.block(device).join(file)).ok());
        texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty())
    }

    /// The folder `/proc`.
    pub fn proc(&self) -> PathBuf {
        self.root.join("proc")
    }

    /// A path of the machine below this root, given its absolute path.
    pub(crate) fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The folder `/dev`.
    pub fn dev(&self) -> PathBuf {
        self.root.join("dev")
    }

    /// The name of a disk below `/dev`: a `!` in the kernel's name stands for a slash, for example `cciss!c0d0`.
    pub fn file_name(device: &str) -> String {
        device.replace('!', "/")
    }

    /// The file of a memory management setting, for example `swappiness`.
    pub fn vm(&self, name: &str) -> PathBuf {
        self.proc().join("sys/vm").join(name)
    }

    /// The folder of the running kernel's block layer modules, which include schedulers; `None` if the release is unknown.
    pub fn block_modules(&self, files: &dyn Files) -> Option<PathBuf> {
        let release = files.read(&self.proc().join("sys/kernel/osrelease")).ok()?;
        Some(self.root.join("lib/modules").join(release).join("kernel/block"))
    }

    /// The file that contains 1 if no more modules may be loaded.
    pub fn modules_disabled(&self) -> PathBuf {
        self.proc().join("sys/kernel/modules_disabled")
    }

    /// The file with the id of the current boot.
    pub fn boot_id(&self) -> PathBuf {
        self.proc().join("sys/kernel/random/boot_id")
    }
}

/// The file operations of the applier. Tests count them, make them fail, or simulate the kernel's reactions.
pub trait Files: Send {
    /// A file's text, trimmed.
    ///
    /// # Errors
    /// The operating system's error.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// A file's bytes.
    ///
    /// # Errors
    /// The operating system's error.
    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names in a folder, in ascending order.
    ///
    /// # Errors
    /// The operating system's error.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates a folder and its parents, unless they exist. Only the owner may enter it.
    ///
    /// # Errors
    /// The operating system's error.
    fn make_folder(&mut self, folder: &Path) -> io::Result<()>;

    /// Writes a file, replacing its contents.
    ///
    /// # Errors
    /// The operating system's error.
    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Syncs a file or folder to the disk.
    ///
    /// # Errors
    /// The operating system's error.
    fn sync(&mut self, path: &Path) -> io::Result<()>;

    /// Renames a file atomically.
    ///
    /// # Errors
    /// The operating system's error.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's error.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Writes one of the kernel's settings. Returns the time that it took.
    ///
    /// # Errors
    /// The kernel's error.
    fn set(&mut self, path: &Path, value: &str) -> io::Result<Duration>;

    /// Like [`set`](Files::set), for a setting that takes long. Also returns the names in a folder during the write, whenever they changed.
    /// Events of the setting's other writers are read during the write, as some would be merged if they were only read at the end.
    ///
    /// # Errors
    /// The kernel's error.
    fn set_and_observe(
        &mut self,
        path: &Path,
        value: &str,
        folder: &Path,
        others: Option<&mut OtherWriters>,
    ) -> io::Result<(Duration, Vec<Vec<String>>)> {
        let _ = (folder, others);
        self.set(path, value).map(|took| (took, Vec::new()))
    }

    /// The inode number of a folder below another one, without links on the path.
    ///
    /// # Errors
    /// The operating system's error; a link is an error, too.
    fn folder_number(&self, root: &Path, below: &str) -> io::Result<u64>;

    /// Checks whether one of the kernel's settings can be opened for writing, without writing.
    ///
    /// # Errors
    /// The reason if it cannot.
    fn may_set(&self, path: &Path) -> io::Result<()>;

    /// Watches one of the kernel's settings for writes by other processes; `None` if that is impossible.
    fn other_writers(&self, path: &Path) -> Option<OtherWriters> {
        let _ = path;
        None
    }

    /// Locks a device against other appliers, as long as the file is open; `None` if the system has no place for locks.
    ///
    /// # Errors
    /// `WouldBlock` if another process holds the lock.
    fn lock(&self, device: &str) -> io::Result<Option<File>> {
        let _ = device;
        Ok(None)
    }

    /// Starts this many threads that read from a block device at once, a page each and past the cache, and waits for this time. It does not
    /// wait for the reads to complete or succeed: a device may take any time.
    ///
    /// # Errors
    /// The device cannot be opened, or no thread can be started.
    fn read_at_once(&self, device: &Path, readers: u32, wait: Duration) -> io::Result<()>;
}

/// Folder of the locks: only root can create it, so no other user can block an applier.
const LOCKS: &str = "/run/seekwise-applier";

/// Interval at which a folder is read while a setting is being written.
const READ_INTERVAL: Duration = Duration::from_micros(20);

/// The file operations of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

/// Without `O_TRUNC`, which would change the modification time, and so hide other writers.
fn open_setting(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

impl Files for RealFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path).map(|text| text.trim().to_owned())
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(folder)?;
        let mut names: Vec<String> =
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    fn sync(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn set(&mut self, path: &Path, value: &str) -> io::Result<Duration> {
        let mut file = open_setting(path)?;
        let began = Instant::now();
        file.write_all(value.as_bytes())?;
        Ok(began.elapsed())
    }

    fn set_and_observe(
        &mut self,
        path: &Path,
        value: &str,
        folder: &Path,
        mut others: Option<&mut OtherWriters>,
    ) -> io::Result<(Duration, Vec<Vec<String>>)> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut seen: Vec<Vec<String>> = Vec::new();
                while !is_done.load(Ordering::Relaxed) {
                    if let Some(others) = &mut others {
                        others.follow();
                    }
                    let now = RealFiles.names(folder).unwrap_or_default();
                    if seen.last() != Some(&now) {
                        seen.push(now);
                    }
                    thread::sleep(READ_INTERVAL);
                }
                seen
            });
            let took = RealFiles.set(path, value);
            is_done.store(true, Ordering::Relaxed);
            Ok((took?, reading.join().unwrap_or_default()))
        })
    }

    fn folder_number(&self, root: &Path, below: &str) -> io::Result<u64> {
        let path = fs::canonicalize(root)?.join(below);
        // With an empty `below`, the path would end with a slash.
        if fs::canonicalize(&path)?.components().ne(path.components()) {
            return Err(io::Error::other("a part of the path is a link, and a cgroup is not"));
        }
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() { Ok(metadata.ino()) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    fn may_set(&self, path: &Path) -> io::Result<()> {
        open_setting(path).map(drop)
    }

    fn other_writers(&self, path: &Path) -> Option<OtherWriters> {
        OtherWriters::of(path).ok()
    }

    fn lock(&self, device: &str) -> io::Result<Option<File>> {
        use std::os::unix::fs::DirBuilderExt;
        let folder = Path::new(LOCKS);
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        let is_there = made.is_ok() || fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == 0);
        let open = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
            options.open(folder.join(format!("{device}.lock"))).ok()
        };
        let Some(file) = is_there.then(open).flatten() else { return Ok(None) };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(file))
    }

    fn read_at_once(&self, device: &Path, readers: u32, wait: Duration) -> io::Result<()> {
        let device = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device)?;
        let length = PAGE.max(rustix::fs::ioctl_blksszget(&device)? as usize);
        let device = Arc::new(device);
        for reader in 0..readers {
            let device = device.clone();
            let read = move || read_aligned(&device, u64::from(reader) * length as u64, length);
            thread::Builder::new().name(READER.to_owned()).spawn(read)?;
        }
        thread::sleep(wait);
        Ok(())
    }
}

/// Reads past the page cache, which requires memory aligned to the length. Only the request matters, not its data.
fn read_aligned(device: &File, at: u64, length: usize) {
    let mut room = vec![0; 2 * length];
    let begin = room.as_ptr().align_offset(length).min(length);
    let _ = device.read_at(&mut room[begin..begin + length], at);
}

/// An error of reading or writing one of the kernel's files, worded for administrators.
#[derive(Debug)]
pub struct SysfsError {
    /// The file.
    pub path: PathBuf,
    /// The value to write; `None` if the file was to be read.
    pub value: Option<String>,
    /// The operating system's error.
    pub source: io::Error,
}

impl SysfsError {
    /// An error of reading a file.
    pub fn reading(path: &Path, source: io::Error) -> SysfsError {
        SysfsError { path: path.to_owned(), value: None, source }
    }

    /// An error of writing this value to a file.
    pub fn writing(path: &Path, value: &str, source: io::Error) -> SysfsError {
        SysfsError { path: path.to_owned(), value: Some(value.to_owned()), source }
    }

    /// The likely cause and remedy; may be empty.
    fn hint(&self) -> &'static str {
        match self.source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                "; it is mounted read-only: a container, or a unit with ProtectKernelTunables=yes, which the applier must not have"
            }
            io::ErrorKind::PermissionDenied => {
                "; only root may: the applier must run as root, outside of a sandbox that forbids this"
            }
            io::ErrorKind::InvalidInput => "; the kernel does not take this value here",
            io::ErrorKind::NotFound => "; this device, or this kernel under this scheduler, does not have it",
            _ if gone(&self.source) => "; the device is gone",
            _ => "",
        }
    }
}

impl fmt::Display for SysfsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let path = self.path.display();
        match &self.value {
            Some(value) => write!(f, "{path}: cannot write {value}: {}{}", self.source, self.hint()),
            None => write!(f, "{path}: cannot read: {}{}", self.source, self.hint()),
        }
    }
}

impl std::error::Error for SysfsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Whether the error means that the device behind a file was removed.
pub fn gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.raw_os_error().map(Errno::from_raw_os_error).is_some_and(|errno| matches!(errno, Errno::NODEV | Errno::NXIO))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_device_is_locked_by_one_applier_at_a_time() {
        let device = format!("test-{}", std::process::id());
        let Some(first) = RealFiles.lock(&device).unwrap() else {
            eprintln!("skipped: {LOCKS} cannot be made here; root can");
            return;
        };
        assert_eq!(RealFiles.lock(&device).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(RealFiles.lock(&format!("{device}-other")).unwrap().is_some());
        drop(first);
        assert!(RealFiles.lock(&device).unwrap().is_some(), "a lock ends with its file");
        for name in [device.clone(), format!("{device}-other")] {
            fs::remove_file(Path::new(LOCKS).join(format!("{name}.lock"))).unwrap();
        }
    }
}
