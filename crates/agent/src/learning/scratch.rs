//! The scratch file or partition from the configuration: the only place that learning mode writes to.
//!
//! It is opened once, and the checks apply to the open file. fio gets it as its standard input instead of a path, so renaming, replacing or
//! linking the file afterwards cannot redirect it.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, major, minor, seek};
use rustix::io::Errno;

use super::load::Place;
use applier::sysfs::Sysfs;
use linux::topology;

/// Minimum size: with less, the heads would hardly move, and eight processes would have no room for large requests. Choice: more excludes
/// small partitions; not varied.
const MIN_BYTES: u64 = 64 << 20;
/// Bytes at the beginning of a partition that must be zero and are not written: headers of filesystems, volumes and partition tables are
/// there. Choice: the usual alignment of first partitions; not varied.
const HEAD: u64 = 1 << 20;

/// An open file or partition that may be overwritten.
#[derive(Debug)]
pub struct Scratch {
    /// Opened for reading and writing.
    pub file: File,
    /// The device whose queue its requests go through, such as `sda`.
    pub device: String,
    /// The range that may be overwritten.
    pub place: Place,
}

impl Scratch {
    /// Opens it and checks that no other data can be overwritten.
    ///
    /// # Errors
    /// It does not exist, is not writable, in use, too small or sparse, or its requests do not go through exactly one queue. The message
    /// begins with the path and names the right values.
    pub fn open(sysfs: &Sysfs, path: &Path) -> Result<Scratch, String> {
        let wrong = |reason: String| format!("{}: {reason}", path.display());
        let known = std::fs::symlink_metadata(path).map_err(|error| wrong(not_there(&error)))?;
        if known.is_symlink() && !path.metadata().is_ok_and(|behind| behind.file_type().is_block_device()) {
            return Err(wrong("is a link; use the file itself".to_owned()));
        }
        let is_device = path.metadata().is_ok_and(|behind| behind.file_type().is_block_device());
        if !known.is_file() && !is_device {
            return Err(wrong("should be a file or an unused partition".to_owned()));
        }
        let file = opened(path, is_device).map_err(|error| wrong(not_opened(&error, is_device)))?;
        let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
        let found = if is_device { of_device(&file) } else { of_file(&file, &metadata) };
        let place = found.map_err(wrong)?;
        if place.bytes < MIN_BYTES {
            let (has, least) = (place.bytes >> 20, MIN_BYTES >> 20);
            return Err(wrong(format!("has {has} MiB; should be at least {least} MiB, better 1% of the disk")));
        }
        let device = topology::queue_of(sysfs, number_of(&metadata)).map_err(wrong)?;
        Ok(Scratch { file, device, place })
    }
}

/// Kernel name of the device that a scratch file or partition is on. Does not open it.
///
/// # Errors
/// It does not exist, or its requests do not go through exactly one queue.
pub fn device_of(sysfs: &Sysfs, path: &Path) -> Result<String, String> {
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let metadata = path.metadata().map_err(|error| wrong(not_there(&error)))?;
    topology::queue_of(sysfs, number_of(&metadata)).map_err(wrong)
}

/// Major and minor number of the device, or of the device that the file is on.
fn number_of(metadata: &Metadata) -> (u32, u32) {
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    (major(number), minor(number))
}

fn not_there(error: &io::Error) -> String {
    format!("{error}; create it with `dd if=/dev/zero of=FILE bs=1M count=1024 conv=fsync`")
}

fn not_opened(error: &io::Error, is_device: bool) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => "is in use: it is mounted, used as swap, or part of another device".to_owned(),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            let user = rustix::process::geteuid().as_raw();
            let how = if is_device { "udev rules and DeviceAllow=" } else { "chown and ReadWritePaths=" };
            format!(
                "not writable for user {user} ({error}); {how} allow it, see the section on learning in docs/guide/administrator.md"
            )
        }
        _ => error.to_string(),
    }
}

/// Opens it for reading and writing. A device is opened exclusively: the kernel refuses that if it is in use, and refuses mounts while it
/// is open.
fn opened(path: &Path, is_device: bool) -> io::Result<File> {
    let flags = if is_device { OFlags::EXCL } else { OFlags::NOFOLLOW };
    OpenOptions::new().read(true).write(true).custom_flags((flags | OFlags::NONBLOCK).bits().cast_signed()).open(path)
}

/// The whole file, which must have no holes: reading a hole does not reach the disk, and writing to one allocates blocks.
fn of_file(file: &File, metadata: &Metadata) -> Result<Place, String> {
    if metadata.nlink() != 1 {
        return Err(format!("has {} hard links; should have only one", metadata.nlink()));
    }
    let bytes = metadata.len();
    // A filesystem without holes reports the first one at the end.
    let hole = if bytes == 0 { 0 } else { seek(file, SeekFrom::Hole(0)).map_err(|error| error.to_string())? };
    if hole < bytes {
        let mib = bytes.div_ceil(1 << 20);
        return Err(format!("is sparse from byte {hole}; write all of it: `dd if=/dev/zero of=FILE bs=1M count={mib} conv=fsync`"));
    }
    Ok(Place { begins: 0, bytes })
}

/// A partition without its head, which must be zero.
fn of_device(file: &File) -> Result<Place, String> {
    let bytes = seek(file, SeekFrom::End(0)).map_err(|error| error.to_string())?;
    let mut head = Vec::new();
    seek(file, SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    file.take(HEAD).read_to_end(&mut head).map_err(|error| error.to_string())?;
    if head.iter().any(|&byte| byte != 0) {
        let remedy = "if all of it may be lost, clear its first MiB: `dd if=/dev/zero of=PARTITION bs=1M count=1`";
        return Err(format!("its first MiB is not zero, so it may contain data; {remedy}"));
    }
    Ok(Place { begins: HEAD, bytes: bytes.saturating_sub(HEAD) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine that has a disk of this number, with a partition on it.
    fn machine(number: (u32, u32)) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("sys/block/sda");
        for folder in ["holders", "slaves", "mq/0", "queue", "sda1/holders"] {
            fs::create_dir_all(disk.join(folder)).unwrap();
        }
        let (major, minor) = number;
        let dev = format!("{major}:{minor}");
        for (file, text) in [
            ("dev", "8:0"),
            ("size", "1000000"),
            ("ro", "0"),
            ("queue/rotational", "1"),
            ("diskseq", "1"),
            ("sda1/partition", "1"),
            ("sda1/dev", &dev),
            ("sda1/start", "2048"),
            ("sda1/size", "900000"),
        ] {
            fs::write(disk.join(file), format!("{text}\n")).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    /// A folder for scratch files, and a machine whose disk it is on.
    fn scene() -> (tempfile::TempDir, tempfile::TempDir, Sysfs) {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().metadata().unwrap().dev();
        let (root, sysfs) = machine((major(number), minor(number)));
        (folder, root, sysfs)
    }

    fn refusal(sysfs: &Sysfs, path: &Path) -> String {
        let said = Scratch::open(sysfs, path).unwrap_err();
        assert!(said.starts_with(&format!("{}: ", path.display())), "{said}");
        said
    }

    #[test]
    fn a_file_that_was_written_is_taken_and_its_disk_is_known() {
        let (folder, _root, sysfs) = scene();
        let path = folder.path().join("scratch");
        fs::write(&path, vec![7; MIN_BYTES as usize]).unwrap();
        let scratch = Scratch::open(&sysfs, &path).unwrap();
        assert_eq!((scratch.device.as_str(), scratch.place), ("sda", Place { begins: 0, bytes: MIN_BYTES }));
    }

    #[test]
    fn files_through_which_other_data_could_be_overwritten_are_refused() {
        let (folder, _root, sysfs) = scene();
        let path = folder.path().join("scratch");
        assert!(refusal(&sysfs, &path).contains("create it with `dd"));
        assert!(refusal(&sysfs, folder.path()).contains("should be a file or an unused partition"));
        fs::write(&path, vec![7; MIN_BYTES as usize]).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(&sysfs, &link).contains("is a link"));
        fs::hard_link(&path, folder.path().join("other")).unwrap();
        assert!(refusal(&sysfs, &path).contains("has 2 hard links"));
    }

    #[test]
    fn small_and_sparse_files_are_refused() {
        let (folder, _root, sysfs) = scene();
        let path = folder.path().join("scratch");
        fs::write(&path, vec![7; MIN_BYTES as usize - 1]).unwrap();
        assert!(refusal(&sysfs, &path).contains("has 63 MiB; should be at least 64 MiB"));
        File::create(&path).unwrap().set_len(MIN_BYTES).unwrap();
        assert!(refusal(&sysfs, &path).contains("is sparse from byte 0"));
    }

    #[test]
    fn a_filesystem_that_is_on_no_disk_is_refused() {
        let (folder, ..) = scene();
        let (_root, sysfs) = machine((8, 1));
        let path = folder.path().join("scratch");
        fs::write(&path, vec![7; MIN_BYTES as usize]).unwrap();
        assert!(refusal(&sysfs, &path).contains("without a single block device"));
    }
}
