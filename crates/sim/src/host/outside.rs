//! Issues for which the queue has no room.

use std::collections::{BTreeMap, VecDeque};

use block::{RequestId, StreamId};

use crate::run::Issue;

/// An issue that is not in the queue, or only in part.
#[derive(Clone, Copy)]
pub struct Entry {
    pub issue: Issue,
    /// If its first part has been let in: the slot of that, and the sectors that have been.
    pub begun: Option<(RequestId, u32)>,
    /// If it sleeps for a tag: how many are open to it.
    pub open_tags: Option<u32>,
}

/// Streams that wait for room, each with its issues. A stream that submits sleeps until there is room for its request (`blk_mq_get_tag` in
/// `block/blk-mq-tag.c`), and submits the next only then: it waits in line once, however much it has to ask, and behind all others again
/// for its next request.
///
/// ```text
/// wakes in batches:  one that comes takes what is free --> else sleeps in line ---so many tags freed---> as many are awake, and take
///                                                          ^--- finds none, or has more to ask --------   what is free in turn
/// one by one:        one that comes goes behind those in line, of whom the first takes what is freed
/// ```
/// Linux's multi-queue layer wakes in batches (`sbitmap_queue_wake_up` in `lib/sbitmap.c`; its eight queues of sleepers are one here),
/// so that others can take tags past those who sleep. Those held back by write-back throttling sleep apart until that lets them in.
#[derive(Default)]
pub struct Outside {
    /// Asleep until there is room.
    line: VecDeque<StreamId>,
    /// Asleep until they are no longer held back; without batches those stand in line with the others.
    held: VecDeque<StreamId>,
    /// About to try. Without batches nobody is.
    awake: VecDeque<StreamId>,
    /// Tags that came free and have woken nobody yet.
    freed: u32,
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
        self.len() == 0
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

    /// At the end of its stream's; a stream that did not wait does so in line.
    pub fn push(&mut self, issue: Issue) {
        let stream = issue.stream;
        if self.append(issue) {
            self.line.push_back(stream);
        }
    }

    /// At the end of its stream's; a stream that did not wait is awake.
    pub fn push_awake(&mut self, issue: Issue) {
        let stream = issue.stream;
        if self.append(issue) {
            self.awake.push_back(stream);
        }
    }

    /// True if nothing else of the stream waits.
    fn append(&mut self, issue: Issue) -> bool {
        let entries = self.streams.entry(issue.stream).or_default();
        entries.push_back(Entry { issue, begun: None, open_tags: None });
        self.counts[usize::from(issue.is_sync())] += 1;
        entries.len() == 1
    }

    /// Takes out the first in line for whose issue there is room, by whether somebody waits for it, and that is `not_held_back`, and its
    /// stream out of the line.
    pub fn take(&mut self, has_room: impl Fn(bool) -> bool, not_held_back: impl Fn(&Issue) -> bool) -> Option<Entry> {
        if ![false, true].into_iter().any(|sync| self.has(sync) && has_room(sync)) {
            // The line can be long.
            return None;
        }
        let may_go_in = |issue: &Issue| has_room(issue.is_sync()) && not_held_back(issue);
        let place = self.line.iter().position(|&stream| self.first_of(stream).is_some_and(|entry| may_go_in(&entry.issue)))?;
        let stream = self.line.remove(place)?;
        let entry = self.take_of(stream)?;
        if self.first_of(stream).is_some() {
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
        self.counts[usize::from(entry.issue.is_sync())] += 1;
    }

    /// What a stream asks for next.
    pub fn first_of(&self, stream: StreamId) -> Option<&Entry> {
        self.streams.get(&stream)?.front()
    }

    /// Takes out what a stream asks for next.
    fn take_of(&mut self, stream: StreamId) -> Option<Entry> {
        let entry = self.streams.get_mut(&stream)?.pop_front()?;
        self.counts[usize::from(entry.issue.is_sync())] -= 1;
        Some(entry)
    }

    /// The stream that tries next. It must be told what becomes of it: `goes_on`, `sleeps` or `is_held_back`.
    pub fn next_awake(&mut self) -> Option<StreamId> {
        self.awake.pop_front()
    }

    /// It got its part of the first issue in, of which there is a rest if something has `begun`. If it has more to ask it tries again, after
    /// the others that are awake.
    pub fn goes_on(&mut self, stream: StreamId, begun: Option<(RequestId, u32)>) {
        match self.streams.get_mut(&stream).and_then(|entries| entries.front_mut()) {
            Some(entry) if begun.is_some() => (entry.begun, entry.open_tags) = (begun, None),
            _ => _ = self.take_of(stream),
        }
        if self.first_of(stream).is_some() {
            self.awake.push_back(stream);
        }
    }

    /// It found no tag among so many that are open to it.
    pub fn sleeps(&mut self, stream: StreamId, open_tags: u32) {
        if let Some(entry) = self.streams.get_mut(&stream).and_then(VecDeque::front_mut) {
            entry.open_tags = Some(open_tags);
        }
        self.line.push_back(stream);
    }

    /// Something other than room is missing.
    pub fn is_held_back(&mut self, stream: StreamId) {
        self.held.push_back(stream);
    }

    /// Wakes the first of those held back that no longer is. True if there was one.
    pub fn wake_held(&mut self, not_held_back: impl Fn(&Issue) -> bool) -> bool {
        let goes = |&stream: &StreamId| self.first_of(stream).is_some_and(|entry| not_held_back(&entry.issue));
        let first = self.held.iter().position(goes).and_then(|place| self.held.remove(place));
        self.awake.extend(first);
        first.is_some()
    }

    /// A tag came free. Every `batch` of them wake as many who sleep for one.
    pub fn tag_freed(&mut self, batch: u32) {
        if self.line.is_empty() {
            return;
        }
        self.freed += 1;
        if self.freed >= batch {
            self.freed -= batch;
            (0..batch).for_each(|_| _ = self.wake_first());
        }
    }

    /// Wakes the one that has slept longest. False if none sleeps.
    pub fn wake_first(&mut self) -> bool {
        let first = self.line.pop_front();
        self.awake.extend(first);
        first.is_some()
    }

    /// Wakes all: how they wait has changed.
    pub fn wake_all(&mut self) {
        self.freed = 0;
        self.streams.values_mut().filter_map(VecDeque::front_mut).for_each(|entry| entry.open_tags = None);
        self.awake.append(&mut self.line);
        self.awake.append(&mut self.held);
    }

    /// Lines all up: how they wait has changed, and nobody is woken in batches.
    pub fn line_up(&mut self) {
        self.wake_all();
        self.line.append(&mut self.awake);
    }
}
