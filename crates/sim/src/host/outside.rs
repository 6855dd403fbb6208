//! Issues for which the queue has no room.

use std::collections::{BTreeMap, VecDeque};

use block::{Op, RequestId, StreamId};

use crate::run::Issue;

/// An issue that is not in the queue, or only in part.
#[derive(Clone, Copy)]
pub struct Entry {
    pub issue: Issue,
    /// If its first part has been let in: the slot of that, and the sectors that have been.
    pub begun: Option<(RequestId, u32)>,
}

/// Streams that wait for room, each with its issues. A stream that submits sleeps until there is room for its request (`blk_mq_get_tag` in
/// `block/blk-mq-tag.c`), and submits the next only then: it waits in line once, however much it has to ask, and behind all others again
/// for its next request.
#[derive(Default)]
pub struct Outside {
    line: VecDeque<StreamId>,
    streams: BTreeMap<StreamId, VecDeque<Entry>>,
    /// How many issues wait, asynchronous and synchronous ones.
    counts: [usize; 2],
}

impl Outside {
    /// How many issues wait.
    pub fn len(&self) -> usize {
        self.counts[0] + self.counts[1]
    }

    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether an issue of this kind waits.
    pub fn has(&self, sync: bool) -> bool {
        self.counts[usize::from(sync)] > 0
    }

    /// Whether this stream waits.
    pub fn has_stream(&self, stream: StreamId) -> bool {
        !self.is_empty() && self.streams.get(&stream).is_some_and(|entries| !entries.is_empty())
    }

    /// Whether parts of the issue with this first slot wait.
    pub fn has_rest_of(&self, stream: StreamId, owner: RequestId) -> bool {
        let first = || self.streams.get(&stream)?.front()?.begun;
        !self.is_empty() && first().is_some_and(|(begun, _)| begun == owner)
    }

    /// At the end of its stream's.
    pub fn push(&mut self, issue: Issue) {
        let entries = self.streams.entry(issue.stream).or_default();
        if entries.is_empty() {
            self.line.push_back(issue.stream);
        }
        entries.push_back(Entry { issue, begun: None });
        self.counts[usize::from(issue.sync)] += 1;
    }

    /// Takes out the first in line for whose issue there is room by what it does and whether somebody waits for it, and that is `not_held_back`,
    /// and its stream out of the line.
    pub fn take(&mut self, has_room: impl Fn(Op, bool) -> bool, not_held_back: impl Fn(&Issue) -> bool) -> Option<Entry> {
        let any_of = |sync| self.has(sync) && [Op::Read, Op::Write, Op::Discard].into_iter().any(|op| has_room(op, sync));
        if !any_of(false) && !any_of(true) {
            // The line can be long.
            return None;
        }
        let streams = &self.streams;
        let may_go_in = |issue: &Issue| has_room(issue.op, issue.sync) && not_held_back(issue);
        let first = |stream: &StreamId| {
            streams.get(stream).and_then(|entries| entries.front()).is_some_and(|entry| may_go_in(&entry.issue))
        };
        let place = self.line.iter().position(first)?;
        let stream = self.line.remove(place)?;
        let entries = self.streams.get_mut(&stream)?;
        let entry = entries.pop_front()?;
        self.counts[usize::from(entry.issue.sync)] -= 1;
        if !entries.is_empty() {
            self.line.push_back(stream);
        }
        Some(entry)
    }

    /// Puts back the rest of an issue of which a part went in, before its stream's others.
    pub fn put_back(&mut self, entry: Entry) {
        let entries = self.streams.entry(entry.issue.stream).or_default();
        if entries.is_empty() {
            self.line.push_back(entry.issue.stream);
        }
        entries.push_front(entry);
        self.counts[usize::from(entry.issue.sync)] += 1;
    }
}
