//! Fingerprint of a load: the features that do not depend on the setting.

use std::collections::{BTreeMap, BTreeSet};

use block::{Op, Request, StreamId};

use crate::Window;
use observe::description::{describe, names};
use observe::event::Event;
use observe::similarity::{Columns, Point};

/// Minimum number of calls of a fingerprint: with fewer, the fraction of reads varies as much by chance as between loads. Choice: more
/// delay the recognition of a load; with 50, the standard error of a fraction is at most 0.07; not varied.
const MIN_CALLS: u64 = 50;

/// Minimum number of reads for the fraction of sequential reads; both for requests and for calls, as a large call issues many requests.
/// Derived: as [`MIN_CALLS`].
const MIN_READS: f64 = MIN_CALLS as f64;

/// Weight of the latest reads, as the page cache splits runs temporarily. Choice: a higher one follows single windows, a lower one follows
/// a change late; an average over five windows; not varied.
const LATEST: f64 = 1.0 / 3.0;

/// A window's description by [`names`], and its position among loads.
#[derive(Clone, Debug)]
pub(super) struct Fingerprint {
    pub row: Vec<f64>,
    pub point: Point,
}

/// Collects the calls of processes, if the target observes them: of buffered writes the block layer only sees write-back, timed by the
/// host. The fraction of sequential reads is that of the processes' reads that reach the device; the host's own requests, such as swapping,
/// depend on the setting.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    reads: u64,
    done: u64,
    bytes: u64,
    streams: BTreeSet<StreamId>,
    in_order: InOrder,
}

/// The fraction of sequential reads, over as many windows as needed.
#[derive(Clone, Debug, Default)]
struct InOrder {
    /// The fraction over enough reads, weighted towards the latest.
    known: Option<f64>,
    /// Reads since then, and the number of sequential ones.
    reads: f64,
    of_them: f64,
    /// Read calls since then.
    calls: u64,
    /// The processes that made calls, with the end of the last read of each; [`observe::window::History`] also counts their writes.
    ends: BTreeMap<StreamId, u64>,
}

impl InOrder {
    fn queued(&mut self, request: &Request) {
        let Some(end) = self.ends.get_mut(&request.stream).filter(|_| request.op == Op::Read) else { return };
        let is_in_order = request.follows(*end);
        *end = request.end();
        self.reads += 1.0;
        self.of_them += f64::from(u8::from(is_in_order));
    }

    fn returned(&mut self, stream: StreamId, op: Op) {
        self.calls += u64::from(op == Op::Read);
        // No run ends at that sector, so the next read does not count as sequential.
        self.ends.entry(stream).or_insert(u64::MAX);
    }

    fn window(&mut self, window: &Window) {
        let sees_calls = window.outcome.calls.is_some();
        let value = |name: &str| window.features.get(name).filter(|value| !value.is_nan());
        if let Some((share, of_reads)) = value("sequential_read_share").zip(value("read_share")).filter(|_| !sees_calls) {
            let reads = of_reads * window.outcome.requests as f64;
            self.reads += reads;
            self.of_them += share * reads;
        }
        let asked = if sees_calls { self.calls as f64 } else { self.reads };
        if self.reads.min(asked) >= MIN_READS {
            let share = self.of_them / self.reads;
            self.known = Some(self.known.map_or(share, |known| known + (share - known) * LATEST));
            (self.reads, self.of_them, self.calls) = (0.0, 0.0, 0);
        }
    }

    /// The fraction; over fewer reads than required if there are no more, and `None` without reads.
    fn share(&self) -> Option<f64> {
        let of_few = || (self.reads > 0.0).then(|| self.of_them / self.reads);
        self.known.or_else(of_few)
    }
}

impl Calls {
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => self.in_order.queued(request),
            Event::Returned { stream, op, bytes, .. } => {
                self.in_order.returned(*stream, *op);
                self.reads += u64::from(*op == Op::Read);
                self.done += 1;
                self.bytes += bytes;
                self.streams.insert(*stream);
            }
            _ => {}
        }
    }

    /// Ends a window and returns its fingerprint; `None` if there are too few calls, which then count in the next window.
    pub fn close(&mut self, window: &Window) -> Option<Fingerprint> {
        self.in_order.window(window);
        if window.outcome.calls.is_some() && self.done < MIN_CALLS {
            return None;
        }
        let mut row = describe(&window.features, &window.outcome);
        let names = names();
        let place = |name: &str| names.iter().position(|known| known == name);
        let mut put = |name: &str, value: f64| {
            if let Some(column) = place(name) {
                row[column] = value;
            }
        };
        if self.done > 0 {
            let done = self.done as f64;
            put("read_share", self.reads as f64 / done);
            put("size_mean_bytes", self.bytes as f64 / done);
            put("streams", self.streams.len() as f64);
            put("sync_share", f64::NAN);
            put("sequential_share", self.in_order.share().unwrap_or(f64::NAN));
        }
        *self = Calls { in_order: std::mem::take(&mut self.in_order), ..Calls::default() };
        let point = Columns::described().point(|column| row.get(column).copied());
        Some(Fingerprint { row, point })
    }
}
