//! Binary traces of records of one length.

use std::io::{BufReader, Read};
use std::path::PathBuf;

use super::input::{read_up_to, stream_error};
use super::order::{Records, Sorted, Window};
use super::{Input, OpenOptions, TraceError, TraceReader, TraceRequest};

/// Reads the records of one format.
pub(super) trait Parser: Send {
    /// The length of each record.
    fn record_bytes(&self) -> usize;
    /// The request of a record; `None`: it transfers nothing. Otherwise the error states the fault.
    fn request(&self, record: &[u8]) -> Result<Option<TraceRequest>, String>;
}

/// Opens a trace of records from here to the end of the input.
pub(super) fn open<P: Parser + 'static>(input: Input, options: &OpenOptions, parser: P) -> Box<dyn TraceReader> {
    let record = vec![0; parser.record_bytes()];
    let stream = BufReader::with_capacity(256 * 1024, input.stream);
    let (path, skip_bad) = (input.path, options.skip_bad);
    Box::new(Sorted::new(Binary { path, stream, parser, record, number: 0, skip_bad, skipped: 0 }, options))
}

/// A little-endian number of at most eight bytes.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The records of a binary file.
struct Binary<P> {
    path: PathBuf,
    stream: BufReader<Box<dyn Read + Send>>,
    parser: P,
    record: Vec<u8>,
    number: u64,
    skip_bad: bool,
    skipped: u64,
}

impl<P: Parser> Records for Binary<P> {
    fn advance(&mut self, out: &mut Window) -> Result<bool, TraceError> {
        self.number += 1;
        let length = self.record.len();
        let outcome = match read_up_to(&mut self.stream, &mut self.record) {
            Ok(0) => return Ok(false),
            Ok(read) if read == length => self.parser.request(&self.record),
            Ok(read) => Err(format!("the file ends after {read} of the record's {length} bytes")),
            Err(error) => return Err(stream_error(&self.path, error, format!("record {}", self.number))),
        };
        match outcome {
            Ok(Some(request)) => out.push(request),
            Ok(None) => out.omit(),
            Err(_) if self.skip_bad => self.skipped += 1,
            Err(message) => return Err(self.damaged(message)),
        }
        Ok(true)
    }

    fn damaged(&self, message: String) -> TraceError {
        TraceError::Damaged { path: self.path.clone(), position: self.position(), message }
    }

    fn position(&self) -> String {
        format!("record {}", self.number)
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}
