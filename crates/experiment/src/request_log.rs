//! Requests of a run under a scheduler that learns, for the knowledge base.

#![cfg_attr(not(feature = "knowledge"), allow(dead_code, reason = "only knowledge bases read them"))]

use std::collections::VecDeque;

use block::{Nanos, Request};
#[cfg(feature = "knowledge")]
use knowledge::RequestRow;

/// Number of the newest requests to keep of a run: a tenth of a knowledge base's capacity.
const MAX_REQUESTS: usize = 100_000;

/// The newest requests completed under a scheduler that learns, at most `MAX_REQUESTS`.
#[derive(Debug, Default)]
pub struct RequestLog {
    done: VecDeque<Done>,
    /// Number of the current stretch: incremented when another scheduler has dispatched a request.
    stretch: u64,
    forgotten: u64,
}

#[derive(Debug)]
struct Done {
    stretch: u64,
    request: Request,
    dispatched: Nanos,
    at: Nanos,
}

impl RequestLog {
    /// Adds a request completed under a scheduler that learns.
    pub fn done(&mut self, request: Request, dispatched: Nanos, at: Nanos) {
        if self.done.len() == MAX_REQUESTS {
            self.done.pop_front();
            self.forgotten += 1;
        }
        self.done.push_back(Done { stretch: self.stretch, request, dispatched, at });
    }

    /// Ends the stretch: another scheduler dispatched a request, so the head's position before the next one is unknown.
    pub fn interrupt(&mut self) {
        if self.done.back().is_some_and(|last| last.stretch == self.stretch) {
            self.stretch += 1;
        }
    }

    /// The rows in order of dispatch. The first request of each stretch is left out: its distance is unknown.
    #[cfg(feature = "knowledge")]
    pub fn rows(&self) -> Vec<RequestRow> {
        let mut sent: Vec<&Done> = self.done.iter().collect();
        // Parts of one merged request have the same dispatch time; they are ordered by sector.
        sent.sort_by_key(|done| (done.stretch, done.dispatched, done.request.lba));
        let row = |(number, pair): (usize, &[&Done])| {
            let (before, Done { stretch, request, dispatched, at }) = (pair[0], pair[1]);
            (before.stretch == *stretch).then(|| RequestRow {
                number: self.forgotten + number as u64,
                op: request.op,
                lba: request.lba,
                sectors: request.sectors,
                sync: request.sync,
                distance: request.lba.wrapping_sub(before.request.end()).cast_signed(),
                queued: request.arrival,
                dispatched: *dispatched,
                done: *at,
            })
        };
        sent.windows(2).enumerate().filter_map(row).collect()
    }
}

#[cfg(all(test, feature = "knowledge"))]
mod tests {
    use block::{Op, Priority};

    use super::*;

    fn done(requests: &mut RequestLog, lba: u64, dispatched: u64) {
        let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos(dispatched - 1));
        let request = Request { id: 0, stream: 0, op, sync: true, priority, sectors: 8, lba, arrival };
        requests.done(request, Nanos(dispatched), Nanos(dispatched + 5));
    }

    fn distances(requests: &RequestLog) -> Vec<(u64, u64, i64)> {
        requests.rows().iter().map(|row| (row.number, row.lba, row.distance)).collect()
    }

    #[test]
    fn distances_go_by_the_order_in_which_requests_went_to_the_device() {
        let mut requests = RequestLog::default();
        assert_eq!(distances(&requests), []);
        // The second completed first; the third and fourth were merged.
        for (lba, dispatched) in [(1000, 20), (100, 10), (3008, 30), (3000, 30)] {
            done(&mut requests, lba, dispatched);
        }
        assert_eq!(distances(&requests), [(0, 1000, 892), (1, 3000, 1992), (2, 3008, 0)]);
        let row = requests.rows()[0];
        assert_eq!((row.queued, row.dispatched, row.done), (Nanos(19), Nanos(20), Nanos(25)));
    }

    #[test]
    fn after_another_scheduler_the_first_distance_is_not_known() {
        let mut requests = RequestLog::default();
        requests.interrupt();
        for (number, lba) in [5000, 100, 200, 300].into_iter().enumerate() {
            if number == 2 {
                requests.interrupt();
                requests.interrupt();
            }
            done(&mut requests, lba, 10 + number as u64);
        }
        assert_eq!(distances(&requests), [(0, 100, -4908), (2, 300, 92)]);
    }

    #[test]
    fn the_newest_are_kept_and_keep_their_numbers() {
        let mut requests = RequestLog::default();
        for number in 0..=MAX_REQUESTS as u64 {
            done(&mut requests, 8 * number, 10 + number);
        }
        let rows = requests.rows();
        assert_eq!((rows.len(), rows[0].number, rows[0].lba), (MAX_REQUESTS - 1, 1, 16));
    }
}
