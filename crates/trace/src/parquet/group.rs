//! One row group while it is read: its columns advance together, a batch at a time.

use std::sync::Arc;

use block::{Nanos, Op, Priority};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::super::TraceRequest;
use super::super::names::NamesByNumber;
use super::columns::{BATCH_ROWS, Column, Columns, Integers, Opener};
use super::pages::Chunk;
use super::row::{self, Row, class, level, span, within};

/// In files of this program, all arrivals of a row group with up to this many rows are decoded at once (8 MB).
const MAX_GROUP_ROWS: usize = 1 << 20;

/// The arrivals of a row group: decoded with each batch, or all at once.
struct Arrivals {
    column: Integers,
    /// Rows of the group.
    all: usize,
    /// If the arrivals of the whole group are decoded: index of the first row of the current batch. Otherwise 0.
    base: usize,
    /// Whether arrivals are known never to decrease, so that the next row has the earliest remaining arrival of the group.
    is_in_order: bool,
}

impl Arrivals {
    /// Decoding all arrivals shows whether the group is sorted; if so, nothing is held back. Arrivals are read even if they are
    /// constant, because they count the rows.
    fn open(opener: Opener<'_>, at: usize, all: usize) -> Result<Arrivals, ParquetError> {
        let at_once = opener.is_ours && all <= MAX_GROUP_ROWS;
        let mut column = Opener { is_ours: false, ..opener }.integers_by(at, if at_once { all.max(1) } else { BATCH_ROWS })?;
        let decoded = if at_once { column.fill()? } else { Some(0) };
        if decoded.is_some_and(|rows| rows > 0 && rows != all) {
            return Err(ParquetError::General(format!("arrival_ns has {} rows, its group {all}", decoded.unwrap_or(0))));
        }
        let is_in_order = column.all(all).is_some_and(|arrivals| arrivals.is_sorted());
        Ok(Arrivals { column, all, base: 0, is_in_order })
    }

    /// Goes on to the next batch, after one of `before` rows. Returns its number of rows.
    fn fill(&mut self, before: usize) -> Result<usize, ParquetError> {
        if self.column.all(self.all).is_some() {
            self.base += before;
            return Ok((self.all - self.base).min(BATCH_ROWS));
        }
        Ok(self.column.fill()?.unwrap_or(0))
    }

    /// The arrivals from a row of the current batch to the group's end; `None` unless the whole group is decoded.
    fn from(&self, row: usize) -> Option<&[i64]> {
        self.column.all(self.all)?.get(self.base + row..)
    }

    /// As [`from`](Arrivals::from), `None` also if the group is not known to be sorted.
    fn in_order_from(&self, row: usize) -> Option<&[i64]> {
        self.from(row).filter(|_| self.is_in_order)
    }

    /// The arrival in a row of the batch, `None` if it is null.
    fn take(&mut self, row: usize) -> Option<i64> {
        if self.is_in_order { self.from(row)?.first().copied() } else { self.column.take(self.base + row) }
    }
}

/// A stream or a device in each row: its number, and its name.
struct Named {
    /// `None` if the file has no such column; all numbers are then 0.
    number: Option<Integers>,
    name: Option<Column<ByteArrayType>>,
}

impl Named {
    fn open(opener: Opener<'_>, number: Option<usize>, name: Option<usize>) -> Result<Named, ParquetError> {
        Ok(Named { number: number.map(|at| opener.integers(at)).transpose()?, name: name.map(|at| opener.column(at)).transpose()? })
    }

    /// Decodes the next batch and returns the number of rows of each column; `None` for one that is constant or missing.
    fn fill(&mut self) -> Result<[Option<usize>; 2], ParquetError> {
        Ok([
            self.number.as_mut().map(Integers::fill).transpose()?.flatten(),
            self.name.as_mut().map(Column::fill).transpose()?.flatten(),
        ])
    }

    /// Records the names in the batch's rows from `from` for the numbers of these requests.
    fn learn(&mut self, requests: &[TraceRequest], from: usize, names: &mut NamesByNumber, number: fn(&TraceRequest) -> u32) {
        let same = self.number.as_ref().is_none_or(Integers::is_same) && self.name.as_ref().is_none_or(Column::is_same);
        for (row, request) in requests.iter().enumerate().take(if same { 1 } else { requests.len() }) {
            let name = self.name.as_mut().and_then(|column| column.take(from + row));
            names.learn(number(request), name.map_or(&[], ByteArray::data));
        }
    }

    /// Number and name in a row of the batch, `None` if null.
    fn take(&mut self, row: usize) -> (Option<i64>, Option<&ByteArray>) {
        let number = self.number.as_mut().map_or(Some(0), |column| column.take(row));
        (number, self.name.as_mut().and_then(|column| column.take(row)))
    }
}

/// The operation of each row.
struct Operations {
    is_read: Column<BoolType>,
    is_discard: Option<Column<BoolType>>,
}

impl Operations {
    fn is_same(&self) -> bool {
        self.is_read.is_same() && self.is_discard.as_ref().is_none_or(Column::is_same)
    }

    /// The operation in a row of the batch, or the reason for which it has none.
    fn take(&mut self, row: usize) -> Result<Op, String> {
        let is_discard = self.is_discard.as_mut().and_then(|column| column.take(row)).copied();
        row::operation(self.is_read.take(row).copied(), is_discard)
    }

    /// As [`integers`].
    fn set(&mut self, requests: &mut [TraceRequest], from: usize, same: bool) -> Option<()> {
        if same == self.is_same() {
            for (row, request) in requests.iter_mut().enumerate() {
                request.op = self.take(from + row).ok()?;
            }
        }
        Some(())
    }
}

/// A row group being read.
pub(super) struct Group {
    arrivals: Arrivals,
    lba: Integers,
    sectors: Integers,
    operation: Operations,
    device: Named,
    sync: Option<Column<BoolType>>,
    stream: Named,
    priority_class: Option<Column<ByteArrayType>>,
    priority_level: Option<Integers>,
    response: Option<Integers>,
    service: Option<Integers>,
    /// Rows of the current batch, and how many of them are read.
    rows: usize,
    done: usize,
    /// Whether the current batch has an invalid row or one without sectors, so that rows are read one at a time.
    is_row_by_row: bool,
}

impl Group {
    pub(super) fn open(
        file: &Arc<Chunk>,
        metadata: &ParquetMetaData,
        group: usize,
        (columns, is_ours): (&Columns, bool),
    ) -> Result<Group, ParquetError> {
        let all = usize::try_from(metadata.row_group(group).num_rows())?;
        let opener = Opener { file, metadata, group, is_ours };
        Ok(Group {
            arrivals: Arrivals::open(opener, columns.arrival, all)?,
            lba: opener.integers(columns.lba)?,
            sectors: opener.integers(columns.sectors)?,
            operation: Operations {
                is_read: opener.column(columns.is_read)?,
                is_discard: columns.is_discard.map(|at| opener.column(at)).transpose()?,
            },
            device: Named::open(opener, columns.device, columns.device_name)?,
            sync: columns.sync.map(|at| opener.column(at)).transpose()?,
            stream: Named::open(opener, columns.stream, columns.stream_name)?,
            priority_class: columns.priority_class.map(|at| opener.column(at)).transpose()?,
            priority_level: columns.priority_level.map(|at| opener.integers(at)).transpose()?,
            response: columns.response.map(|at| opener.integers(at)).transpose()?,
            service: columns.service.map(|at| opener.integers(at)).transpose()?,
            rows: 0,
            done: 0,
            is_row_by_row: false,
        })
    }

    /// Whether all rows of the current batch are read.
    pub(super) fn is_batch_done(&self) -> bool {
        self.done >= self.rows
    }

    /// Decodes the next batch; `false` at the group's end.
    pub(super) fn fill(&mut self) -> Result<bool, ParquetError> {
        self.rows = self.arrivals.fill(self.rows)?;
        self.done = 0;
        self.is_row_by_row = false;
        let [device, device_name] = self.device.fill()?;
        let [stream, stream_name] = self.stream.fill()?;
        let others = [
            self.lba.fill()?,
            self.sectors.fill()?,
            self.operation.is_read.fill()?,
            self.operation.is_discard.as_mut().map(Column::fill).transpose()?.flatten(),
            device,
            device_name,
            self.sync.as_mut().map(Column::fill).transpose()?.flatten(),
            stream,
            stream_name,
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

    /// Number of the batch's next rows, up to `at_most`, if they can be read [as requests](Group::requests) at once: they are sorted,
    /// arrive at `since` or later, and none arrives after `behind`. Otherwise `None`.
    pub(super) fn rows_in_order(&self, at_most: usize, since: Nanos, behind: i64) -> Option<usize> {
        let rows = (self.rows - self.done).min(at_most);
        let arrivals = self.arrivals.in_order_from(self.done).filter(|_| !self.is_row_by_row)?;
        let (first, last) = (*arrivals.first()?, *arrivals.get(rows.checked_sub(1)?)?);
        (u64::try_from(first).is_ok_and(|first| first >= since.0) && last <= behind).then_some(rows)
    }

    /// The earliest arrival of the rows not yet read and of later groups, whose earliest is `behind`. `None` if unknown.
    pub(super) fn earliest_arrival(&self, behind: i64) -> Option<i64> {
        Some(self.arrivals.in_order_from(self.done)?.first().map_or(behind, |next| behind.min(*next)))
    }

    /// Reads the next `rows` rows of the current batch as requests, column by column, which is several times as fast as row by row. `None`,
    /// with nothing consumed, if one of them is invalid or has no sectors: this batch is then read row by row. All arrivals of the group
    /// must have been decoded.
    pub(super) fn requests(&mut self, out: &mut Vec<TraceRequest>, rows: usize) -> Option<()> {
        let read = self.columns_to_requests(out, rows);
        self.is_row_by_row |= read.is_none();
        read
    }

    fn columns_to_requests(&mut self, out: &mut Vec<TraceRequest>, rows: usize) -> Option<()> {
        let mut template = TraceRequest::ZERO;
        self.set(std::slice::from_mut(&mut template), true)?;
        let begin = out.len();
        out.resize(begin + rows, template);
        let mut taken = [0; COLUMNS];
        taken.iter_mut().zip(self.taken()).for_each(|(before, next)| *before = *next);
        let requests = &mut out[begin..];
        let mut valid = self.set(requests, false);
        let arrivals = self.arrivals.from(self.done).and_then(|all| all.get(..rows));
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

    /// Goes on behind rows that were read [as requests](Group::requests).
    pub(super) fn skip(&mut self, rows: usize) {
        self.done += rows;
    }

    /// Number of consumed values of each column except arrivals and names. Columns that the file lacks are left out.
    fn taken(&mut self) -> impl Iterator<Item = &mut usize> {
        let integers = [
            self.device.number.as_mut(),
            self.stream.number.as_mut(),
            self.response.as_mut(),
            self.service.as_mut(),
            self.priority_level.as_mut(),
        ];
        let integers = [&mut self.lba, &mut self.sectors].into_iter().chain(integers.into_iter().flatten()).map(Integers::next);
        let flags = [Some(&mut self.operation.is_read), self.operation.is_discard.as_mut(), self.sync.as_mut()];
        let flags = flags.into_iter().flatten().map(|column| &mut column.next);
        integers.chain(flags).chain(self.priority_class.as_mut().map(|column| &mut column.next))
    }

    /// Records the names of the streams and devices of these requests, which are the next rows of the batch.
    pub(super) fn learn(&mut self, requests: &[TraceRequest], streams: &mut NamesByNumber, devices: &mut NamesByNumber) {
        self.stream.learn(requests, self.done, streams, |request| request.stream);
        self.device.learn(requests, self.done, devices, |request| request.device);
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
        integers(requests, from, same, self.device.number.as_mut(), |request, value| {
            request.device = within("device", value, u32::MAX.into()).ok()? as u32;
            Some(())
        })?;
        integers(requests, from, same, self.stream.number.as_mut(), |request, value| {
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
        self.operation.set(requests, from, same)?;
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
    pub(super) fn row(&mut self) -> Row<'_> {
        let row = self.done;
        self.done += 1;
        let (device, device_name) = self.device.take(row);
        let (stream, stream_name) = self.stream.take(row);
        Row {
            arrival: self.arrivals.take(row),
            lba: self.lba.take(row),
            sectors: self.sectors.take(row),
            operation: self.operation.take(row),
            device,
            device_name,
            sync: self.sync.as_mut().and_then(|column| column.take(row)).copied(),
            stream,
            stream_name,
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
