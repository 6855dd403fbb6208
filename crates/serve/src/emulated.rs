//! A device model driven by somebody else's clock: the pure core of the emulated disk.
//!
//! Time outside (wall time) and time in the model differ by a factor, the scale, and by what the way to the disk costs:
//!
//! ```text
//! program  asks                                              hears
//!            │ inbound                              outbound ▲
//! host       └────▶ submit(asked, arrival)    reply at target ┘
//! model    asked ├─────────── response / scale ──────────┤ target + outbound
//! ```
//! A program on a real disk pays neither way, so a request enters the model when it was asked for, before it arrives here, and its
//! reply leaves `outbound` before the model's completion. Every completion is reckoned in the model's time, so that lateness never adds up.

use std::collections::VecDeque;

use block::{Nanos, Op, Priority, Request, RequestId};
use sim::device::{Completion, Device};
use slab::Slab;

/// What the way between a program and the host of the model takes. Neither must be more than is really spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayTimes {
    /// From the program's call to the request's arrival here.
    pub inbound: Nanos,
    /// From the reply to the program's return from the call.
    pub outbound: Nanos,
}

/// What is asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read, write or discard sectors.
    Sectors {
        /// Which of the three.
        op: Op,
        /// The first 512-byte sector.
        lba: u64,
        /// How many; never 0.
        sectors: u32,
    },
    /// Empty the write cache.
    Flush,
}

/// A request whose reply should leave now.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// What the caller gave with it.
    pub token: T,
    /// What was asked.
    pub ask: Ask,
    /// When the reply should leave: wall time.
    pub target: Nanos,
    /// The delay that the model wants between the program's call and its return: wall time.
    pub wanted: Nanos,
}

/// What happened in the model so far, in its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelTally {
    /// Time up to the last event.
    pub elapsed: Nanos,
    /// Time during which the device was at work.
    pub busy: Nanos,
    /// The sum over requests of the time that each was in the device. Divided by `elapsed`: the mean drive queue.
    pub in_device: Nanos,
    /// Requests that completed, flushes not counted.
    pub completed: u64,
    /// Requests that found the device's queue full and waited before it.
    pub waited_before: u64,
}

struct Pending<T> {
    token: T,
    ask: Ask,
    /// When it was asked for, in the model's time.
    asked: Nanos,
    /// When the device took it.
    entered: Nanos,
}

/// A device and the requests at it. `T` is what the caller needs to reply.
pub struct Emulated<T> {
    device: Box<dyn Device>,
    scale: f64,
    way: WayTimes,
    /// The model's time: of the last event or submission.
    now: Nanos,
    pending: Slab<Pending<T>>,
    /// Before a full device, in order of arrival.
    waiting: VecDeque<RequestId>,
    in_device: usize,
    completions: Vec<Completion>,
    /// But for `busy`, which is what devices of before were.
    tally: ModelTally,
}

impl<T> Emulated<T> {
    /// A device that is `scale` times as fast as its model. Wall time zero is the model's zero.
    pub fn new(device: Box<dyn Device>, scale: f64) -> Emulated<T> {
        Emulated {
            device,
            scale,
            way: WayTimes::default(),
            now: Nanos::ZERO,
            pending: Slab::new(),
            waiting: VecDeque::new(),
            in_device: 0,
            completions: Vec::new(),
            tally: ModelTally::default(),
        }
    }

    /// Says what the way to the disk takes.
    pub fn set_way(&mut self, way: WayTimes) {
        self.way = way;
    }

    /// Goes on with a new device.
    ///
    /// # Errors
    /// Requests are under way; the device comes back.
    pub fn renew(&mut self, device: Box<dyn Device>) -> Result<(), Box<dyn Device>> {
        if self.under_way() > 0 {
            return Err(device);
        }
        self.tally.busy += self.device.busy();
        self.device = device;
        Ok(())
    }

    /// How many requests have not been replied to.
    pub fn under_way(&self) -> usize {
        self.pending.len()
    }

    /// What happened so far.
    pub fn tally(&self) -> ModelTally {
        ModelTally { elapsed: self.now, busy: self.tally.busy + self.device.busy(), ..self.tally }
    }

    /// Takes what a program asked for at wall time `asked` and what arrived now, and appends what is due by now. Sectors must lie on
    /// the device.
    pub fn submit(&mut self, (asked, arrival): (Nanos, Nanos), ask: Ask, token: T, due: &mut Vec<Due<T>>) {
        let asked = self.to_model(asked);
        self.run_until(asked, due);
        // An event may have been run ahead of its time, because its reply had to leave before it.
        let now = asked.max(self.now);
        self.now = now;
        // Who is alone did not ask before the last reply.
        let asked = if self.pending.is_empty() { now } else { asked };
        let id = self.pending.insert(Pending { token, ask, asked, entered: now }) as RequestId;
        match ask {
            Ask::Flush => {
                if !self.device.flush(now, id) {
                    self.complete(id, now, due);
                }
            }
            Ask::Sectors { .. } if self.in_device < self.device.queue_depth() => self.enter(now, id),
            Ask::Sectors { .. } => {
                self.tally.waited_before += 1;
                self.waiting.push_back(id);
            }
        }
        self.advance(arrival, due);
    }

    /// Appends the requests whose replies should leave by wall time `now`.
    pub fn advance(&mut self, now: Nanos, due: &mut Vec<Due<T>>) {
        self.run_until(self.to_model(now + self.way.outbound), due);
    }

    /// The wall time at which `advance` has something to do next.
    pub fn wake_at(&self) -> Option<Nanos> {
        self.device.wake_at().map(|at| self.to_wall(at) - self.way.outbound)
    }

    /// Event by event, so that a request that waits for its place in the device gets it when it becomes free, not when we hear of it.
    fn run_until(&mut self, end: Nanos, due: &mut Vec<Due<T>>) {
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
        let Ask::Sectors { op, lba, sectors } = pending.ask else { return };
        pending.entered = now;
        self.in_device += 1;
        let arrival = pending.asked;
        self.device.submit(now, &Request { id, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival });
    }

    fn complete(&mut self, id: RequestId, at: Nanos, due: &mut Vec<Due<T>>) {
        let Some(Pending { token, ask, asked, entered }) = self.pending.try_remove(id as usize) else { return };
        if ask != Ask::Flush {
            self.in_device -= 1;
            self.tally.in_device += at - entered;
            self.tally.completed += 1;
        }
        let (from, to) = (self.to_wall(asked), self.to_wall(at));
        due.push(Due { token, ask, target: to - self.way.outbound, wanted: to - from });
    }

    fn to_model(&self, wall: Nanos) -> Nanos {
        Nanos((wall.0 as f64 * self.scale) as u64)
    }

    /// Rounded up, so that at the wall time returned the model's time has come.
    fn to_wall(&self, model: Nanos) -> Nanos {
        let wall = (model.0 as f64 / self.scale).ceil();
        Nanos(wall as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves one request at a time, in so much time each, and up to so many wait inside.
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

    const READ: Ask = Ask::Sectors { op: Op::Read, lba: 0, sectors: 8 };
    const MS: Nanos = Nanos::from_millis(1);

    fn ms(count: u64) -> Nanos {
        Nanos::from_millis(count)
    }

    fn targets(due: &mut Vec<Due<u32>>) -> Vec<(u32, Nanos)> {
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
        assert_eq!((emulated.wake_at(), emulated.under_way()), (None, 0));
        let tally = emulated.tally();
        assert_eq!((tally.busy, tally.in_device, tally.completed), (ms(30), ms(60), 3));
    }

    #[test]
    fn requests_beyond_the_queue_enter_when_a_place_becomes_free() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 1), 1.0);
        let mut due = Vec::new();
        for token in 0..3 {
            emulated.submit((Nanos::ZERO, Nanos::ZERO), READ, token, &mut due);
        }
        // The host looks only once, long after: no time is lost between the requests.
        emulated.advance(ms(100), &mut due);
        assert_eq!(targets(&mut due), vec![(0, ms(10)), (1, ms(20)), (2, ms(30))]);
        assert_eq!(emulated.tally().waited_before, 2);
    }

    #[test]
    fn a_scale_makes_the_disk_so_many_times_as_fast() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 10.0);
        let mut due = Vec::new();
        emulated.submit((ms(5), ms(5)), READ, 0, &mut due);
        emulated.submit((ms(5), ms(5)), READ, 1, &mut due);
        assert_eq!(emulated.wake_at(), Some(ms(6)));
        emulated.advance(ms(7), &mut due);
        assert_eq!((due[1].wanted, targets(&mut due)), (ms(2), vec![(0, ms(6)), (1, ms(7))]));
    }

    #[test]
    fn a_program_that_asks_one_at_a_time_does_not_pay_for_the_way() {
        let mut emulated = Emulated::new(Constant::new(MS, 4), 1.0);
        let way = WayTimes { inbound: Nanos::from_micros(20), outbound: Nanos::from_micros(30) };
        emulated.set_way(way);
        let mut due = Vec::new();
        let mut program = MS;
        for round in 1..=1000 {
            emulated.submit((program, program + way.inbound), READ, 0, &mut due);
            let target = emulated.wake_at().unwrap();
            emulated.advance(target, &mut due);
            assert_eq!(targets(&mut due), vec![(0, target)]);
            program = target + way.outbound;
            assert_eq!(program, MS + ms(round));
        }
    }

    #[test]
    fn a_flush_is_done_at_once_or_when_the_device_says() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 1.0);
        let mut due = Vec::new();
        emulated.submit((MS, MS), Ask::Flush, 7, &mut due);
        assert_eq!(targets(&mut due), vec![(7, MS)]);
        emulated.submit((MS, MS), READ, 1, &mut due);
        emulated.submit((ms(2), ms(2)), Ask::Flush, 8, &mut due);
        assert_eq!(targets(&mut due), vec![]);
        emulated.advance(ms(11), &mut due);
        assert_eq!(targets(&mut due), vec![(1, ms(11)), (8, ms(11))]);
        assert_eq!(emulated.tally().completed, 1);
    }

    #[test]
    fn a_new_device_takes_over_when_nothing_is_under_way() {
        let mut emulated = Emulated::new(Constant::new(ms(10), 4), 1.0);
        let mut due = Vec::new();
        emulated.submit((MS, MS), READ, 1, &mut due);
        let refused = emulated.renew(Constant::new(ms(3), 4));
        emulated.advance(ms(20), &mut due);
        assert_eq!((refused.is_err(), targets(&mut due)), (true, vec![(1, ms(11))]));
        assert!(emulated.renew(Constant::new(ms(3), 4)).is_ok());
        emulated.submit((ms(20), ms(20)), READ, 2, &mut due);
        emulated.advance(ms(23), &mut due);
        assert_eq!((targets(&mut due), emulated.tally().busy), (vec![(2, ms(23))], ms(13)));
    }

    #[test]
    fn without_service_time_a_request_is_done_when_it_comes() {
        let mut emulated = Emulated::new(Box::new(crate::immediate::Immediate::new(1 << 20)), 1.0);
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
                let ask = if token % 50 == 0 { Ask::Flush } else { Ask::Sectors { op, lba, sectors: 8 + token % 50 } };
                let now = Nanos::from_micros(u64::from(token) * 300);
                emulated.submit((now, now), ask, token, &mut due);
            }
            while let Some(at) = emulated.wake_at().filter(|_| emulated.under_way() > 0) {
                emulated.advance(at, &mut due);
            }
            let mut tokens: Vec<u32> = due.iter().map(|due| due.token).collect();
            tokens.sort_unstable();
            assert_eq!(tokens, (0..500).collect::<Vec<_>>(), "{name}");
        }
    }
}
