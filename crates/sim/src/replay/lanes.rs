//! Every stream alone on a disk of its own: the measure of how much the others cost it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use block::{Nanos, StreamId};

use super::host::{Finished, Host, Issue, Server};

/// Requests that all lanes together may hold; a stream that overruns even a disk of its own must not fill the memory.
const ROOM: usize = 1 << 20;

/// One [`Host`] per followed stream. Other streams' requests pass at once, served by nobody.
pub(super) struct Lanes<'a> {
    lanes: BTreeMap<StreamId, Option<Box<Host>>>,
    build: &'a dyn Fn() -> Host,
    /// When each lane wants to be called; entries that no longer hold are dropped when they come up.
    calls: BinaryHeap<Reverse<(Nanos, StreamId)>>,
    touched: Vec<StreamId>,
    unfollowed: Vec<Finished>,
    inside: usize,
}

impl<'a> Lanes<'a> {
    pub(super) fn new(followed: impl IntoIterator<Item = StreamId>, build: &'a dyn Fn() -> Host) -> Lanes<'a> {
        Lanes {
            lanes: followed.into_iter().map(|stream| (stream, None)).collect(),
            build,
            calls: BinaryHeap::new(),
            touched: Vec::new(),
            unfollowed: Vec::new(),
            inside: 0,
        }
    }

    fn call_again(&mut self, stream: StreamId) {
        if let Some(Some(host)) = self.lanes.get(&stream)
            && let Some(at) = host.next_event()
        {
            self.calls.push(Reverse((at, stream)));
        }
    }
}

impl Server for Lanes<'_> {
    fn has_room(&self) -> bool {
        self.inside < ROOM
    }

    fn admit(&mut self, now: Nanos, issue: Issue) {
        match self.lanes.get_mut(&issue.stream) {
            Some(lane) => {
                lane.get_or_insert_with(|| Box::new((self.build)())).admit(now, issue);
                self.inside += 1;
                self.touched.push(issue.stream);
            }
            None => self.unfollowed.push(Finished { issue, dispatched: now, at: now }),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self.unfollowed.first() {
            Some(finished) => Some(finished.at),
            None => self.calls.peek().map(|Reverse((at, _))| *at),
        }
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        finished.append(&mut self.unfollowed);
        while let Some(&Reverse((at, stream))) = self.calls.peek()
            && at <= now
        {
            self.calls.pop();
            if let Some(Some(host)) = self.lanes.get_mut(&stream) {
                let before = finished.len();
                host.advance(now, finished);
                self.inside -= finished.len() - before;
                self.touched.push(stream);
            }
        }
    }

    fn dispatch(&mut self, now: Nanos) {
        while let Some(stream) = self.touched.pop() {
            if let Some(Some(host)) = self.lanes.get_mut(&stream) {
                host.dispatch(now);
            }
            self.call_again(stream);
        }
    }
}
