//! Noisy neighbours.

use block::Nanos;

use crate::placement::{Asks, FOR_EVER, size};
use crate::synthetic::asks::{Arrival, Pattern, Phase, Places};

/// A kind of bad neighbour.
pub(super) struct Kind {
    /// What it does.
    pub name: &'static str,
    outstanding: u32,
    locality: f64,
    reads: u32,
    kib: i64,
    /// Its requests are synchronous; else they are buffered writes.
    is_sync: bool,
    /// It asks for so long, and then for nothing for as long.
    pauses: Option<Nanos>,
}

/// Every kind.
pub(super) static KINDS: [Kind; 5] = [
    Kind { outstanding: 128, ..Kind::new("a flood of small random reads", 4) },
    Kind { outstanding: 8, locality: 1.0, ..Kind::new("a sequential stream", 64) },
    Kind { outstanding: 16, ..Kind::new("huge random reads", 1024) },
    Kind { outstanding: 256, reads: 0, is_sync: false, ..Kind::new("buffered writes", 64) },
    Kind { outstanding: 16, reads: 70, pauses: Some(Nanos::from_millis(2_000)), ..Kind::new("silence and return", 8) },
];

impl Kind {
    const fn new(name: &'static str, kib: i64) -> Kind {
        Kind { name, outstanding: 1, locality: 0.0, reads: 100, kib, is_sync: true, pauses: None }
    }

    pub(super) fn asks(&self) -> Asks {
        let sizes = size(self.kib).unwrap_or(&[8]);
        let pattern = Pattern::Local { locality: self.locality, reads: self.reads, sizes, places: Places::Uniform };
        let phase = |until, count| Phase { until, arrival: Arrival::Outstanding(count), pattern: pattern.clone() };
        let phases = match self.pauses {
            Some(pause) => vec![phase(pause, self.outstanding), phase(pause + pause, 0)],
            None => vec![phase(FOR_EVER, self.outstanding)],
        };
        Asks::Drawn { phases, is_sync: self.is_sync }
    }
}
