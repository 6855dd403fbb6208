//! Traces held in memory as Arrow columns.
//!
//! ```text
//! dataframe ─▶ Arrow C stream ─▶ Import: checks each row ─▶ Requests ─▶ Reader ─▶ the simulator
//!                                times and offsets are shared, not copied
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float64Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, TimeUnit};
use block::{Nanos, Op, Priority, PriorityClass, StreamId};
use sha2::{Digest, Sha256};
use trace::{InMemory, Order, TraceError, TraceReader, TraceRequest};

use crate::error::Invalid;

/// Maximum rows converted at once; bounds the memory of conversions.
const ROWS: usize = 1 << 18;
/// Longest string that is whole in its view (Arrow columnar format, "Variable-size Binary View Layout").
const INLINE_BYTES: u32 = 12;
/// Upper bound on sector numbers of any disk.
const SECTORS: u64 = 1 << 55;

/// Columns of a trace by role, with their units.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Arrival times.
    pub time: String,
    /// Nanoseconds per unit of `time`, if the column's type has no unit.
    pub time_ns: i64,
    /// First byte or sector.
    pub offset: String,
    /// Bytes per unit of `offset`.
    pub offset_bytes: u64,
    /// Length.
    pub size: String,
    /// Bytes per unit of `size`.
    pub size_bytes: u64,
    /// Reads, writes and discards.
    pub op: OpColumns,
    /// The process, volume or thread.
    pub stream: Option<String>,
    /// Names of streams, if `stream` has numbers.
    pub stream_name: Option<String>,
    /// The disk within the trace.
    pub device: Option<String>,
    /// Response time, from arrival to completion.
    pub response: Option<String>,
    /// Service time, the part of the response time at the device.
    pub service: Option<String>,
    /// Nanoseconds per unit of `response` and `service`.
    pub response_ns: i64,
    /// Whether the issuer waits for completion.
    pub sync: Option<String>,
    /// Columns of the priority's class and level.
    pub priority: Option<(String, String)>,
}

/// Encoding of the operation.
#[derive(Clone, Debug)]
pub enum OpColumns {
    /// One column of words or numbers.
    Words {
        /// Name of the column.
        column: String,
        /// Value that means a read, in addition to the usual words.
        read: Option<String>,
        /// Value that means a write, in addition to the usual words.
        write: Option<String>,
    },
    /// Boolean columns, as in Seekwise's own trace format.
    Flags {
        /// Column that is true for reads.
        read: String,
        /// Column that is true for discards.
        discard: Option<String>,
    },
}

/// Value of `kind` for a request of length 0, which readers skip.
const NOTHING: u8 = 0xff;
const SYNC_KNOWN: u8 = 4;
const SYNC: u8 = 8;

/// The requests of one batch, as columns.
#[derive(Debug)]
struct Chunk {
    /// Arrival times by the trace's own clock, in units of `time_ns`.
    time: ScalarBuffer<i64>,
    time_ns: i64,
    /// First bytes, in units of `place_bytes`.
    place: ScalarBuffer<i64>,
    place_bytes: u64,
    sectors: Vec<u32>,
    /// The operation, [`SYNC_KNOWN`] and [`SYNC`]; or [`NOTHING`].
    kind: Vec<u8>,
    stream: Vec<StreamId>,
    device: Vec<u32>,
    response: Vec<i64>,
    service: Vec<i64>,
    priority: Vec<Priority>,
}

/// Requests in memory, read in order of arrival.
#[derive(Debug, Default)]
pub struct Requests {
    chunks: Vec<Chunk>,
    /// Chunk and row of each request, sorted by arrival; `None` if the rows are already sorted.
    order: Option<Vec<(u32, u32)>>,
    rows: u64,
    omitted: u64,
    first_ns: i64,
    stream_names: Vec<Option<String>>,
    device_names: Vec<Option<String>>,
    digest: OnceLock<String>,
}

impl Requests {
    /// Number of requests, without those of length 0.
    pub fn len(&self) -> u64 {
        self.rows - self.omitted
    }
}

/// Assigns numbers to strings and large integers.
#[derive(Default)]
struct Numbers {
    by_name: HashMap<String, u32>,
    names: Vec<Option<String>>,
    last: Option<(String, u32)>,
}

impl Numbers {
    fn of(&mut self, name: &str) -> u32 {
        if let Some((last, number)) = &self.last
            && last == name
        {
            return *number;
        }
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None => {
                let number = self.names.len() as u32;
                self.names.push(Some(name.to_owned()));
                self.by_name.insert(name.to_owned(), number);
                number
            }
        };
        self.last = Some((name.to_owned(), number));
        number
    }
}

/// Converts record batches to [`Requests`].
pub struct Import {
    layout: Layout,
    requests: Requests,
    streams: Numbers,
    devices: Numbers,
    last_ns: i128,
    is_sorted: bool,
    ends: Option<(i128, i128)>,
}

impl Import {
    /// Starts an import of batches with this schema.
    ///
    /// # Errors
    /// A column of the layout is missing.
    pub fn new(layout: Layout, schema: &Schema) -> Result<Import, Invalid> {
        let op = match &layout.op {
            OpColumns::Words { column, .. } => vec![("op", Some(column))],
            OpColumns::Flags { read, discard } => vec![("op", Some(read)), ("op", discard.as_ref())],
        };
        let named = [
            ("time", Some(&layout.time)),
            ("offset", Some(&layout.offset)),
            ("size", Some(&layout.size)),
            ("stream", layout.stream.as_ref()),
            ("device", layout.device.as_ref()),
            ("response", layout.response.as_ref()),
            ("service", layout.service.as_ref()),
            ("sync", layout.sync.as_ref()),
        ];
        for (role, name) in named.into_iter().chain(op) {
            let Some(name) = name else { continue };
            if schema.index_of(name).is_err() {
                let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                let meant = block::did_you_mean(name, names.iter().copied());
                return Err(Invalid::of_key(
                    role,
                    format!("there is no column {name:?}; the columns are {}{meant}", names.join(", ")),
                ));
            }
        }
        let requests = Requests::default();
        let (streams, devices) = (Numbers::default(), Numbers::default());
        Ok(Import { layout, requests, streams, devices, last_ns: i128::MIN, is_sorted: true, ends: None })
    }

    /// Appends a batch.
    ///
    /// # Errors
    /// A row is not a valid request.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<(), Invalid> {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = ROWS.min(batch.num_rows() - from);
            self.add_part(&batch.slice(from, rows))?;
            from += rows;
        }
        Ok(())
    }

    fn add_part(&mut self, batch: &RecordBatch) -> Result<(), Invalid> {
        let rows = batch.num_rows();
        let layout = self.layout.clone();
        let (time, time_ns) =
            times(&column(batch, "time", &layout.time)?, layout.time_ns, "time", &layout.time, self.requests.rows)?;
        let offset = whole(&column(batch, "offset", &layout.offset)?, "offset", &layout.offset)?;
        let size = whole(&column(batch, "size", &layout.size)?, "size", &layout.size)?;
        let mut kind = self.kinds(batch)?;
        if let Some(name) = &layout.sync {
            let flags = unless_null(column(batch, "sync", name)?, &DataType::Boolean, "sync", name)?;
            let flags =
                flags.as_boolean_opt().ok_or_else(|| Invalid::of_key("sync", format!("column {name:?} should be boolean")))?;
            for (row, kind) in kind.iter_mut().enumerate().filter(|(row, _)| flags.is_valid(*row)) {
                *kind |= SYNC_KNOWN | if flags.value(row) { SYNC } else { 0 };
            }
        }
        let base = self.requests.rows;
        let mut sectors = Vec::with_capacity(rows);
        for row in 0..rows {
            let at = |role: &str, name: &str, problem: String| Invalid::of_row(base + row as u64, role, name, problem);
            let first = offset.get(row);
            let length = size.get(row);
            let (Some(first), Some(length)) = (first, length) else {
                let (role, name, value) = match first {
                    None => ("offset", &layout.offset, offset.text(row)),
                    Some(_) => ("size", &layout.size, size.text(row)),
                };
                return Err(at(role, name, format!("{value} should be a whole number from 0 up, and below 2^63")));
            };
            let begin = u128::from(first) * u128::from(layout.offset_bytes);
            let end = begin + u128::from(length) * u128::from(layout.size_bytes);
            let (lba, end_sector) = (begin / 512, end.div_ceil(512));
            let count = if length == 0 { 0 } else { end_sector - lba };
            match u32::try_from(count) {
                Ok(count) if end_sector <= u128::from(SECTORS) => sectors.push(count),
                _ => {
                    return Err(at(
                        "size",
                        &layout.size,
                        format!("{length} at {first} ends beyond any disk (2^55 sectors), or has 2^32 sectors or more"),
                    ));
                }
            }
            if count == 0 {
                kind[row] = NOTHING;
                self.requests.omitted += 1;
                continue;
            }
            let ns = i128::from(time[row]) * i128::from(time_ns);
            self.is_sorted &= ns >= self.last_ns;
            self.last_ns = ns;
            self.ends = Some(self.ends.map_or((ns, ns), |(from, to)| (from.min(ns), to.max(ns))));
        }
        let stream = match &layout.stream {
            None => Vec::new(),
            Some(name) => self.streams_of(batch, name)?,
        };
        let device = match &layout.device {
            None => Vec::new(),
            Some(name) => numbers(&column(batch, "device", name)?, "device", name, base, &mut self.devices)?,
        };
        let spans = |name: &Option<String>, role: &'static str| match name {
            None => Ok(Vec::new()),
            Some(name) => spans(batch, role, name, layout.response_ns, base),
        };
        let (response, service) = (spans(&layout.response, "response")?, spans(&layout.service, "service")?);
        let priority = match &layout.priority {
            None => Vec::new(),
            Some((class, level)) => priorities(batch, class, level)?,
        };
        let (place, place_bytes) = (offset.values, layout.offset_bytes);
        let chunk = Chunk { time, time_ns, place, place_bytes, sectors, kind, stream, device, response, service, priority };
        self.requests.chunks.push(chunk);
        self.requests.rows += rows as u64;
        Ok(())
    }

    fn kinds(&self, batch: &RecordBatch) -> Result<Vec<u8>, Invalid> {
        let base = self.requests.rows;
        match &self.layout.op {
            OpColumns::Flags { read, discard } => {
                let flags = |name: &str| -> Result<ArrayRef, Invalid> {
                    let flags = column(batch, "op", name)?;
                    match flags.data_type() {
                        DataType::Boolean => Ok(flags),
                        other => Err(Invalid::of_key("op", format!("column {name:?} is {other}; boolean is wanted"))),
                    }
                };
                let reads = flags(read)?;
                let discards = discard.as_deref().map(flags).transpose()?;
                let (reads, discards) = (reads.as_boolean(), discards.as_ref().map(|flags| flags.as_boolean()));
                let of = |row: usize| match discards {
                    Some(flags) if flags.is_valid(row) && flags.value(row) => Ok(Op::Discard as u8),
                    _ if reads.is_null(row) => Err(Invalid::of_row(base + row as u64, "op", read, "is null".to_owned())),
                    _ => Ok(if reads.value(row) { Op::Read as u8 } else { Op::Write as u8 }),
                };
                (0..batch.num_rows()).map(of).collect()
            }
            OpColumns::Words { column: name, read, write } => {
                let words = column(batch, "op", name)?;
                if words.data_type() == &DataType::Boolean && read.is_none() {
                    let problem = format!("column {name:?} is boolean: name the value of a read, as in read=\"true\"");
                    return Err(Invalid::of_key("op", problem));
                }
                let is_number = words.data_type().is_numeric();
                if is_number && (read.is_none() || write.is_none()) {
                    let problem = format!("column {name:?} has numbers: say which are reads and writes, as in read=0, write=1");
                    return Err(Invalid::of_key("op", problem));
                }
                let words = text(&words, "op", name)?;
                let words = words.as_string_view();
                let of = |row: usize| {
                    if words.is_null(row) {
                        return Err(Invalid::of_row(base + row as u64, "op", name, "is null".to_owned()));
                    }
                    let word = words.value(row);
                    let is = |meant: &Option<String>| meant.as_deref() == Some(word);
                    if is(read) {
                        return Ok(Op::Read as u8);
                    }
                    if is(write) {
                        return Ok(Op::Write as u8);
                    }
                    op(word).map(|op| op as u8).ok_or_else(|| {
                        let problem = format!("{word:?} should be read or write (r, w), or discard (d, trim, unmap)");
                        Invalid::of_row(base + row as u64, "op", name, problem)
                    })
                };
                // The view of a short word holds all of it. Two words, as most columns have, are told apart without a branch that random
                // operations would mispredict.
                let mut known: [(u128, u8); 2] = [(u128::MAX, 0); 2];
                let mut next = 0;
                let has_nulls = words.null_count() > 0;
                let mut kinds = Vec::with_capacity(words.len());
                for (row, view) in words.views().iter().enumerate() {
                    let [(first, of_first), (second, of_second)] = known;
                    let (is_first, is_second) = (*view == first, *view == second);
                    if (is_first | is_second) && !has_nulls {
                        kinds.push(if is_first { of_first } else { of_second });
                        continue;
                    }
                    let kind = of(row)?;
                    if *view as u32 <= INLINE_BYTES {
                        known[next] = (*view, kind);
                        next = 1 - next;
                    }
                    kinds.push(kind);
                }
                Ok(kinds)
            }
        }
    }

    /// Returns the stream number of each row, and records the names of streams if there is a column of names.
    fn streams_of(&mut self, batch: &RecordBatch, name: &str) -> Result<Vec<StreamId>, Invalid> {
        let base = self.requests.rows;
        let numbers = numbers(&column(batch, "stream", name)?, "stream", name, base, &mut self.streams)?;
        let Some(names) = self.layout.stream_name.as_deref().filter(|name| batch.schema().index_of(name).is_ok()) else {
            return Ok(numbers);
        };
        let words = text(&column(batch, "stream", names)?, "stream", names)?;
        let words = words.as_string_view();
        let mut last = None;
        for (row, &stream) in numbers.iter().enumerate() {
            if last == Some(stream) || words.is_null(row) || stream as usize >= 1 << 20 {
                continue;
            }
            last = Some(stream);
            let known = &mut self.requests.stream_names;
            if known.len() <= stream as usize {
                known.resize(stream as usize + 1, None);
            }
            if known[stream as usize].as_deref() != Some(words.value(row)) {
                known[stream as usize] = Some(words.value(row).to_owned());
            }
        }
        Ok(numbers)
    }

    /// Returns the requests sorted by arrival.
    ///
    /// # Errors
    /// The arrival times span more than 292 years.
    pub fn finish(self) -> Result<Requests, Invalid> {
        let Import { mut requests, streams, devices, is_sorted, ends, .. } = self;
        let (from, to) = ends.unwrap_or_default();
        let in_range = |ns: i128| i64::try_from(ns).ok();
        let (Some(first_ns), Some(_), Some(_)) = (in_range(from), in_range(to), in_range(to - from)) else {
            let problem = "the times span more than the 292 years of 64 bits of nanoseconds; is the unit right?".to_owned();
            return Err(Invalid::of_key("time", problem));
        };
        requests.first_ns = first_ns;
        if !streams.names.is_empty() {
            requests.stream_names = streams.names;
        }
        requests.device_names = devices.names;
        if !is_sorted {
            let chunks = &requests.chunks;
            let rows =
                chunks.iter().enumerate().flat_map(|(chunk, of)| (0..of.kind.len()).map(move |row| (chunk as u32, row as u32)));
            let mut order: Vec<(u32, u32)> = rows.collect();
            // The sort is stable: requests of one time keep the order of their rows.
            order.sort_by_key(|&(chunk, row)| {
                let chunk = &chunks[chunk as usize];
                // The time of a request of length 0 is ignored.
                chunk.time[row as usize].wrapping_mul(chunk.time_ns)
            });
            requests.order = Some(order);
        }
        Ok(requests)
    }
}

/// Parses an operation by the names of common trace formats; `None` if unknown.
fn op(word: &str) -> Option<Op> {
    match word {
        "R" | "r" => return Some(Op::Read),
        "W" | "w" => return Some(Op::Write),
        _ => {}
    }
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is(&["read", "rs", "ra", "ram", "rsm", "rm"]) {
        Some(Op::Read)
    } else if is(&["write", "ws", "wm", "wsm", "wfs", "wfsm", "fwfs"]) {
        Some(Op::Write)
    } else if is(&["d", "discard", "trim", "unmap", "ds"]) {
        Some(Op::Discard)
    } else {
        None
    }
}

fn column(batch: &RecordBatch, role: &str, name: &str) -> Result<ArrayRef, Invalid> {
    let missing = || Invalid::of_key(role, format!("there is no column {name:?}"));
    batch.column_by_name(name).cloned().ok_or_else(missing)
}

fn converted(array: &ArrayRef, to: &DataType, role: &str, name: &str) -> Result<ArrayRef, Invalid> {
    cast(array, to)
        .map_err(|_| Invalid::of_key(role, format!("column {name:?} is {}, which cannot be read as {role}", array.data_type())))
}

/// In pandas, a column without values has no specific type.
fn unless_null(array: ArrayRef, to: &DataType, role: &str, name: &str) -> Result<ArrayRef, Invalid> {
    if array.data_type() == &DataType::Null { converted(&array, to, role, name) } else { Ok(array) }
}

fn text(array: &ArrayRef, role: &str, name: &str) -> Result<ArrayRef, Invalid> {
    converted(array, &DataType::Utf8View, role, name)
}

/// Returns times and nanoseconds per unit. 64-bit integers, timestamps and durations are shared, not copied.
fn times(array: &ArrayRef, unit_ns: i64, role: &str, name: &str, base: u64) -> Result<(ScalarBuffer<i64>, i64), Invalid> {
    if array.null_count() > 0 {
        return Err(Invalid::of_key(role, format!("column {name:?} has {} nulls; each request needs a time", array.null_count())));
    }
    let ns = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    Ok(match array.data_type() {
        DataType::Int64 => (array.as_primitive::<Int64Type>().values().clone(), unit_ns),
        DataType::Timestamp(unit, _) => {
            let values = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
            };
            (values.clone(), ns(unit))
        }
        DataType::Duration(unit) => {
            let values = match unit {
                TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
            };
            (values.clone(), ns(unit))
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let floats = converted(array, &DataType::Float64, role, name)?;
            let floats = floats.as_primitive::<Float64Type>();
            let one = |(row, value): (usize, &f64)| {
                let ns = (value * unit_ns as f64).round();
                // 2^63 as a float; NaN and infinity fail both comparisons.
                if ns.abs() < 9.2e18 {
                    Ok(ns as i64)
                } else {
                    Err(Invalid::of_row(base + row as u64, role, name, format!("{value} is no time")))
                }
            };
            (floats.values().iter().enumerate().map(one).collect::<Result<Vec<i64>, _>>()?.into(), 1)
        }
        other if other.is_integer() => {
            let numbers = converted(array, &DataType::Int64, role, name)?;
            if numbers.null_count() > 0 {
                return Err(Invalid::of_key(role, format!("column {name:?} has values beyond 2^63")));
            }
            (numbers.as_primitive::<Int64Type>().values().clone(), unit_ns)
        }
        other => {
            return Err(Invalid::of_key(
                role,
                format!("column {name:?} is {other}; a time is an integer, a float, a timestamp or a duration"),
            ));
        }
    })
}

/// Non-negative integers; other values are `None`.
struct Whole {
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    /// The original column: values beyond 2^63 are null in the converted one.
    given: ArrayRef,
}

impl Whole {
    fn get(&self, row: usize) -> Option<u64> {
        if self.is_null(row) { None } else { u64::try_from(self.values[row]).ok() }
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn text(&self, row: usize) -> String {
        let large = self.given.as_primitive_opt::<UInt64Type>().filter(|given| given.is_valid(row));
        match large {
            Some(large) => large.value(row).to_string(),
            None if self.is_null(row) => "null".to_owned(),
            None => self.values[row].to_string(),
        }
    }
}

fn whole(array: &ArrayRef, role: &str, name: &str) -> Result<Whole, Invalid> {
    match array.data_type() {
        DataType::Int64 => {}
        other if other.is_integer() => {}
        other => return Err(Invalid::of_key(role, format!("column {name:?} is {other}; integers are wanted"))),
    }
    let given = array.clone();
    let array = if array.data_type() == &DataType::Int64 { array.clone() } else { converted(array, &DataType::Int64, role, name)? };
    Ok(Whole { values: array.as_primitive::<Int64Type>().values().clone(), nulls: array.nulls().cloned(), given })
}

/// Numbers of streams or devices. 32-bit integers are kept; strings and larger integers are numbered in order of appearance.
fn numbers(array: &ArrayRef, role: &str, name: &str, base: u64, known: &mut Numbers) -> Result<Vec<u32>, Invalid> {
    if array.null_count() > 0 {
        let row = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or_default();
        return Err(Invalid::of_row(base + row as u64, role, name, "is null".to_owned()));
    }
    // After strings have been numbered, integers would collide with their numbers.
    if array.data_type().is_integer() && known.names.is_empty() {
        let wide = converted(array, &DataType::Int64, role, name)?;
        let numbers: Option<Vec<u32>> = if wide.null_count() > 0 {
            None
        } else {
            wide.as_primitive::<Int64Type>().values().iter().map(|value| u32::try_from(*value).ok()).collect()
        };
        let Some(numbers) = numbers else {
            return Err(Invalid::of_key(
                role,
                format!("column {name:?} has integers outside 0 to 2^32 - 1; convert the column to strings"),
            ));
        };
        return Ok(numbers);
    }
    if array.data_type().is_floating() {
        return Err(Invalid::of_key(role, format!("column {name:?} is {}; integers or strings are wanted", array.data_type())));
    }
    let words = text(array, role, name)?;
    let words = words.as_string_view();
    Ok((0..words.len()).map(|row| known.of(words.value(row))).collect())
}

/// Durations in nanoseconds; -1 if unknown.
fn spans(batch: &RecordBatch, role: &'static str, name: &str, unit_ns: i64, base: u64) -> Result<Vec<i64>, Invalid> {
    let array = unless_null(column(batch, role, name)?, &DataType::Int64, role, name)?;
    let is_float = array.data_type().is_floating();
    let nulls = array.nulls().cloned();
    let known = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let bare = arrow_array::make_array(
        array.to_data().into_builder().nulls(None).build().map_err(|error| Invalid::of_key(role, error.to_string()))?,
    );
    let (values, ns) = if is_float {
        let floats = converted(&array, &DataType::Float64, role, name)?;
        let floats = floats.as_primitive::<Float64Type>();
        // NaN counts as unknown, like null.
        let one = |(row, value): (usize, Option<f64>)| match value.filter(|value| !value.is_nan()) {
            None => Ok(-1),
            Some(value) => {
                let ns = (value * unit_ns as f64).round();
                // 2^63 as a float.
                let is_span = (0.0..9.2e18).contains(&ns);
                let wrong = || Invalid::of_row(base + row as u64, role, name, format!("{value} is no span of time"));
                if is_span { Ok(ns as i64) } else { Err(wrong()) }
            }
        };
        return floats.iter().enumerate().map(one).collect();
    } else {
        times(&bare, unit_ns, role, name, base)?
    };
    let one = |(row, value): (usize, &i64)| {
        if !known(row) {
            return Ok(-1);
        }
        match value.checked_mul(ns).filter(|value| *value >= 0) {
            Some(value) => Ok(value),
            None => Err(Invalid::of_row(base + row as u64, role, name, format!("{value} is no span of time"))),
        }
    };
    values.iter().enumerate().map(one).collect()
}

fn priorities(batch: &RecordBatch, class: &str, level: &str) -> Result<Vec<Priority>, Invalid> {
    let classes = text(&column(batch, "priority", class)?, "priority", class)?;
    let classes = classes.as_string_view();
    let levels = whole(&column(batch, "priority", level)?, "priority", level)?;
    let one = |row: usize| Priority {
        class: match classes.is_valid(row).then(|| classes.value(row)) {
            Some("realtime") => PriorityClass::RealTime,
            Some("idle") => PriorityClass::Idle,
            _ => PriorityClass::BestEffort,
        },
        level: levels.get(row).map_or(Priority::DEFAULT.level, |level| level.min(7) as u8),
    };
    Ok((0..batch.num_rows()).map(one).collect())
}

impl Chunk {
    /// The request of a row, with its arrival relative to `base_ns`; `None` if its length is 0.
    #[inline]
    fn request(&self, row: usize, base_ns: i64) -> Option<TraceRequest> {
        let kind = self.kind[row];
        (kind != NOTHING).then(|| self.made_of(row, self.time[row], self.place[row], self.sectors[row], kind, base_ns))
    }

    /// Appends the requests of rows of which none has length 0.
    fn append(&self, rows: Range<usize>, base_ns: i64, out: &mut Vec<TraceRequest>) {
        let Range { start, end } = rows;
        let columns = self.time[start..end].iter().zip(&self.place[start..end]);
        let columns = columns.zip(&self.sectors[start..end]).zip(&self.kind[start..end]).enumerate();
        out.extend(
            columns.map(|(index, (((&time, &place), &sectors), &kind))| {
                self.made_of(start + index, time, place, sectors, kind, base_ns)
            }),
        );
    }

    #[inline]
    fn made_of(&self, row: usize, time: i64, place: i64, sectors: u32, kind: u8, base_ns: i64) -> TraceRequest {
        let span = |spans: &[i64]| spans.get(row).and_then(|span| u64::try_from(*span).ok()).map(Nanos);
        TraceRequest {
            arrival: Nanos(time.wrapping_mul(self.time_ns).wrapping_sub(base_ns) as u64),
            device: self.device.get(row).copied().unwrap_or(0),
            lba: (place as u64).wrapping_mul(self.place_bytes) / 512,
            sectors,
            op: match kind & 3 {
                0 => Op::Read,
                1 => Op::Write,
                _ => Op::Discard,
            },
            sync: (kind & SYNC_KNOWN != 0).then_some(kind & SYNC != 0),
            stream: self.stream.get(row).copied().unwrap_or(0),
            priority: self.priority.get(row).copied().unwrap_or(Priority::DEFAULT),
            response: span(&self.response),
            service: span(&self.service),
        }
    }
}

impl InMemory for Requests {
    fn reader(self: Arc<Requests>, order: Order) -> Box<dyn TraceReader> {
        // The recorded clock is unsigned: a trace with negative times is shifted to begin at zero.
        let base_ns = if order == Order::FromZero { self.first_ns } else { self.first_ns.min(0) };
        Box::new(Reader { requests: self, order, base_ns, chunk: 0, row: 0, at: 0 })
    }

    fn sha256(&self) -> String {
        let digest = || {
            let mut hasher = Sha256::new();
            let mut bytes = Vec::with_capacity(1 << 16);
            let mut last = None;
            for chunk in &self.chunks {
                for request in (0..chunk.kind.len()).filter_map(|row| chunk.request(row, self.first_ns)) {
                    let issuer = Some((request.device, request.stream));
                    // Flags, three fields of every request, and those that the flags announce.
                    let mut record = [0; 21];
                    record[0] = request.op as u8
                        | request.sync.map_or(0, |sync| SYNC_KNOWN | u8::from(sync) << 3)
                        | u8::from(issuer != last) << 4
                        | u8::from(request.response.is_some()) << 5;
                    record[1..9].copy_from_slice(&request.arrival.0.to_le_bytes());
                    record[9..17].copy_from_slice(&request.lba.to_le_bytes());
                    record[17..].copy_from_slice(&request.sectors.to_le_bytes());
                    bytes.extend_from_slice(&record);
                    if issuer != last {
                        bytes.extend_from_slice(&request.device.to_le_bytes());
                        bytes.extend_from_slice(&request.stream.to_le_bytes());
                        last = issuer;
                    }
                    if let Some(response) = request.response {
                        bytes.extend_from_slice(&response.0.to_le_bytes());
                    }
                    if bytes.len() > 1 << 15 {
                        hasher.update(&bytes);
                        bytes.clear();
                    }
                }
            }
            hasher.update(&bytes);
            testbed::world::hexadecimal(&hasher.finalize())
        };
        self.digest.get_or_init(digest).clone()
    }
}

/// Reads requests in order.
struct Reader {
    requests: Arc<Requests>,
    order: Order,
    base_ns: i64,
    chunk: usize,
    row: usize,
    at: usize,
}

impl Reader {
    fn next_row(&mut self) -> Option<(usize, usize)> {
        if let Some(order) = self.requests.order.as_ref().filter(|_| self.order != Order::OfTheFile) {
            let (chunk, row) = *order.get(self.at)?;
            self.at += 1;
            return Some((chunk as usize, row as usize));
        }
        while self.row == self.requests.chunks.get(self.chunk)?.kind.len() {
            (self.chunk, self.row) = (self.chunk + 1, 0);
        }
        self.row += 1;
        Some((self.chunk, self.row - 1))
    }
}

impl TraceReader for Reader {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        loop {
            let (chunk, row) = self.next_row()?;
            if let Some(request) = self.requests.chunks[chunk].request(row, self.base_ns) {
                return Some(Ok(request));
            }
        }
    }

    fn next_batch(&mut self, out: &mut Vec<TraceRequest>, at_most: usize) -> Result<bool, TraceError> {
        let begin = out.len();
        if self.requests.order.is_some() && self.order != Order::OfTheFile {
            out.extend(std::iter::from_fn(|| self.next_request()).take(at_most).flatten());
            return Ok(out.len() > begin);
        }
        while out.len() - begin < at_most
            && let Some(chunk) = self.requests.chunks.get(self.chunk)
        {
            let rows = self.row..chunk.kind.len().min(self.row + at_most - (out.len() - begin));
            if rows.is_empty() {
                (self.chunk, self.row) = (self.chunk + 1, 0);
            } else {
                self.row = rows.end;
                if self.requests.omitted == 0 {
                    chunk.append(rows, self.base_ns, out);
                } else {
                    out.extend(rows.filter_map(|row| chunk.request(row, self.base_ns)));
                }
            }
        }
        Ok(out.len() > begin)
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.requests.stream_names.get(stream as usize)?.as_deref()
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.requests.device_names.get(device as usize)?.as_deref()
    }

    fn omitted(&self) -> u64 {
        self.requests.omitted
    }
}
