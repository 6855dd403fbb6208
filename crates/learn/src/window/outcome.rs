//! How a window's requests were served.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};

use crate::event::Event;
use crate::preference::Preference;

/// Streams whose share is followed in a window; of more the fairness is that of the first ones.
const STREAMS: usize = 256;

/// How the requests that were done in a window were served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Length of the window.
    pub duration: Nanos,
    /// Requests done.
    pub requests: u64,
    /// Of these, the ones that somebody waited for.
    pub waited_for: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From queued to done, in seconds, of those that somebody waited for (of all where nobody waited for any); NaN without any.
    pub mean_response_s: f64,
    /// The longest of them, in seconds; NaN without any.
    pub max_response_s: f64,
    /// From sent to the device to done, in seconds, mean of all; NaN without any.
    pub mean_service_s: f64,
    /// Jain's index over the streams' progress (service time by response time): 1 is fair, 1/n if one of n gets all. 1 of a single one.
    pub fairness: f64,
    /// Requests queued and not done when the window ended.
    pub unfinished: u64,
}

impl Outcome {
    /// Bytes a second.
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / self.duration.as_secs_f64()
    }

    /// Requests done a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.duration.as_secs_f64()
    }

    /// How good it is to somebody with this preference, as a logarithm: 0.01 more is one percent better. Weighted geometric mean of
    /// throughput, the inverse of response time, and fairness, so that no unit matters. Minus infinity if nothing was done.
    pub fn score(&self, preference: &Preference) -> f64 {
        if self.requests == 0 || self.bytes == 0 || self.duration == Nanos::ZERO {
            return f64::NEG_INFINITY;
        }
        let [throughput, response, fairness] = preference.weights();
        throughput * self.throughput().ln() - response * self.mean_response_s.ln() + fairness * self.fairness.ln()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    response_s: f64,
    service_s: f64,
}

/// Folds completions into an [`Outcome`].
#[derive(Clone, Debug, Default)]
pub struct Tally {
    requests: u64,
    waited_for: u64,
    bytes: u64,
    response_s: [f64; 2],
    max_response_s: [f64; 2],
    service_s: f64,
    streams: BTreeMap<StreamId, Progress>,
    unfinished: u64,
}

impl Tally {
    /// With no event.
    pub fn new() -> Tally {
        Tally::default()
    }

    /// Takes one event in.
    pub fn event(&mut self, event: &Event) {
        let &Event::Completed { request, dispatched, at } = event else {
            self.unfinished += 1;
            return;
        };
        self.unfinished = self.unfinished.saturating_sub(1);
        self.requests += 1;
        if request.op.transfers() {
            self.bytes += u64::from(request.sectors) * 512;
        }
        let (response, service) = ((at - request.arrival).as_secs_f64(), (at - dispatched).as_secs_f64());
        let waited = usize::from(request.is_sync());
        self.waited_for += waited as u64;
        self.response_s[waited] += response;
        self.max_response_s[waited] = self.max_response_s[waited].max(response);
        self.service_s += service;
        if waited == 1 && (self.streams.len() < STREAMS || self.streams.contains_key(&request.stream)) {
            let progress = self.streams.entry(request.stream).or_default();
            progress.response_s += response;
            progress.service_s += service;
        }
    }

    /// Requests queued and not done.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// The outcome of the window that ends here after `duration`; the next begins.
    pub fn close(&mut self, duration: Nanos) -> Outcome {
        let kind = usize::from(self.waited_for > 0);
        let judged = if kind == 1 { self.waited_for } else { self.requests };
        let (sum, squares, n) = self.streams.values().fold((0.0, 0.0, 0.0), |(sum, squares, n), progress| {
            let share = if progress.response_s > 0.0 { progress.service_s / progress.response_s } else { 1.0 };
            (sum + share, squares + share * share, n + 1.0)
        });
        let outcome = Outcome {
            duration,
            requests: self.requests,
            waited_for: self.waited_for,
            bytes: self.bytes,
            mean_response_s: self.response_s[kind] / judged as f64,
            max_response_s: if judged > 0 { self.max_response_s[kind] } else { f64::NAN },
            mean_service_s: self.service_s / self.requests as f64,
            fairness: if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 },
            unfinished: self.unfinished,
        };
        let mut streams = std::mem::take(&mut self.streams);
        streams.clear();
        *self = Tally { unfinished: self.unfinished, streams, ..Tally::default() };
        outcome
    }
}
