//! The columns of a file, and their values in one row group: decoded in batches, or constant.

use std::sync::Arc;

use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::pages::{self, Chunk};
use super::{VERSION, VERSION_KEY, value};

/// Number of rows decoded at once.
pub(super) const BATCH_ROWS: usize = 4096;

/// Indices of the columns by meaning; `None` for optional columns that the file lacks.
pub(super) struct Columns {
    pub(super) arrival: usize,
    pub(super) lba: usize,
    pub(super) sectors: usize,
    pub(super) is_read: usize,
    pub(super) is_discard: Option<usize>,
    pub(super) device: Option<usize>,
    pub(super) device_name: Option<usize>,
    pub(super) sync: Option<usize>,
    pub(super) stream: Option<usize>,
    pub(super) stream_name: Option<usize>,
    pub(super) priority_class: Option<usize>,
    pub(super) priority_level: Option<usize>,
    pub(super) response: Option<usize>,
    pub(super) service: Option<usize>,
}

impl Columns {
    pub(super) fn find(metadata: &ParquetMetaData) -> Result<Columns, String> {
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
pub(super) struct Column<T: DataType> {
    /// The value if it is constant, where `Some(None)` is null; then there is no reader.
    same: Option<Option<T::T>>,
    /// Rows per batch.
    batch: usize,
    reader: Option<ColumnReaderImpl<T>>,
    nullable: bool,
    pub(super) unsigned: bool,
    /// For each row of the batch, whether it has a value; empty if all do.
    levels: Vec<i16>,
    /// The values of the rows that have one.
    values: Vec<T::T>,
    pub(super) next: usize,
}

impl<T: DataType> Column<T> {
    /// Decodes the next batch and returns its number of rows; `None` for a constant column.
    pub(super) fn fill(&mut self) -> Result<Option<usize>, ParquetError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        self.levels.clear();
        self.values.clear();
        self.next = 0;
        let levels = self.nullable.then_some(&mut self.levels);
        let (rows, ..) = reader.read_records(self.batch, levels, None, &mut self.values)?;
        Ok(Some(rows))
    }

    pub(super) fn is_same(&self) -> bool {
        self.same.is_some()
    }

    /// The value of a row of the batch, `None` if it is null. Rows must be taken in order.
    #[inline]
    pub(super) fn take(&mut self, row: usize) -> Option<&T::T> {
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
pub(super) enum Integers {
    Narrow(Column<Int32Type>),
    Wide(Column<Int64Type>),
}

impl Integers {
    pub(super) fn fill(&mut self) -> Result<Option<usize>, ParquetError> {
        match self {
            Integers::Narrow(column) => column.fill(),
            Integers::Wide(column) => column.fill(),
        }
    }

    pub(super) fn is_same(&self) -> bool {
        match self {
            Integers::Narrow(column) => column.is_same(),
            Integers::Wide(column) => column.is_same(),
        }
    }

    /// Number of consumed values of the batch. Rows without a value do not count.
    pub(super) fn next(&mut self) -> &mut usize {
        match self {
            Integers::Narrow(column) => &mut column.next,
            Integers::Wide(column) => &mut column.next,
        }
    }

    /// All values of the row group. `None` unless this is a required 64-bit column and the whole group has been decoded.
    pub(super) fn all(&self, rows: usize) -> Option<&[i64]> {
        match self {
            Integers::Wide(column) if !column.nullable => {
                Some(&column.values).filter(|values| values.len() == rows).map(Vec::as_slice)
            }
            _ => None,
        }
    }

    /// The number in a row of the batch, `None` if it is null. Unsigned 64-bit values of 2^63 and more become negative, which no column
    /// allows.
    pub(super) fn take(&mut self, row: usize) -> Option<i64> {
        match self {
            Integers::Narrow(column) if column.unsigned => column.take(row).map(|&value| i64::from(value as u32)),
            Integers::Narrow(column) => column.take(row).map(|&value| i64::from(value)),
            Integers::Wide(column) => column.take(row).copied(),
        }
    }
}

/// Opens the columns of one row group.
#[derive(Clone, Copy)]
pub(super) struct Opener<'a> {
    pub(super) file: &'a Arc<Chunk>,
    pub(super) metadata: &'a ParquetMetaData,
    pub(super) group: usize,
    /// Whether this program wrote the file: its statistics are exact.
    pub(super) is_ours: bool,
}

impl Opener<'_> {
    fn descriptor(&self, at: usize) -> Arc<ColumnDescriptor> {
        self.metadata.file_metadata().schema_descr().column(at)
    }

    pub(super) fn column<T: DataType>(&self, at: usize) -> Result<Column<T>, ParquetError>
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

    pub(super) fn integers(&self, at: usize) -> Result<Integers, ParquetError> {
        self.integers_by(at, BATCH_ROWS)
    }

    pub(super) fn integers_by(&self, at: usize, batch: usize) -> Result<Integers, ParquetError> {
        match self.descriptor(at).physical_type() {
            Type::INT32 => self.column_by(at, batch).map(Integers::Narrow),
            _ => self.column_by(at, batch).map(Integers::Wide),
        }
    }
}

/// A value type that statistics can show to be constant.
pub(super) trait FromStatistics: Sized {
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
