//! Several traces as one, by time.
//!
//! ```text
//!  a: 1 4 9 ─┐
//!  b: 2 3 5 ─┼─> 1a 2b 3b 4a 5b 7c 9a, minus the first arrival
//!  c: 7     ─┘
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};

use block::{Nanos, StreamId};

use super::{Format, Noticed, OpenOptions, Opened, Order, TraceError, TraceReader, TraceRequest};

/// Whether devices and streams of several traces may be the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Each trace has its own.
    #[default]
    OfEachTrace,
    /// Those with the same name, or of the same number where they have none, are the same.
    ByName,
}

/// One of the traces. Its reader's requests are in order of arrival.
pub struct Part {
    /// The trace.
    pub reader: Box<dyn TraceReader>,
    /// Its file's name, for warnings.
    pub file: String,
    /// The name of nameless devices and streams; empty: they stay nameless.
    pub name: String,
    /// Its first arrival; `None` at the beginning.
    pub began: Option<Nanos>,
}

impl Part {
    /// The trace that `reader` reads from `path`. Nameless devices and streams are called as the file, unless those of several traces may be
    /// the same.
    pub fn new(path: &Path, reader: Box<dyn TraceReader>, identity: Identity) -> Part {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = if identity == Identity::ByName { String::new() } else { stem };
        Part { reader, file: file_name(path), name, began: None }
    }
}

/// The format of merged traces that are not all of the same.
static SEVERAL: Format = Format {
    name: "several formats",
    summary: "traces of several formats, merged",
    source: "",
    detect: |_| false,
    open: |input, _| Err(input.not_of_format("several formats are no format of one file")),
};
/// Files that a name of several traces lists.
const NAMED: usize = 3;

/// Opens a trace and its others as one.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, TraceError> {
    let own = OpenOptions { others: Vec::new(), order: Order::OwnClock, ..options.clone() };
    let (mut parts, mut formats) = (Vec::new(), Vec::new());
    for path in std::iter::once(path).chain(options.others.iter().map(PathBuf::as_path)) {
        let Opened { format, reader } = super::open(path, &own)?;
        formats.push(format);
        parts.push(Part::new(path, reader, options.identity));
    }
    let format = formats.iter().copied().reduce(|one, other| if one.name == other.name { one } else { &SEVERAL });
    Ok(Opened { format: format.unwrap_or(&SEVERAL), reader: Box::new(Merged::new(parts, options.identity)) })
}

/// These files, and those in folders among them, in the order of their names. Of a recording in several files only the first is there.
///
/// # Errors
/// [`TraceError::Io`] if a folder cannot be read, [`TraceError::Format`] if it is empty.
pub fn in_folders(given: &[PathBuf]) -> Result<Vec<PathBuf>, TraceError> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot_read = |source| TraceError::Io { path: path.clone(), source };
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot_read)? {
            let file = entry.map_err(cannot_read)?.path();
            let is_hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let is_first = || super::files(&file).first().is_none_or(|first| *first == file);
            if !is_hidden && file.is_file() && is_first() {
                inside.push(file);
            }
        }
        if inside.is_empty() {
            return Err(TraceError::Format { path: path.clone(), message: "has no file in it".to_owned() });
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// The name of several traces.
pub(super) fn name(path: &Path, others: &[PathBuf]) -> String {
    let mut names: Vec<String> =
        std::iter::once(path).chain(others.iter().map(PathBuf::as_path)).take(NAMED).map(file_name).collect();
    if others.len() >= NAMED {
        names.push("…".to_owned());
    }
    format!("{} traces merged by time ({})", others.len() + 1, names.join(", "))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// A part that begins that much later than the first one may be meant to begin with it.
const MUCH_LATER: Nanos = Nanos::from_millis(3_600_000);

/// Traces as one, in order of arrival, the first request at time zero; at the same time in the order of the parts.
pub struct Merged {
    parts: Vec<Part>,
    /// The next request of each part that has one, by arrival and part.
    next: BinaryHeap<Reverse<(Nanos, usize)>>,
    ahead: Vec<Option<TraceRequest>>,
    /// The part to read from before the next request is known; all at the beginning.
    due: Vec<usize>,
    first: Option<Nanos>,
    identity: Identity,
    devices: Numbers,
    streams: Numbers,
}

impl Merged {
    /// Of these parts.
    pub fn new(parts: Vec<Part>, identity: Identity) -> Merged {
        let (ahead, due) = (vec![None; parts.len()], (0..parts.len()).rev().collect());
        let (devices, streams) = (Numbers::default(), Numbers::default());
        Merged { parts, next: BinaryHeap::new(), ahead, due, first: None, identity, devices, streams }
    }

    fn read(&mut self, part: usize) -> Result<(), TraceError> {
        let Part { reader, began, .. } = &mut self.parts[part];
        if let Some(request) = reader.next_request() {
            let request = request?;
            began.get_or_insert(request.arrival);
            self.next.push(Reverse((request.arrival, part)));
            self.ahead[part] = Some(request);
        }
        Ok(())
    }

    fn renumber(&mut self, part: usize, request: &mut TraceRequest) {
        let Part { reader, name, .. } = &self.parts[part];
        let name_of = |own: Option<&str>| own.map_or_else(|| name.clone(), str::to_owned);
        let device = reader.device_name(request.device);
        request.device = self.devices.number((part, request.device), self.identity, || name_of(device));
        let stream = reader.stream_name(request.stream);
        request.stream = self.streams.number((part, request.stream), self.identity, || name_of(stream));
    }
}

impl TraceReader for Merged {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        while let Some(part) = self.due.pop() {
            if let Err(error) = self.read(part) {
                return Some(Err(error));
            }
        }
        let Reverse((arrival, part)) = self.next.pop()?;
        self.due.push(part);
        let mut request = self.ahead[part].take()?;
        request.arrival = arrival - *self.first.get_or_insert(arrival);
        self.renumber(part, &mut request);
        Some(Ok(request))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for Part { reader, file, began, .. } in &self.parts {
            let later = began.zip(self.first).map(|(began, first)| began - first);
            if let Some(later) = later.filter(|later| *later >= MUCH_LATER) {
                warnings.push(format!("{file} begins {:.0} s after the first trace, by their clocks", later.as_secs_f64()));
            }
            warnings.extend(reader.warnings().into_iter().map(|warning| format!("{file}: {warning}")));
        }
        warnings
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.streams.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.name(device)
    }

    fn omitted(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.omitted()).sum()
    }

    fn empty(&self) -> Noticed {
        let empty = || self.parts.iter().map(|part| part.reader.empty());
        Noticed { count: empty().map(|empty| empty.count).sum(), first: empty().find_map(|empty| empty.first) }
    }

    fn skipped(&self) -> u64 {
        self.parts.iter().map(|part| part.reader.skipped()).sum()
    }
}

/// Numbers for the parts' devices or streams, in order of first appearance.
#[derive(Default)]
struct Numbers {
    numbers: BTreeMap<(usize, u32), u32>,
    by_name: BTreeMap<String, u32>,
    names: Vec<String>,
}

impl Numbers {
    fn number(&mut self, own: (usize, u32), identity: Identity, name: impl FnOnce() -> String) -> u32 {
        if let Some(&number) = self.numbers.get(&own) {
            return number;
        }
        let name = name();
        let fresh = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let number = match identity {
            Identity::OfEachTrace => fresh,
            // A nameless one is known by its number, in a form that no name has.
            Identity::ByName if name.is_empty() => *self.by_name.entry(format!("\n{}", own.1)).or_insert(fresh),
            Identity::ByName => *self.by_name.entry(name.clone()).or_insert(fresh),
        };
        self.numbers.insert(own, number);
        if number == fresh {
            self.names.push(name);
        }
        number
    }

    fn name(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str).filter(|name| !name.is_empty())
    }
}
