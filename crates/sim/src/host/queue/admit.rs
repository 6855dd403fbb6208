//! Admission: an issue gets a tag or a place, is split into parts, and each part is inserted into the scheduler.
//!
//! The scheduler determines how requests share the `nr_requests` ([`Scheduler::tags`](block::Scheduler::tags)). Write-back that slows
//! down readers is throttled as well.

use block::{Insertion, Nanos, Op, Request, RequestId, Room, StreamId};

use super::tag_waiters::{Admitted, TagWaiters, Waiter};
use super::tags::{NONE as NO_TAG, Tags};
use super::write_back_throttle::class;
use super::{NO_PART, Part, Queue, sync_index};
use crate::run::Issue;

/// The largest discard; larger ones are split (`max_discard_sectors` in `blk-settings.c`, at most 2^32 - 1 bytes).
const MAX_DISCARD_SECTORS: u32 = u32::MAX >> 9;

impl Queue {
    /// Configures write-back throttling from the settings or, without one, with Linux's default for this device and scheduler
    /// (`wbt_default_latency_nsec`). SCSI disks report their queue depth; for others nr_requests counts (`blk_queue_depth`).
    pub(super) fn set_throttle(&mut self) {
        let by_device = Nanos::from_millis(if self.port.device.is_rotational() { 75 } else { 2 });
        let by_default = if self.scheduler.throttles_write_back() { by_device } else { Nanos::ZERO };
        let depth = if self.settings.has_budget { self.port.depth() as u32 } else { self.settings.nr_requests };
        self.throttle.set(self.settings.write_back_latency.unwrap_or(by_default), depth, self.port.device.has_write_cache());
    }

    /// Sets up the tags that scheduler and settings ask for; all waiters try again. Admitted requests keep their places, and their tags
    /// if the number of tags is unchanged.
    pub(super) fn reset_tags(&mut self) {
        let room =
            Room { nr_requests: self.settings.nr_requests, device: (self.port.depth() as u32).max(self.settings.driver_tags) };
        let tags = self.scheduler.tags(&room);
        if tags.map(|tags| tags.depth) != self.tags.as_ref().map(Tags::depth) {
            self.parts.iter_mut().for_each(|(_, part)| part.tag = NO_TAG);
            self.tags = tags.map(|tags| Tags::new(tags.depth));
        }
        match (tags, &mut self.tags) {
            (Some(asked), Some(tags)) => {
                tags.set_wake_batch(asked.wake_batch);
                self.waiters.wake_all();
            }
            _ => self.waiters.line_up_all(),
        }
    }

    /// Whether a further issue of this stream, synchronous or not, would have to wait. With tags that is known only for a stream that
    /// already waits.
    pub fn is_full(&self, stream: StreamId, sync: bool) -> bool {
        match self.tags {
            Some(_) => self.waiters.has_stream(stream),
            None => self.waiters.has(sync) || !self.has_place(sync),
        }
    }

    /// Without tags: whether one more request may be admitted.
    #[inline]
    fn has_place(&self, sync: bool) -> bool {
        self.admitted[usize::from(sync)] < self.settings.nr_requests
    }

    /// Whether a tag is free for a request that may take any. Some admitted requests may have no tag.
    #[inline]
    pub(super) fn has_free_tag(&self) -> bool {
        self.tags.as_ref().is_some_and(|tags| self.admitted[0] + self.admitted[1] < tags.depth())
    }

    /// Takes one of the first `open` tags; `Some(NO_TAG)` if none is free but the queue is empty. `None` if the request must wait, or the
    /// scheduler has no tags.
    #[inline]
    fn take_tag(&mut self, open: u32) -> Option<u32> {
        let (has_free_tag, is_empty) = (self.has_free_tag(), self.admitted == [0; 2]);
        let tags = self.tags.as_mut()?;
        let tag = if has_free_tag { tags.take(open) } else { None };
        tag.or(is_empty.then_some(NO_TAG))
    }

    /// The number of tags that the next part of an issue may take.
    #[inline]
    fn open_tags(&self, now: Nanos, issue: &Issue) -> u32 {
        let request = request(now, NO_TAG, issue, 0, issue.sectors);
        self.tags.as_ref().map_or(0, |tags| self.scheduler.open_tags(tags.depth(), &request))
    }

    /// Admits an issue, or adds it to the waiters.
    #[inline]
    pub(super) fn admit_issue(&mut self, now: Nanos, issue: Issue) {
        if self.throttle.is_on() {
            self.throttle.catch_up(now);
            if issue.op == Op::Read {
                self.throttle.read_submitted(now);
            }
        }
        let has_tags = self.tags.is_some();
        let is_next =
            self.waiters.is_empty() || (has_tags || !self.waiters.has(issue.is_sync())) && !self.waiters.has_stream(issue.stream);
        if is_next && issue.sectors <= self.settings.max_sectors && self.is_unthrottled(now, &issue) {
            let tag = if has_tags {
                self.take_tag(self.open_tags(now, &issue))
            } else {
                self.has_place(issue.is_sync()).then_some(NO_TAG)
            };
            if let Some(tag) = tag {
                self.admit_part(now, &issue, None, tag);
                return;
            }
        }
        if has_tags {
            self.waiters.add_awake(issue)
        } else {
            self.waiters.add_in_line(issue)
        }
        self.admit_waiters(now);
    }

    /// Admits as many waiting issues as there is room for.
    pub(super) fn admit_waiters(&mut self, now: Nanos) {
        // Taken out of the queue, which determines whether there is room.
        let mut waiters = std::mem::take(&mut self.waiters);
        self.throttle.catch_up(now);
        if self.tags.is_some() {
            self.admit_awake(now, &mut waiters);
            self.waiters = waiters;
            return;
        }
        while let Some(mut waiter) = waiters.take_from_line(|sync| self.has_place(sync), |issue| self.is_unthrottled(now, issue)) {
            waiter.admitted = self.admit_part(now, &waiter.issue, waiter.admitted, NO_TAG);
            if waiter.admitted.is_some() {
                waiters.return_rest(waiter);
            }
        }
        self.waiters = waiters;
    }

    /// Lets the awake streams try in turn, one request each, until they are admitted or asleep. An empty queue wakes sleepers.
    fn admit_awake(&mut self, now: Nanos, waiters: &mut TagWaiters) {
        loop {
            let Some(stream) = waiters.next_awake() else {
                let wakes = waiters.wake_throttled(|issue| self.is_unthrottled(now, issue));
                if wakes || (self.admitted == [0; 2] && waiters.wake_first()) {
                    continue;
                }
                return;
            };
            let Some(&Waiter { issue, admitted, open_tags }) = waiters.first_of(stream) else { continue };
            if !self.is_unthrottled(now, &issue) {
                waiters.hold_back(stream);
                continue;
            }
            // The scheduler decides only once for a sleeping stream.
            let open = open_tags.unwrap_or_else(|| self.open_tags(now, &issue));
            if let Some(tag) = self.take_tag(open) {
                let admitted = self.admit_part(now, &issue, admitted, tag);
                waiters.admitted(stream, admitted);
            } else {
                waiters.sleep(stream, open);
            }
        }
    }

    /// Inserts the next part of an issue, at most one request in size, into the scheduler. Returns the admitted part of the issue if
    /// something remains, otherwise `None`. The first part's slot stands for the whole issue.
    fn admit_part(&mut self, now: Nanos, issue: &Issue, admitted: Option<Admitted>, tag: u32) -> Option<Admitted> {
        let offset = admitted.map_or(0, |admitted| admitted.sectors);
        let max_sectors = if issue.op.transfers() { self.settings.max_sectors } else { MAX_DISCARD_SECTORS };
        let sectors = (issue.sectors - offset).min(max_sectors);
        let id = self.parts.vacant_key() as RequestId;
        let request = request(now, id, issue, offset, sectors);
        let first_part = admitted.map_or(id, |admitted| admitted.first_part);
        let (open_parts, dispatched) = (0, Nanos::ZERO);
        let throttled = None;
        let part =
            Part { request, next_part: NO_PART, last_part: id, dispatched, first_part, open_parts, issue: *issue, tag, throttled };
        self.parts.insert(part);
        self.parts[first_part as usize].open_parts += 1;
        let insertion = self.scheduler.insert(now, request);
        if self.record_merge(now, id, insertion) {
            self.release_tag(id);
        } else {
            self.admitted[sync_index(&request)] += 1;
            if self.throttle.is_on()
                && let Some(class) = class(request.op, request.sync, request.stream)
            {
                self.parts[id as usize].throttled = Some(class);
                self.throttle.admitted(now, class);
            }
        }
        let sectors = offset + sectors;
        (sectors < issue.sectors).then_some(Admitted { first_part, sectors })
    }

    /// Chains the parts of merged requests. Returns whether `id` was merged, so that it is no longer a separate request.
    pub(super) fn record_merge(&mut self, now: Nanos, id: RequestId, insertion: Insertion) -> bool {
        let Insertion::Merged { into, absorbed } = insertion else { return false };
        self.append_parts(into, id);
        if let Some(absorbed) = absorbed {
            self.append_parts(into, absorbed);
            self.admitted[sync_index(&self.parts[absorbed as usize].request)] -= 1;
            self.release_tag(absorbed);
            self.release_throttled(now, absorbed);
        }
        true
    }

    fn append_parts(&mut self, into: RequestId, chain: RequestId) {
        let last = self.parts[into as usize].last_part;
        self.parts[last as usize].next_part = chain;
        self.parts[into as usize].last_part = self.parts[chain as usize].last_part;
    }

    /// Frees the tag of a part that is no longer a separate request.
    #[inline]
    pub(super) fn release_tag(&mut self, id: RequestId) {
        let tag = std::mem::replace(&mut self.parts[id as usize].tag, NO_TAG);
        if let Some(tags) = &mut self.tags
            && tag != NO_TAG
        {
            tags.release(tag);
        }
    }

    /// Releases a part from write-back throttling.
    pub(super) fn release_throttled(&mut self, now: Nanos, id: RequestId) {
        if let Some(class) = self.parts[id as usize].throttled.take() {
            self.throttle.released(now, class);
        }
    }

    /// Whether write-back throttling admits an issue now.
    #[inline]
    fn is_unthrottled(&self, now: Nanos, issue: &Issue) -> bool {
        let class = if self.throttle.is_on() { class(issue.op, issue.is_sync(), issue.stream) } else { None };
        class.is_none_or(|class| self.throttle.admits(now, class, issue.stream))
    }
}

/// The request for `sectors` of an issue from `offset` on.
fn request(now: Nanos, id: RequestId, issue: &Issue, offset: u32, sectors: u32) -> Request {
    Request {
        id,
        stream: issue.stream,
        op: issue.op,
        sync: issue.is_sync(),
        priority: issue.priority,
        sectors,
        lba: issue.lba + u64::from(offset),
        // Expiry times count from admission, as in Linux, however long the issuer had to wait for room.
        arrival: now,
    }
}
