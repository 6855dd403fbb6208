//! Accumulates events into sums, and computes the features from them at the end of a window.

use block::Nanos;

use super::arrival::History;
use super::features::Features;
use super::places::Recent;
use super::quantiles::Quantiles;
use super::sums::Sums;
use crate::event::Event;

/// Accumulates events into features, in one pass and without allocating. State that spans windows is kept from one to the next: outstanding
/// requests, the last position of each stream, and the previous requests. Limited to 512 streams; see [`History`].
#[derive(Clone, Debug)]
pub struct Extractor {
    history: History,
    recent: Recent,
    sizes: Quantiles,
    sums: Sums,
}

impl Extractor {
    /// An extractor without events.
    pub fn new() -> Extractor {
        let sizes = Quantiles::new(u64::from(u32::MAX), 1);
        Extractor { history: History::new(), recent: Recent::new(), sizes, sums: Sums::default() }
    }

    /// Adds an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => {
                let arrival = self.history.arrive(request);
                self.sums.add(&arrival);
                self.sizes.add(u64::from(request.sectors));
                self.sums.repeats += u64::from(self.recent.add(request.lba));
            }
            Event::Completed { request, at, .. } => self.history.completed(request, *at),
            Event::Flushed { .. } | Event::Called { .. } | Event::Returned { .. } => {}
        }
    }

    /// Requests queued since the window began.
    pub fn requests(&self) -> u64 {
        self.sums.requests
    }

    /// The features of the window that ends now after `duration`; begins the next one.
    pub fn close(&mut self, duration: Nanos) -> Features {
        self.sums.sizes.p95_sectors = self.sizes.quantile(0.95);
        let features = Features::of(&self.sums, duration);
        self.sums = Sums::default();
        self.sizes.clear();
        self.history.begin_period();
        features
    }
}

impl Default for Extractor {
    fn default() -> Extractor {
        Extractor::new()
    }
}
