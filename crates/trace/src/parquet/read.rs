//! Reads Parquet, one row group after the other, in batches of a few thousand rows.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use block::{Nanos, Op, Priority, PriorityClass, StreamId};
use parquet::basic::{Compression, ConvertedType, Type};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::super::names::NamesByNumber;
use super::super::order::{Records, Sorted, Window};
use super::super::{Input, OpenOptions, RecordedDevice, TraceError, TraceReader, TraceRequest};
use super::checksums::Checksums;
use super::pages::{self, Chunk};
use super::{CAPACITY_KEY, CLASSES, PROGRAM_KEY, READ_AHEAD_KEY, SCHEDULER_KEY, VERSION, VERSION_KEY, value};

/// Number of rows decoded at once.
const BATCH_ROWS: usize = 4096;
/// In files of this program, all arrivals of a row group with up to this many rows are decoded at once (8 MB).
const MAX_GROUP_ROWS: usize = 1 << 20;
/// Maximum size of the footer: a billion requests in row groups of 131,072 need about 12 MiB.
const FOOTER_BYTES: u64 = 64 << 20;

/// Opens a store.
///
/// # Errors
/// If the file is compressed as a whole or not seekable, or its footer or columns are invalid.
pub(super) fn open(input: Input, options: &OpenOptions) -> Result<Box<dyn TraceReader>, TraceError> {
    if let Some(compression) = input.compression {
        return Err(input.not_of_format(format!("Parquet within {}: decompress it first", compression.name())));
    }
    let io = |source| TraceError::Io { path: input.path.clone(), source };
    let file = File::open(&input.path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    if !about.is_file() {
        return Err(input.not_of_format("Parquet is read from its end: it must be a file, not a pipe"));
    }
    let opened = contain(|| {
        let (metadata, begin) = footer(&file, about.len())?;
        let checksums = Checksums::open(&file, about.len(), begin, &metadata)?;
        Ok((metadata, checksums))
    });
    let (metadata, checksums) = opened.map_err(|message| input.not_of_format(message))?;
    let columns = Columns::find(&metadata).map_err(|message| input.not_of_format(message))?;
    compression(&metadata).map_err(|message| input.not_of_format(message))?;
    let device = recorded_device(&metadata).map_err(|message| input.not_of_format(message))?;
    let file = Arc::new(Chunk::new(file, about.len()));
    // Without checksums of this program, pages may have their own, which the library verifies.
    let first = metadata.row_groups().first();
    let is_unchecked = || first.is_some_and(|group| group.columns().iter().any(|column| !pages::has_checksum(&file, column)));
    let unchecked = checksums.missing().filter(|_| is_unchecked()).map(str::to_owned);
    let records = Rows {
        path: input.path,
        file,
        unchecked,
        is_ours: value(&metadata, PROGRAM_KEY).is_some(),
        least: least_from(&metadata, columns.arrival),
        metadata,
        checksums,
        columns,
        device,
        group: None,
        next_group: 0,
        row: 0,
        streams: NamesByNumber::default(),
        devices: NamesByNumber::default(),
        skip_bad: options.skip_bad,
        skipped: 0,
    };
    Ok(Box::new(Sorted::new(records, options)))
}

/// The library reports most damage as an error but some by panicking. A damaged file must not end the program.
fn contain<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::General(message))) => Err(format!("damaged Parquet: {message}")),
        Ok(Err(error)) => Err(format!("damaged Parquet: {error}")),
        Err(_) => Err("damaged Parquet: the library panicked on it".into()),
    }
}

/// The footer and its offset in the file.
fn footer(file: &File, length: u64) -> Result<(ParquetMetaData, u64), ParquetError> {
    use std::os::unix::fs::FileExt;
    let mut end = [0; 8];
    let from = length.min(8);
    file.read_exact_at(&mut end[8 - from as usize..], length - from)?;
    let footer_bytes = u64::from(u32::from_le_bytes([end[0], end[1], end[2], end[3]]));
    if &end[4..] != super::MAGIC || footer_bytes > FOOTER_BYTES || footer_bytes + 12 > length {
        return Err(ParquetError::General(format!(
            "the file's last 8 bytes are \"{}\", not a footer's length (at most {FOOTER_BYTES}) and PAR1: is it complete?",
            end.escape_ascii()
        )));
    }
    Ok((ParquetMetaDataReader::new().parse_and_finish(file)?, length - 8 - footer_bytes))
}

/// The recorded device; `None` if the metadata has none.
fn recorded_device(metadata: &ParquetMetaData) -> Result<Option<RecordedDevice>, String> {
    fn number<T: FromStr>(metadata: &ParquetMetaData, key: &str) -> Result<Option<T>, String> {
        let wrong = |text| format!("{key} is {text:?}, not a whole number");
        value(metadata, key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }
    let device = RecordedDevice {
        capacity_sectors: number(metadata, CAPACITY_KEY)?,
        scheduler: value(metadata, SCHEDULER_KEY).map(str::to_owned),
        read_ahead_kib: number(metadata, READ_AHEAD_KEY)?,
    };
    Ok((device != RecordedDevice::default()).then_some(device))
}

/// The library is built with two codecs: Zstandard, which we write, and Snappy, the default of most dataframe libraries.
fn compression(metadata: &ParquetMetaData) -> Result<(), String> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => {}
            other => {
                let name = column.column_path().string();
                return Err(format!(
                    "column {name} is compressed with {other}: write the file with zstd or snappy, or uncompressed"
                ));
            }
        }
    }
    Ok(())
}

/// Indices of the columns by meaning; `None` for optional columns that the file lacks.
struct Columns {
    arrival: usize,
    lba: usize,
    sectors: usize,
    is_read: usize,
    is_discard: Option<usize>,
    device: Option<usize>,
    device_name: Option<usize>,
    sync: Option<usize>,
    stream: Option<usize>,
    stream_name: Option<usize>,
    priority_class: Option<usize>,
    priority_level: Option<usize>,
    response: Option<usize>,
    service: Option<usize>,
}

impl Columns {
    fn find(metadata: &ParquetMetaData) -> Result<Columns, String> {
        let about = metadata.file_metadata();
        if let Some(version) = value(metadata, VERSION_KEY)
            && version != VERSION
        {
            return Err(format!("{VERSION_KEY} is {version:?}; this program reads {VERSION:?}"));
        }
        let schema = about.schema_descr();
        let integer: &[Type] = &[Type::INT32, Type::INT64];
        let find = |name: &str, types: &[Type]| -> Result<Option<usize>, String> {
            let Some(at) = schema.columns().iter().position(|column| column.path().parts() == [name]) else { return Ok(None) };
            let column = schema.column(at);
            if column.max_rep_level() != 0 || !types.contains(&column.physical_type()) {
                return Err(format!("column {name} is {}, not a single {}", column.physical_type(), types[types.len() - 1]));
            }
            Ok(Some(at))
        };
        let need = |name: &str, types: &[Type]| find(name, types)?.ok_or_else(|| format!("there is no column {name}"));
        Ok(Columns {
            arrival: need("arrival_ns", integer)?,
            lba: need("lba", integer)?,
            sectors: need("sectors", integer)?,
            is_read: need("is_read", &[Type::BOOLEAN])?,
            is_discard: find("is_discard", &[Type::BOOLEAN])?,
            device: find("device", integer)?,
            device_name: find("device_name", &[Type::BYTE_ARRAY])?,
            sync: find("sync", &[Type::BOOLEAN])?,
            stream: find("stream", integer)?,
            stream_name: find("stream_name", &[Type::BYTE_ARRAY])?,
            priority_class: find("priority_class", &[Type::BYTE_ARRAY])?,
            priority_level: find("priority_level", integer)?,
            response: find("response_ns", integer)?,
            service: find("service_ns", integer)?,
        })
    }
}

/// A column of the current row group: decoded in batches, or constant.
struct Column<T: DataType> {
    /// The value if it is constant, where `Some(None)` is null; then there is no reader.
    same: Option<Option<T::T>>,
    /// Rows per batch.
    batch: usize,
    reader: Option<ColumnReaderImpl<T>>,
    nullable: bool,
    unsigned: bool,
    /// For each row of the batch, whether it has a value; empty if all do.
    levels: Vec<i16>,
    /// The values of the rows that have one.
    values: Vec<T::T>,
    next: usize,
}

impl<T: DataType> Column<T> {
    /// Decodes the next batch and returns its number of rows; `None` for a constant column.
    fn fill(&mut self) -> Result<Option<usize>, ParquetError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        self.levels.clear();
        self.values.clear();
        self.next = 0;
        let levels = self.nullable.then_some(&mut self.levels);
        let (rows, ..) = reader.read_records(self.batch, levels, None, &mut self.values)?;
        Ok(Some(rows))
    }

    fn is_same(&self) -> bool {
        self.same.is_some()
    }

    /// The value of a row of the batch, `None` if it is null. Rows must be taken in order.
    #[inline]
    fn take(&mut self, row: usize) -> Option<&T::T> {
        if let Some(same) = &self.same {
            return same.as_ref();
        }
        if self.nullable && self.levels.get(row) != Some(&1) {
            return None;
        }
        self.next += 1;
        self.values.get(self.next - 1)
    }
}

/// A column of whole numbers.
enum Integers {
    Narrow(Column<Int32Type>),
    Wide(Column<Int64Type>),
}

impl Integers {
    fn fill(&mut self) -> Result<Option<usize>, ParquetError> {
        match self {
            Integers::Narrow(column) => column.fill(),
            Integers::Wide(column) => column.fill(),
        }
    }

    fn is_same(&self) -> bool {
        match self {
            Integers::Narrow(column) => column.is_same(),
            Integers::Wide(column) => column.is_same(),
        }
    }

    /// Number of consumed values of the batch. Rows without a value do not count.
    fn next(&mut self) -> &mut usize {
        match self {
            Integers::Narrow(column) => &mut column.next,
            Integers::Wide(column) => &mut column.next,
        }
    }

    /// All values of the row group. `None` unless this is a required 64-bit column and the whole group has been decoded.
    fn all(&self, rows: usize) -> Option<&[i64]> {
        match self {
            Integers::Wide(column) if !column.nullable => {
                Some(&column.values).filter(|values| values.len() == rows).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// The number in a row of the batch, `None` if it is null. Unsigned 64-bit values of 2^63 and more become negative, which no column
    /// allows.
    fn take(&mut self, row: usize) -> Option<i64> {
        match self {
            Integers::Narrow(column) if column.unsigned => column.take(row).map(|&value| i64::from(value as u32)),
            Integers::Narrow(column) => column.take(row).map(|&value| i64::from(value)),
            Integers::Wide(column) => column.take(row).copied(),
        }
    }
}

/// A row group being read.
struct Group {
    arrival: Integers,
    lba: Integers,
    sectors: Integers,
    is_read: Column<BoolType>,
    is_discard: Option<Column<BoolType>>,
    device: Option<Integers>,
    device_name: Option<Column<ByteArrayType>>,
    sync: Option<Column<BoolType>>,
    stream: Option<Integers>,
    stream_name: Option<Column<ByteArrayType>>,
    priority_class: Option<Column<ByteArrayType>>,
    priority_level: Option<Integers>,
    response: Option<Integers>,
    service: Option<Integers>,
    /// Rows of the group, of the current batch, and of the batch already read.
    all: usize,
    rows: usize,
    done: usize,
    /// If the arrivals of the whole group are decoded: index of the first row of the current batch. Otherwise 0.
    base: usize,
    /// Whether arrivals are known never to decrease, so that the next row has the earliest remaining arrival of the group.
    is_in_order: bool,
    /// Whether the current batch has an invalid row or one without sectors, so that rows are read one at a time.
    is_row_by_row: bool,
}

impl Group {
    fn open(
        file: &Arc<Chunk>,
        metadata: &ParquetMetaData,
        group: usize,
        (columns, is_ours): (&Columns, bool),
    ) -> Result<Group, ParquetError> {
        let all = usize::try_from(metadata.row_group(group).num_rows())?;
        let opener = Opener { file, metadata, group, is_ours };
        // Decoding all arrivals shows whether the group is sorted; if so, nothing is held back. Arrivals are read even if they are
        // constant, because they count the rows.
        let mut arrival = Opener { is_ours: false, ..opener }
            .integers_by(columns.arrival, if is_ours && all <= MAX_GROUP_ROWS { all.max(1) } else { BATCH_ROWS })?;
        let decoded = if is_ours && all <= MAX_GROUP_ROWS { arrival.fill()? } else { Some(0) };
        if decoded.is_some_and(|rows| rows > 0 && rows != all) {
            return Err(ParquetError::General(format!("arrival_ns has {} rows, its group {all}", decoded.unwrap_or(0))));
        }
        let is_in_order = arrival.all(all).is_some_and(|arrivals| arrivals.is_sorted());
        Ok(Group {
            arrival,
            lba: opener.integers(columns.lba)?,
            sectors: opener.integers(columns.sectors)?,
            is_read: opener.column(columns.is_read)?,
            is_discard: columns.is_discard.map(|at| opener.column(at)).transpose()?,
            device: columns.device.map(|at| opener.integers(at)).transpose()?,
            device_name: columns.device_name.map(|at| opener.column(at)).transpose()?,
            sync: columns.sync.map(|at| opener.column(at)).transpose()?,
            stream: columns.stream.map(|at| opener.integers(at)).transpose()?,
            stream_name: columns.stream_name.map(|at| opener.column(at)).transpose()?,
            priority_class: columns.priority_class.map(|at| opener.column(at)).transpose()?,
            priority_level: columns.priority_level.map(|at| opener.integers(at)).transpose()?,
            response: columns.response.map(|at| opener.integers(at)).transpose()?,
            service: columns.service.map(|at| opener.integers(at)).transpose()?,
            all,
            rows: 0,
            done: 0,
            base: 0,
            is_in_order,
            is_row_by_row: false,
        })
    }

    /// Decodes the next batch; `false` at the group's end.
    fn fill(&mut self) -> Result<bool, ParquetError> {
        let arrivals = if self.arrival.all(self.all).is_some() {
            self.base += self.rows;
            Some((self.all - self.base).min(BATCH_ROWS))
        } else {
            self.arrival.fill()?
        };
        self.done = 0;
        self.is_row_by_row = false;
        self.rows = arrivals.unwrap_or(0);
        let others = [
            self.lba.fill()?,
            self.sectors.fill()?,
            self.is_read.fill()?,
            self.is_discard.as_mut().map(Column::fill).transpose()?.flatten(),
            self.device.as_mut().map(Integers::fill).transpose()?.flatten(),
            self.device_name.as_mut().map(Column::fill).transpose()?.flatten(),
            self.sync.as_mut().map(Column::fill).transpose()?.flatten(),
            self.stream.as_mut().map(Integers::fill).transpose()?.flatten(),
            self.stream_name.as_mut().map(Column::fill).transpose()?.flatten(),
            self.priority_class.as_mut().map(Column::fill).transpose()?.flatten(),
            self.priority_level.as_mut().map(Integers::fill).transpose()?.flatten(),
            self.response.as_mut().map(Integers::fill).transpose()?.flatten(),
            self.service.as_mut().map(Integers::fill).transpose()?.flatten(),
        ];
        match others.iter().flatten().find(|&&rows| rows != self.rows) {
            Some(rows) => Err(ParquetError::General(format!("one column has {rows} more rows where another has {}", self.rows))),
            None => Ok(self.rows > 0),
        }
    }

    /// Reads the next `rows` rows of the current batch as requests, column by column, which is several times as fast as row by row. `None`,
    /// with nothing consumed, if one of them is invalid or has no sectors. All arrivals of the group must have been decoded.
    fn requests(&mut self, out: &mut Vec<TraceRequest>, rows: usize) -> Option<()> {
        let mut template = TraceRequest::ZERO;
        self.set(std::slice::from_mut(&mut template), true)?;
        let begin = out.len();
        out.resize(begin + rows, template);
        let mut taken = [0; COLUMNS];
        taken.iter_mut().zip(self.taken()).for_each(|(before, next)| *before = *next);
        let requests = &mut out[begin..];
        let mut valid = self.set(requests, false);
        let arrivals = self.arrival.all(self.all).and_then(|all| all.get(self.base + self.done..)?.get(..rows));
        valid = valid.and_then(|()| {
            for (request, &arrival) in requests.iter_mut().zip(arrivals?) {
                within("lba", Some(request.lba as i64), (1 << 55) - i64::from(request.sectors)).ok()?;
                request.arrival = Nanos(u64::try_from(arrival).ok()?);
            }
            Some(())
        });
        if valid.is_none() {
            out.truncate(begin);
            for (next, before) in self.taken().zip(taken) {
                *next = before;
            }
        }
        valid
    }

    /// Number of consumed values of each column except arrivals and names. Columns that the file lacks are left out.
    fn taken(&mut self) -> impl Iterator<Item = &mut usize> {
        let integers = [
            self.device.as_mut(),
            self.stream.as_mut(),
            self.response.as_mut(),
            self.service.as_mut(),
            self.priority_level.as_mut(),
        ];
        let integers = [&mut self.lba, &mut self.sectors].into_iter().chain(integers.into_iter().flatten()).map(Integers::next);
        let flags = [Some(&mut self.is_read), self.is_discard.as_mut(), self.sync.as_mut()];
        let flags = flags.into_iter().flatten().map(|column| &mut column.next);
        integers.chain(flags).chain(self.priority_class.as_mut().map(|column| &mut column.next))
    }

    /// Records the names of the streams and devices of these requests, which are the next rows of the batch.
    fn learn(&mut self, requests: &[TraceRequest], streams: &mut NamesByNumber, devices: &mut NamesByNumber) {
        names(requests, self.done, self.stream.as_ref(), self.stream_name.as_mut(), streams, |request| request.stream);
        names(requests, self.done, self.device.as_ref(), self.device_name.as_mut(), devices, |request| request.device);
    }

    /// Sets the fields of the constant columns (`same`) or of all others. `None` if a value is invalid.
    fn set(&mut self, requests: &mut [TraceRequest], same: bool) -> Option<()> {
        let from = self.done;
        integers(requests, from, same, Some(&mut self.sectors), |request, value| {
            request.sectors = within("sectors", value, u32::MAX.into()).ok().filter(|&sectors| sectors > 0)? as u32;
            Some(())
        })?;
        integers(requests, from, same, Some(&mut self.lba), |request, value| {
            request.lba = within("lba", value, 1 << 55).ok()? as u64;
            Some(())
        })?;
        integers(requests, from, same, self.device.as_mut(), |request, value| {
            request.device = within("device", value, u32::MAX.into()).ok()? as u32;
            Some(())
        })?;
        integers(requests, from, same, self.stream.as_mut(), |request, value| {
            request.stream = within("stream", value, u32::MAX.into()).ok()? as u32;
            Some(())
        })?;
        integers(requests, from, same, self.response.as_mut(), |request, value| {
            request.response = span("response_ns", value).ok()?;
            Some(())
        })?;
        integers(requests, from, same, self.service.as_mut(), |request, value| {
            request.service = span("service_ns", value).ok()?;
            Some(())
        })?;
        values(requests, from, same, self.sync.as_mut(), |request, value| {
            request.sync = value.copied();
            Some(())
        })?;
        if same == (self.is_read.is_same() && self.is_discard.as_ref().is_none_or(Column::is_same)) {
            for (row, request) in requests.iter_mut().enumerate() {
                let is_discard = self.is_discard.as_mut().and_then(|column| column.take(from + row)).copied();
                request.op = operation(self.is_read.take(from + row).copied(), is_discard).ok()?;
            }
        }
        values(requests, from, same, self.priority_class.as_mut(), |request, value| {
            request.priority.class = value.map_or(Ok(Priority::DEFAULT.class), class).ok()?;
            Some(())
        })?;
        integers(requests, from, same, self.priority_level.as_mut(), |request, value| {
            request.priority.level = level(value).ok()?;
            Some(())
        })
    }

    /// The next row. Every column advances, even on an error.
    fn row(&mut self) -> Row<'_> {
        let row = self.done;
        self.done += 1;
        Row {
            arrival: if self.is_in_order {
                self.arrival.all(self.all).map(|all| all[self.base + row])
            } else {
                self.arrival.take(self.base + row)
            },
            lba: self.lba.take(row),
            sectors: self.sectors.take(row),
            is_read: self.is_read.take(row).copied(),
            is_discard: self.is_discard.as_mut().and_then(|column| column.take(row)).copied(),
            device: self.device.as_mut().map_or(Some(0), |column| column.take(row)),
            device_name: self.device_name.as_mut().and_then(|column| column.take(row)),
            sync: self.sync.as_mut().and_then(|column| column.take(row)).copied(),
            stream: self.stream.as_mut().map_or(Some(0), |column| column.take(row)),
            stream_name: self.stream_name.as_mut().and_then(|column| column.take(row)),
            priority_class: self.priority_class.as_mut().and_then(|column| column.take(row)),
            priority_level: self.priority_level.as_mut().and_then(|column| column.take(row)),
            response: self.response.as_mut().and_then(|column| column.take(row)),
            service: self.service.as_mut().and_then(|column| column.take(row)),
        }
    }
}

/// Maximum number of columns without arrivals and names: see [`Group::taken`].
const COLUMNS: usize = 11;

/// Sets each request's field from a column, if the column is constant (`same`) or is not (`!same`).
#[inline]
fn integers(
    requests: &mut [TraceRequest],
    from: usize,
    same: bool,
    column: Option<&mut Integers>,
    mut set: impl FnMut(&mut TraceRequest, Option<i64>) -> Option<()>,
) -> Option<()> {
    match column {
        Some(Integers::Narrow(column)) => {
            let unsigned = column.unsigned;
            let wide = |value: &i32| if unsigned { i64::from(*value as u32) } else { i64::from(*value) };
            values(requests, from, same, Some(column), |request, value| set(request, value.map(wide)))
        }
        Some(Integers::Wide(column)) => values(requests, from, same, Some(column), |request, value| set(request, value.copied())),
        None => Some(()),
    }
}

/// As [`integers`], for a column of any type.
#[inline]
fn values<T: DataType>(
    requests: &mut [TraceRequest],
    from: usize,
    same: bool,
    column: Option<&mut Column<T>>,
    mut set: impl FnMut(&mut TraceRequest, Option<&T::T>) -> Option<()>,
) -> Option<()> {
    let Some(column) = column.filter(|column| column.is_same() == same) else { return Some(()) };
    for (row, request) in requests.iter_mut().enumerate() {
        set(request, column.take(from + row))?;
    }
    Some(())
}

/// Records the names in a column for the numbers of the same rows.
fn names(
    requests: &[TraceRequest],
    from: usize,
    numbers: Option<&Integers>,
    mut column: Option<&mut Column<ByteArrayType>>,
    names: &mut NamesByNumber,
    number: impl Fn(&TraceRequest) -> u32,
) {
    let same = numbers.is_none_or(Integers::is_same) && column.as_ref().is_none_or(|column| column.is_same());
    for (row, request) in requests.iter().enumerate().take(if same { 1 } else { requests.len() }) {
        let name = column.as_mut().and_then(|column| column.take(from + row));
        names.learn(number(request), name.map_or(&[], ByteArray::data));
    }
}

/// Opens the columns of one row group.
#[derive(Clone, Copy)]
struct Opener<'a> {
    file: &'a Arc<Chunk>,
    metadata: &'a ParquetMetaData,
    group: usize,
    /// Whether this program wrote the file: its statistics are exact.
    is_ours: bool,
}

impl Opener<'_> {
    fn descriptor(&self, at: usize) -> Arc<ColumnDescriptor> {
        self.metadata.file_metadata().schema_descr().column(at)
    }

    fn column<T: DataType>(&self, at: usize) -> Result<Column<T>, ParquetError>
    where
        T::T: FromStatistics,
    {
        self.column_by(at, BATCH_ROWS)
    }

    /// The constant value of a column according to its statistics, where `Some(None)` is null. `None` if the values differ or the
    /// statistics are missing or not this program's.
    fn same<T: FromStatistics>(&self, at: usize) -> Option<Option<T>> {
        let group = self.metadata.row_group(self.group);
        let column = group.column(at);
        if !self.is_ours || column.num_values() != group.num_rows() {
            return None;
        }
        let statistics = column.statistics()?;
        match statistics.null_count_opt()? {
            0 => T::same(statistics).map(Some),
            nulls => (u64::try_from(group.num_rows()) == Ok(nulls)).then_some(None),
        }
    }

    fn column_by<T: DataType>(&self, at: usize, batch: usize) -> Result<Column<T>, ParquetError>
    where
        T::T: FromStatistics,
    {
        let descriptor = self.descriptor(at);
        let group = self.metadata.row_group(self.group);
        let rows = usize::try_from(group.num_rows())?;
        let in_column = |error| ParquetError::General(format!("column {}: {error}", descriptor.path().string()));
        let nullable = descriptor.max_def_level() > 0;
        // A required column has no nulls: statistics that say otherwise are not used.
        let same = self.same::<T::T>(at).filter(|same| nullable || same.is_some());
        let reader = if same.is_some() {
            None
        } else {
            let pages = pages::open(self.file, group.column(at), rows).map_err(in_column)?;
            Some(ColumnReaderImpl::new(Arc::clone(&descriptor), pages))
        };
        let unsigned = matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        );
        Ok(Column { same, batch, nullable, unsigned, reader, levels: Vec::new(), values: Vec::new(), next: 0 })
    }

    fn integers(&self, at: usize) -> Result<Integers, ParquetError> {
        self.integers_by(at, BATCH_ROWS)
    }

    fn integers_by(&self, at: usize, batch: usize) -> Result<Integers, ParquetError> {
        match self.descriptor(at).physical_type() {
            Type::INT32 => self.column_by(at, batch).map(Integers::Narrow),
            _ => self.column_by(at, batch).map(Integers::Wide),
        }
    }
}

/// A value type that statistics can show to be constant.
trait FromStatistics: Sized {
    /// The minimum, if it equals the maximum; else `None`.
    fn same(statistics: &Statistics) -> Option<Self>;
}

impl FromStatistics for bool {
    fn same(statistics: &Statistics) -> Option<bool> {
        let Statistics::Boolean(values) = statistics else { return None };
        values.min_opt().filter(|least| values.max_opt() == Some(least)).copied()
    }
}

impl FromStatistics for i32 {
    fn same(statistics: &Statistics) -> Option<i32> {
        let Statistics::Int32(values) = statistics else { return None };
        values.min_opt().filter(|least| values.max_opt() == Some(least)).copied()
    }
}

impl FromStatistics for i64 {
    fn same(statistics: &Statistics) -> Option<i64> {
        let Statistics::Int64(values) = statistics else { return None };
        values.min_opt().filter(|least| values.max_opt() == Some(least)).copied()
    }
}

impl FromStatistics for ByteArray {
    /// Statistics truncate long values, which are then not exact.
    fn same(statistics: &Statistics) -> Option<ByteArray> {
        let Statistics::ByteArray(values) = statistics else { return None };
        let is_exact = values.min_is_exact() && values.max_is_exact();
        values.min_opt().filter(|least| is_exact && values.max_opt() == Some(least)).cloned()
    }
}

/// For each row group, the earliest arrival in it and all later groups by their statistics; `None` if unknown.
fn least_from(metadata: &ParquetMetaData, arrival: usize) -> Vec<Option<i64>> {
    let mut least = vec![Some(i64::MAX)];
    for group in metadata.row_groups().iter().rev() {
        let own = match group.column(arrival).statistics() {
            Some(Statistics::Int64(values)) => values.min_opt().copied(),
            _ => None,
        };
        let behind = least.last().copied().flatten();
        least.push(own.zip(behind).map(|(own, behind)| own.min(behind)));
    }
    least.reverse();
    least
}

/// One row of the file.
struct Row<'a> {
    arrival: Option<i64>,
    lba: Option<i64>,
    sectors: Option<i64>,
    is_read: Option<bool>,
    is_discard: Option<bool>,
    device: Option<i64>,
    device_name: Option<&'a ByteArray>,
    sync: Option<bool>,
    stream: Option<i64>,
    stream_name: Option<&'a ByteArray>,
    priority_class: Option<&'a ByteArray>,
    priority_level: Option<i64>,
    response: Option<i64>,
    service: Option<i64>,
}

impl Row<'_> {
    /// The request; `None` if it covers no sectors.
    fn request(&self) -> Result<Option<TraceRequest>, String> {
        let sectors = within("sectors", self.sectors, u32::MAX.into())? as u32;
        let lba = within("lba", self.lba, (1 << 55) - i64::from(sectors))? as u64;
        let request = TraceRequest {
            arrival: Nanos(within("arrival_ns", self.arrival, i64::MAX)? as u64),
            device: within("device", self.device, u32::MAX.into())? as u32,
            lba,
            sectors,
            op: operation(self.is_read, self.is_discard)?,
            sync: self.sync,
            stream: within("stream", self.stream, u32::MAX.into())? as u32,
            priority: Priority {
                class: self.priority_class.map_or(Ok(Priority::DEFAULT.class), class)?,
                level: level(self.priority_level)?,
            },
            response: span("response_ns", self.response)?,
            service: span("service_ns", self.service)?,
        };
        Ok((sectors > 0).then_some(request))
    }
}

/// Operation of a request.
fn operation(is_read: Option<bool>, is_discard: Option<bool>) -> Result<Op, String> {
    match (is_read.ok_or("is_read is null")?, is_discard.unwrap_or_default()) {
        (true, false) => Ok(Op::Read),
        (false, false) => Ok(Op::Write),
        (false, true) => Ok(Op::Discard),
        (true, true) => Err("is_read and is_discard are both true: a request is one of them".into()),
    }
}

fn class(name: &ByteArray) -> Result<PriorityClass, String> {
    let class = CLASSES.iter().find(|(known, _)| known.as_bytes() == name.data());
    let shown = || name.data().escape_ascii().to_string();
    Ok(class.ok_or_else(|| format!("priority_class is \"{}\", not realtime, best-effort or idle", shown()))?.1)
}

fn level(value: Option<i64>) -> Result<u8, String> {
    match value {
        None => Ok(Priority::DEFAULT.level),
        some => Ok(within("priority_level", some, 7)? as u8),
    }
}

/// Converts nanoseconds to a duration; `None` if the value is null.
fn span(name: &str, value: Option<i64>) -> Result<Option<Nanos>, String> {
    match value {
        None => Ok(None),
        some => Ok(Some(Nanos(within(name, some, i64::MAX)? as u64))),
    }
}

fn within(column: &str, value: Option<i64>, max: i64) -> Result<i64, String> {
    match value {
        Some(value) if (0..=max).contains(&value) => Ok(value),
        Some(value) => Err(format!("{column} is {value}, not from 0 to {max}")),
        None => Err(format!("{column} is null")),
    }
}

/// The rows of a file.
struct Rows {
    path: PathBuf,
    file: Arc<Chunk>,
    metadata: ParquetMetaData,
    checksums: Checksums,
    /// Why damage may go unnoticed; `None` if the file has checksums.
    unchecked: Option<String>,
    columns: Columns,
    device: Option<RecordedDevice>,
    group: Option<Group>,
    next_group: usize,
    /// Whether this program wrote the file.
    is_ours: bool,
    /// The result of [`least_from`]: the index is that of the first row group it covers.
    least: Vec<Option<i64>>,
    /// Number of the last row read, from 1; 0 before the first.
    row: u64,
    streams: NamesByNumber,
    devices: NamesByNumber,
    skip_bad: bool,
    skipped: u64,
}

impl Rows {
    /// Decodes the next row's batch if necessary; `false` at the end of the file.
    fn has_row(&mut self) -> Result<bool, TraceError> {
        self.fill().map_err(|message| {
            self.row += 1;
            self.damaged(message)
        })
    }

    /// As [`has_row`](Rows::has_row), with the error as text.
    fn fill(&mut self) -> Result<bool, String> {
        loop {
            if let Some(group) = &mut self.group {
                if group.done < group.rows || contain(|| group.fill())? {
                    return Ok(true);
                }
                self.group = None;
            }
            if self.next_group == self.metadata.num_row_groups() {
                return Ok(false);
            }
            self.group = Some(contain(|| {
                self.checksums.check(self.file.file(), self.next_group)?;
                Group::open(&self.file, &self.metadata, self.next_group, (&self.columns, self.is_ours))
            })?);
            self.next_group += 1;
        }
    }
}

impl Records for Rows {
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError> {
        if !self.has_row()? {
            return Ok(false);
        }
        self.row += 1;
        let Some(group) = &mut self.group else { return Ok(false) };
        let row = group.row();
        let request = row.request();
        if let Ok(Some(request)) = &request {
            self.streams.learn(request.stream, row.stream_name.map_or(&[], ByteArray::data));
            self.devices.learn(request.device, row.device_name.map_or(&[], ByteArray::data));
        }
        match request {
            Ok(Some(request)) => out.push(request),
            Ok(None) => out.omit_empty(),
            Err(_) if self.skip_bad => self.skipped += 1,
            Err(message) => return Err(self.damaged(message)),
        }
        Ok(true)
    }

    fn in_order(&mut self, out: &mut Vec<TraceRequest>, at_most: usize, since: Nanos) -> Result<bool, TraceError> {
        if !self.has_row()? {
            return Ok(false);
        }
        let begin = out.len();
        let behind = self.least.get(self.next_group).copied().flatten();
        let (Some(group), Some(behind)) = (&mut self.group, behind) else { return Ok(false) };
        let rows = (group.rows - group.done).min(at_most);
        let arrivals = group.arrival.all(group.all).filter(|_| group.is_in_order && !group.is_row_by_row);
        let ends =
            arrivals.and_then(|all| Some((*all.get(group.base + group.done)?, *all.get(group.base + group.done + rows - 1)?)));
        if !ends.is_some_and(|(first, last)| u64::try_from(first).is_ok_and(|first| first >= since.0) && last <= behind) {
            return Ok(false);
        }
        if group.requests(out, rows).is_none() {
            group.is_row_by_row = true;
            return Ok(false);
        }
        group.learn(&out[begin..], &mut self.streams, &mut self.devices);
        group.done += rows;
        self.row += rows as u64;
        Ok(true)
    }

    fn earliest_to_come(&self) -> Option<Nanos> {
        let group = self.group.as_ref().filter(|group| group.is_in_order)?;
        let behind = self.least.get(self.next_group).copied().flatten()?;
        let next = group.arrival.all(group.all)?.get(group.base + group.done).map_or(behind, |next| behind.min(*next));
        u64::try_from(next).ok().map(Nanos)
    }

    fn damaged(&self, message: String) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), position: self.position(), message }
    }

    fn position(&self) -> String {
        format!("row {}", self.row)
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn warnings(&self) -> Vec<String> {
        self.unchecked.iter().map(|why| format!("{why}: damage to it may go unnoticed")).collect()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.streams.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.name(device)
    }

    fn recorded_device(&self) -> Option<&RecordedDevice> {
        self.device.as_ref()
    }
}
