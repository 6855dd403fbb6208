//! Opens the file and checks its kind and version before changing it.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Gid, Uid};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{KnowledgeError, Problem};
use super::interrupt;
use super::schema::{self, FileKind, Step};

/// Time to wait for another program's transaction. Ours take milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLite's smallest page.
const SMALLEST_BYTES: u64 = 512;

/// Mode in which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Read and write; created if missing.
    Create,
    /// Read and write; must exist.
    Write,
    /// Read only; must exist, and is not changed.
    Read,
}

/// Opens a knowledge base whose current version is the last of `steps`.
pub(super) fn open(path: &Path, access: Access, steps: &[Step]) -> Result<Connection, KnowledgeError> {
    let _identity = OwnerIdentity::assume(path).map_err(|problem| problem.of(path))?;
    check_type(path, access).and_then(|()| connect(path, access, steps)).map_err(|problem| problem.of(path))
}

/// While it lives, this thread of root opens, creates and deletes files with the rights of the owner of a foreign folder. SQLite deletes the
/// file that a rollback journal names as its super-journal, and takes over logs: either could be planted there.
struct OwnerIdentity;

impl OwnerIdentity {
    /// Assumes the rights of the owner of the file's folder if it is [foreign](foreign_folder); `None` if it is not.
    fn assume(path: &Path) -> Result<Option<OwnerIdentity>, Problem> {
        let Some(folder) = foreign_folder(path) else { return Ok(None) };
        let about = fs::metadata(folder).map_err(Problem::Io)?;
        nix::unistd::setfsgid(Gid::from_raw(about.gid()));
        nix::unistd::setfsuid(Uid::from_raw(about.uid()));
        let assumed = OwnerIdentity;
        // The call does not report an error; a second one returns the identity in effect.
        if nix::unistd::setfsuid(Uid::from_raw(u32::MAX)).as_raw() == about.uid() {
            return Ok(Some(assumed));
        }
        Err(Problem::Io(io::Error::from(io::ErrorKind::PermissionDenied)))
    }
}

impl Drop for OwnerIdentity {
    fn drop(&mut self) {
        nix::unistd::setfsuid(nix::unistd::geteuid());
        nix::unistd::setfsgid(nix::unistd::getegid());
    }
}

/// Checks the file's type: SQLite would wait for a pipe, and reports a missing folder only as a file that it cannot open.
pub(super) fn check_type(path: &Path, access: Access) -> Result<(), Problem> {
    if foreign_folder(path).is_some() && fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) {
        return Err(Problem::NotAFile("a link in another user's folder, which root does not follow"));
    }
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(Problem::NotAFile("a folder")),
        Ok(about) if !about.is_file() => Err(Problem::NotAFile("a pipe or a device")),
        Ok(about) if about.len() == 0 && access != Access::Create => Err(Problem::NotKnowledge("is empty")),
        // SQLite would treat a file this small as empty and overwrite it.
        Ok(about) if (1..SMALLEST_BYTES).contains(&about.len()) => Err(Problem::NotKnowledge("is no database")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Create && !path.as_os_str().is_empty() => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if folder.is_dir() { Ok(()) } else { Err(Problem::NoFolder(folder.to_owned())) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Problem::Missing),
        Err(error) => Err(Problem::Io(error)),
    }
}

fn connect(path: &Path, access: Access, steps: &[Step]) -> Result<Connection, Problem> {
    // A relative name could be one of SQLite's special ones (`:memory:`); URIs are off for the same reason.
    let absolute = std::path::absolute(path).map_err(Problem::Io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let flags = if access == Access::Create { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags };
    let (absolute, links) = match foreign_folder(&absolute).zip(absolute.file_name()) {
        // SQLite refuses a link anywhere in the path, and the folder may have been reached by one.
        Some((folder, name)) => (folder.join(name), OpenFlags::SQLITE_OPEN_NOFOLLOW),
        None => (absolute, OpenFlags::empty()),
    };
    let mut connection = Connection::open_with_flags(&absolute, flags | links).map_err(|error| diagnose(path, error))?;
    let found = match look_inside(&connection, steps) {
        Err(error) if access == Access::Read && is_for_writers(&error) => {
            if has_log(&absolute) {
                return Err(Problem::Unfinished);
            }
            connection = open_immutable(&absolute, links).map_err(|error| diagnose(path, error))?;
            look_inside(&connection, steps)
        }
        found => found,
    };
    let known = steps.len() as u32;
    let found = match found.map_err(|error| diagnose(path, error))? {
        FileKind::Other => return Err(Problem::NotKnowledge("is another program's database")),
        FileKind::Version(found) if found > known => return Err(Problem::Newer { found, known }),
        FileKind::Nothing if access != Access::Create => return Err(Problem::NotKnowledge("is an empty database")),
        FileKind::ForeignCode => {
            return Err(Problem::NotKnowledge(
                "has a view or a trigger that no knowledge base has, so that a query might never end",
            ));
        }
        FileKind::Version(found) => found,
        FileKind::Nothing => 0,
    };
    if access == Access::Read {
        if found < known {
            return Err(Problem::Older { found, known });
        }
        connection.pragma_update(None, "query_only", true)?;
        return Ok(connection);
    }
    if connection.is_readonly("main")? {
        return Err(Problem::ReadOnly);
    }
    prepare_for_writing(&mut connection, found, steps)?;
    Ok(connection)
}

/// Sets up a connection for an untrusted file, and reads the file's kind and version.
fn look_inside(connection: &Connection, steps: &[Step]) -> rusqlite::Result<FileKind> {
    interrupt::watch(connection);
    connection.busy_timeout(LOCK_TIMEOUT)?;
    // The file is untrusted: nothing in its schema may call functions, and damaged pages are detected before they are used.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // One snapshot: another program may be creating it.
    let moment = connection.unchecked_transaction()?;
    let kind = schema::file_kind(&moment)?;
    let made = match kind {
        FileKind::Version(found) => steps.get(..found as usize),
        FileKind::Nothing | FileKind::Other | FileKind::ForeignCode => None,
    };
    let is_foreign = made.map_or(Ok(false), |steps| schema::has_foreign_code(&moment, steps))?;
    Ok(if is_foreign { FileKind::ForeignCode } else { kind })
}

/// WAL with `synchronous=NORMAL`: a transaction is committed once it is in the page cache of the log, so it survives a crash of the
/// program. A crash of the machine may lose the last transactions but never damages the file. FULL would prevent the loss at the cost of
/// one fsync per transaction, on the disk that is being tuned.
fn prepare_for_writing(connection: &mut Connection, found: u32, steps: &[Step]) -> Result<(), Problem> {
    if found == 0 {
        // Must precede the first table; allows the file to shrink incrementally.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != "wal" {
        write_ahead(connection)?;
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The log is truncated to this size after a large transaction.
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    if (found as usize) < steps.len() {
        schema::migrate(connection, steps)?;
    }
    Ok(())
}

/// Enables WAL. SQLite does not wait for another program that does so concurrently, so this waits in a transaction without changes.
fn write_ahead(connection: &Connection) -> Result<(), Problem> {
    const TRIES: usize = 100;
    for _ in 1..TRIES {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)).map_err(Problem::from) {
            Err(Problem::Busy) => match connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(Problem::from) {
                Ok(()) | Err(Problem::Busy) => {}
                Err(problem) => return Err(problem),
            },
            Err(problem) => return Err(problem),
            // A file system without shared memory keeps the rollback journal, which is as safe but slower.
            Ok(_) => return Ok(()),
        }
    }
    Err(Problem::Busy)
}

/// Whether the error means that the index of the log cannot be created.
fn is_for_writers(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// Whether part of the data is still in the log.
fn has_log(path: &Path) -> bool {
    let log: OsString = [path.as_os_str(), "-wal".as_ref()].into_iter().collect();
    fs::metadata(log).is_ok_and(|about| about.len() > 0)
}

/// The resolved folder of a file, if this process is root and the folder belongs to another user, such as the daemon's: that user could put a
/// link there to any file of root's.
fn foreign_folder(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_foreign = rustix::process::geteuid().is_root() && fs::metadata(folder).is_ok_and(|about| about.uid() != 0);
    is_foreign.then(|| folder.canonicalize().ok()).flatten()
}

/// Opens a file for which the index of the log cannot be created. On a read-only medium no other program writes either. `links`: whether
/// one is refused.
fn open_immutable(path: &Path, links: OpenFlags) -> rusqlite::Result<Connection> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(uri + "?immutable=1", flags | links)
}

/// Determines the cause of a failed open, which SQLite does not report.
fn diagnose(path: &Path, error: rusqlite::Error) -> Problem {
    if error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return error.into();
    }
    let opened = File::options().read(true).write(true).open(path);
    match opened {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Problem::Io(cause),
        _ => error.into(),
    }
}
