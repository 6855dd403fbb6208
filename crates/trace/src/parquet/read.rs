//! Reads Parquet, one row group after the other, in batches of a few thousand rows.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use block::{Nanos, StreamId};
use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;

use super::super::names::NamesByNumber;
use super::super::order::{Records, Sorted, Window};
use super::super::{Input, OpenOptions, RecordedDevice, TraceError, TraceReader, TraceRequest};
use super::checksums::Checksums;
use super::columns::Columns;
use super::group::Group;
use super::pages::{self, Chunk};
use super::{CAPACITY_KEY, PROGRAM_KEY, READ_AHEAD_KEY, SCHEDULER_KEY, value};

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
    let groups = Groups {
        file,
        is_ours: value(&metadata, PROGRAM_KEY).is_some(),
        least: least_from(&metadata, columns.arrival),
        metadata,
        checksums,
        columns,
        current: None,
        next: 0,
    };
    let records = Rows {
        path: input.path,
        groups,
        unchecked,
        device,
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

/// The row groups of a file, opened one after the other.
struct Groups {
    file: Arc<Chunk>,
    metadata: ParquetMetaData,
    checksums: Checksums,
    columns: Columns,
    /// Whether this program wrote the file.
    is_ours: bool,
    /// The result of [`least_from`]: the index is that of the first row group it covers.
    least: Vec<Option<i64>>,
    current: Option<Group>,
    next: usize,
}

impl Groups {
    /// Decodes the next row's batch if necessary; `false` at the end of the file. The error is a message.
    fn fill(&mut self) -> Result<bool, String> {
        loop {
            if let Some(group) = &mut self.current {
                if !group.is_batch_done() || contain(|| group.fill())? {
                    return Ok(true);
                }
                self.current = None;
            }
            if self.next == self.metadata.num_row_groups() {
                return Ok(false);
            }
            self.current = Some(contain(|| {
                self.checksums.check(self.file.file(), self.next)?;
                Group::open(&self.file, &self.metadata, self.next, (&self.columns, self.is_ours))
            })?);
            self.next += 1;
        }
    }

    /// The earliest arrival in the groups after the current one, `i64::MAX` if there are none; `None` if unknown.
    fn least_behind(&self) -> Option<i64> {
        self.least.get(self.next).copied().flatten()
    }
}

/// The rows of a file.
struct Rows {
    path: PathBuf,
    groups: Groups,
    /// Why damage may go unnoticed; `None` if the file has checksums.
    unchecked: Option<String>,
    device: Option<RecordedDevice>,
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
        self.groups.fill().map_err(|message| {
            self.row += 1;
            self.damaged(message)
        })
    }
}

impl Records for Rows {
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError> {
        if !self.has_row()? {
            return Ok(false);
        }
        self.row += 1;
        let Some(group) = &mut self.groups.current else { return Ok(false) };
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
        let behind = self.groups.least_behind();
        let (Some(group), Some(behind)) = (&mut self.groups.current, behind) else { return Ok(false) };
        let Some(rows) = group.rows_in_order(at_most, since, behind) else { return Ok(false) };
        if group.requests(out, rows).is_none() {
            return Ok(false);
        }
        group.learn(&out[begin..], &mut self.streams, &mut self.devices);
        group.skip(rows);
        self.row += rows as u64;
        Ok(true)
    }

    fn earliest_to_come(&self) -> Option<Nanos> {
        let group = self.groups.current.as_ref()?;
        let next = group.earliest_arrival(self.groups.least_behind()?)?;
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
