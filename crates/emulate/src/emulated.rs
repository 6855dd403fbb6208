//! A device model driven by an external clock: the pure core of the emulated disk.
//!
//! Wall time and model time differ by a factor, the scale, and by the transport overhead:
//!
//! ```text
//! program  issues                                            returns
//!            │ inbound                              outbound ▲
//! host       └────▶ submit(issued, arrival)    reply at target ┘
//! model   issued ├─────────── response / scale ──────────┤ target + outbound
//! ```
//! A real disk has neither overhead, so a request enters the model when it was issued, before it arrives here, and its reply leaves
//! `outbound` before the model's completion. All completions are computed in model time, so lateness does not accumulate.
//!
//! ```
//! use block::{Nanos, Op};
//! use emulate::emulated::{DiskRequest, Emulated};
//! use emulate::null_device::NullDevice;
//!
//! let mut emulated = Emulated::new(Box::new(NullDevice::new(1 << 20)), 1.0);
//! let (now, mut due) = (Nanos::from_millis(3), Vec::new());
//! emulated.submit((now, now), DiskRequest::Sectors { op: Op::Read, lba: 0, sectors: 8 }, "token", &mut due);
//! assert_eq!((due[0].token, due[0].target), ("token", now));
//! ```

use std::collections::VecDeque;

use block::{Nanos, Op, Priority, Request, RequestId};
use sim::device::{Completion, Device};
use slab::Slab;

/// The transport overhead between a program and the host of the model. Neither part may exceed the actual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadTimes {
    /// From the program's call to the arrival here.
    pub inbound: Nanos,
    /// From the reply to the return of the program's call.
    pub outbound: Nanos,
}

/// A request to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// Read, write or discard sectors.
    Sectors {
        /// Which of the three.
        op: Op,
        /// The first 512-byte sector.
        lba: u64,
        /// Number of sectors; at least 1.
        sectors: u32,
    },
    /// Flush the write cache.
    Flush,
}

/// A reply that should leave now.
#[derive(Debug, PartialEq, Eq)]
pub struct DueReply<T> {
    /// The caller's token of the request.
    pub token: T,
    /// The request.
    pub request: DiskRequest,
    /// When the reply should leave, in wall time.
    pub target: Nanos,
    /// The model's delay between the program's call and its return, in wall time.
    pub wanted: Nanos,
}

/// Statistics of the model, in model time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTally {
    /// Time of the last event.
    pub elapsed: Nanos,
    /// Busy time of the device.
    pub busy: Nanos,
    /// Sum of the times of requests in the device; divided by `elapsed`, the mean drive queue.
    pub in_device: Nanos,
    /// Number of completed requests, without flushes.
    pub completed: u64,
    /// Requests that waited because the device's queue was full.
    pub waited_before: u64,
}

struct Pending<T> {
    token: T,
    request: DiskRequest,
    /// Issue time, in model time.
    issued: Nanos,
    /// When it entered the device.
    entered: Nanos,
}

/// A device and its requests; `T` is the caller's token for the reply.
pub struct Emulated<T> {
    device: Box<dyn Device>,
    scale: f64,
    overhead: OverheadTimes,
    /// Model time of the last event or submission.
    now: Nanos,
    pending: Slab<Pending<T>>,
    /// Requests that wait because the device's queue is full, in order of arrival.
    waiting: VecDeque<RequestId>,
    in_device: usize,
    completions: Vec<Completion>,
    /// `busy` is that of replaced devices.
    tally: ModelTally,
}

impl<T> Emulated<T> {
    /// A device that is `scale` times as fast as its model. Both times start at zero.
    pub fn new(device: Box<dyn Device>, scale: f64) -> Emulated<T> {
        Emulated {
            device,
            scale,
            overhead: OverheadTimes::default(),
            now: Nanos::ZERO,
            pending: Slab::new(),
            waiting: VecDeque::new(),
            in_device: 0,
            completions: Vec::new(),
            tally: ModelTally::default(),
        }
    }

    /// Sets the transport overhead.
    pub fn set_overhead(&mut self, overhead: OverheadTimes) {
        self.overhead = overhead;
    }

    /// Replaces the device.
    ///
    /// # Errors
    /// Requests are in flight; returns the new device.
    pub fn replace_device(&mut self, device: Box<dyn Device>) -> Result<(), Box<dyn Device>> {
        if self.in_flight() > 0 {
            return Err(device);
        }
        self.tally.busy += self.device.busy();
        self.device = device;
        Ok(())
    }

    /// Number of requests without a reply.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// The statistics so far.
    pub fn tally(&self) -> ModelTally {
        ModelTally { elapsed: self.now, busy: self.tally.busy + self.device.busy(), ..self.tally }
    }

    /// Submits a request that a program issued at wall time `issued` and that arrived now, and appends the replies that are due by now. Its
    /// sectors must lie on the device.
    pub fn submit(&mut self, (issued, arrival): (Nanos, Nanos), request: DiskRequest, token: T, due: &mut Vec<DueReply<T>>) {
        let issued = self.to_model(issued);
        self.run_until(issued, due);
        // An event may have run ahead of its time, because its reply had to leave earlier.
        let now = issued.max(self.now);
        self.now = now;
        // A sole request was not issued before the last reply.
        let issued = if self.pending.is_empty() { now } else { issued };
        let id = self.pending.insert(Pending { token, request, issued, entered: now }) as RequestId;
        match request {
            DiskRequest::Flush => {
                if !self.device.flush(now, id) {
                    self.complete(id, now, due);
                }
            }
            DiskRequest::Sectors { .. } if self.in_device < self.device.queue_depth() => self.enter(now, id),
            DiskRequest::Sectors { .. } => {
                self.tally.waited_before += 1;
                self.waiting.push_back(id);
            }
        }
        self.advance(arrival, due);
    }

    /// Appends the replies that should leave by wall time `now`.
    pub fn advance(&mut self, now: Nanos, due: &mut Vec<DueReply<T>>) {
        self.run_until(self.to_model(now + self.overhead.outbound), due);
    }

    /// The wall time of the next reply; `None` without requests in the device.
    pub fn wake_at(&self) -> Option<Nanos> {
        self.device.wake_at().map(|at| self.to_wall(at) - self.overhead.outbound)
    }

    /// Runs event by event, so that a waiting request enters the device when there is room, not when that is noticed.
    fn run_until(&mut self, end: Nanos, due: &mut Vec<DueReply<T>>) {
        while let Some(at) = self.device.wake_at().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            let mut completions = std::mem::take(&mut self.completions);
            self.device.advance(self.now, &mut completions);
            for completion in completions.drain(..) {
                self.complete(completion.id, completion.at, due);
            }
            self.completions = completions;
            while self.in_device < self.device.queue_depth() {
                let Some(id) = self.waiting.pop_front() else { break };
                self.enter(self.now, id);
            }
        }
    }

    fn enter(&mut self, now: Nanos, id: RequestId) {
        let Some(pending) = self.pending.get_mut(id as usize) else { return };
        let DiskRequest::Sectors { op, lba, sectors } = pending.request else { return };
        pending.entered = now;
        self.in_device += 1;
        let arrival = pending.issued;
        self.device.submit(now, &Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival });
    }

    fn complete(&mut self, id: RequestId, at: Nanos, due: &mut Vec<DueReply<T>>) {
        let Some(Pending { token, request, issued, entered }) = self.pending.try_remove(id as usize) else { return };
        if request != DiskRequest::Flush {
            self.in_device -= 1;
            self.tally.in_device += at - entered;
            self.tally.completed += 1;
        }
        let (from, to) = (self.to_wall(issued), self.to_wall(at));
        due.push(DueReply { token, request, target: to - self.overhead.outbound, wanted: to - from });
    }

    fn to_model(&self, wall: Nanos) -> Nanos {
        Nanos((wall.0 as f64 * self.scale) as u64)
    }

    /// Rounded up, so that the model time is reached at the returned wall time.
    fn to_wall(&self, model: Nanos) -> Nanos {
        let wall = (model.0 as f64 / self.scale).ceil();
        Nanos(wall as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves one request at a time, each with the same service time, from a queue.
    struct Constant {
        service: Nanos,
        depth: usize,
        queue: VecDeque<RequestId>,
        done_at: Nanos,
        busy: Nanos,
        flushes: Vec<RequestId>,
    }

    impl Constant {
        fn new(service: Nanos, depth: usize) -> Box<Constant> {
            Box::new(Constant {
                service,
                depth,
                queue: VecDeque::new(),
                done_at: Nanos::ZERO,
                busy: Nanos::ZERO,
                flushes: Vec::new(),
            })
        }
    }

    impl Device for Constant {
        fn capacity_sectors(&self) -> u64 {
            1 << 30
        }

        fn queue_depth(&self) -> usize {
            self.depth
        }

        fn submit(&mut self, now: Nanos, request: &Request) {
            assert!(self.queue.len() < self.depth, "more than the device takes");
            if self.queue.is_empty() {
                self.done_at = now + self.service;
            }
            self.queue.push_back(request.id);
        }

        fn flush(&mut self, _: Nanos, id: RequestId) -> bool {
            if !self.queue.is_empty() {
                self.flushes.push(id);
            }
            !self.queue.is_empty()
        }

        fn wake_at(&self) -> Option<Nanos> {
            self.queue.front().map(|_| self.done_at)
        }

        fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
            let completed = |id, at| Completion {
                id,
                at,
                seek: Nanos::ZERO,
                rotation: Nanos::ZERO,
                seek_cylinders: 0,
                cache_hit: false,
                work: None,
            };
            while self.done_at <= now
                && let Some(id) = self.queue.pop_front()
            {
                done.push(completed(id, self.done_at));
                self.busy += self.service;
                self.done_at += self.service;
                if self.queue.is_empty() {
                    done.extend(self.flushes.drain(..).map(|id| completed(id, now)));
                }
            }
        }

        fn busy(&self) -> Nanos {
            self.busy
        }
    }

    const READ: DiskRequest = DiskRequest::Sectors { op: Op::Read, lba: 0, sectors: 8 };
    const MS: Nanos = Nanos::from_millis(1);

    fn ms(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    fn targets(due: &mut Vec<DueReply<u32>>) -> Vec<(u32, Nanos)> {
        due.drain(..).map(|due| (due.token, due.target)).collect()
    }

    #[test]
    fn replies_leave_when_the_model_says_however_late_the_host_looks() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 1.0);
        let mut due = Vec::new();
        for token in 0..3 {
            emulated.submit((MS, MS), READ, token, &mut due);
        }
        assert_eq!((targets(&mut due), emulated.wake_at()), (vec![], Some(ms(11))));
        emulated.advance(ms(10), &mut due);
        assert_eq!(targets(&mut due), vec![]);
        emulated.advance(ms(26), &mut due);
        assert_eq!((targets(&mut due), emulated.wake_at()), (vec![(0, ms(11)), (1, ms(21))], Some(ms(31))));
        emulated.advance(ms(31), &mut due);
        assert_eq!((due[0].wanted, targets(&mut due)), (ms(30), vec![(2, ms(31))]));
        assert_eq!((emulated.wake_at(), emulated.in_flight()), (None, 0));
        let tally = emulated.tally();
        assert_eq!((tally.busy, tally.in_device, tally.completed), (ms(30), ms(60), 3));
    }

    #[test]
    fn requests_beyond_the_queue_enter_when_there_is_room() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 1), 1.0);
        let mut due = Vec::new();
        for token in 0..3 {
            emulated.submit((Nanos::ZERO, Nanos::ZERO), READ, token, &mut due);
        }
        // The host polls only once, long after: no time is lost between the requests.
        emulated.advance(ms(100), &mut due);
        assert_eq!(targets(&mut due), vec![(0, ms(10)), (1, ms(20)), (2, ms(30))]);
        assert_eq!(emulated.tally().waited_before, 2);
    }

    #[test]
    fn a_scale_makes_the_disk_faster_by_that_factor() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 10.0);
        let mut due = Vec::new();
        emulated.submit((ms(5), ms(5)), READ, 0, &mut due);
        emulated.submit((ms(5), ms(5)), READ, 1, &mut due);
        assert_eq!(emulated.wake_at(), Some(ms(6)));
        emulated.advance(ms(7), &mut due);
        assert_eq!((due[1].wanted, targets(&mut due)), (ms(2), vec![(0, ms(6)), (1, ms(7))]));
    }

    #[test]
    fn a_program_with_one_request_at_a_time_does_not_see_the_overhead() {
        let mut emulated = Emulated::new(Constant::new(MS, 4), 1.0);
        let overhead = OverheadTimes { inbound: Nanos::from_micros(20), outbound: Nanos::from_micros(30) };
        emulated.set_overhead(overhead);
        let mut due = Vec::new();
        let mut program = MS;
        for round in 1..=1000 {
            emulated.submit((program, program + overhead.inbound), READ, 0, &mut due);
            let target = emulated.wake_at().unwrap();
            emulated.advance(target, &mut due);
            assert_eq!(targets(&mut due), vec![(0, target)]);
            program = target + overhead.outbound;
            assert_eq!(program, MS + ms(round));
        }
    }

    #[test]
    fn a_flush_completes_at_once_or_when_the_device_says() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 1.0);
        let mut due = Vec::new();
        emulated.submit((MS, MS), DiskRequest::Flush, 7, &mut due);
        assert_eq!(targets(&mut due), vec![(7, MS)]);
        emulated.submit((MS, MS), READ, 1, &mut due);
        emulated.submit((ms(2), ms(2)), DiskRequest::Flush, 8, &mut due);
        assert_eq!(targets(&mut due), vec![]);
        emulated.advance(ms(11), &mut due);
        assert_eq!(targets(&mut due), vec![(1, ms(11)), (8, ms(11))]);
        assert_eq!(emulated.tally().completed, 1);
    }

    #[test]
    fn a_device_is_replaced_only_with_nothing_in_flight() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 1.0);
        let mut due = Vec::new();
        emulated.submit((MS, MS), READ, 1, &mut due);
        let refused = emulated.replace_device(Constant::new(ms(3), 4));
        emulated.advance(ms(20), &mut due);
        assert_eq!((refused.is_err(), targets(&mut due)), (true, vec![(1, ms(11))]));
        assert!(emulated.replace_device(Constant::new(ms(3), 4)).is_ok());
        emulated.submit((ms(20), ms(20)), READ, 2, &mut due);
        emulated.advance(ms(23), &mut due);
        assert_eq!((targets(&mut due), emulated.tally().busy), (vec![(2, ms(23))], ms(13)));
    }

    #[test]
    fn without_service_time_a_request_completes_on_arrival() {
        let mut emulated = Emulated::new(Box::new(crate::null_device::NullDevice::new(1 << 20)), 1.0);
        let mut due = Vec::new();
        emulated.submit((ms(3), ms(3)), READ, 1, &mut due);
        assert_eq!((due[0].wanted, targets(&mut due)), (Nanos::ZERO, vec![(1, ms(3))]));
    }

    #[test]
    fn every_built_in_disk_replies_to_every_request_once() {
        for (name, _) in sim::profile::BUILT_IN {
            let profile = sim::profile::load(name).unwrap();
            let sectors = profile.capacity_sectors();
            let mut emulated = Emulated::new(profile.build(sim::profile::DeviceOptions::default()), 3.0);
            let mut due = Vec::new();
            for token in 0..500_u32 {
                let lba = u64::from(token) * 7_919_777 % (sectors - 64);
                let op = [Op::Read, Op::Write, Op::Write, Op::Discard][token as usize % 4];
                let request =
                    if token % 50 == 0 { DiskRequest::Flush } else { DiskRequest::Sectors { op, lba, sectors: 8 + token % 50 } };
                let now = Nanos::from_micros(u64::from(token) * 300);
                emulated.submit((now, now), request, token, &mut due);
            }
            while let Some(at) = emulated.wake_at().filter(|_| emulated.in_flight() > 0) {
                emulated.advance(at, &mut due);
            }
            let mut tokens: Vec<u32> = due.iter().map(|due| due.token).collect();
            tokens.sort_unstable();
            assert_eq!(tokens, (0..500).collect::<Vec<_>>(), "{name}");
        }
    }
}
