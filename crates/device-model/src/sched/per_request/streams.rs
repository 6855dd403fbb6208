//! Predicts the next requests of streams, learned from completed requests.
//!
//! A process that reads one block after the other issues its next request a moment after the last one completed, and that one needs
//! little or no seek. Serving another process in that moment costs two seeks (deceptive idleness: Iyer and Druschel, Anticipatory
//! scheduling, SOSP 2001). So the model keeps, per stream, the distribution of think times, and the service time of a request directly
//! after its last one; and over all streams the cost of switching to another. From these follows the time to wait for a stream:
//!
//! ```text
//! gain(w) = P(thinks at most w) * (cost of the other - cost of this one)  -  E min(thinking, w)        at its largest
//! ```

use block::{Nanos, Request, StreamId};

use super::REMEMBERED;
use super::mean::Mean;
use super::thinking::Thinking;
use crate::rotation::FASTEST;

/// Requests faster than a tenth of a revolution of the fastest drive were served by the device's memory: of those from the media, one in ten
/// has a shorter rotational latency, without a seek.
const FROM_MEMORY_NS: f64 = 0.1e9 / FASTEST;
/// Requests that take half a revolution of that drive, the mean latency of the media, needed a seek.
const SEEK_NS: f64 = 0.5e9 / FASTEST;
/// Share of seeking requests below which the device counts as one without seeks. Four times as many changes no score on disks nor on flash.
const FEW_SEEKS: f64 = 0.02;
/// Weight of the latest request in that share, low enough that one in fifty is no accident.
const LATEST_SEEK: f64 = 1.0 / 64.0;
/// Distance in sectors within which a stream's next request is initially assumed to take half of the time of another's. 8 MiB are some ten
/// tracks; without this assumption loads with few streams lose up to 4%.
const NEAR: u64 = 16_384;
/// A stream is local, and has turns, if its next request takes at most this fraction of a switch to another stream. Without a margin
/// several sequential streams lose up to half of their throughput, at 0.55 as well.
const LOCAL: f64 = 0.8;
/// Initial time of a sequential request without its transfer. Four times as much changes nothing.
const LEAST_NS: f64 = 100e3;

#[derive(Clone, Copy)]
struct Past {
    stream: StreamId,
    end: u64,
    done: Nanos,
    thinking: Thinking,
    /// Shares of its requests that continue where the last one ended, or near there.
    goes_on: Mean,
    stays_near: Mean,
    /// Service times of requests directly after one of the same stream, and of all.
    staying_ns: Mean,
    own_ns: Mean,
    /// Time without transfer of a sequential request directly after one of the same stream.
    running_ns: Mean,
    sectors: Mean,
}

/// Knowledge of streams.
pub(super) struct Streams {
    pasts: Vec<Option<Past>>,
    /// Stream and time of the last completion.
    last: Option<(StreamId, Nanos)>,
    /// Think times of all streams.
    thinking: Thinking,
    /// Service times of requests directly after another stream's: alone at the device, and not alone.
    switching_ns: [Mean; 2],
    /// Recent share of those that took as long as a seek.
    seeks: f64,
    /// Transfer time per sector of sequential requests, at best.
    sector_ns: f64,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            pasts: vec![None; REMEMBERED],
            last: None,
            thinking: Thinking::default(),
            switching_ns: [Mean::default(); 2],
            seeks: 1.0,
            sector_ns: f64::INFINITY,
        }
    }
}

impl Streams {
    /// Learns from a completed request. Must be called in order of completion.
    pub fn done(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        let last = self.last.replace((request.stream, at));
        if !request.is_sync() {
            return;
        }
        // Time in which it waited for others does not count.
        let began = last.map_or(dispatched, |(_, done)| done.max(dispatched));
        let own_ns = (at - began).0 as f64;
        let stays = last.is_some_and(|(stream, _)| stream == request.stream);
        if let Some((_, done)) = last
            && !stays
        {
            self.switching_ns[usize::from(dispatched < done)].add(own_ns);
            self.seeks += LATEST_SEEK * (f64::from(u8::from(own_ns > SEEK_NS)) - self.seeks);
        }
        let place = &mut self.pasts[request.stream as usize % REMEMBERED];
        let Some(past) = place.as_mut().filter(|past| past.stream == request.stream) else {
            *place = Some(Past::new(request, at));
            return;
        };
        let goes_on = past.is_next(request);
        past.goes_on.add(f64::from(u8::from(goes_on)));
        past.stays_near.add(f64::from(u8::from(past.end.abs_diff(request.lba) < NEAR)));
        past.sectors.add(f64::from(request.sectors));
        // A request issued before the last one completed has no think time.
        let thought = if request.arrival > past.done { request.arrival - past.done } else { Nanos::ZERO };
        past.own_ns.add(own_ns);
        past.thinking.add(thought);
        self.thinking.add(thought);
        if stays {
            past.staying_ns.add(own_ns);
        }
        if goes_on && stays && self.sector_ns.is_finite() {
            past.running_ns.add((own_ns - f64::from(request.sectors) * self.sector_ns).max(0.0));
        }
        if goes_on {
            let sector_ns = own_ns / f64::from(request.sectors.max(1));
            // Slowly increases if no request is as fast any more: by half in 200 requests.
            self.sector_ns = if sector_ns < self.sector_ns { sector_ns } else { self.sector_ns * 1.002 };
        }
        (past.end, past.done) = (request.end(), at);
    }

    /// Whether a request with this time was served by the device's memory: it took less than the platter needs, apart from the transfer of
    /// sequential requests.
    pub fn is_from_memory(&self, request: &Request, service: Nanos) -> bool {
        let transfer_ns = if self.sector_ns.is_finite() { f64::from(request.sectors) * self.sector_ns } else { 0.0 };
        (service.0 as f64) < FROM_MEMORY_NS + transfer_ns
    }

    fn past(&self, stream: StreamId) -> Option<&Past> {
        self.pasts[stream as usize % REMEMBERED].as_ref().filter(|past| past.stream == stream)
    }

    /// Records that waiting for a stream was in vain.
    pub fn stayed_away(&mut self, stream: StreamId) {
        if let Some(past) = self.pasts[stream as usize % REMEMBERED].as_mut().filter(|past| past.stream == stream) {
            past.thinking.add(Nanos(u64::MAX));
            self.thinking.add(Nanos(u64::MAX));
        }
    }

    /// Expected time of this stream's next request directly after its last one; `None` if unknown.
    pub fn staying_ns(&self, stream: StreamId) -> Option<f64> {
        let past = self.past(stream)?;
        // Optimistic for unknown streams, so that they are tried.
        past.staying_ns.get().or_else(|| {
            if past.goes_on.get()? > 0.5 {
                let transfer_ns = past.sectors.get().filter(|_| self.sector_ns.is_finite()).map(|sectors| sectors * self.sector_ns);
                return Some(LEAST_NS + transfer_ns.unwrap_or(0.0));
            }
            (past.stays_near.get()? > 0.5).then_some(self.switching_ns()? / 2.0)
        })
    }

    /// Whether its requests mostly continue where the last one ended; true if unknown.
    pub fn may_go_on(&self, stream: StreamId) -> bool {
        self.past(stream).and_then(|past| past.goes_on.get()).is_none_or(|on| on > 0.5)
    }

    /// Whether its load is low even if it is served immediately, because of long think times.
    pub fn asks_for_little(&self, stream: StreamId) -> bool {
        self.past(stream).is_some_and(|past| past.thinking.is_long())
    }

    /// Time without transfer of its sequential requests.
    pub fn running_ns(&self, stream: StreamId) -> f64 {
        self.past(stream).and_then(|past| past.running_ns.get()).unwrap_or(LEAST_NS)
    }

    /// Time to wait for this stream's next request instead of dispatching one that costs `other_ns`; zero not to wait.
    pub fn wait_ns(&self, stream: StreamId, other_ns: f64) -> f64 {
        let Some((past, staying_ns)) = self.past(stream).zip(self.staying_ns(stream)) else { return 0.0 };
        let saved_ns = other_ns - staying_ns;
        if saved_ns <= 0.0 || self.is_found_by_device(past) {
            return 0.0;
        }
        past.thinking.wait_ns(&self.thinking, saved_ns)
    }

    /// Whether its next request should take less than switching to another stream.
    pub fn is_local(&self, stream: StreamId) -> bool {
        let Some((past, staying_ns)) = self.past(stream).zip(self.staying_ns(stream)) else { return false };
        !self.is_found_by_device(past) && self.switching_ns().is_some_and(|switching_ns| staying_ns < LOCAL * switching_ns)
    }

    /// Whether the device has been observed to serve several requests at once.
    fn takes_several(&self) -> bool {
        self.switching_ns[1].get().is_some()
    }

    /// Whether the device itself will find the stream's next request: it serves several at once, and the stream is not sequential.
    fn is_found_by_device(&self, past: &Past) -> bool {
        self.takes_several() && past.goes_on.get().is_none_or(|share| share < 0.5)
    }

    /// Whether a request continues where its stream's last one ended.
    pub fn is_next(&self, request: &Request) -> bool {
        self.past(request.stream).is_some_and(|past| past.is_next(request))
    }

    /// Whether the device serves distant streams as fast as a single one.
    pub fn nothing_seeks(&self) -> bool {
        self.seeks < FEW_SEEKS
    }

    /// Service time of this stream's requests if the device mostly serves them from its memory; `None` otherwise.
    pub fn memory_ns(&self, stream: StreamId) -> Option<f64> {
        self.past(stream)?.own_ns.get().filter(|&own_ns| own_ns < FROM_MEMORY_NS)
    }

    /// Service time of a request after another stream's, with several at the device if it supports that; `None` if unknown.
    pub fn switching_ns(&self) -> Option<f64> {
        let [alone, in_company] = self.switching_ns;
        in_company.get().or(alone.get())
    }
}

impl Past {
    /// A stream with its first request.
    fn new(request: &Request, done: Nanos) -> Past {
        Past {
            stream: request.stream,
            end: request.end(),
            done,
            thinking: Thinking::default(),
            goes_on: Mean::default(),
            stays_near: Mean::default(),
            staying_ns: Mean::default(),
            own_ns: Mean::default(),
            running_ns: Mean::default(),
            sectors: Mean::of(f64::from(request.sectors)),
        }
    }

    fn is_next(&self, request: &Request) -> bool {
        request.lba == self.end
    }
}

#[cfg(test)]
mod tests;
