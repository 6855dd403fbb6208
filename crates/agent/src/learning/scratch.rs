//! The scratch file, or partition, that the administrator names: the only place to which learning writes.
//!
//! It is opened once, and what is checked is what was opened. fio gets it as its standard input, and no path: what is renamed, replaced or
//! linked meanwhile cannot lead it elsewhere.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, major, minor, seek};
use rustix::io::Errno;

use super::load::Place;
use applier::sysfs::Sysfs;
use linux::topology::{self, Device, stacks};

/// With less, heads would hardly move, and eight processes would have no room for large requests.
const LEAST: u64 = 64 << 20;
/// What is left alone at the beginning of a partition, and has to be empty there: whatever describes a filesystem, a volume or partitions is.
const HEAD: u64 = 1 << 20;

/// A file or partition that may be written to.
#[derive(Debug)]
pub struct Scratch {
    /// Opened for reading and writing.
    pub file: File,
    /// The device whose queue its requests go through, as in `sda`.
    pub device: String,
    /// Where it may be written to.
    pub place: Place,
}

impl Scratch {
    /// Opens it, and checks that nothing else can be hit.
    ///
    /// # Errors
    /// It is not there, may not be written, is in use, too small, full of holes, or its requests do not go through one queue. The sentence
    /// begins with the path, and says what would be right.
    pub fn open(sysfs: &Sysfs, path: &Path) -> Result<Scratch, String> {
        let wrong = |reason: String| format!("{}: {reason}", path.display());
        let known = std::fs::symlink_metadata(path).map_err(|error| wrong(not_there(&error)))?;
        if known.is_symlink() && !path.metadata().is_ok_and(|behind| behind.file_type().is_block_device()) {
            return Err(wrong("is a link; name the file itself".to_owned()));
        }
        let is_device = path.metadata().is_ok_and(|behind| behind.file_type().is_block_device());
        if !known.is_file() && !is_device {
            return Err(wrong("should be a file, or a partition that is not in use".to_owned()));
        }
        let file = opened(path, is_device).map_err(|error| wrong(not_opened(&error, is_device)))?;
        let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
        let found = if is_device { of_device(&file) } else { of_file(&file, &metadata) };
        let place = found.map_err(wrong)?;
        if place.bytes < LEAST {
            let (has, least) = (place.bytes >> 20, LEAST >> 20);
            return Err(wrong(format!(
                "has room for {has} MiB; {least} MiB are the least, and a hundredth of the disk would be better"
            )));
        }
        let device = queue_of(sysfs, number_of(&metadata)).map_err(wrong)?;
        Ok(Scratch { file, device, place })
    }
}

/// The device that a scratch file or partition is on, without opening it.
///
/// # Errors
/// It is not there, or its requests do not go through one queue.
pub fn device_of(sysfs: &Sysfs, path: &Path) -> Result<String, String> {
    let wrong = |reason: String| format!("{}: {reason}", path.display());
    let metadata = path.metadata().map_err(|error| wrong(not_there(&error)))?;
    queue_of(sysfs, number_of(&metadata)).map_err(wrong)
}

/// Of the device that it is, or is on.
fn number_of(metadata: &Metadata) -> (u32, u32) {
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    (major(number), minor(number))
}

fn not_there(error: &io::Error) -> String {
    format!("{error}; make it with `dd if=/dev/zero of=FILE bs=1M count=1024 conv=fsync`")
}

fn not_opened(error: &io::Error, is_device: bool) -> String {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::BUSY) => "is in use: it is mounted, swapped to, or something stands on it".to_owned(),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            let user = rustix::process::geteuid().as_raw();
            let how = if is_device { "udev rules and DeviceAllow=" } else { "chown and ReadWritePaths=" };
            format!(
                "user {user} may not write to it ({error}); {how} allow that, see the section on learning in docs/guide/administrator.md"
            )
        }
        _ => error.to_string(),
    }
}

/// Of a device the kernel refuses to be opened exclusively where it is in use, and keeps others from mounting it as long as it is open.
fn opened(path: &Path, is_device: bool) -> io::Result<File> {
    let flags = if is_device { OFlags::EXCL } else { OFlags::NOFOLLOW };
    OpenOptions::new().read(true).write(true).custom_flags((flags | OFlags::NONBLOCK).bits().cast_signed()).open(path)
}

/// All of a file, which has to be on the disk already: a hole is read without it, and writing to one is a matter of the filesystem.
fn of_file(file: &File, metadata: &Metadata) -> Result<Place, String> {
    if metadata.nlink() != 1 {
        return Err(format!("has {} names; the scratch file must have this one only", metadata.nlink()));
    }
    let bytes = metadata.len();
    // Where a filesystem does not know holes, the first is said to be at the end.
    let hole = if bytes == 0 { 0 } else { seek(file, SeekFrom::Hole(0)).map_err(|error| error.to_string())? };
    if hole < bytes {
        let mib = bytes.div_ceil(1 << 20);
        return Err(format!(
            "was never written beyond byte {hole}; write all of it: `dd if=/dev/zero of=FILE bs=1M count={mib} conv=fsync`"
        ));
    }
    Ok(Place { begins: 0, bytes })
}

/// A partition but for its head, where nothing may be.
fn of_device(file: &File) -> Result<Place, String> {
    let bytes = seek(file, SeekFrom::End(0)).map_err(|error| error.to_string())?;
    let mut head = Vec::new();
    seek(file, SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    file.take(HEAD).read_to_end(&mut head).map_err(|error| error.to_string())?;
    if head.iter().any(|&byte| byte != 0) {
        let remedy = "if all of it may be lost, empty its first MiB: `dd if=/dev/zero of=PARTITION bs=1M count=1`";
        return Err(format!("its first MiB is not empty, so there may be data on it; {remedy}"));
    }
    Ok(Place { begins: HEAD, bytes: bytes.saturating_sub(HEAD) })
}

/// The device whose queue the requests for this one go through.
fn queue_of(sysfs: &Sysfs, number: (u32, u32)) -> Result<String, String> {
    let devices = topology::devices(sysfs).map_err(|error| error.to_string())?;
    let is_it = |device: &&Device| device.number == number || device.partitions.iter().any(|part| part.number == number);
    let Some(device) = devices.iter().find(is_it) else {
        let (major, minor) = number;
        return Err(format!(
            "is on a filesystem that is on no single block device ({major}:{minor}): of btrfs, overlays, tmpfs and the network it is not known \
             which disk they reach"
        ));
    };
    let queues = stacks(&devices).into_iter().find(|stack| stack.devices.contains(&device.name)).map(|stack| stack.queues);
    match queues.unwrap_or_default().as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("is on {}, which has no queue to tune", device.name)),
        several => {
            Err(format!("is on {}, which stands on several devices ({}); it is learned on one", device.name, several.join(", ")))
        }
    }
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
        fs::write(&path, vec![7; LEAST as usize]).unwrap();
        let scratch = Scratch::open(&sysfs, &path).unwrap();
        assert_eq!((scratch.device.as_str(), scratch.place), ("sda", Place { begins: 0, bytes: LEAST }));
    }

    #[test]
    fn what_could_hit_something_else_is_refused() {
        let (folder, _root, sysfs) = scene();
        let path = folder.path().join("scratch");
        assert!(refusal(&sysfs, &path).contains("make it with `dd"));
        assert!(refusal(&sysfs, folder.path()).contains("should be a file, or a partition"));
        fs::write(&path, vec![7; LEAST as usize]).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(&sysfs, &link).contains("is a link"));
        fs::hard_link(&path, folder.path().join("other")).unwrap();
        assert!(refusal(&sysfs, &path).contains("has 2 names"));
    }

    #[test]
    fn what_tells_nothing_of_the_disk_is_refused() {
        let (folder, _root, sysfs) = scene();
        let path = folder.path().join("scratch");
        fs::write(&path, vec![7; LEAST as usize - 1]).unwrap();
        assert!(refusal(&sysfs, &path).contains("has room for 63 MiB; 64 MiB are the least"));
        File::create(&path).unwrap().set_len(LEAST).unwrap();
        assert!(refusal(&sysfs, &path).contains("was never written beyond byte 0"));
    }

    #[test]
    fn a_filesystem_that_is_on_no_disk_is_refused() {
        let (folder, ..) = scene();
        let (_root, sysfs) = machine((8, 1));
        let path = folder.path().join("scratch");
        fs::write(&path, vec![7; LEAST as usize]).unwrap();
        assert!(refusal(&sysfs, &path).contains("is on no single block device"));
    }
}
