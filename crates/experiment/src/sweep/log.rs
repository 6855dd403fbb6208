//! A log of completed results, one checksummed line each. A killed process tears at most the last line, which is truncated on open.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum line length in bytes. A row takes a few hundred, plus an error message.
const MAX_LINE: u64 = 1 << 20;

/// A log locked for writing by this process.
pub struct Log {
    file: File,
}

impl Log {
    /// Opens or creates the log and passes its results to `take`; `None` if another process holds the lock.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open<T: DeserializeOwned>(path: &Path, take: impl FnMut(T)) -> anyhow::Result<Option<Log>> {
        let of = || path.display().to_string();
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).with_context(of)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let end = read(&mut file, take).with_context(of)?;
        file.set_len(end).with_context(of)?;
        file.seek(SeekFrom::Start(end)).with_context(of)?;
        Ok(Some(Log { file }))
    }

    /// Appends a result, which survives the death of the process once this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, result: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string(result)?;
        Ok(self.file.write_all(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).as_bytes())?)
    }
}

/// Reads the results of a log that another process may be writing. Returns the end offset of the last complete line.
pub fn read<T: DeserializeOwned>(file: &mut File, mut take: impl FnMut(T)) -> std::io::Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut end, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let length = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        let Some(result) = parse(&line) else { return Ok(end) };
        end += length as u64;
        take(result);
    }
}

/// Parses a line; `None` if it is torn.
fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (sum, json) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(json.as_bytes());
    if is_whole { serde_json::from_str(json).ok() } else { None }
}
