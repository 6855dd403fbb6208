//! The original values, stored on disk.
//!
//! ```text
//! /var/lib/seekwise/sda.journal:   one line per attribute
//!     8 digits of CRC-32, a space, a record as JSON
//!                                  and at the end: `end`, and the number of lines
//! ```
//! A file is replaced atomically: written under another name, synced, renamed, and the rename synced. So if the process is killed, it is
//! either the old or the new one. Lines are independent: damage to one by a bad disk does not affect others.

mod record;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use record::{AtExit, Identity, Match, Record};

use crate::sysfs::Files;

/// Suffix of a device's file.
const ENDING: &str = ".journal";
/// Suffix of a file that is being written.
const UNFINISHED: &str = ".unfinished";

/// Prefix of the last line.
const END: &str = "end ";

fn end_of(lines: usize) -> String {
    format!("{END}{lines}")
}

/// A folder with one file per device with changed attributes.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The readable records.
    pub records: Vec<Record>,
    /// The damaged parts, each with file, line and reason.
    pub damage: Vec<String>,
}

/// Why the journal could not be used.
#[derive(Debug)]
pub struct JournalError {
    path: PathBuf,
    doing: &'static str,
    source: io::Error,
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let JournalError { path, doing, source } = self;
        write!(f, "journal {}: cannot {doing}: {source}; nothing is set without it", path.display())
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl JournalError {
    fn at<'a>(path: &'a Path, doing: &'static str) -> impl FnOnce(io::Error) -> JournalError + use<'a> {
        move |source| JournalError { path: path.to_owned(), doing, source }
    }
}

impl Journal {
    /// Opens the journal in this folder, which is created if missing.
    ///
    /// The folder cannot be created.
    /// It cannot be made.
    pub fn open(files: &mut dyn Files, folder: &Path) -> Result<Journal, JournalError> {
        if files.names(folder).is_err() {
            files.make_folder(folder).map_err(JournalError::at(folder, "make the folder"))?;
            if let Some(above) = folder.parent() {
                files.sync(above).map_err(JournalError::at(above, "wait for the disk"))?;
            }
        }
        Ok(Journal { folder: folder.to_owned() })
    }

    /// The devices with records, possibly including the machine.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn devices(&self, files: &dyn Files) -> Result<Vec<String>, JournalError> {
        let names = files.names(&self.folder).map_err(JournalError::at(&self.folder, "list the folder"))?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(ENDING)).map(str::to_owned).collect())
    }

    /// The records of a device. Returns damaged lines apart from the records that can be read.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn page(&self, files: &dyn Files, device: &str) -> Result<Page, JournalError> {
        let path = self.path(device);
        let bytes = match files.bytes(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Page::default()),
            bytes => bytes.map_err(JournalError::at(&path, "read it"))?,
        };
        let mut page = Page::default();
        let mut lines: Vec<(usize, &[u8])> =
            bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()).collect();
        let end = lines.pop_if(|(_, line)| line.starts_with(END.as_bytes()));
        for (index, line) in &lines {
            match Record::parse(line) {
                Ok(record) => page.records.push(record),
                Err(reason) => page.damage.push(format!("{} line {}: {reason}", path.display(), index + 1)),
            }
        }
        if end.is_none_or(|(_, line)| line != end_of(lines.len()).as_bytes()) {
            page.damage.push(format!(
                "{}: its end is missing: it should close with '{END}' and the number of lines before",
                path.display()
            ));
        }
        Ok(page)
    }

    /// Replaces the records of a device; they are on disk when this returns.
    ///
    /// # Errors
    /// The records are not on disk; the previous ones may be.
    pub fn put(&self, files: &mut dyn Files, device: &str, records: &[Record]) -> Result<(), JournalError> {
        self.replace(files, device, records, true)
    }

    /// Like [`put`](Journal::put), without a sync, for changes of the agent's values only: these survive the end of this process, and a
    /// reboot resets the kernel's settings. The disk may be the one whose load the new value limits.
    /// # Errors
    /// Those of [`put`](Journal::put).
    pub fn put_without_waiting(&self, files: &mut dyn Files, device: &str, records: &[Record]) -> Result<(), JournalError> {
        self.replace(files, device, records, false)
    }

    fn replace(&self, files: &mut dyn Files, device: &str, records: &[Record], waits: bool) -> Result<(), JournalError> {
        let path = self.path(device);
        if records.is_empty() {
            match files.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                removed => removed.map_err(JournalError::at(&path, "remove it"))?,
            }
        } else {
            let unfinished = self.folder.join(format!("{device}{UNFINISHED}"));
            let text: String = records.iter().map(Record::line).chain([end_of(records.len()), "\n".to_owned()]).collect();
            files.write(&unfinished, text.as_bytes()).map_err(JournalError::at(&unfinished, "write it"))?;
            if waits {
                files.sync(&unfinished).map_err(JournalError::at(&unfinished, "wait for the disk"))?;
            }
            files.rename(&unfinished, &path).map_err(JournalError::at(&path, "replace it"))?;
        }
        if !waits {
            return Ok(());
        }
        files.sync(&self.folder).map_err(JournalError::at(&self.folder, "wait for the disk"))
    }

    /// Removes unfinished files of a killed process, as far as possible. Must only be called by the owner of the journal.
    pub fn remove_unfinished(&self, files: &mut dyn Files) {
        for name in files.names(&self.folder).unwrap_or_default().iter().filter(|name| name.ends_with(UNFINISHED)) {
            // If it stays, the device's next record replaces it.
            let _ = files.remove(&self.folder.join(name));
        }
    }

    /// Copies a damaged file to a name that will not be overwritten. Returns the copy's path.
    ///
    /// # Errors
    /// The file cannot be copied.
    pub fn keep_damaged(&self, files: &mut dyn Files, device: &str) -> Result<PathBuf, JournalError> {
        let path = self.path(device);
        let bytes = files.bytes(&path).map_err(JournalError::at(&path, "read it"))?;
        let taken = files.names(&self.folder).map_err(JournalError::at(&self.folder, "list the folder"))?;
        let name = (1..=taken.len() + 1).map(|number| format!("{device}.damaged-{number}")).find(|name| !taken.contains(name));
        let copy = self.folder.join(name.unwrap_or_default());
        files.write(&copy, &bytes).map_err(JournalError::at(&copy, "write it"))?;
        files.sync(&copy).map_err(JournalError::at(&copy, "wait for the disk"))?;
        files.sync(&self.folder).map_err(JournalError::at(&self.folder, "wait for the disk"))?;
        Ok(copy)
    }

    fn path(&self, device: &str) -> PathBuf {
        self.folder.join(format!("{device}{ENDING}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::RealFiles;

    fn record(attribute: &str, original: &str) -> Record {
        Record { attribute: attribute.to_owned(), original: Some(original.to_owned()), ..Record::default() }
    }

    fn journal() -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(&mut RealFiles, &folder.path().join("a/b")).unwrap();
        (folder, journal)
    }

    #[test]
    fn records_are_read_back_as_they_were_put() {
        let (_folder, journal) = journal();
        let records = [record("scheduler", "none"), record("read_ahead_kb", "128")];
        journal.put(&mut RealFiles, "sda", &records).unwrap();
        assert_eq!(journal.page(&RealFiles, "sda").unwrap(), Page { records: records.to_vec(), damage: vec![] });
        assert_eq!(journal.devices(&RealFiles).unwrap(), ["sda"]);
        journal.put(&mut RealFiles, "sda", &[]).unwrap();
        assert!(journal.devices(&RealFiles).unwrap().is_empty());
        assert_eq!(journal.page(&RealFiles, "sda").unwrap(), Page::default());
    }

    #[test]
    fn a_damaged_line_is_named_and_takes_no_other_with_it() {
        let (_folder, journal) = journal();
        let records = [record("scheduler", "none"), record("nomerges", "0"), record("read_ahead_kb", "128")];
        journal.put(&mut RealFiles, "sda", &records).unwrap();
        let path = journal.path("sda");
        let good = std::fs::read(&path).unwrap();
        // Flips each byte, as a bad disk may, and truncates the file at each length.
        let second = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for place in second..second + 40 {
            let mut bytes = good.clone();
            bytes[place] ^= 0x11;
            std::fs::write(&path, &bytes).unwrap();
            let page = journal.page(&RealFiles, "sda").unwrap();
            assert_eq!(page.records, [records[0].clone(), records[2].clone()], "byte {place}");
            assert!(page.damage[0].contains("sda.journal line 2: "), "{}", page.damage[0]);
        }
        for length in 1..good.len() - 1 {
            std::fs::write(&path, &good[..length]).unwrap();
            let page = journal.page(&RealFiles, "sda").unwrap();
            let whole = good[..length + 1].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(page.records, records[..whole], "{length} bytes");
            assert!(page.damage.last().unwrap().contains("its end is missing"), "{length} bytes: {:?}", page.damage);
        }
    }

    #[test]
    fn what_is_damaged_is_kept_and_never_overwritten() {
        let (_folder, journal) = journal();
        for number in 1..=2 {
            std::fs::write(journal.path("sda"), format!("nonsense {number}")).unwrap();
            let copy = journal.keep_damaged(&mut RealFiles, "sda").unwrap();
            assert!(copy.ends_with(format!("sda.damaged-{number}")));
            assert_eq!(std::fs::read_to_string(copy).unwrap(), format!("nonsense {number}"));
        }
        assert_eq!(journal.devices(&RealFiles).unwrap(), ["sda"]);
    }

    #[test]
    fn what_a_killed_process_left_half_written_is_removed_and_nothing_else() {
        let (_folder, journal) = journal();
        journal.put(&mut RealFiles, "sda", &[record("scheduler", "none")]).unwrap();
        for left in ["sda.unfinished", "nvme0n1.unfinished", "sda.damaged-1", "notes"] {
            std::fs::write(journal.folder.join(left), "half").unwrap();
        }
        journal.remove_unfinished(&mut RealFiles);
        assert_eq!(RealFiles.names(&journal.folder).unwrap(), ["notes", "sda.damaged-1", "sda.journal"]);
    }

    #[test]
    fn a_newer_versions_record_is_refused_and_not_guessed() {
        let line = Record { schema: 2, ..record("scheduler", "none") }.line();
        assert!(Record::parse(line.trim_end().as_bytes()).unwrap_err().contains("version 2"));
        assert!(Record::parse(b"\xff\xff").unwrap_err().contains("UTF-8"));
    }
}
