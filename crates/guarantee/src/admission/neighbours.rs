//! Noisy neighbours and random loads.

use block::Nanos;
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled};
use testbed::synthetic::{Arrival, Pattern, Phase, Places};

use crate::placement::{Asks, FOR_EVER, size};

/// A kind of bad neighbour.
pub(super) struct Kind {
    /// Name for scenarios.
    pub name: &'static str,
    outstanding: u32,
    locality: f64,
    reads: u32,
    kib: i64,
    /// Whether its requests are synchronous; otherwise its writes are buffered.
    is_sync: bool,
    /// Length of its active periods and of the pauses between them; `None`: always active.
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

/// A random load, in words and as a workload: any pattern of requests, steady, with pauses or at random times.
pub(super) fn drawn(random: &mut Xoshiro256PlusPlus) -> anyhow::Result<(String, Asks)> {
    let locality = one_of(random, &[0.0, 0.0, 0.5, 1.0]);
    let reads = one_of(random, &[100, 100, 70, 30, 0]);
    let kib = one_of(random, &[4, 8, 16, 64, 256, 1024]);
    let pattern = Pattern::Local { locality, reads, sizes: size(kib)?, places: Places::Uniform };
    let text = format!("requests of {kib} KiB, {reads}% of them reads, {:.0}% sequential", 100.0 * locality);
    let phase = |until, arrival| Phase { until, arrival, pattern: pattern.clone() };
    let (phases, how) = match random.random_range(0..5) {
        // Steady: up to a hundred requests a second, well below the capacity of any disk.
        0 => {
            let rate = scaled(random, 1.0, 100.0).round();
            (vec![phase(FOR_EVER, Arrival::AtRandom(Nanos((1e9 / rate) as u64)))], format!("{rate} a second"))
        }
        one => {
            let depth = scaled(random, 1.0, 32.0).round() as u32;
            let outstanding = Arrival::Outstanding(depth);
            if one == 1 && happens(random, 0.5) {
                let (works, rests) = (one_of(random, &[20, 200, 2_000]), one_of(random, &[20, 500, 2_000]));
                let (works, rests) = (Nanos::from_millis(works), Nanos::from_millis(rests));
                let phases = vec![phase(works, outstanding), phase(works + rests, Arrival::Outstanding(0))];
                (phases, format!("{depth} outstanding for {works}, nothing for {rests}"))
            } else {
                (vec![phase(FOR_EVER, outstanding)], format!("{depth} outstanding"))
            }
        }
    };
    Ok((format!("{text}, {how}"), Asks::Drawn { phases, is_sync: true }))
}
