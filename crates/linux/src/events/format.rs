//! The layouts of the kernel's trace events, parsed from tracefs.

use std::path::Path;

use applier::trace::Formats;

use super::ObserveError;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `block_bio_queue`: a request reached the device's queue.
    Queued,
    /// `block_rq_issue`: a request, after merging and splitting, was sent to the driver.
    Issued,
    /// `block_rq_complete`: the driver has completed it, or a part of it.
    Completed,
    /// `block_bio_complete`: a device without a queue of its own (a stack, memory) has completed a request.
    Answered,
    /// `ext4_sync_file_enter`: a process called fsync.
    SyncCalled,
    /// `ext4_sync_file_exit`: the call returned.
    SyncReturned,
}

impl What {
    /// Whether it is about a system call rather than a request.
    pub(super) fn is_call(self) -> bool {
        matches!(self, What::SyncCalled | What::SyncReturned)
    }
}

/// The types of events [of requests](applier::trace::REQUEST_EVENTS), and [of fsync](applier::trace::SYNC_EVENTS).
const EVENTS: [(&str, What); 6] = [
    ("block_bio_queue", What::Queued),
    ("block_rq_issue", What::Issued),
    ("block_rq_complete", What::Completed),
    ("block_bio_complete", What::Answered),
    ("ext4_sync_file_enter", What::SyncCalled),
    ("ext4_sync_file_exit", What::SyncReturned),
];

/// The position of a field in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

impl Field {
    /// The field's bytes; empty if it is beyond the end.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.offset..self.offset + self.size).unwrap_or_default()
    }

    /// The number in the field; `None` unless it has 1, 2, 4 or 8 bytes.
    pub(super) fn number(self, bytes: &[u8]) -> Option<u64> {
        match *self.of(bytes) {
            [a] => Some(a.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }
}

/// The layout of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLayout {
    pub(super) timestamp: Field,
    pub(super) commit: Field,
    pub(super) data: Field,
}

/// The layout of one kind of event.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventLayout {
    /// Value of the field `common_type`.
    pub(super) id: u64,
    pub(super) what: What,
    pub(super) pid: Field,
    /// `None` for a system call.
    pub(super) request: Option<RequestLayout>,
}

/// The layout of an event's fields about a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLayout {
    pub(super) sector: Field,
    pub(super) sectors: Field,
    pub(super) rwbs: Field,
    /// The name of the program that issued it, which may differ from the one that sends it to the driver; `None` if the event has none.
    pub(super) comm: Option<Field>,
    /// The I/O priority; `None` before Linux 6.10.
    pub(super) ioprio: Option<Field>,
}

/// All layouts.
#[derive(Clone, Debug)]
pub(super) struct Layouts {
    pub(super) page: PageLayout,
    pub(super) common_type: Field,
    pub(super) events: Vec<EventLayout>,
}

impl Layouts {
    /// Parses the kernel's descriptions.
    pub(super) fn parse(formats: &Formats) -> Result<Layouts, ObserveError> {
        let header = Text { file: "events/header_page".to_owned(), text: &formats.header_page };
        let page =
            PageLayout { timestamp: header.number("timestamp")?, commit: header.number("commit")?, data: header.field("data")? };
        let (mut events, mut common_type) = (Vec::new(), None);
        for (name, text) in &formats.events {
            let Some(&(_, what)) = EVENTS.iter().find(|(known, _)| known == name) else { continue };
            let system = if what.is_call() { "ext4" } else { "block" };
            let text = Text { file: format!("events/{system}/{name}/format"), text };
            common_type = Some(text.number("common_type")?);
            let request = if what.is_call() { None } else { Some(text.request(what)?) };
            events.push(EventLayout { id: text.id()?, what, pid: text.number("common_pid")?, request });
        }
        let queued = events.iter().any(|event| event.what == What::Queued);
        let done = events.iter().any(|event| matches!(event.what, What::Completed | What::Answered));
        match common_type {
            Some(common_type) if queued && done => Ok(Layouts { page, common_type, events }),
            _ => Err(ObserveError::unknown(
                Path::new("events/block"),
                "the formats of block_bio_queue and of block_rq_complete or block_bio_complete are needed",
            )),
        }
    }
}

/// A file that describes fields.
struct Text<'a> {
    file: String,
    text: &'a str,
}

impl Text<'_> {
    fn wrong(&self, message: String) -> ObserveError {
        ObserveError::unknown(Path::new(&self.file), message)
    }

    /// Parses `ID: 2104`.
    fn id(&self) -> Result<u64, ObserveError> {
        let id = self.text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        id.ok_or_else(|| self.wrong("has no line such as ID: 2104".to_owned()))
    }

    fn request(&self, what: What) -> Result<RequestLayout, ObserveError> {
        Ok(RequestLayout {
            sector: self.number("sector")?,
            sectors: self.number("nr_sector")?,
            rwbs: self.field("rwbs")?,
            comm: if what == What::Queued { self.field("comm").ok() } else { None },
            ioprio: self.number("ioprio").ok(),
        })
    }

    /// Parses `field:char rwbs[10]; offset:34; size:10; signed:0;`, separated by tabs.
    fn field(&self, name: &str) -> Result<Field, ObserveError> {
        let found = self.text.lines().find_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
            let declared = parts.next()?;
            let declared = declared.split_once('[').map_or(declared, |(before, _)| before);
            if declared.rsplit([' ', '*']).next() != Some(name) {
                return None;
            }
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
            Some(Field { offset, size })
        });
        found.ok_or_else(|| self.wrong(format!("has no field {name}")))
    }

    /// Like [`field`](Self::field), for a numeric one.
    fn number(&self, name: &str) -> Result<Field, ObserveError> {
        let field = self.field(name)?;
        match field.size {
            1 | 2 | 4 | 8 => Ok(field),
            size => Err(self.wrong(format!("the field {name} has {size} bytes, not 1, 2, 4 or 8"))),
        }
    }
}
