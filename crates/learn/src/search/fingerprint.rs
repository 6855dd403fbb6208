//! A load's fingerprint: what is asked, as far as it does not change with what serves it.

use std::collections::BTreeSet;

use block::{Op, StreamId};

use crate::description::{describe, names};
use crate::event::Event;
use crate::similarity::{Columns, Point};
use crate::window::Window;

/// Fewer calls tell too little: a share of reads would be off by chance as much as another load's.
const FEWEST_CALLS: u64 = 50;

/// The same of reads in order. Of calls that read, too: a large one is many reads of the device, most of which are in order, and a dozen of those
/// calls are off by chance as much as another load.
const FEWEST_READS: f64 = 50.0;

/// A window's description by [`names`], and where it lies.
#[derive(Clone, Debug)]
pub(super) struct Fingerprint {
    pub row: Vec<f64>,
    pub point: Point,
}

/// Takes the calls of processes in, where the plant sees them. Of buffered writes the block layer sees only write-back, which comes when
/// the host likes; what processes ask for is the load. How they read in order is seen in the reads that reach the device.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    reads: u64,
    done: u64,
    bytes: u64,
    streams: BTreeSet<StreamId>,
    in_order: InOrder,
}

/// The share of reads in order, over as many windows as it takes to tell.
#[derive(Clone, Copy, Debug, Default)]
struct InOrder {
    /// What enough reads told last.
    known: Option<f64>,
    /// Reads since then, and those of them that were in order.
    reads: f64,
    of_them: f64,
    /// Calls that read since then.
    calls: u64,
}

impl InOrder {
    fn window(&mut self, window: &Window) {
        let value = |name: &str| window.features.get(name).filter(|value| !value.is_nan());
        let Some((share, of_reads)) = value("sequential_read_share").zip(value("read_share")) else { return };
        let reads = of_reads * window.outcome.requests as f64;
        self.reads += reads;
        self.of_them += share * reads;
        let asked = if window.outcome.calls.is_some() { self.calls as f64 } else { self.reads };
        if self.reads.min(asked) >= FEWEST_READS {
            *self = InOrder { known: Some(self.of_them / self.reads), ..InOrder::default() };
        }
    }

    /// What is known; before that the first few are better than nothing.
    fn share(&self) -> Option<f64> {
        let of_few = || (self.reads > 0.0).then(|| self.of_them / self.reads);
        self.known.or_else(of_few)
    }
}

impl Calls {
    pub fn event(&mut self, event: &Event) {
        if let Event::Returned { stream, op, bytes, .. } = event {
            self.reads += u64::from(*op == Op::Read);
            self.in_order.calls += u64::from(*op == Op::Read);
            self.done += 1;
            self.bytes += bytes;
            self.streams.insert(*stream);
        }
    }

    /// The fingerprint of the window that ends here; `None` where calls are seen, but too few so far: they count with those of the next.
    pub fn close(&mut self, window: &Window) -> Option<Fingerprint> {
        self.in_order.window(window);
        if window.outcome.calls.is_some() && self.done < FEWEST_CALLS {
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
        *self = Calls { in_order: self.in_order, ..Calls::default() };
        let point = Columns::described().point(|column| row.get(column).copied());
        Some(Fingerprint { row, point })
    }
}
