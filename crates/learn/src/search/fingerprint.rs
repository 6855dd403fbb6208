//! A load's fingerprint: what is asked, as far as it does not change with what serves it.

use std::collections::BTreeSet;

use block::{Op, StreamId};

use crate::description::{describe, names};
use crate::event::Event;
use crate::similarity::{Columns, Point};
use crate::window::Window;

/// Fewer calls tell too little: a share of reads would be off by chance as much as another load's.
const FEWEST_CALLS: u64 = 50;

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
}

impl Calls {
    pub fn event(&mut self, event: &Event) {
        if let Event::Returned { stream, op, bytes, .. } = event {
            self.reads += u64::from(*op == Op::Read);
            self.done += 1;
            self.bytes += bytes;
            self.streams.insert(*stream);
        }
    }

    /// The fingerprint of the window that ends here; `None` where calls are seen, but too few so far: they count with those of the next.
    pub fn close(&mut self, window: &Window) -> Option<Fingerprint> {
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
            put("sequential_share", window.features.get("sequential_read_share").unwrap_or(f64::NAN));
        }
        *self = Calls::default();
        let point = Columns::described().point(|column| row.get(column).copied());
        Some(Fingerprint { row, point })
    }
}
