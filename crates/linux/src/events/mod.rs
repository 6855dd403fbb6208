//! Observes the requests and completions of a block device, as the same events as those of the simulator.
//!
//! ```text
//! tracefs instance ─▶ pages of each processor ─▶ merged by time ─▶ joined: queued, issued, completed ─▶ observe::Event
//!  (root opens it)     page, format                tracepoints       joining
//! /sys/block/*/stat ─▶ counters: rates, queue, mean times, if events are not available
//! ```
//! Times are `CLOCK_MONOTONIC`. Sectors are those of the whole disk: the kernel maps those of partitions before it reports a request.

pub mod counter_source;
mod counters;
#[cfg(test)]
mod fixtures;
mod format;
mod fsync;
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

/// A source of a device's request events, or of its counters if events are not permitted.
pub trait EventSource: Send {
    /// Appends the events since the last call, in order of time. Those of the last milliseconds may come with the next call.
    ///
    /// # Errors
    /// The device is [gone](ObserveError::Gone), or the kernel's data cannot be parsed.
    fn read(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError>;

    /// Also reports calls of fsync ([`Event::Called`], [`Event::Returned`]) from now on, where the kernel has events of them: on ext4.
    fn report_fsync(&mut self) {}

    /// Number of events lost by the kernel so far, because they were not read in time. If it rises, requests in flight are unknown, and
    /// windows must be restarted.
    fn lost(&self) -> u64;

    /// The name of the program behind a stream; `None` if it is unknown.
    fn name(&self, stream: StreamId) -> Option<&str>;

    /// File descriptors that become readable with much to read: for `poll` with a timeout, as a few events do not wake the reader.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Why it only has [samples](EventSource::samples) of counters, and the known properties of the device; `None` if it has request
    /// events.
    fn counters_only(&self) -> Option<&CountersOnly> {
        None
    }

    /// Appends the samples of the counters since the last call, if there are no events.
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
        /// The cause.
        source: io::Error,
    },
    /// A file of the kernel has unexpected contents.
    #[error("{}: {message}", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The contents, and the expected form.
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
