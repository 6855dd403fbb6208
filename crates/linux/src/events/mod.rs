//! What a block device is asked and how it answers, as the simulator's records.
//!
//! ```text
//! tracefs instance ─▶ pages of each processor ─▶ merged by time ─▶ joined: queued, issued, completed ─▶ observe::Event
//!  (root opens it)     page, format                tracepoints       joining
//! /sys/block/*/stat ─▶ counters: rates, queue, mean times, where events may not be had
//! ```
//! Times are `CLOCK_MONOTONIC`. Sectors are the whole disk's: the kernel maps those of partitions before it tells of a request.

pub mod counter_source;
mod counters;
#[cfg(test)]
mod fixtures;
mod format;
mod joining;
mod names;
mod page;
mod raw;
mod recording;
mod tracepoints;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use applier::trace::TraceError;
use block::StreamId;
use observe::Event;
use observe::counters::Sample;

pub use counter_source::{CounterSource, CountersOnly};
pub use counters::Counters;
pub use recording::{Background, RecordError, Recorded, Until, record, wait};
pub use tracepoints::Tracepoints;

/// Something that sees each request of a device, or where that is not allowed its counters.
pub trait EventSource: Send {
    /// Appends what happened since the last call, in order of time. What happened in the last milliseconds may come with the next call.
    ///
    /// # Errors
    /// The device is [gone](ObserveError::Gone), or the kernel says what cannot be understood.
    fn read(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError>;

    /// Has it also report calls of fsync ([`Event::Called`], [`Event::Returned`]) from now on, where the kernel has events of them: on ext4.
    fn report_fsync(&mut self) {}

    /// Events lost by the kernel so far, because they were not read in time. Where it rose, requests in flight are unknown: start
    /// windows again.
    fn lost(&self) -> u64;

    /// The name of the program behind a stream, if it was seen.
    fn name(&self, stream: StreamId) -> Option<&str>;

    /// What becomes readable when there is much to read: for `poll`, with a timeout, because few events wake no reader.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Why it sees no requests but [samples](EventSource::samples) of counters, and what is known of the device all the same; `None` if it sees
    /// requests.
    fn counters_only(&self) -> Option<&CountersOnly> {
        None
    }

    /// Appends the looks at the counters since the last call, where there are no events.
    fn samples(&mut self, out: &mut Vec<Sample>) {
        let _ = out;
    }
}

/// Why a device cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A file of the kernel cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the kernel says what this program does not understand.
    #[error("{}: {message}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is there, and what would be understood.
        message: String,
    },
    /// The device is no longer there, or another one has its name.
    #[error("{device} is gone")]
    Gone {
        /// Its name.
        device: String,
    },
}

impl From<TraceError> for ObserveError {
    fn from(TraceError { path, source }: TraceError) -> ObserveError {
        ObserveError::Io { path, source }
    }
}

impl ObserveError {
    fn io(path: &Path, source: io::Error) -> ObserveError {
        ObserveError::Io { path: path.to_owned(), source }
    }

    fn unknown(path: &Path, message: impl Into<String>) -> ObserveError {
        ObserveError::Unknown { path: path.to_owned(), message: message.into() }
    }
}
