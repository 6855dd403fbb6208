//! A load that was not observed: assumed streams, for use with counters only.

use block::{Nanos, Op, Priority, Request, StreamId};

use super::pace::{Again, Step};
use super::places::Places;
use super::{Load, Pace, Stream};

/// A request of an assumed stream.
#[derive(Clone, Copy, Debug)]
pub struct AssumedRequest {
    /// Read or write.
    pub op: Op,
    /// Whether it is synchronous.
    pub sync: bool,
    /// Size in 512-byte sectors; 0 for a flush.
    pub sectors: u32,
    /// First sector.
    pub lba: u64,
    /// Time since the previous request of an open stream; for other streams, think time after the completion that the request waits for.
    pub after: Nanos,
}

/// An assumed stream.
#[derive(Clone, Debug)]
pub struct AssumedStream {
    /// When it issues requests.
    pub pace: Pace,
    /// Number of requests in flight of a closed stream.
    pub depth: u32,
    /// Its requests, which repeat: sequential runs continue, other positions are drawn again.
    pub requests: Vec<AssumedRequest>,
}

impl Load {
    /// A load of these streams, numbered from 1, which represents the time `span`.
    pub fn assumed(streams: &[AssumedStream], span: Nanos) -> Load {
        let first = |stream: &AssumedStream| stream.requests.iter().filter(|request| request.sectors > 0).map(|one| one.lba).min();
        let mut begins: Vec<u64> = streams.iter().filter(|stream| stream.is_in_order()).filter_map(first).collect();
        begins.sort_unstable();
        let made = (1..).zip(streams).map(|(id, stream)| stream.made(id, &begins));
        Load { streams: made.filter(|stream| !stream.steps.is_empty()).collect(), span }
    }
}

impl AssumedStream {
    /// Whether most requests continue the previous one.
    fn is_in_order(&self) -> bool {
        let follows = self.requests.windows(2).filter(|pair| pair[1].lba == pair[0].lba + u64::from(pair[0].sectors)).count();
        2 * follows > self.requests.len()
    }

    fn made(&self, id: StreamId, begins: &[u64]) -> Stream {
        let most = self.depth.max(1) - 1;
        let priority = Priority::DEFAULT;
        let step = |(number, request): (usize, &AssumedRequest)| Step {
            op: request.op,
            sync: request.sync,
            priority,
            sectors: request.sectors,
            in_flight: (number as u32).min(most),
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
