//! A load that was not seen: what streams are supposed to ask, where nothing but counters is known.

use block::{Nanos, Op, Priority, Request, StreamId};

use super::pace::{Again, Step};
use super::places::Places;
use super::{Load, Pace, Stream};

/// A request that a stream is supposed to make.
#[derive(Clone, Copy, Debug)]
pub struct SupposedRequest {
    /// What it does.
    pub op: Op,
    /// Whether somebody waits for it.
    pub sync: bool,
    /// Its size in 512-byte sectors; 0: the write cache is to be emptied.
    pub sectors: u32,
    /// Its first sector.
    pub lba: u64,
    /// After the request before, of a stream by the clock; else after the answer that it waits for.
    pub after: Nanos,
}

/// A stream that is supposed to be there.
#[derive(Clone, Debug)]
pub struct SupposedStream {
    /// How it comes.
    pub pace: Pace,
    /// Requests that it has under way at once, if it waits for answers.
    pub depth: u32,
    /// What it asks, again and again: runs in order go on, other places are drawn anew.
    pub requests: Vec<SupposedRequest>,
}

impl Load {
    /// A load of these streams, numbered from 1. `span` is the time for which it stands.
    pub fn supposed(streams: &[SupposedStream], span: Nanos) -> Load {
        let first = |stream: &SupposedStream| stream.requests.iter().filter(|request| request.sectors > 0).map(|one| one.lba).min();
        let mut begins: Vec<u64> = streams.iter().filter(|stream| stream.is_in_order()).filter_map(first).collect();
        begins.sort_unstable();
        let made = (1..).zip(streams).map(|(id, stream)| stream.made(id, &begins));
        Load { streams: made.filter(|stream| !stream.steps.is_empty()).collect(), span }
    }
}

impl SupposedStream {
    /// Whether most of it goes on where the request before ended.
    fn is_in_order(&self) -> bool {
        let follows = self.requests.windows(2).filter(|pair| pair[1].lba == pair[0].lba + u64::from(pair[0].sectors)).count();
        2 * follows > self.requests.len()
    }

    fn made(&self, id: StreamId, begins: &[u64]) -> Stream {
        let most = self.depth.max(1) - 1;
        let priority = Priority::DEFAULT;
        let step = |(number, request): (usize, &SupposedRequest)| Step {
            op: request.op,
            sync: request.sync,
            priority,
            sectors: request.sectors,
            under_way: (number as u32).min(most),
            gap: request.after,
            thought: (self.pace != Pace::Open).then_some(request.after),
        };
        let steps: Vec<Step> = self.requests.iter().enumerate().map(step).collect();
        let asked: Vec<Request> = self
            .requests
            .iter()
            .map(|one| Request {
                id: 0,
                stream: id,
                op: one.op,
                sync: one.sync,
                priority,
                sectors: one.sectors,
                lba: one.lba,
                arrival: Nanos::ZERO,
            })
            .collect();
        let thought = self.requests.first().map_or(Nanos::ZERO, |first| first.after);
        let again = Again { pause: Nanos::ZERO, thought, least_under_way: most };
        Stream {
            id,
            pace: self.pace,
            steps,
            again,
            places: Places::new(asked.iter(), id, begins),
            waits_for_room: true,
            goes_on: true,
            is_over: false,
        }
    }
}
