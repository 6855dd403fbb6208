//! What was asked in a window, as numbers.

use block::Nanos;

use crate::event::Event;

/// A number that describes a window.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name, in models and tables.
    pub name: &'static str,
    /// What it counts; empty for a share or a ratio.
    pub unit: &'static str,
    /// What it says.
    pub doc: &'static str,
}

/// Every feature, in the order of [`Features`].
pub static FEATURES: &[Feature; 2] = &[
    Feature { name: "requests_per_s", unit: "1/s", doc: "Requests queued in a second." },
    Feature { name: "read_share", unit: "", doc: "Reads among the requests." },
];

/// A window's features, in the order of [`FEATURES`]. NaN where there is no value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features(pub [f64; FEATURES.len()]);

/// Folds events into features, in one pass.
#[derive(Clone, Debug, Default)]
pub struct Extractor {
    requests: u64,
    reads: u64,
}

impl Extractor {
    /// With no event.
    pub fn new() -> Extractor {
        Extractor::default()
    }

    /// Takes one event in.
    pub fn event(&mut self, event: &Event) {
        if let Event::Queued(request) = event {
            self.requests += 1;
            self.reads += u64::from(!request.op.is_write());
        }
    }

    /// Requests queued since the window began.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The features of the window that ends here after `duration`; the next begins.
    pub fn close(&mut self, duration: Nanos) -> Features {
        let (requests, reads) = (self.requests as f64, self.reads as f64);
        (self.requests, self.reads) = (0, 0);
        Features([requests / duration.as_secs_f64(), reads / requests])
    }
}
