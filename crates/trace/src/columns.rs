//! Any CSV file, with a heading or without, whose columns [`Columns`] describes (`--columns`).

use std::str::FromStr;

use block::{Nanos, Op, StreamId};

use super::csv;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::Names;
use super::order::Window;
use super::{Format, Head, TraceError, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "columns",
    summary: "any CSV, whose columns --columns names: time, offset, size, op; optionally device, stream, latency",
    source: "the user, by --columns",
    detect: |_| false,
    open: |input, options| {
        let columns = options.columns.as_ref().ok_or_else(|| input.not_of_format(format!("which column is what? {USAGE}")))?;
        match Table::new(columns, &input.head()) {
            Ok(table) => Ok(lines::open(input, options, table)),
            Err(message) => Err(TraceError::Damaged { path: input.path, position: "1".into(), message }),
        }
    },
};

const USAGE: &str = "give --columns time=NAME|NUMBER,offset=...,size=...,op=...,time-unit=s|ms|us|ns,offset-unit=bytes|sectors,\
                     size-unit=bytes|sectors; optionally device, stream, latency, latency-unit, read, write, separator";

/// The columns that [`Columns`] may name, in the order of [`Roles`], and whether they are needed.
const ROLES: [(&str, bool); 7] =
    [("time", true), ("offset", true), ("size", true), ("op", true), ("device", false), ("stream", false), ("latency", false)];

/// Something for each of [`ROLES`].
type Roles<T> = [T; ROLES.len()];

const OTHER_KEYS: [&str; 7] = ["time-unit", "offset-unit", "size-unit", "latency-unit", "read", "write", "separator"];

/// Which columns of a CSV file mean what, and in which units, as `--columns` says.
///
/// ```
/// # fn main() -> Result<(), String> {
/// let columns: trace::Columns =
///     "time=timestamp,offset=2,size=3,op=kind,time-unit=s,offset-unit=bytes,size-unit=sectors,separator=;".parse()?;
/// let error = "tiem=1".parse::<trace::Columns>().unwrap_err();
/// assert!(error.ends_with("did you mean time?"), "{error}");
/// # drop(columns);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    columns: Roles<Option<Column>>,
    /// A time is a decimal number of a unit that is 10 to this power nanoseconds.
    time_digits: usize,
    latency_digits: usize,
    offset_in_bytes: bool,
    size_in_bytes: bool,
    /// The values of op that mean a read and a write, in addition to the usual words.
    read: Option<String>,
    write: Option<String>,
    /// `None`: a comma, a semicolon or a tab, whichever the first line has most of. A blank stands for any number of blanks and tabs.
    separator: Option<u8>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    /// By its name in the heading.
    Name(String),
    /// By its place, from 0.
    Number(usize),
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let mut columns: Roles<Option<Column>> = Default::default();
        let mut others: [Option<&str>; OTHER_KEYS.len()] = Default::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not key=value; {USAGE}"))?;
            let (key, value) = (key.trim(), value.trim());
            if value.is_empty() {
                return Err(match key {
                    "separator" => "separator: for a comma write separator=comma".to_owned(),
                    _ => format!("{key} has no value; {USAGE}"),
                });
            }
            let known = if let Some(role) = ROLES.iter().position(|(name, _)| *name == key) {
                columns[role].replace(Column::of(key, value)?).is_some()
            } else if let Some(other) = OTHER_KEYS.iter().position(|name| *name == key) {
                others[other].replace(value).is_some()
            } else {
                let keys = || ROLES.iter().map(|(name, _)| *name).chain(OTHER_KEYS);
                let list = keys().collect::<Vec<_>>().join(", ");
                return Err(format!("there is no key {key:?}; the keys are {list}{}", block::did_you_mean(key, keys())));
            };
            if known {
                return Err(format!("{key} is given twice"));
            }
        }
        let missing = ROLES.iter().zip(&columns).find(|((_, is_needed), column)| *is_needed && column.is_none());
        if let Some(((name, _), _)) = missing {
            return Err(format!("{name} is missing; {USAGE}"));
        }
        let [time_unit, offset_unit, size_unit, latency_unit, read, write, separator] = others;
        let time_digits = digits("time-unit", time_unit)?;
        Ok(Columns {
            columns,
            time_digits,
            latency_digits: latency_unit.map_or(Ok(time_digits), |unit| digits("latency-unit", Some(unit)))?,
            offset_in_bytes: in_bytes("offset-unit", offset_unit)?,
            size_in_bytes: in_bytes("size-unit", size_unit)?,
            read: read.map(str::to_owned),
            write: write.map(str::to_owned),
            separator: separator.map(separator_of).transpose()?,
        })
    }
}

impl Column {
    fn of(key: &str, value: &str) -> Result<Column, String> {
        if !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Column::Name(value.to_owned()));
        }
        let number = value.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let number = number.ok_or_else(|| format!("{key}={value}: columns are numbered from 1, or named as in the heading"))?;
        Ok(Column::Number(number))
    }
}

/// A unit of time as a power of ten of nanoseconds.
fn digits(key: &str, value: Option<&str>) -> Result<usize, String> {
    const UNITS: [(&str, usize); 4] = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];
    choose(key, value, &UNITS)
}

fn in_bytes(key: &str, value: Option<&str>) -> Result<bool, String> {
    choose(key, value, &[("bytes", true), ("sectors", false)])
}

fn choose<T: Copy>(key: &str, value: Option<&str>, choices: &[(&str, T)]) -> Result<T, String> {
    let names = || choices.iter().map(|(name, _)| *name);
    let list = || names().collect::<Vec<_>>().join(", ");
    let value = value.ok_or_else(|| format!("{key} is missing: {}", list()))?;
    let chosen = choices.iter().find(|(name, _)| *name == value);
    chosen
        .map(|&(_, choice)| choice)
        .ok_or_else(|| format!("{key} is {value:?}, not one of {}{}", list(), block::did_you_mean(value, names())))
}

fn separator_of(value: &str) -> Result<u8, String> {
    const NAMES: [(&str, u8); 5] = [("comma", b','), ("semicolon", b';'), ("tab", b'\t'), ("space", b' '), ("pipe", b'|')];
    match *value.as_bytes() {
        [sign] if sign.is_ascii_punctuation() && sign != b'"' => Ok(sign),
        _ => choose("separator", Some(value), &NAMES).map_err(|message| format!("{message}, or one sign such as ;")),
    }
}

/// The reader.
struct Table {
    columns: Columns,
    /// Where the columns are.
    places: Roles<Option<usize>>,
    separator: u8,
    /// There is a heading, which has not been read yet.
    at_heading: bool,
    devices: Names,
    streams: Names,
}

impl Table {
    /// Finds the columns in the heading. If all are given by number, the first line is a heading if its time begins with a letter.
    fn new(columns: &Columns, head: &Head<'_>) -> Result<Table, String> {
        let line = head.lines().find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
        let count = |sign: u8| memchr::memchr_iter(sign, line).count();
        let usual = || *b",;\t".iter().max_by_key(|&&sign| (count(sign), sign == b',')).unwrap_or(&b',');
        let separator = columns.separator.unwrap_or_else(usual);
        let mut names = Vec::new();
        let mut rest = Some(line);
        while let Some(text) = rest {
            let (name, after) = next_field(text, separator)?;
            names.push(std::str::from_utf8(name).map_err(|_| "the heading is not text".to_owned())?);
            rest = after;
        }
        let mut places: Roles<Option<usize>> = Default::default();
        for ((place, column), (role, _)) in places.iter_mut().zip(&columns.columns).zip(ROLES) {
            *place = match column {
                None => None,
                Some(Column::Number(number)) if *number < names.len() => Some(*number),
                Some(Column::Number(number)) => {
                    return Err(format!("--columns {role}={}: the line has {} columns", number + 1, names.len()));
                }
                Some(Column::Name(name)) => Some(place_of(role, name, &names)?),
            };
        }
        let is_named = columns.columns.iter().flatten().any(|column| matches!(column, Column::Name(_)));
        let time = places[0].and_then(|place| names.get(place)).copied().unwrap_or_default();
        let at_heading = is_named || time.starts_with(|first: char| first.is_alphabetic() || matches!(first, '#' | '_'));
        let (columns, devices, streams) = (columns.clone(), Names::default(), Names::default());
        Ok(Table { columns, places, separator, at_heading, devices, streams })
    }

    fn op(&self, field: &[u8]) -> Result<Op, String> {
        let Columns { read, write, .. } = &self.columns;
        let is = |value: &Option<String>| value.as_ref().is_some_and(|value| value.as_bytes() == field);
        match () {
            () if is(read) => Ok(Op::Read),
            () if is(write) => Ok(Op::Write),
            () => csv::op(field).map_err(|message| format!("{message} (or say what it means: read=..., write=...)")),
        }
    }

    /// Addresses and sizes may be in different units; bytes are rounded outward to sectors.
    fn extent(&self, offset: u64, size: u64) -> Result<Option<Extent>, String> {
        let bytes = |number: u64, in_bytes: bool| {
            let bytes = if in_bytes { Some(number) } else { number.checked_mul(512) };
            bytes.ok_or_else(|| format!("{number} sectors are beyond any disk"))
        };
        Extent::of_bytes(bytes(offset, self.columns.offset_in_bytes)?, bytes(size, self.columns.size_in_bytes)?)
    }
}

/// Where the heading has that name, as it is or else without regard to upper and lower case.
fn place_of(role: &str, name: &str, names: &[&str]) -> Result<usize, String> {
    const SHOWN: usize = 8;
    const SHOWN_BYTES: usize = 16;
    let same = |is_same: &dyn Fn(&str) -> bool| {
        let mut places = names.iter().enumerate().filter(|(_, other)| is_same(other)).map(|(place, _)| place);
        (places.next(), places.next())
    };
    let found = match same(&|other| other == name) {
        (None, _) => same(&|other| other.eq_ignore_ascii_case(name)),
        found => found,
    };
    match found {
        (Some(place), None) => Ok(place),
        (Some(_), Some(_)) => {
            Err(format!("--columns {role}={name}: the heading has that name twice; give the column's number, from 1"))
        }
        (None, _) => {
            let shown = names.iter().take(SHOWN).map(|name| &name.as_bytes()[..name.len().min(SHOWN_BYTES)]);
            let list = shown.map(lines::show).collect::<Vec<_>>().join(", ");
            let more = if names.len() > SHOWN { ", ..." } else { "" };
            let is_plain = |name: &&str| name.len() <= 60 && name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
            let meant = block::did_you_mean(name, names.iter().copied().filter(is_plain));
            let name = lines::show(name.as_bytes());
            Err(format!("--columns {role}: there is no column {name}; the heading has {list}{more}{meant}"))
        }
    }
}

/// A line's first field, unquoted, and the rest after its separator.
fn next_field(line: &[u8], separator: u8) -> Result<(&[u8], Option<&[u8]>), String> {
    if separator != b' ' {
        return csv::next_field(line, separator);
    }
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let rest = line[end..].trim_ascii_start();
    Ok((&line[..end], if rest.is_empty() { None } else { Some(rest) }))
}

impl Parser for Table {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        if std::mem::take(&mut self.at_heading) {
            return Ok(());
        }
        let mut fields: Roles<Option<&[u8]>> = Default::default();
        let mut rest = Some(line);
        let mut count = 0;
        while let Some(text) = rest {
            let (field, after) = next_field(text, self.separator)?;
            for (slot, place) in fields.iter_mut().zip(&self.places) {
                if *place == Some(count) {
                    *slot = Some(field);
                }
            }
            (rest, count) = (after, count + 1);
        }
        for ((field, place), (role, _)) in fields.iter().zip(&self.places).zip(ROLES) {
            if let (None, Some(place)) = (field, place) {
                return Err(format!("has {count} fields; {role} is field {}", place + 1));
            }
        }
        let [time, offset, size, op, device, stream, latency] = fields.map(Option::unwrap_or_default);
        let arrival = lines::time(time, self.columns.time_digits, "the time")?;
        let (offset, size) = (lines::unsigned(offset, "the offset")?, lines::unsigned(size, "the size")?);
        let op = self.op(op)?;
        let response: Option<Nanos> = match latency {
            b"" => None,
            _ => Some(lines::time(latency, self.columns.latency_digits, "the latency")?),
        };
        let Some(extent) = self.extent(offset, size)? else {
            out.omit_empty();
            return Ok(());
        };
        let device = self.devices.number(device)?;
        // Without a column for streams each device is one.
        let stream = if self.places[5].is_some() { self.streams.number(stream)? } else { device };
        out.push(TraceRequest { response, ..extent.request(arrival, op, device, stream) });
        Ok(())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        let names = if self.places[5].is_some() { &self.streams } else { &self.devices };
        names.name(stream).filter(|name| !name.is_empty())
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.name(device).filter(|name| !name.is_empty())
    }
}
