//! Writes Parquet: requests are buffered until a row group is full, then written column by column.

use std::io;
use std::sync::Arc;

use block::{Op, PriorityClass};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type as Node};

use super::{About, Out, OutputFormat, TraceWriter};
use crate::parquet::{
    CAPACITY_KEY, CHECKSUMS_KEY, CLASSES, PROGRAM_KEY, READ_AHEAD_KEY, SCHEDULER_KEY, SOURCE_KEY, Summed, VERSION, VERSION_KEY,
};
use crate::{TraceReader, TraceRequest};

/// Requests per row group, which is held in memory: about 15 MB.
const GROUP_ROWS: usize = 131_072;

/// The format.
pub(super) static FORMAT: OutputFormat = OutputFormat {
    name: "parquet",
    extensions: &["parquet"],
    summary: "Seekwise's store: all fields, compact, readable by any dataframe tool",
    is_text: false,
    leaves_out: &[],
    create,
};

/// Begins a store.
fn create(out: Out, about: &About) -> io::Result<Box<dyn TraceWriter>> {
    let properties = properties(about).map_err(io_error)?;
    let schema = Arc::new(schema().map_err(io_error)?);
    let file = SerializedFileWriter::new(Summed::new(out), schema, Arc::new(properties)).map_err(io_error)?;
    Ok(Box::new(Store { file, requests: Vec::new(), stream_names: Vec::new(), device_names: Vec::new() }))
}

/// The columns, in file order.
fn schema() -> Result<Node, ParquetError> {
    const REQUIRED: Repetition = Repetition::REQUIRED;
    const OPTIONAL: Repetition = Repetition::OPTIONAL;
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let columns = [
        ("arrival_ns", Type::INT64, REQUIRED, None),
        ("device", Type::INT32, REQUIRED, unsigned(32)),
        ("device_name", Type::BYTE_ARRAY, OPTIONAL, Some(LogicalType::String)),
        ("lba", Type::INT64, REQUIRED, None),
        ("sectors", Type::INT32, REQUIRED, unsigned(32)),
        ("is_read", Type::BOOLEAN, REQUIRED, None),
        ("is_discard", Type::BOOLEAN, REQUIRED, None),
        ("sync", Type::BOOLEAN, OPTIONAL, None),
        ("stream", Type::INT32, REQUIRED, unsigned(32)),
        ("stream_name", Type::BYTE_ARRAY, OPTIONAL, Some(LogicalType::String)),
        ("priority_class", Type::BYTE_ARRAY, REQUIRED, Some(LogicalType::String)),
        ("priority_level", Type::INT32, REQUIRED, unsigned(8)),
        ("response_ns", Type::INT64, OPTIONAL, None),
        ("service_ns", Type::INT64, OPTIONAL, None),
    ];
    let fields = columns.into_iter().map(|(name, physical, repetition, logical)| {
        let field = Node::primitive_type_builder(name, physical).with_repetition(repetition).with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    });
    Node::group_type_builder("requests").with_fields(fields.collect::<Result<_, ParquetError>>()?).build()
}

/// Encodings. Arrivals increase with small differences. Other columns have few distinct values, or no order, and are left to
/// zstd.
fn properties(about: &About) -> Result<WriterProperties, ParquetError> {
    let device = about.device.clone().unwrap_or_default();
    let pairs = [
        (VERSION_KEY, Some(VERSION.to_owned())),
        (PROGRAM_KEY, Some(about.program.clone())),
        (SOURCE_KEY, Some(about.source.clone())),
        (CAPACITY_KEY, device.capacity_sectors.map(|sectors| sectors.to_string())),
        (SCHEDULER_KEY, device.scheduler),
        (READ_AHEAD_KEY, device.read_ahead_kib.map(|kib| kib.to_string())),
    ];
    let known = pairs.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key.to_owned(), value?)));
    let plain = |name: &str| ColumnPath::from(name);
    Ok(WriterProperties::builder()
        .set_created_by(about.program.clone())
        .set_key_value_metadata(Some(known.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_dictionary_enabled(plain("arrival_ns"), false)
        .set_column_encoding(plain("arrival_ns"), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(plain("response_ns"), false)
        .set_column_dictionary_enabled(plain("service_ns"), false)
        .set_column_dictionary_enabled(plain("lba"), false)
        .build())
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        // The caller needs the underlying error, such as a full disk.
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// A store being written.
struct Store {
    file: SerializedFileWriter<Summed>,
    requests: Vec<TraceRequest>,
    stream_names: Vec<Option<ByteArray>>,
    device_names: Vec<Option<ByteArray>>,
}

impl TraceWriter for Store {
    fn write(&mut self, request: &TraceRequest, names: &dyn TraceReader) -> io::Result<()> {
        for (what, value) in [
            ("arrival", request.arrival.0),
            ("response", request.response.unwrap_or_default().0),
            ("service", request.service.unwrap_or_default().0),
            ("lba", request.lba),
        ] {
            if i64::try_from(value).is_err() {
                let message = format!("a request's {what} is {value}, beyond the 2^63 - 1 of a Parquet column");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        // Successive requests of one stream share the name without a copy.
        push_name(&mut self.stream_names, names.stream_name(request.stream));
        push_name(&mut self.device_names, names.device_name(request.device));
        self.requests.push(*request);
        if self.requests.len() < GROUP_ROWS { Ok(()) } else { self.write_group().map_err(io_error) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<Option<String>> {
        if !self.requests.is_empty() {
            self.write_group().map_err(io_error)?;
        }
        self.file.flush()?;
        let list = self.file.inner_mut().hold();
        self.file.append_key_value_metadata(KeyValue::new(CHECKSUMS_KEY.to_owned(), list));
        self.file.into_inner().map_err(io_error)?.finish()?;
        Ok(None)
    }
}

fn push_name(names: &mut Vec<Option<ByteArray>>, name: Option<&str>) {
    let next = match names.last() {
        Some(Some(last)) if Some(last.data()) == name.map(str::as_bytes) => Some(last.clone()),
        _ => name.map(ByteArray::from),
    };
    names.push(next);
}

impl Store {
    fn write_group(&mut self) -> Result<(), ParquetError> {
        let requests = &self.requests;
        let mut group = self.file.next_row_group()?;
        let classes = CLASSES.map(|(name, class)| (class, ByteArray::from(name)));
        put::<Int64Type>(&mut group, requests, |request| request.arrival.0 as i64)?;
        put::<Int32Type>(&mut group, requests, |request| request.device as i32)?;
        put_names(&mut group, &self.device_names)?;
        put::<Int64Type>(&mut group, requests, |request| request.lba as i64)?;
        put::<Int32Type>(&mut group, requests, |request| request.sectors as i32)?;
        put::<BoolType>(&mut group, requests, |request| request.op == Op::Read)?;
        put::<BoolType>(&mut group, requests, |request| request.op == Op::Discard)?;
        put_known::<BoolType>(&mut group, requests.iter().map(|request| request.sync))?;
        put::<Int32Type>(&mut group, requests, |request| request.stream as i32)?;
        put_names(&mut group, &self.stream_names)?;
        put::<ByteArrayType>(&mut group, requests, |request| class_name(&classes, request.priority.class))?;
        put::<Int32Type>(&mut group, requests, |request| request.priority.level.into())?;
        for span in [|request: &TraceRequest| request.response, |request: &TraceRequest| request.service] {
            put_known::<Int64Type>(&mut group, requests.iter().map(|request| span(request).map(|span| span.0 as i64)))?;
        }
        group.close()?;
        // Bytes still buffered by the library belong to this group's checksum.
        self.file.flush()?;
        self.file.inner_mut().end_part();
        self.requests.clear();
        self.stream_names.clear();
        self.device_names.clear();
        Ok(())
    }
}

fn class_name(classes: &[(PriorityClass, ByteArray)], class: PriorityClass) -> ByteArray {
    classes.iter().find(|(known, _)| *known == class).map(|(_, name)| name.clone()).unwrap_or_default()
}

type Group<'a> = SerializedRowGroupWriter<'a, Summed>;

/// Writes the next column, without nulls.
fn put<T: DataType>(
    group: &mut Group<'_>,
    requests: &[TraceRequest],
    value: impl Fn(&TraceRequest) -> T::T,
) -> Result<(), ParquetError> {
    write_column::<T>(group, &requests.iter().map(value).collect::<Vec<_>>(), None)
}

/// Writes the next column, with nulls.
fn put_known<T: DataType>(group: &mut Group<'_>, values: impl Iterator<Item = Option<T::T>> + Clone) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.clone().map(|value| value.is_some().into()).collect();
    write_column::<T>(group, &values.flatten().collect::<Vec<_>>(), Some(&levels))
}

fn put_names(group: &mut Group<'_>, names: &[Option<ByteArray>]) -> Result<(), ParquetError> {
    put_known::<ByteArrayType>(group, names.iter().cloned())
}

fn write_column<T: DataType>(group: &mut Group<'_>, values: &[T::T], levels: Option<&[i16]>) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns are written than there are".into()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
