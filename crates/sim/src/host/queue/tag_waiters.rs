//! Issues that wait to be admitted to the queue.

use std::collections::{BTreeMap, VecDeque};

use block::{RequestId, StreamId};

use crate::run::Issue;

/// How much of an issue has been admitted.
#[derive(Clone, Copy)]
pub struct Admitted {
    /// The slot of its first part.
    pub first_part: RequestId,
    /// Sectors admitted so far.
    pub sectors: u32,
}

/// An issue that is not, or only in part, admitted.
#[derive(Clone, Copy)]
pub struct Waiter {
    pub issue: Issue,
    /// The admitted part; `None` if there is none.
    pub admitted: Option<Admitted>,
    /// If it sleeps for a tag: the number of tags it may take.
    pub open_tags: Option<u32>,
}

/// The issues that wait for a tag or a place, by stream. A stream that submits sleeps until its request is admitted (`blk_mq_get_tag` in
/// `block/blk-mq-tag.c`) and submits the next only then: it has one place in line however many issues it has, and goes to the end of the
/// line for its next request.
///
/// ```text
/// wakes in batches:  a new stream takes a free tag --> else sleeps in line ---a batch of tags freed---> that many wake up, and take
///                                                      ^--- finds none, or has another issue -------    free tags in turn
/// one by one:        a new stream goes to the end of the line, whose first takes the place that is freed
/// ```
/// Linux's multi-queue layer wakes in batches (`sbitmap_queue_wake_up` in `lib/sbitmap.c`; its eight queues of sleepers are one here),
/// so that new streams can take tags before those asleep. Streams held back by write-back throttling sleep in a line of their own.
#[derive(Default)]
pub struct TagWaiters {
    /// Asleep until there is room.
    line: VecDeque<StreamId>,
    /// Asleep until write-back throttling admits them; without batches they stay in `line`.
    throttled: VecDeque<StreamId>,
    /// About to try. Always empty without wake-ups in batches.
    awake: VecDeque<StreamId>,
    /// Tags freed since the last batch was woken.
    freed: u32,
    streams: BTreeMap<StreamId, VecDeque<Waiter>>,
    /// Number of waiting issues: asynchronous, synchronous.
    counts: [usize; 2],
}

impl TagWaiters {
    /// Number of waiting issues.
    pub fn len(&self) -> usize {
        self.counts[0] + self.counts[1]
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of streams that sleep until there is room.
    pub fn streams_in_line(&self) -> usize {
        self.line.len()
    }

    /// Whether a synchronous, or an asynchronous, issue waits.
    pub fn has(&self, sync: bool) -> bool {
        self.counts[usize::from(sync)] > 0
    }

    /// Whether this stream waits.
    pub fn has_stream(&self, stream: StreamId) -> bool {
        !self.is_empty() && self.streams.get(&stream).is_some_and(|waiters| !waiters.is_empty())
    }

    /// Whether the issue with this first part has parts that are not admitted.
    pub fn has_rest_of(&self, stream: StreamId, first_part: RequestId) -> bool {
        let admitted = || self.streams.get(&stream)?.front()?.admitted;
        !self.is_empty() && admitted().is_some_and(|admitted| admitted.first_part == first_part)
    }

    /// Adds an issue after the others of its stream; a stream that did not wait goes to the end of the line.
    pub fn add_in_line(&mut self, issue: Issue) {
        let stream = issue.stream;
        if self.add(issue) {
            self.line.push_back(stream);
        }
    }

    /// Adds an issue after the others of its stream; a stream that did not wait is awake.
    pub fn add_awake(&mut self, issue: Issue) {
        let stream = issue.stream;
        if self.add(issue) {
            self.awake.push_back(stream);
        }
    }

    /// Returns whether it is the only issue of its stream that waits.
    fn add(&mut self, issue: Issue) -> bool {
        let waiters = self.streams.entry(issue.stream).or_default();
        waiters.push_back(Waiter { issue, admitted: None, open_tags: None });
        self.counts[usize::from(issue.is_sync())] += 1;
        waiters.len() == 1
    }

    /// Removes and returns the first issue in line that may be admitted: `has_room` is true for its kind (synchronous or not), and
    /// throttling does not hold it back (`is_admissible`). Its stream goes to the end of the line if it has more.
    pub fn take_from_line(&mut self, has_room: impl Fn(bool) -> bool, is_admissible: impl Fn(&Issue) -> bool) -> Option<Waiter> {
        if ![false, true].into_iter().any(|sync| self.has(sync) && has_room(sync)) {
            // The line can be long.
            return None;
        }
        let may_enter = |issue: &Issue| has_room(issue.is_sync()) && is_admissible(issue);
        let place = self.line.iter().position(|&stream| self.first_of(stream).is_some_and(|waiter| may_enter(&waiter.issue)))?;
        let stream = self.line.remove(place)?;
        let waiter = self.remove_first_of(stream)?;
        if self.first_of(stream).is_some() {
            self.line.push_back(stream);
        }
        Some(waiter)
    }

    /// Returns the rest of a partly admitted issue to the front of its stream.
    pub fn return_rest(&mut self, waiter: Waiter) {
        let waiters = self.streams.entry(waiter.issue.stream).or_default();
        if waiters.is_empty() {
            self.line.push_back(waiter.issue.stream);
        }
        waiters.push_front(waiter);
        self.counts[usize::from(waiter.issue.is_sync())] += 1;
    }

    /// The next issue of a stream; `None` if it does not wait.
    pub fn first_of(&self, stream: StreamId) -> Option<&Waiter> {
        self.streams.get(&stream)?.front()
    }

    fn remove_first_of(&mut self, stream: StreamId) -> Option<Waiter> {
        let waiter = self.streams.get_mut(&stream)?.pop_front()?;
        self.counts[usize::from(waiter.issue.is_sync())] -= 1;
        Some(waiter)
    }

    /// The stream that tries next. Report the outcome with `admitted`, `sleep` or `hold_back`.
    pub fn next_awake(&mut self) -> Option<StreamId> {
        self.awake.pop_front()
    }

    /// A part of the stream's first issue was admitted; `Some` if the issue has a rest. A stream that still waits tries again after the
    /// others that are awake.
    pub fn admitted(&mut self, stream: StreamId, admitted: Option<Admitted>) {
        match self.streams.get_mut(&stream).and_then(|waiters| waiters.front_mut()) {
            Some(waiter) if admitted.is_some() => (waiter.admitted, waiter.open_tags) = (admitted, None),
            _ => _ = self.remove_first_of(stream),
        }
        if self.first_of(stream).is_some() {
            self.awake.push_back(stream);
        }
    }

    /// Puts a stream to sleep: none of the `open_tags` that its first issue may take is free.
    pub fn sleep(&mut self, stream: StreamId, open_tags: u32) {
        if let Some(waiter) = self.streams.get_mut(&stream).and_then(VecDeque::front_mut) {
            waiter.open_tags = Some(open_tags);
        }
        self.line.push_back(stream);
    }

    /// Puts a stream to sleep because write-back throttling does not admit its first issue.
    pub fn hold_back(&mut self, stream: StreamId) {
        self.throttled.push_back(stream);
    }

    /// Wakes the first throttled stream whose issue is admissible now. Returns whether there was one.
    pub fn wake_throttled(&mut self, is_admissible: impl Fn(&Issue) -> bool) -> bool {
        let wakes = |&stream: &StreamId| self.first_of(stream).is_some_and(|waiter| is_admissible(&waiter.issue));
        let first = self.throttled.iter().position(wakes).and_then(|place| self.throttled.remove(place));
        self.awake.extend(first);
        first.is_some()
    }

    /// Counts a freed tag. Every `batch` tags wake the first `batch` streams in line.
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

    /// Wakes the first stream in line. Returns whether there was one.
    pub fn wake_first(&mut self) -> bool {
        let first = self.line.pop_front();
        self.awake.extend(first);
        first.is_some()
    }

    /// Wakes all streams: the conditions of admission have changed.
    pub fn wake_all(&mut self) {
        self.freed = 0;
        self.streams.values_mut().filter_map(VecDeque::front_mut).for_each(|waiter| waiter.open_tags = None);
        self.awake.append(&mut self.line);
        self.awake.append(&mut self.throttled);
    }

    /// Puts all streams in line: the conditions of admission have changed, and streams are not woken in batches.
    pub fn line_up_all(&mut self) {
        self.wake_all();
        self.line.append(&mut self.awake);
    }
}
