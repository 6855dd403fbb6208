//! Comma-separated values with a heading that names the columns and their units, in any order.
//!
//! | what | columns (one of them) | |
//! |---|---|---|
//! | arrival | `time_s time_ms time_us time_ns`, or `arrival_` and a unit | required |
//! | place | `lba` (512-byte sectors, also `lba512`), `offset_bytes` | required |
//! | size | `sectors` (also `size_blocks size_blocks512`), `size_bytes` | required |
//! | direction | `op` (`read write discard`, or `r w d`), `is_read` (`1 0 true false`) | required |
//! | device, stream | `device`, `stream`: numbers; without a stream column each device is a stream | optional |
//! | their names | `device_name`, `stream_name`; they replace the number if there is none | optional |
//! | synchronous | `sync` (`1 0 true false`, or empty) | optional |
//! | response time | `response_s response_ms response_us response_ns`, or `measured_response_` or `latency_` and a unit; may be empty | optional |
//! | time at the device, a part of it | `service_` or `measured_service_` and a unit; may be empty | optional |
//! | I/O priority | `priority_class` (`realtime best-effort idle`, or 1 2 3), `priority_level` (0 to 7); may be empty | optional |
//!
//! Other columns are ignored; those that nearly have such a name are warned of. Fields may be quoted, but must not contain line breaks. The separator is a comma, a semicolon or a
//! tab, whichever the heading uses.

use std::borrow::Cow;

use block::{Nanos, Op, Priority, PriorityClass, StreamId};

use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::{Names, NamesByNumber};
use super::order::Window;
use super::{Format, Head, TraceError, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "csv",
    summary: "CSV with a heading: time_ms (or s, us, ns), lba or offset_bytes, sectors or size_bytes, op or is_read; optionally \
              device, device_name, stream, stream_name, sync, response_ms and service_ms (or s, us, ns), priority_class, priority_level",
    source: "this program's own",
    detect: |head| heading(head).is_ok(),
    open: |input, options| match heading(&input.head()) {
        Ok(heading) => Ok(lines::open(input, options, Csv::new(heading))),
        Err(message) => Err(TraceError::Damaged { path: input.path, position: "1".into(), message }),
    },
};

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// A decimal number of a unit that is 10 to this power nanoseconds.
    Time(usize),
    Lba,
    OffsetBytes,
    Sectors,
    SizeBytes,
    Op,
    IsRead,
    Device,
    DeviceName,
    Stream,
    StreamName,
    Sync,
    Response(usize),
    Service(usize),
    PriorityClass,
    PriorityLevel,
    Other,
}

impl Column {
    fn of(name: &str) -> Column {
        let unit = |prefix: &str| match name.strip_prefix(prefix) {
            Some("s") => Some(9),
            Some("ms") => Some(6),
            Some("us") => Some(3),
            Some("ns") => Some(0),
            _ => None,
        };
        if let Some(digits) = unit("time_").or_else(|| unit("arrival_")) {
            return Column::Time(digits);
        }
        if let Some(digits) = unit("response_").or_else(|| unit("measured_response_")).or_else(|| unit("latency_")) {
            return Column::Response(digits);
        }
        if let Some(digits) = unit("service_").or_else(|| unit("measured_service_")) {
            return Column::Service(digits);
        }
        match name {
            "lba" | "lba512" => Column::Lba,
            "offset_bytes" => Column::OffsetBytes,
            "sectors" | "size_blocks" | "size_blocks512" => Column::Sectors,
            "size_bytes" => Column::SizeBytes,
            "op" => Column::Op,
            "is_read" => Column::IsRead,
            "device" => Column::Device,
            "device_name" => Column::DeviceName,
            "stream" => Column::Stream,
            "stream_name" => Column::StreamName,
            "sync" => Column::Sync,
            "priority_class" => Column::PriorityClass,
            "priority_level" => Column::PriorityLevel,
            _ => Column::Other,
        }
    }

    /// The role of a column; only one column may have each.
    fn role(self) -> Option<&'static str> {
        Some(match self {
            Column::Time(_) => "the arrival",
            Column::Lba | Column::OffsetBytes => "the place",
            Column::Sectors | Column::SizeBytes => "the size",
            Column::Op | Column::IsRead => "the direction",
            Column::Device => "the device",
            Column::DeviceName => "the device's name",
            Column::Stream => "the stream",
            Column::StreamName => "the stream's name",
            Column::Sync => "sync",
            Column::Response(_) => "the response time",
            Column::Service(_) => "the time at the device",
            Column::PriorityClass => "the priority class",
            Column::PriorityLevel => "the priority level",
            Column::Other => return None,
        })
    }
}

/// The parsed heading.
struct Heading {
    columns: Vec<Column>,
    separator: u8,
    /// Columns that are not used, and the known ones that they may be meant to be.
    misspelt: Vec<String>,
}

/// Every name of a column, with a unit where it needs one; the longer forms are not suggested.
const NAMES: [&str; 27] = [
    "time_s",
    "time_ms",
    "time_us",
    "time_ns",
    "lba",
    "offset_bytes",
    "sectors",
    "size_bytes",
    "op",
    "is_read",
    "device",
    "device_name",
    "stream",
    "stream_name",
    "sync",
    "response_s",
    "response_ms",
    "response_us",
    "response_ns",
    "service_s",
    "service_ms",
    "service_us",
    "service_ns",
    "priority_class",
    "priority_level",
    "arrival_ns",
    "arrival_ms",
];

/// The columns that are not known but nearly are, if no other has their role.
fn misspelt(names: &[&str], columns: &[Column]) -> Vec<String> {
    const SHOWN: usize = 4;
    let is_missing = |name: &&&str| !columns.iter().any(|column| column.role() == Column::of(name).role());
    let others = names.iter().zip(columns).filter(|(_, column)| **column == Column::Other);
    let near = others.filter_map(|(name, _)| {
        let meant = block::did_you_mean(&name.to_ascii_lowercase(), NAMES.iter().filter(is_missing).copied());
        let shown = lines::show(name.as_bytes());
        (!meant.is_empty()).then(|| format!("the column {shown} is not known and not used{meant}"))
    });
    near.take(SHOWN).collect()
}

/// The separator, and the names between it, of the content's first line.
fn names<'a>(head: &Head<'a>) -> Option<(u8, Vec<&'a str>)> {
    let line = head.lines().next().unwrap_or_default();
    let text = std::str::from_utf8(line).ok()?;
    let separator = *b",;\t".iter().max_by_key(|&&sign| (memchr::memchr_iter(sign, line).count(), sign == b',')).unwrap_or(&b',');
    let names = text.split(char::from(separator)).map(|name| name.trim().trim_matches('"'));
    Some((separator, names.collect()))
}

/// Parses the heading from the content's first line.
fn heading(head: &Head<'_>) -> Result<Heading, String> {
    let (separator, names) = names(head).ok_or_else(|| "the heading is not text: name the columns in it".to_owned())?;
    let columns: Vec<Column> = names.iter().map(|name| Column::of(&name.to_ascii_lowercase())).collect();
    for (at, column) in columns.iter().enumerate() {
        if let Some(role) = column.role().filter(|_| columns[..at].iter().any(|before| before.role() == column.role())) {
            return Err(format!("the heading has two columns for {role}: keep one of them"));
        }
    }
    let needed = [
        ("the arrival", "time_s, time_ms, time_us or time_ns"),
        ("the place", "lba or offset_bytes"),
        ("the size", "sectors or size_bytes"),
        ("the direction", "op or is_read"),
    ];
    let missing = needed.iter().filter(|(role, _)| !columns.iter().any(|column| column.role() == Some(role)));
    let missing: Vec<String> = missing.map(|(role, choice)| format!("no column for {role}: name it {choice}")).collect();
    if missing.is_empty() {
        let misspelt = misspelt(&names, &columns);
        return Ok(Heading { columns, separator, misspelt });
    }
    Err(format!("the heading has {}; {}", missing.join("; "), unknown(&names)))
}

/// The unknown columns of a heading, for the error about missing ones.
fn unknown(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let unknown = || names.iter().filter(|name| Column::of(&name.to_ascii_lowercase()) == Column::Other);
    let mut text = unknown().take(SHOWN).map(|name| lines::show(name.as_bytes())).collect::<Vec<_>>().join(", ");
    if unknown().count() > SHOWN {
        text += ", ...";
    }
    let meant = || unknown().map(|name| block::did_you_mean(&name.to_ascii_lowercase(), NAMES)).find(|meant| !meant.is_empty());
    match text.is_empty() {
        true => "all its columns are known".to_owned(),
        false => format!("not known are {text}{}", meant().unwrap_or_default()),
    }
}

/// The missing columns of a CSV file of unknown format; `None` if its first line is no heading, which has at least three columns,
/// all with names that begin with a letter.
pub(super) fn lacks(head: &Head<'_>) -> Option<String> {
    let (_, names) = names(head)?;
    let is_heading = names.len() >= 3 && names.iter().all(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()));
    heading(head).err().filter(|_| is_heading)
}

/// A line's values, from which a request is made.
#[derive(Default)]
struct Row<'a> {
    arrival: Nanos,
    place: u64,
    size: u64,
    op: Option<Op>,
    device: Option<u32>,
    device_name: &'a [u8],
    stream: Option<StreamId>,
    stream_name: &'a [u8],
    sync: Option<bool>,
    response: Option<Nanos>,
    service: Option<Nanos>,
    priority: Priority,
}

impl<'a> Row<'a> {
    fn read(heading: &Heading, line: &'a [u8]) -> Result<Row<'a>, String> {
        let mut row = Row::default();
        let mut columns = heading.columns.iter();
        let mut rest = Some(line);
        while let Some(text) = rest {
            let (field, after) = next_field(text, heading.separator)?;
            row.set(*columns.next().ok_or_else(|| wrong_count(heading))?, field)?;
            rest = after;
        }
        if columns.next().is_some() { Err(wrong_count(heading)) } else { Ok(row) }
    }

    fn set(&mut self, column: Column, field: &'a [u8]) -> Result<(), String> {
        match column {
            Column::Time(digits) => self.arrival = lines::time(field, digits, "the arrival")?,
            Column::Lba => self.place = lines::unsigned(field, "lba")?,
            Column::OffsetBytes => self.place = lines::unsigned(field, "offset_bytes")?,
            Column::Sectors => self.size = lines::unsigned(field, "sectors")?,
            Column::SizeBytes => self.size = lines::unsigned(field, "size_bytes")?,
            Column::Op => self.op = Some(op(field)?),
            Column::IsRead => self.op = Some(if truth(field, "is_read")? { Op::Read } else { Op::Write }),
            Column::Device => self.device = Some(lines::unsigned_32(field, "device")?),
            Column::DeviceName => self.device_name = field,
            Column::Stream => self.stream = Some(lines::unsigned_32(field, "stream")?),
            Column::StreamName => self.stream_name = field,
            Column::Sync if !field.is_empty() => self.sync = Some(truth(field, "sync")?),
            Column::Response(digits) if !field.is_empty() => self.response = Some(lines::time(field, digits, "the response time")?),
            Column::Service(digits) if !field.is_empty() => {
                self.service = Some(lines::time(field, digits, "the time at the device")?);
            }
            Column::PriorityClass if !field.is_empty() => self.priority.class = priority_class(field)?,
            Column::PriorityLevel if !field.is_empty() => self.priority.level = priority_level(field)?,
            Column::Sync
            | Column::Response(_)
            | Column::Service(_)
            | Column::PriorityClass
            | Column::PriorityLevel
            | Column::Other => {}
        }
        Ok(())
    }
}

#[cold]
fn wrong_count(heading: &Heading) -> String {
    format!("does not have the {} fields that the heading names", heading.columns.len())
}

/// A line's first field, unquoted, and the rest after its separator.
pub(super) fn next_field(line: &[u8], separator: u8) -> Result<(&[u8], Option<&[u8]>), String> {
    if let Some(quoted) = line.strip_prefix(b"\"") {
        let mut from = 0;
        while let Some(at) = memchr::memchr(b'"', &quoted[from..]).map(|at| from + at) {
            match quoted[at + 1..] {
                [] => return Ok((&quoted[..at], None)),
                [sign, ref rest @ ..] if sign == separator => return Ok((&quoted[..at], Some(rest))),
                // A quotation mark within the field is doubled.
                [b'"', ..] => from = at + 2,
                _ => return Err("has something after a closing quotation mark".into()),
            }
        }
        return Err("has an opening quotation mark without a closing one".into());
    }
    Ok(match line.iter().position(|&byte| byte == separator) {
        Some(end) => (line[..end].trim_ascii(), Some(&line[end + 1..])),
        None => (line.trim_ascii(), None),
    })
}

/// The fields of a line of comma-separated values, unquoted and without surrounding blanks.
///
/// # Errors
/// A quotation mark is not closed, or something follows it.
pub fn csv_fields(line: &str) -> Result<Vec<&str>, String> {
    let (mut fields, mut rest) = (Vec::new(), Some(line.as_bytes()));
    while let Some(line) = rest {
        let (field, after) = next_field(line, b',')?;
        fields.push(std::str::from_utf8(field).map_err(|error| error.to_string())?);
        rest = after;
    }
    Ok(fields)
}

pub(super) fn op(field: &[u8]) -> Result<Op, String> {
    match () {
        () if field.eq_ignore_ascii_case(b"read") || field.eq_ignore_ascii_case(b"r") => Ok(Op::Read),
        () if field.eq_ignore_ascii_case(b"write") || field.eq_ignore_ascii_case(b"w") => Ok(Op::Write),
        () if field.eq_ignore_ascii_case(b"discard") || field.eq_ignore_ascii_case(b"d") => Ok(Op::Discard),
        () => Err(format!("op is {}, not read, write, discard, r, w or d", lines::show(field))),
    }
}

fn truth(field: &[u8], what: &str) -> Result<bool, String> {
    match () {
        () if field == b"1" || field.eq_ignore_ascii_case(b"true") => Ok(true),
        () if field == b"0" || field.eq_ignore_ascii_case(b"false") => Ok(false),
        () => Err(format!("{what} is {}, not 1, 0, true or false", lines::show(field))),
    }
}

/// The words, or the numbers of `ioprio.h`, where 0 means not set.
fn priority_class(field: &[u8]) -> Result<PriorityClass, String> {
    match field {
        b"realtime" | b"1" => Ok(PriorityClass::RealTime),
        b"best-effort" | b"0" | b"2" => Ok(PriorityClass::BestEffort),
        b"idle" | b"3" => Ok(PriorityClass::Idle),
        _ => Err(format!("priority_class is {}, not realtime, best-effort or idle", lines::show(field))),
    }
}

fn priority_level(field: &[u8]) -> Result<u8, String> {
    match field {
        [digit @ b'0'..=b'7'] => Ok(digit - b'0'),
        _ => Err(format!("priority_level is {}, not a number from 0 to 7", lines::show(field))),
    }
}

struct Csv {
    heading: Heading,
    /// The heading has been read.
    started: bool,
    place_in_bytes: bool,
    size_in_bytes: bool,
    devices: Naming,
    /// There is a stream column; without one each device is a stream.
    tells_streams: bool,
    streams: Naming,
}

impl Csv {
    fn new(heading: Heading) -> Csv {
        let has = |column| heading.columns.contains(&column);
        Csv {
            place_in_bytes: has(Column::OffsetBytes),
            size_in_bytes: has(Column::SizeBytes),
            devices: Naming::new(has(Column::Device)),
            tells_streams: has(Column::Stream) || has(Column::StreamName),
            streams: Naming::new(has(Column::Stream)),
            heading,
            started: false,
        }
    }

    /// Addresses and sizes may be in different units; bytes are rounded outward to sectors.
    fn extent(&self, row: &Row<'_>) -> Result<Option<Extent>, String> {
        let bytes_of_sectors =
            |sectors: u64| sectors.checked_mul(512).ok_or_else(|| format!("{sectors} sectors are beyond any disk"));
        match (self.place_in_bytes, self.size_in_bytes) {
            (false, false) => Extent::of_sectors(row.place, row.size),
            (false, true) => Extent::of_bytes(bytes_of_sectors(row.place)?, row.size),
            (true, true) => Extent::of_bytes(row.place, row.size),
            (true, false) => Extent::of_bytes(row.place, bytes_of_sectors(row.size)?),
        }
    }
}

impl Parser for Csv {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        if !std::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let row = Row::read(&self.heading, line)?;
        let op = row.op.ok_or("lacks its direction")?;
        let Some(extent) = self.extent(&row)? else {
            out.omit_empty();
            return Ok(());
        };
        let device = self.devices.number(row.device, row.device_name)?;
        let stream = if self.tells_streams { self.streams.number(row.stream, row.stream_name)? } else { device };
        let Row { sync, response, service, priority, .. } = row;
        out.push(TraceRequest { sync, response, service, priority, ..extent.request(row.arrival, op, device, stream) });
        Ok(())
    }

    fn warnings(&self) -> Vec<String> {
        self.heading.misspelt.clone()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        if self.tells_streams { self.streams.name(stream) } else { self.devices.name(stream) }
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.name(device)
    }
}

/// A name with its doubled quotation marks unquoted.
fn unquoted(name: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(name, b"\"\"").is_none() {
        return Cow::Borrowed(name);
    }
    Cow::Owned(String::from_utf8_lossy(name).replace("\"\"", "\"").into_bytes())
}

/// How devices or streams are identified: by number, optionally with a name, or by name alone.
enum Naming {
    Numbers(NamesByNumber),
    Names(Names),
}

impl Naming {
    fn new(numbered: bool) -> Naming {
        if numbered { Naming::Numbers(NamesByNumber::default()) } else { Naming::Names(Names::default()) }
    }

    fn number(&mut self, number: Option<u32>, name: &[u8]) -> Result<u32, String> {
        let name = &*unquoted(name);
        match self {
            Naming::Numbers(names) => {
                let number = number.unwrap_or(0);
                names.learn(number, name);
                Ok(number)
            }
            Naming::Names(names) => names.number(name),
        }
    }

    /// A table without such a column has one nameless device or stream.
    fn name(&self, number: u32) -> Option<&str> {
        match self {
            Naming::Numbers(names) => names.name(number),
            Naming::Names(names) => names.name(number),
        }
        .filter(|name| !name.is_empty())
    }
}
