//! The layouts of the kernel's events, from what tracefs says of them.

use std::path::Path;

use applier::trace::Formats;

use super::ObserveError;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `block_bio_queue`: a request as it was asked reached the device's queue.
    Queued,
    /// `block_rq_issue`: what became of some of them by merging and splitting was sent to the driver.
    Issued,
    /// `block_rq_complete`: the driver has done that, or some of it.
    Completed,
    /// `block_bio_complete`: a device without a queue of its own (a stack, memory) has done what was asked.
    Answered,
    /// `ext4_sync_file_enter`: a process called fsync.
    SyncCalled,
    /// `ext4_sync_file_exit`: the call is over.
    SyncReturned,
}

impl What {
    /// Whether it is about a call of a process, not about a request.
    pub(super) fn is_call(self) -> bool {
        matches!(self, What::SyncCalled | What::SyncReturned)
    }
}

/// What each of the events tells: [of requests](applier::trace::REQUEST_EVENTS), and [of fsync](applier::trace::SYNC_EVENTS).
const EVENTS: [(&str, What); 6] = [
    ("block_bio_queue", What::Queued),
    ("block_rq_issue", What::Issued),
    ("block_rq_complete", What::Completed),
    ("block_bio_complete", What::Answered),
    ("ext4_sync_file_enter", What::SyncCalled),
    ("ext4_sync_file_exit", What::SyncReturned),
];

/// Where a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

impl Field {
    /// The field's bytes; none beyond the end.
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.offset..self.offset + self.size).unwrap_or_default()
    }

    /// The number in it, of 1, 2, 4 or 8 bytes.
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
    /// What the field `common_type` holds.
    pub(super) id: u64,
    pub(super) what: What,
    pub(super) pid: Field,
    /// `None` of a call.
    pub(super) request: Option<RequestLayout>,
}

/// The layout of what an event tells about a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLayout {
    pub(super) sector: Field,
    pub(super) sectors: Field,
    pub(super) rwbs: Field,
    /// The name of the program that asked: who sends its request to the driver may be another one.
    pub(super) comm: Option<Field>,
    /// The I/O priority; kernels before 6.10 do not tell.
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
    /// Understands the kernel's texts.
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

/// The text of a file that describes fields.
struct Text<'a> {
    file: String,
    text: &'a str,
}

impl Text<'_> {
    fn wrong(&self, message: String) -> ObserveError {
        ObserveError::unknown(Path::new(&self.file), message)
    }

    /// `ID: 2104`.
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

    /// `field:char rwbs[10]; offset:34; size:10; signed:0;`, with tabs between them.
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

    /// A field that holds a number.
    fn number(&self, name: &str) -> Result<Field, ObserveError> {
        let field = self.field(name)?;
        match field.size {
            1 | 2 | 4 | 8 => Ok(field),
            size => Err(self.wrong(format!("the field {name} has {size} bytes, not 1, 2, 4 or 8"))),
        }
    }
}
