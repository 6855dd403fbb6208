//! Dispatch of requests from the scheduler to the device, and their completion.

use block::{Nanos, Op, Pick, Request, RequestId};

use super::{NO_PART, Part, Queue, sync_index};
use crate::device::Completion;
use crate::run::{Finished, Issue, ServerEvent, Transferred};
use crate::streams::is_switch_read;

impl Queue {
    /// The issues in a request at the device: several if it was merged. An issue with several parts is listed once for each.
    pub fn issues_of(&self, id: RequestId) -> impl Iterator<Item = &Issue> {
        let next = |part: &u32| Some(self.parts[*part as usize].next_part).filter(|next| *next != NO_PART);
        std::iter::successors(Some(id), next).map(|part| {
            let first = self.parts[part as usize].first_part;
            &self.parts[first as usize].issue
        })
    }

    /// Dispatches requests until the device is full, the scheduler is empty, or it waits.
    #[inline]
    pub(super) fn dispatch_requests(&mut self, now: Nanos) {
        self.wait_until = None;
        if self.frozen_until.is_some() && self.stays_frozen(now) {
            return;
        }
        while self.port.has_room() {
            let Some(request) = self.port.picked.take().or_else(|| self.pick(now)) else { return };
            self.port.submit(now, &request);
            if let Some(ledger) = &mut self.ledger {
                ledger.add_sent(now, &request);
            }
            if request.op == Op::Read && self.throttle.is_on() {
                self.throttle.read_dispatched(now, request.id);
            }
            let part = &mut self.parts[request.id as usize];
            part.request = request;
            part.dispatched = now;
        }
        if !self.settings.has_budget && self.port.picked.is_none() {
            self.port.picked = self.pick(now);
        }
    }

    /// Picks a request from the scheduler, or sets the time until which it waits.
    #[inline]
    fn pick(&mut self, now: Nanos) -> Option<Request> {
        let device = &mut self.port.device;
        match self.scheduler.pick_with_cost(now, &mut |request| device.time_to_reach(now, request)) {
            Pick::Go(request) => Some(request),
            Pick::WaitUntil(until) => {
                debug_assert!(until > now, "a scheduler may wait only for the future");
                self.wait_until = Some(until.max(now + Nanos(1)));
                None
            }
            Pick::Empty => None,
        }
    }

    /// Accounts for a request completed by the device, and reports the issues whose last part it contains.
    pub(super) fn complete(&mut self, completion: &Completion, finished: &mut Vec<Finished>) {
        let head = &self.parts[completion.id as usize];
        let dispatched = head.dispatched;
        if let (Some(ledger), Some(work)) = (&mut self.ledger, completion.work) {
            ledger.add_work(completion.at, &head.request, work);
        }
        // During a freeze, the requests at the device were picked by the previous scheduler.
        if self.frozen_until.is_none() {
            if let Some(work) = completion.work {
                self.scheduler.record_disk_time(&head.request, work);
            }
            self.scheduler.completed(completion.at, &head.request, completion.at - dispatched);
        }
        self.admitted[sync_index(&head.request)] -= 1;
        if let Some(tags) = &self.tags {
            self.waiters.tag_freed(tags.wake_batch());
        }
        if self.throttle.is_on() {
            self.throttle.completed(completion.at, completion.id, head.request.op, completion.at - dispatched);
        }
        self.port.completed(completion, completion.at - head.request.arrival);
        self.flushes.request_completed();
        self.release_tag(completion.id);
        self.release_throttled(completion.at, completion.id);
        self.complete_parts(completion, dispatched, finished);
    }

    /// Frees the parts of a completed request, and reports the issues that are complete with them.
    #[inline]
    fn complete_parts(&mut self, completion: &Completion, dispatched: Nanos, finished: &mut Vec<Finished>) {
        let mut part = completion.id;
        while part != NO_PART {
            let Part { first_part, next_part, .. } = self.parts[part as usize];
            if part != first_part {
                self.parts.remove(part as usize);
            }
            let stream = self.parts[first_part as usize].issue.stream;
            let is_complete = self.parts[first_part as usize].open_parts == 1 && !self.waiters.has_rest_of(stream, first_part);
            self.parts[first_part as usize].open_parts -= 1;
            if is_complete {
                let issue = self.parts.remove(first_part as usize).issue;
                let done = Transferred { issue, bytes: issue.bytes(), dispatched, at: completion.at };
                if !is_switch_read(stream) {
                    finished.push(Finished::Transfer(done));
                    if let Some(notes) = &mut self.notes {
                        notes.push(ServerEvent::Finished(done));
                    }
                }
            }
            part = next_part;
        }
    }
}
