//! Requests that a program already has in memory, as a trace: dataframes, or what it made itself.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Format, Order, TraceReader};

/// The format of [`InMemory`] traces. No file has it, so it is not in the list of formats.
pub(super) static FORMAT: Format = Format {
    name: "memory",
    summary: "requests that a program has in memory",
    source: "the program",
    detect: |_| false,
    open: |input, _| Err(input.not_of_format("memory is the format of requests in memory, not of a file")),
};

/// Requests in memory that can be read any number of times.
///
/// [`OpenOptions::memory`](super::OpenOptions::memory) opens them wherever a trace file is opened; the path is then only their name.
///
/// ```
/// use std::path::Path;
/// use std::sync::Arc;
///
/// use block::{Nanos, Op, Priority};
/// use trace::{InMemory, OpenOptions, Order, TraceError, TraceReader, TraceRequest, open};
///
/// /// Reads of 4 KiB, one behind the other, a millisecond apart.
/// #[derive(Debug)]
/// struct Sequential(u64);
///
/// struct Reader(u64, u64);
///
/// impl InMemory for Sequential {
///     fn reader(self: Arc<Self>, _order: Order) -> Box<dyn TraceReader> {
///         Box::new(Reader(0, self.0))
///     }
///     fn sha256(&self) -> String {
///         "0".repeat(64)
///     }
/// }
///
/// impl TraceReader for Reader {
///     fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
///         let number = self.0;
///         self.0 += 1;
///         let (arrival, lba, priority) = (Nanos::from_millis(number), 8 * number, Priority::DEFAULT);
///         let request = TraceRequest {
///             arrival, device: 0, lba, sectors: 8, op: Op::Read, sync: None, stream: 0, priority, response: None, service: None,
///         };
///         (number < self.1).then_some(Ok(request))
///     }
/// }
///
/// let options = OpenOptions { memory: Some(Arc::new(Sequential(3))), ..OpenOptions::default() };
/// let mut opened = open(Path::new("three reads"), &options)?;
/// assert_eq!(std::iter::from_fn(|| opened.reader.next_request()).count(), 3);
/// # Ok::<(), TraceError>(())
/// ```
pub trait InMemory: Debug + Send + Sync {
    /// Reads the requests from the first. They come sorted by arrival for [`Order::FromZero`] and [`Order::OwnClock`].
    fn reader(self: Arc<Self>, order: Order) -> Box<dyn TraceReader>;

    /// A digest of all requests in lower-case hexadecimal: equal requests have equal digests.
    fn sha256(&self) -> String;
}
