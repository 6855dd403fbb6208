//! Records as files: pretty JSON, written by rename; reading errors name file and line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Record, SCHEMA, unfinished};

/// Suffix of record files. Other files in a folder are not records.
pub const SUFFIX: &str = ".record.json";

/// A record is a few hundred kilobytes. A larger file is something else and is not read into memory.
const LIMIT_BYTES: u64 = 256 << 20;

/// Maximum length of each part of a file name (trace, disk, scheduler): three stay below the 255 bytes that file systems allow.
const PART_LIMIT: usize = 60;

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// An error of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Not JSON, or not the JSON of a record.
    #[error("{}: line {line}, column {column}: {problem}; a record is JSON as seekwise writes it", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the error.
        problem: String,
    },
    /// A record of another version of the program.
    #[error("{}: schema: version {found} cannot be read, only {SCHEMA}; run the load again with this version of seekwise", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
    /// Too large for a record.
    #[error("{}: {bytes} bytes are too many for a record; at most {LIMIT_BYTES} are allowed", path.display())]
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
/// The name consists of trace, disk, scheduler label and a digest of everything that distinguishes runs, so writing the same run
/// again replaces it. A number that is not finite is written as `null`.
///
/// # Errors
/// [`FileError::Io`] if the folder cannot be written to.
pub fn write(dir: &Path, record: &Record) -> Result<PathBuf, FileError> {
    let path = dir.join(file_name(record));
    let mut json =
        serde_json::to_vec_pretty(record).map_err(|error| FileError::Io { path: path.clone(), source: io::Error::other(error) })?;
    json.push(b'\n');
    replace(&path, &json).map_err(|source| FileError::Io { path: path.clone(), source })?;
    Ok(path)
}

/// Where a file written to `path` ends up: follows symbolic links, even one whose target does not exist yet.
///
/// # Errors
/// If the links form a loop.
pub fn destination(path: &Path) -> io::Result<PathBuf> {
    // Linux's limit.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match path.read_link() {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "too many levels of symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file() && !data.is_dir())
}

/// Checks without side effects that [`replace`] could begin. Call it before doing long work for the file.
///
/// # Errors
/// Errors of the file system.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    // Opening a pipe would wait for its reader, and closing it would end the reader's input.
    if is_special(path) {
        return Ok(());
    }
    tempfile::tempfile_in(folder_of(&destination(path)?)).map(drop)
}

/// Writes the bytes to `path` atomically: readers see the old file or the new one. The file gets the permissions of a newly
/// created one. A symbolic link is kept, and something other than a file (`/dev/stdout`, a pipe) is written to directly.
///
/// # Errors
/// Errors of the file system; the old file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_special(path) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &destination(path)?;
    // With these bits the process's umask decides, as for any other new file.
    let mut file = unfinished::create(folder_of(path), 0o666)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads one record.
///
/// # Errors
/// The file is not readable, not a record, of another schema, or too large. Each names the file and the line or key.
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

/// Reads the folder's records, in the order of the comparison that wrote them.
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
    let mut records: Vec<Record> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    // Of several comparisons' records, those of the same position stay in the order of their names.
    records.sort_by_key(|record| record.position);
    Ok(records)
}

/// The schema is checked first: for a record of another version, an unknown key would be a misleading error.
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

/// Readable parts and a digest, which distinguishes parts that differ only in unsafe or omitted characters.
fn file_name(record: &Record) -> String {
    let Record { trace, disk, scheduler, replay, .. } = record;
    let mut digest = Sha256::new();
    let what = [&trace.name, &trace.format, &trace.sha256, &disk.name, &disk.sha256, &disk.queue_policy];
    for part in what.into_iter().chain([&scheduler.label, &replay.mode, &replay.fit]) {
        // The length distinguishes ("ab", "c") from ("a", "bc").
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
    if let Some(tenancy) = &record.tenants {
        digest.update(&tenancy.sha256);
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
