//! A log of results that are done: a line each, with its checksum. A killed process tears at most the last line, which is cut off.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest line: a row is some hundred bytes, and its error a message.
const MAX_LINE: u64 = 1 << 20;

/// A log that only this process writes.
pub struct Log {
    file: File,
}

impl Log {
    /// Opens or makes it; `None` if another process has it. `take` gets the results in it.
    ///
    /// # Errors
    /// It cannot be read or written.
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

    /// Adds a result. Once this returns it is done, whatever becomes of the process.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, result: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string(result)?;
        Ok(self.file.write_all(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).as_bytes())?)
    }
}

/// Reads the results of a log that another process may be writing; where the last whole line ends.
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

/// The result of a line; `None` if the line is not whole.
fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (sum, json) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let is_whole = u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(json.as_bytes());
    if is_whole { serde_json::from_str(json).ok() } else { None }
}
