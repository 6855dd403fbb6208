//! Checksums of a store: any flipped bit in a file we wrote is detected.
//!
//! ```text
//!  PAR1 row group 0 │ row group 1 │ … │ page indexes │ trailer: SWCRC32\n, CRC-32 │ footer, its length, PAR1
//!  ╰── one CRC-32 ──╯── one ──────╯    ╰──────────────────── one, in the trailer ─────────────────────────╯
//!        ╰── both in the footer, under CHECKSUMS_KEY ╯
//! ```
//! The format has checksums of single pages, which the library checks but does not write, and none of its footer. Readers find the
//! footer by its length at the end of the file and everything else by the footer, so that bytes before it disturb none of them.
//!
//! A file of an earlier version or of another program has neither trailer nor list. A program that rewrites a store keeps the list, which
//! is metadata to it, but neither the bytes that were summed up nor the trailer, and puts its own name into the footer: such a file is read
//! without checking. A file with only one of trailer and list that we wrote ourselves is damaged.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use crc32fast::Hasher;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::{CHECKSUMS_KEY, PROGRAM_KEY, value};

/// Magic of the trailer.
const TRAILER: &[u8; 8] = b"SWCRC32\n";
/// Magic and checksum.
const TRAILER_BYTES: u64 = 12;
/// Length of the ending after the footer: its length and the magic.
const ENDING_BYTES: usize = 8;
/// Bytes read at once to be summed up.
const BUFFER_BYTES: usize = 64 << 10;

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// The byte behind its last; it begins where the one before ends.
    end: u64,
    sum: u32,
}

/// A file being written, and the sums of its parts.
pub(crate) struct Summed {
    out: Box<dyn Write + Send>,
    written: u64,
    /// Checksum since the end of the last part.
    sum: Hasher,
    parts: Vec<Part>,
    /// Bytes held back.
    held: Option<Vec<u8>>,
}

impl Summed {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Summed {
        Summed { out, written: 0, sum: Hasher::new(), parts: Vec::new(), held: None }
    }

    /// A row group has been written.
    pub(crate) fn end_part(&mut self) {
        let sum = std::mem::take(&mut self.sum).finalize();
        self.parts.push(Part { end: self.written, sum });
    }

    /// Called after the last row group: holds back further bytes. Returns the list of checksums, to be written into the footer.
    pub(crate) fn hold(&mut self) -> String {
        self.held = Some(Vec::new());
        self.parts.iter().map(|part| format!("{}:{:08x}", part.end, part.sum)).collect::<Vec<_>>().join(" ")
    }

    /// Writes the bytes held back, with the trailer before the footer.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let held = self.held.take().unwrap_or_default();
        let wrong = || io::Error::other("the footer's length is not at the end of the written file");
        let ending = held.len().checked_sub(ENDING_BYTES).ok_or_else(wrong)?;
        let length = held[ending..].first_chunk().map_or(u32::MAX, |length| u32::from_le_bytes(*length));
        let footer = ending.checked_sub(length as usize).ok_or_else(wrong)?;
        self.sum.update(&held);
        self.out.write_all(&held[..footer])?;
        self.out.write_all(TRAILER)?;
        self.out.write_all(&self.sum.finalize().to_le_bytes())?;
        self.out.write_all(&held[footer..])?;
        self.out.flush()
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(held) = &mut self.held {
            held.extend(bytes);
            return Ok(bytes.len());
        }
        let count = self.out.write(bytes)?;
        self.sum.update(&bytes[..count]);
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The sums of a file's row groups; none if the file has no checksums of ours.
#[derive(Debug, Default)]
pub(super) struct Checksums {
    parts: Vec<Part>,
    /// Why there are none.
    missing: Option<String>,
}

impl Checksums {
    /// Reads them, and checks the bytes behind the row groups. The footer begins at byte `footer`.
    pub(super) fn open(file: &File, length: u64, footer: u64, metadata: &ParquetMetaData) -> Result<Checksums, ParquetError> {
        let writer = metadata.file_metadata().created_by();
        let missing = |why| Ok(Checksums { parts: Vec::new(), missing: Some(why) });
        let (list, expected) = match (value(metadata, CHECKSUMS_KEY), trailer(file, footer)?) {
            (None, None) => return missing("has no checksums".to_owned()),
            (Some(list), Some(sum)) => (list, sum),
            (None, Some(_)) => return Err(damaged("its footer has lost the list of checksums".to_owned())),
            (Some(_), None) => match writer.filter(|writer| value(metadata, PROGRAM_KEY) != Some(writer)) {
                Some(writer) => return missing(format!("was rewritten by {}, without Seekwise's checksums", shown(writer))),
                None => return Err(damaged("the checksum before its footer is lost".to_owned())),
            },
        };
        let parts = list.split_ascii_whitespace().map(part).collect::<Option<Vec<Part>>>();
        let parts = parts.filter(|parts| parts.len() == metadata.num_row_groups());
        let parts = parts.filter(|parts| parts.is_sorted_by_key(|part| part.end));
        let parts = parts.ok_or_else(|| damaged("the list of checksums in its footer cannot be read".to_owned()))?;
        let from = parts.last().map_or(0, |part| part.end);
        let before = footer - TRAILER_BYTES;
        if from > before {
            return Err(damaged(format!("the row groups end at byte {from}, behind the checksum at byte {before}")));
        }
        let mut sum = Hasher::new();
        update(&mut sum, file, from, before)?;
        update(&mut sum, file, footer, length)?;
        if sum.finalize() != expected {
            return Err(damaged(format!("bytes {from} to {length} are damaged (CRC-32 mismatch)")));
        }
        Ok(Checksums { parts, missing: None })
    }

    /// Why the file has no checksums of ours; `None`: it has.
    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Checks a row group, before it is decoded.
    pub(super) fn check(&self, file: &File, group: usize) -> Result<(), ParquetError> {
        let Some(part) = self.parts.get(group) else { return Ok(()) };
        let from = if group == 0 { 0 } else { self.parts[group - 1].end };
        let mut sum = Hasher::new();
        update(&mut sum, file, from, part.end)?;
        if sum.finalize() == part.sum {
            return Ok(());
        }
        Err(damaged(format!("row group {group}, bytes {from} to {}, is damaged (CRC-32 mismatch)", part.end)))
    }
}

/// The sum in the trailer before the footer, if there is one.
fn trailer(file: &File, footer: u64) -> Result<Option<u32>, ParquetError> {
    let Some(at) = footer.checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let mut bytes = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes.strip_prefix(TRAILER).and_then(|sum| sum.try_into().ok()).map(u32::from_le_bytes))
}

/// `1048576:0123abcd`.
fn part(text: &str) -> Option<Part> {
    let (end, sum) = text.split_once(':')?;
    Some(Part { end: end.parse().ok()?, sum: u32::from_str_radix(sum, 16).ok()? })
}

fn update(sum: &mut Hasher, file: &File, mut from: u64, until: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while from < until {
        let count = (until - from).min(BUFFER_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..count], from)?;
        sum.update(&buffer[..count]);
        from += count as u64;
    }
    Ok(())
}

/// A program's name, which the file gives.
fn shown(writer: &str) -> String {
    const SHOWN: usize = 60;
    writer.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

fn damaged(message: String) -> ParquetError {
    ParquetError::General(message)
}
