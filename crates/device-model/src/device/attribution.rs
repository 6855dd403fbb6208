//! Attributes busy time to requests: a device serves queued requests in its own order, several at once.
//!
//! ```text
//! completions of a disk  |---- a ----|-- c --|------ b ------|  each took from the previous completion to its own
//! ```
//! An array has such a line per disk, and a request takes time on each disk that it touches. A device without
//! a platter serves many requests at once, so the time between completions is not meaningful: there, shares follow the times of single requests.
//! The shares are then scaled, block by block, to add up to the device's busy time.

use block::{Nanos, Request};

use super::ModelTrainer;
use super::features::{self, State};

/// Number of requests in a block.
const BLOCK: usize = 64;
/// Minimum share of a request relative to an even share, as no request takes zero time.
const LEAST: f64 = 0.02;

/// Requests with successive completions, without an idle period of the device.
struct Block<'a> {
    orders: &'a [usize],
    busy: Nanos,
}

/// A completed request with the times of dispatch and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub request: Request,
    /// When it was dispatched.
    pub sent: Nanos,
    /// When it completed.
    pub end: Nanos,
}

impl ModelTrainer {
    /// Busy time of the device due to each request, in the order in which they were sent.
    pub fn attribute(&self, done: &[Done]) -> Vec<Nanos> {
        let mut order: Vec<usize> = (0..done.len()).collect();
        order.sort_by_key(|&number| (done[number].end, number));
        let parts = if self.known.mechanics.is_some() { self.by_disk(done, &order) } else { self.as_alone(done) };
        let mut taken = vec![Nanos::ZERO; done.len()];
        for block in blocks(done, &order) {
            let mean = block.orders.iter().map(|&number| parts[number]).sum::<f64>() / block.orders.len() as f64;
            let part = |number: usize| parts[number].max(LEAST * mean).max(1.0);
            let all: f64 = block.orders.iter().map(|&number| part(number)).sum();
            for &number in block.orders {
                taken[number] = Nanos((block.busy.0 as f64 * part(number) / all).round().max(1.0) as u64);
            }
        }
        taken
    }

    /// From the previous completion to its own, summed over the disks that it touches.
    fn by_disk(&self, done: &[Done], order: &[usize]) -> Vec<f64> {
        let array = &self.known.array;
        let mut answered = vec![Nanos::ZERO; array.disks];
        let mut pieces = Vec::new();
        let mut parts = vec![0.0; done.len()];
        for &number in order {
            let Done { request, sent, end } = done[number];
            // The mirror that reads is unknown: assume the one whose last completion is the oldest.
            let idle = (0..array.disks).min_by_key(|&disk| (answered[disk], disk)).unwrap_or(0);
            array.pieces((request.lba, u64::from(request.sectors), request.op.is_write()), |_| idle, &mut pieces);
            for (disk, answered) in answered.iter_mut().enumerate() {
                if pieces.iter().all(|piece| piece.disk != disk) {
                    continue;
                }
                parts[number] += end.0.saturating_sub(answered.0.max(sent.0)) as f64;
                *answered = end.max(*answered);
            }
        }
        // Merged requests complete together: split their time by sectors.
        for together in order.chunk_by(|&one, &other| done[one].end == done[other].end) {
            let all: f64 = together.iter().map(|&number| parts[number]).sum();
            let sectors: u64 = together.iter().map(|&number| u64::from(done[number].request.sectors)).sum();
            for &number in together {
                parts[number] = all * f64::from(done[number].request.sectors) / sectors.max(1) as f64;
            }
        }
        parts
    }

    /// The time of each request alone.
    fn as_alone(&self, done: &[Done]) -> Vec<f64> {
        let mut state = State::new(&self.known.array, false);
        let mut at = Nanos::ZERO;
        let alone = |done: &Done| {
            let row = state.look(&self.known, at, &done.request, 0);
            let ms = features::alone_ms(&row);
            state.settle(&self.known, ms * 1e6);
            at += Nanos::from_millis_f64(ms);
            ms
        };
        done.iter().map(alone).collect()
    }
}

/// Splits the completions at idle periods of the device, and when a block is full.
fn blocks<'a>(done: &[Done], order: &'a [usize]) -> Vec<Block<'a>> {
    // The earliest dispatch among this and later completions: when the device became busy with them.
    let mut waiting_since = vec![Nanos::ZERO; order.len()];
    let mut earliest = Nanos(u64::MAX);
    for (place, &number) in order.iter().enumerate().rev() {
        earliest = earliest.min(done[number].sent);
        waiting_since[place] = earliest;
    }
    let mut blocks = Vec::new();
    let (mut first, mut from) = (0, Nanos::ZERO);
    for place in 0..order.len() {
        let end = done[order[place]].end;
        if place == first {
            from = from.max(waiting_since[place]);
        }
        let is_idle_then = waiting_since.get(place + 1).is_none_or(|since| *since >= end);
        if is_idle_then || place + 1 - first == BLOCK {
            blocks.push(Block { orders: &order[first..=place], busy: Nanos(end.0.saturating_sub(from.0)) });
            (first, from) = (place + 1, end);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Op, Priority};

    use super::super::Array;
    use super::*;

    fn done(lba: u64, sent_ms: u64, end_ms: u64) -> Done {
        let (sent, end) = (Nanos::from_millis(sent_ms), Nanos::from_millis(end_ms));
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        Done { request: Request { id: 0, stream: 0, op, sync: true, priority, sectors: 8, lba, arrival: sent }, sent, end }
    }

    fn taken(disks: usize, done: &[Done]) -> Vec<u64> {
        let mechanics = super::super::mechanics::Mechanics::of(1e7, super::super::tracks::Tracks::default());
        let array = Array { level: 0, disks, unit: 8 };
        let lessons = ModelTrainer::new("a disk", (1 << 20, 1), Some(array), Some(mechanics)).unwrap();
        lessons.attribute(done).iter().map(|taken| taken.0 / 1_000_000).collect()
    }

    #[test]
    fn a_request_alone_is_charged_from_its_dispatch() {
        assert_eq!(taken(1, &[done(0, 5, 12), done(8, 12, 13), done(16, 40, 46)]), [7, 1, 6]);
    }

    #[test]
    fn a_request_that_passes_others_is_charged_from_the_previous_completion() {
        // The second completes first.
        assert_eq!(taken(1, &[done(0, 0, 12), done(8, 0, 4), done(16, 1, 13)]), [8, 4, 1]);
    }

    #[test]
    fn disks_that_work_in_parallel_share_the_time() {
        // Each disk takes 10 ms for one and 30 ms for the other: 40 ms in total, not 80.
        assert_eq!(taken(2, &[done(0, 0, 10), done(8, 0, 10), done(16, 0, 40), done(24, 0, 40)]), [5, 5, 15, 15]);
    }
}
