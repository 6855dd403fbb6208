//! The history, for `history` and `explain`: bounded in memory, and in a file that persists across restarts.

use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use control::Verdict;
use report::gains::{signed, with_error};
use report::record::unfinished;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// File name in the state directory; one line of JSON per entry. Choice: a name for its content and format; not varied.
const FILE: &str = "history.jsonl";
/// Length of the id of a recommendation, in characters. Choice: more are tedious to type, fewer collide; not varied.
const ID_LETTERS: usize = 8;

/// Kind of a history entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// Monitoring of a device started.
    Began,
    /// A recommendation for a device that is only monitored.
    WouldSet,
    /// A setting was applied by decision of the controller.
    Set,
    /// The guard reverted a setting because it did harm.
    Guarded,
    /// The device, or a limit of the configuration, refused a setting.
    Refused,
    /// A setting was changed externally.
    Conflict,
    /// An administrator resumed tuning.
    Resumed,
    /// The original setting was restored.
    Restored,
    /// The device is gone.
    Gone,
    /// An operation failed; the text says which.
    Trouble,
    /// Learning mode started, ended or had a result.
    Learning,
    /// A guarantee is met or violated, or a unit is limited for it.
    Promise,
}

impl EntryKind {
    /// Name in output and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Began => "began",
            EntryKind::WouldSet => "would-set",
            EntryKind::Set => "set",
            EntryKind::Guarded => "guarded",
            EntryKind::Refused => "refused",
            EntryKind::Conflict => "conflict",
            EntryKind::Resumed => "resumed",
            EntryKind::Restored => "restored",
            EntryKind::Gone => "gone",
            EntryKind::Trouble => "trouble",
            EntryKind::Learning => "learning",
            EntryKind::Promise => "promise",
        }
    }
}

/// Prediction for a candidate at the time of a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promised {
    /// The candidate.
    pub setting: String,
    /// Predicted gain in percent.
    pub gain_percent: f64,
    /// Standard error of `gain_percent`.
    pub error_percent: f64,
    /// Whether it is predicted to starve a stream.
    pub starves: bool,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Number from 1, continued after a restart.
    pub number: u64,
    /// Stable id of the change: the same change of the same device always has the same id.
    pub id: String,
    /// Time in seconds since 1970.
    pub unix_seconds: u64,
    /// The device.
    pub device: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Previous setting.
    pub from: String,
    /// New or recommended setting.
    pub to: String,
    /// Reason as a sentence.
    pub why: String,
    /// Predicted gain in percent; `None` without a prediction. Histories of earlier versions call it `promised_percent`.
    #[serde(alias = "promised_percent")]
    pub predicted_percent: Option<f64>,
    /// Standard error of `predicted_percent`.
    pub error_percent: Option<f64>,
    /// Measured gain of `to` over `from` in percent, by the comparison that decided; written by a later line with the same number.
    pub measured_percent: Option<f64>,
    /// Standard error of the measured gain; `None` if it is not known.
    pub measured_error_percent: Option<f64>,
    /// Evidence of the decision: names and values.
    pub seen: Vec<(String, String)>,
    /// Predictions for all candidates, best first.
    pub candidates: Vec<Promised>,
    /// Contribution of each source of knowledge: name and text. Empty in entries of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<(String, String)>,
}

impl Entry {
    /// The measured gain of a change; `None` if it has not been measured.
    pub fn measured(&self) -> Option<Measured> {
        self.measured_percent.map(|gain_percent| Measured { gain_percent, error_percent: self.measured_error_percent })
    }

    /// An entry without prediction, measurement and evidence.
    pub fn new(device: &str, kind: EntryKind, from: &str, to: &str, why: impl Into<String>) -> Entry {
        Entry {
            number: 0,
            id: id(device, from, to),
            unix_seconds: 0,
            device: device.to_owned(),
            kind,
            from: from.to_owned(),
            to: to.to_owned(),
            why: why.into(),
            predicted_percent: None,
            error_percent: None,
            measured_percent: None,
            measured_error_percent: None,
            seen: Vec::new(),
            candidates: Vec::new(),
            sources: Vec::new(),
        }
    }
}

/// The measured gain of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Gain in percent.
    pub gain_percent: f64,
    /// Standard error of the gain in percent; `None` if unknown.
    pub error_percent: Option<f64>,
}

impl Measured {
    /// The gain of a verdict; `None` if nothing was measured.
    pub fn of(verdict: &Verdict) -> Option<Measured> {
        let error_percent = Some(100.0 * verdict.gain.error).filter(|error| error.is_finite());
        verdict.is_measured().then_some(Measured { gain_percent: statistics::percent(verdict.gain.mean), error_percent })
    }

    /// Formats as `+12.3% ± 3.0%`.
    pub fn text(&self) -> String {
        let Measured { gain_percent, error_percent } = *self;
        error_percent.map_or_else(|| signed(gain_percent), |error| with_error(gain_percent, error))
    }
}

/// Id of a change: a hash of the device and both settings, hence stable across runs.
pub fn id(device: &str, from: &str, to: &str) -> String {
    let digest = Sha256::digest(format!("{device}\n{from}\n{to}"));
    let letters: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{device}-{}", &letters[..ID_LETTERS])
}

/// A bounded list of the latest entries.
#[derive(Debug)]
pub struct History {
    most: usize,
    entries: VecDeque<Entry>,
    next: u64,
    /// `None`: in memory only.
    file: Option<PathBuf>,
    /// Number of lines in the file.
    lines: usize,
}

impl History {
    /// A history in memory, of at most `most` entries.
    pub fn in_memory(most: usize) -> History {
        History { most, entries: VecDeque::new(), next: 1, file: None, lines: 0 }
    }

    /// A history in a file of this folder, of at most `most` entries; continues an existing file.
    ///
    /// # Errors
    /// The folder does not exist or is not writable; the file is a symbolic link or not a regular file.
    pub fn open(folder: &Path, most: usize) -> io::Result<History> {
        let mut history = History { file: Some(folder.join(FILE)), ..History::in_memory(most) };
        for entry in read(folder)? {
            history.next = history.next.max(entry.number + 1);
            history.take(entry);
        }
        // Also terminates a line truncated by a crash.
        history.compact()?;
        Ok(history)
    }

    /// Adds an entry, and returns its number.
    ///
    /// # Errors
    /// The file cannot be written; the entry is still added in memory.
    pub fn add(&mut self, unix_seconds: u64, entry: Entry) -> io::Result<u64> {
        let number = self.next;
        self.next += 1;
        let entry = Entry { number, unix_seconds, ..entry };
        self.take(entry.clone());
        self.write(&entry)?;
        Ok(number)
    }

    /// Adds the measured gain of a setting over another to the latest change of this device from the one to the other. No effect if that
    /// change is not in the history any more, or the verdict measured nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn judged(&mut self, device: &str, verdict: &Verdict) -> io::Result<()> {
        let Some(measured) = Measured::of(verdict) else { return Ok(()) };
        let id = id(device, &verdict.over.to_string(), &verdict.setting.to_string());
        let is_changed = |entry: &&mut Entry| entry.id == id && entry.kind == EntryKind::Set;
        let Some(entry) = self.entries.iter_mut().rfind(is_changed) else { return Ok(()) };
        (entry.measured_percent, entry.measured_error_percent) = (Some(measured.gain_percent), measured.error_percent);
        let entry = entry.clone();
        self.write(&entry)
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    fn take(&mut self, entry: Entry) {
        // A measured gain is stored as a second line with the same number.
        if let Some(known) = self.entries.iter_mut().find(|known| known.number == entry.number) {
            *known = entry;
            return;
        }
        if self.entries.len() >= self.most {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let line = serde_json::to_string(entry)? + "\n";
        open_file(OpenOptions::new().create(true).append(true), file)?.write_all(line.as_bytes())?;
        self.lines += 1;
        if self.lines > 2 * self.most { self.compact() } else { Ok(()) }
    }

    /// Rewrites the file with the entries in memory.
    fn compact(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let lines = self.entries.iter().map(|entry| Ok(serde_json::to_string(entry)? + "\n"));
        let text = lines.collect::<io::Result<String>>()?;
        let folder = file.parent().unwrap_or(Path::new("."));
        let mut new = unfinished::create(folder, 0o644)?;
        new.write_all(text.as_bytes())?;
        // Write by rename, so that a symbolic link is replaced and not followed.
        new.persist(file).map_err(|error| error.error)?;
        self.lines = self.entries.len();
        Ok(())
    }
}

/// Opens the file without following links: the folder may belong to an unprivileged user, who could plant a link for root to follow.
fn open_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let no_follow = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(no_follow.bits() as i32).open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => not_regular(path),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular(path)) }
}

fn not_regular(path: &Path) -> io::Error {
    let message = format!("{}: is a link or no regular file, so it is not followed; remove it", path.display());
    io::Error::new(io::ErrorKind::AlreadyExists, message)
}

/// Reads the entries of a folder's file, in file order; empty if there is no file. A line truncated by a crash is skipped.
///
/// # Errors
/// The file cannot be read.
pub fn read(folder: &Path) -> io::Result<Vec<Entry>> {
    let opened = open_file(OpenOptions::new().read(true), &folder.join(FILE));
    match opened.and_then(io::read_to_string) {
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The latest `most` entries of a folder's file, with measured gains merged into their entries.
///
/// # Errors
/// The file cannot be read.
pub fn latest(folder: &Path, most: usize) -> io::Result<Vec<Entry>> {
    let mut history = History::in_memory(most);
    read(folder)?.into_iter().for_each(|entry| history.take(entry));
    Ok(history.entries.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::fs;

    use control::ab_test::Estimate;
    use control::{Ruling, Setting, Test};

    use super::*;

    fn verdict(to: &str, gain: f64) -> Verdict {
        Verdict {
            setting: Setting::parse(to).unwrap(),
            over: Setting::parse("mq-deadline").unwrap(),
            gain: Estimate { mean: gain, error: 0.005 },
            critical: 2.0,
            samples: [2, 2],
            by: Test::Trial,
            ruling: Ruling::Kept,
        }
    }

    fn entry(to: &str) -> Entry {
        Entry::new("sda", EntryKind::Set, "mq-deadline", to, "because")
    }

    #[test]
    fn the_same_change_has_the_same_id_and_another_has_another() {
        assert_eq!(id("sda", "none", "bfq"), id("sda", "none", "bfq"));
        assert_ne!(id("sda", "none", "bfq"), id("sdb", "none", "bfq"));
        assert_ne!(id("sda", "none", "bfq"), id("sda", "bfq", "none"));
        assert!(id("sda", "none", "bfq").starts_with("sda-"));
    }

    #[test]
    fn it_outlives_the_daemon_and_stays_short() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::open(folder.path(), 3).unwrap();
        for number in 1..=10 {
            assert_eq!(history.add(number, entry(&format!("bfq:slice_idle={number}"))).unwrap(), number);
        }
        history.judged("sda", &verdict("bfq:slice_idle=9", 0.125_f64.ln_1p())).unwrap();
        let lines = std::fs::read_to_string(folder.path().join(FILE)).unwrap().lines().count();
        assert!(lines <= 7, "{lines} lines for a history of 3");
        let again = History::open(folder.path(), 3).unwrap();
        let kept: Vec<(u64, Option<f64>)> = again
            .entries()
            .map(|entry| (entry.number, entry.measured_percent.map(|percent| (10.0 * percent).round() / 10.0)))
            .collect();
        assert_eq!(kept, [(8, None), (9, Some(12.5)), (10, None)]);
        assert_eq!(latest(folder.path(), 2).unwrap().iter().map(|entry| entry.number).collect::<Vec<_>>(), [9, 10]);
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, file) = (folder.path().join("victim"), folder.path().join(FILE));
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        let error = History::open(folder.path(), 3).unwrap_err().to_string();
        assert!(error.contains("is a link or no regular file"), "{error}");
        // Also if the measurement comes later.
        fs::remove_file(&file).unwrap();
        let mut history = History::open(folder.path(), 3).unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        assert!(history.add(1, entry("bfq")).is_err());
        history.compact().unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(read(folder.path()).unwrap().len(), 1, "the entry was in memory");
    }

    #[test]
    fn a_line_that_a_crash_cut_off_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        History::open(folder.path(), 3).unwrap().add(1, entry("bfq")).unwrap();
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{}", &text[..20])).unwrap();
        let mut again = History::open(folder.path(), 3).unwrap();
        assert_eq!(again.add(2, entry("kyber")).unwrap(), 2);
        assert_eq!(read(folder.path()).unwrap().len(), 2);
    }
}
