//! Temporary files next to those that they will replace, and the removal of leftovers from killed programs.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tempfile::NamedTempFile;

const PREFIX: &str = ".seekwise-";
/// Random characters of a name, after the prefix.
const RANDOM: usize = 6;
/// Minimum age of a leftover: a younger file may not be locked yet.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A new file in the folder, to be renamed when it is complete; removed if it is dropped before. It has these permissions less the
/// umask, and is locked while it is open. Files that killed programs left there are removed first.
///
/// # Errors
/// Errors of the file system.
pub fn create(folder: &Path, permissions: u32) -> io::Result<NamedTempFile> {
    sweep(folder);
    let permissions = Permissions::from_mode(permissions);
    let file = tempfile::Builder::new().prefix(PREFIX).rand_bytes(RANDOM).permissions(permissions).tempfile_in(folder)?;
    // If files cannot be locked, no leftover can be recognised.
    let _ = flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

/// Removes leftovers of this user's killed programs from the folder. Errors are ignored: only the write matters.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_name) {
            let _ = remove_if_left(&entry.path());
        }
    }
}

fn is_name(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX);
    random.is_some_and(|random| random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Removes a file of this user that no program writes. Follows no link, and does not block on a pipe.
fn remove_if_left(path: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    if is_left(&file)? && is_same(path, &file)? { fs::remove_file(path) } else { Ok(()) }
}

/// Whether it is a file of this user, old enough, with one name, and not locked.
fn is_left(file: &File) -> io::Result<bool> {
    let about = file.metadata()?;
    let is_ours = about.is_file() && about.nlink() == 1 && about.uid() == rustix::process::geteuid().as_raw();
    let is_old = about.modified()?.elapsed().is_ok_and(|age| age >= MIN_AGE);
    Ok(is_ours && is_old && flock(file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Whether the name still refers to the opened file.
fn is_same(path: &Path, file: &File) -> io::Result<bool> {
    let (named, opened) = (fs::symlink_metadata(path)?, file.metadata()?);
    Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn aged(path: &Path) {
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::now() - 2 * MIN_AGE).unwrap();
    }

    /// A leftover as after SIGKILL: the file, without a lock.
    fn left(path: &Path) {
        fs::write(path, "half").unwrap();
        aged(path);
    }

    #[test]
    fn what_a_killed_program_left_is_removed_by_the_next_write_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let stay =
            ["table.csv", ".seekwise-notes", ".seekwise-Ab12C", ".seekwise-Ab12C.x", ".tmpAb12Cd", ".seekwise-linked", "linked"];
        stay.iter().for_each(|name| {
            if *name != ".seekwise-linked" {
                left(&at(name))
            }
        });
        symlink(at("linked"), at(".seekwise-linked")).unwrap();
        symlink(at("table.csv"), at(".seekwise-toLink")).unwrap();
        fs::create_dir(at(".seekwise-folder")).unwrap();
        fs::create_dir(at(".seekwise-Folder")).unwrap();
        fs::hard_link(at("table.csv"), at(".seekwise-secNam")).unwrap();
        fs::write(at(".seekwise-young1"), "half").unwrap();
        let mut before = names(folder.path());
        left(&at(".seekwise-Ab12Cd"));
        left(&at(".seekwise-999999"));
        let file = create(folder.path(), 0o666).unwrap();
        before.push(file.path().file_name().unwrap().to_str().unwrap().to_owned());
        before.sort();
        assert_eq!(names(folder.path()), before);
    }

    #[test]
    fn a_file_that_is_still_written_stays_however_old_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut slow = create(folder.path(), 0o666).unwrap();
        aged(slow.path());
        drop(create(folder.path(), 0o666).unwrap());
        slow.write_all(b"whole").unwrap();
        slow.persist(folder.path().join("table.csv")).unwrap();
        assert_eq!(names(folder.path()), ["table.csv"]);
    }
}
