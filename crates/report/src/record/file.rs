//! Records as files: pretty JSON, written by rename, refused with file and line when they are not what they should be.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Record, SCHEMA};

/// What the name of every record's file ends with. Other files of a folder are not records.
pub const SUFFIX: &str = ".record.json";

/// A record is a few hundred kilobytes. A file beyond this is something else, and is not read into memory.
const LIMIT_BYTES: u64 = 256 << 20;

/// Longest part of a file's name made from a trace's, a disk's or a scheduler's: three of them stay below the 255 bytes that
/// file systems allow.
const PART_LIMIT: usize = 60;

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Not JSON, or not the JSON of a record.
    #[error("{}: line {line}, column {column}: {problem}; a record is JSON as seekwise writes it", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// Where, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A record of another version of the program.
    #[error("{}: schema: {found} is not readable, {SCHEMA} would be; replay the trace again with this version of seekwise", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// Too large for a record.
    #[error("{}: {bytes} bytes are too many for a record, which has at most {LIMIT_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A folder without records.
    #[error("{}: no record in this folder; a record's file name ends with {SUFFIX}", path.display())]
    NoRecords {
        /// The folder.
        path: PathBuf,
    },
}

/// Writes the record into the folder, which must exist, and returns the file's path.
///
/// The same run always has the same name (trace, disk, scheduler label and a digest of all that distinguishes runs), so writing it
/// again replaces it. A number that is not finite is written as `null`.
///
/// # Errors
/// [`FileError::Io`] where the folder cannot be written to.
pub fn write(dir: &Path, record: &Record) -> Result<PathBuf, FileError> {
    let path = dir.join(file_name(record));
    let mut json =
        serde_json::to_vec_pretty(record).map_err(|error| FileError::Io { path: path.clone(), source: io::Error::other(error) })?;
    json.push(b'\n');
    replace(&path, &json).map_err(|source| FileError::Io { path: path.clone(), source })?;
    Ok(path)
}

/// Where a file written to `path` comes to lie: at the end of its symbolic links, even of one that leads to no file yet.
///
/// # Errors
/// Links that lead round in a circle.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    // Linux follows no more links either.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.read_link() {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many symbolic links, one leading to the next"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Whether [`replace`] could begin, found out without leaving a trace: to be asked before long work is done for the file.
///
/// # Errors
/// Whatever the file system says.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    // Opening a pipe would wait for its reader, and closing it again would send that away.
    if is_special(path) {
        return Ok(());
    }
    tempfile::tempfile_in(folder_of(&destination(path)?)).map(drop)
}

/// Puts the bytes where the path says, whole or not at all: readers see the old file or the new one. The file gets the permissions
/// that a newly created one would have. A symbolic link stays one, and what is no file (`/dev/stdout`, a pipe) is written to.
///
/// # Errors
/// Whatever the file system says; the old file is then untouched.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(path) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &destination(path)?;
    let mut builder = tempfile::Builder::new();
    // A temporary file is private by default; with these bits the process's umask decides, as for any other new file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads one record.
///
/// # Errors
/// Each names the file, and the line or key: not readable, not a record, another schema, too large.
pub fn read(path: &Path) -> Result<Record, FileError> {
    let io_error = |source| FileError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io_error)?;
    let mut bytes = Vec::new();
    file.take(LIMIT_BYTES + 1).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() as u64 > LIMIT_BYTES {
        let bytes = std::fs::metadata(path).map_err(io_error)?.len();
        return Err(FileError::TooLarge { path: path.to_owned(), bytes });
    }
    parse(path, &bytes)
}

/// Reads the folder's records, in the order of their file names.
///
/// # Errors
/// Those of [`read`], and [`FileError::NoRecords`].
pub fn read_dir(dir: &Path) -> Result<Vec<Record>, FileError> {
    let io_error = |source| FileError::Io { path: dir.to_owned(), source };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        if entry.file_name().to_string_lossy().ends_with(SUFFIX) {
            paths.push(entry.path());
        }
    }
    if paths.is_empty() {
        return Err(FileError::NoRecords { path: dir.to_owned() });
    }
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// The schema comes first: a record of another version should be told so, and not that some key of it is unknown.
fn parse(path: &Path, bytes: &[u8]) -> Result<Record, FileError> {
    #[derive(Deserialize)]
    struct Header {
        schema: u64,
    }
    let malformed = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&problem).to_owned();
        FileError::Malformed { path: path.to_owned(), line, column, problem }
    };
    let header: Header = serde_json::from_slice(bytes).map_err(malformed)?;
    if header.schema != u64::from(SCHEMA) {
        return Err(FileError::Schema { path: path.to_owned(), found: header.schema });
    }
    serde_json::from_slice(bytes).map_err(malformed)
}

/// Readable parts, and a digest: parts that differ only in unsafe characters, or in what the name leaves out, stay apart.
fn file_name(record: &Record) -> String {
    let Record { trace, disk, scheduler, replay, .. } = record;
    let mut digest = Sha256::new();
    let what = [&trace.name, &trace.format, &trace.sha256, &disk.name, &disk.sha256, &disk.queue_policy];
    for part in what.into_iter().chain([&scheduler.label, &replay.mode, &replay.fit]) {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.update(trace.requests.unwrap_or(0).to_le_bytes());
    digest.update(replay.seed.unwrap_or(0).to_le_bytes());
    digest.update(disk.queue_depth.to_le_bytes());
    digest.update(replay.speed.to_bits().to_le_bytes());
    for (name, value) in &replay.host {
        digest.update(format!("{name}={value}\0"));
    }
    if let Some(steering) = &record.steering {
        digest.update(&steering.preference);
    }
    let digest: String = digest.finalize().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{}_{}_{}_{digest}{SUFFIX}", safe(&trace.name), safe(&disk.name), safe(&scheduler.label))
}

/// Letters, digits, dots and dashes; never a leading dot, which would hide the file.
fn safe(part: &str) -> String {
    let safe_char = |c: char| if c.is_ascii_alphanumeric() || ".-=".contains(c) { c } else { '-' };
    let name: String = part.trim_start_matches('.').chars().map(safe_char).take(PART_LIMIT).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}
