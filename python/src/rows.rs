//! Requests as Arrow record batches, in the columns of Seekwise's own trace format (`docs/reference/traces.md`).

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, UInt8Builder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use block::{Op, PriorityClass};
use trace::{TraceReader, TraceRequest};

/// Maximum requests per batch: some megabytes.
pub const BATCH: usize = 1 << 16;

/// Columns of a trace.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let column = |name: &str, of: DataType, is_optional: bool| Field::new(name, of, is_optional);
    Arc::new(Schema::new(vec![
        column("arrival_ns", DataType::Int64, false),
        column("device", DataType::UInt32, false),
        column("device_name", DataType::Utf8, true),
        column("lba", DataType::Int64, false),
        column("sectors", DataType::UInt32, false),
        column("is_read", DataType::Boolean, false),
        column("is_discard", DataType::Boolean, false),
        column("sync", DataType::Boolean, true),
        column("stream", DataType::UInt32, false),
        column("stream_name", DataType::Utf8, true),
        column("priority_class", DataType::Utf8, false),
        column("priority_level", DataType::UInt8, false),
        column("response_ns", DataType::Int64, true),
        column("service_ns", DataType::Int64, true),
    ]))
});

/// Builds a record batch.
#[derive(Default)]
pub struct Rows {
    arrival: Int64Builder,
    device: UInt32Builder,
    device_name: StringBuilder,
    lba: Int64Builder,
    sectors: UInt32Builder,
    is_read: BooleanBuilder,
    is_discard: BooleanBuilder,
    sync: BooleanBuilder,
    stream: UInt32Builder,
    stream_name: StringBuilder,
    class: StringBuilder,
    level: UInt8Builder,
    response: Int64Builder,
    service: Int64Builder,
}

impl Rows {
    /// Appends a request with the names of its stream and device.
    pub fn push(&mut self, request: &TraceRequest, stream_name: Option<&str>, device_name: Option<&str>) {
        self.arrival.append_value(request.arrival.0 as i64);
        self.device.append_value(request.device);
        self.device_name.append_option(device_name);
        self.lba.append_value(request.lba as i64);
        self.sectors.append_value(request.sectors);
        self.is_read.append_value(request.op == Op::Read);
        self.is_discard.append_value(request.op == Op::Discard);
        self.sync.append_option(request.sync);
        self.stream.append_value(request.stream);
        self.stream_name.append_option(stream_name);
        self.class.append_value(match request.priority.class {
            PriorityClass::RealTime => "realtime",
            PriorityClass::BestEffort => "best-effort",
            PriorityClass::Idle => "idle",
        });
        self.level.append_value(request.priority.level);
        self.response.append_option(request.response.map(|response| response.0 as i64));
        self.service.append_option(request.service.map(|service| service.0 as i64));
    }

    /// Number of requests in the unfinished batch.
    pub fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder as _;
        self.arrival.len()
    }

    /// Returns the batch and starts an empty one.
    ///
    /// # Errors
    /// None in practice: all columns have the same length.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.arrival.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.device_name.finish()),
            Arc::new(self.lba.finish()),
            Arc::new(self.sectors.finish()),
            Arc::new(self.is_read.finish()),
            Arc::new(self.is_discard.finish()),
            Arc::new(self.sync.finish()),
            Arc::new(self.stream.finish()),
            Arc::new(self.stream_name.finish()),
            Arc::new(self.class.finish()),
            Arc::new(self.level.finish()),
            Arc::new(self.response.finish()),
            Arc::new(self.service.finish()),
        ];
        RecordBatch::try_new(Arc::clone(&SCHEMA), columns)
    }
}

/// Iterator over the requests of a reader, in batches.
pub struct Batches {
    reader: Option<Box<dyn TraceReader>>,
    rows: Rows,
}

impl Batches {
    /// Batches of the remaining requests of `reader`.
    pub fn new(reader: Box<dyn TraceReader>) -> Batches {
        Batches { reader: Some(reader), rows: Rows::default() }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rows.len() < BATCH {
            let Some(reader) = &mut self.reader else { break };
            match reader.next_request() {
                Some(Ok(request)) => {
                    self.rows.push(&request, reader.stream_name(request.stream), reader.device_name(request.device))
                }
                Some(Err(error)) => {
                    self.reader = None;
                    return Some(Err(ArrowError::ExternalError(Box::new(error))));
                }
                None => self.reader = None,
            }
        }
        (self.rows.len() > 0).then(|| self.rows.finish())
    }
}
