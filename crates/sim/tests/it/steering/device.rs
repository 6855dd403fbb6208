//! A device that logs its requests, and a scheduler that checks its calls.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use block::{Insertion, Limits, Nanos, Op, Pick, Request, RequestId, Room, Scheduler, SchedulerSpec, Tags};
use sim::device::{Completion, Device};

/// An entry of the device's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Submitted { at: Nanos, id: RequestId, op: Op, lba: u64, sectors: u32 },
    Completed { at: Nanos, id: RequestId },
    Switched { at: Nanos },
}

pub type Log = Arc<Mutex<Vec<Entry>>>;

/// The largest id: a flush, which is not split, merged or counted.
pub const FLUSH: RequestId = RequestId::MAX;

/// Serves one request after the other, each in `service`; flushes likewise.
pub struct Logged {
    pub log: Log,
    pub service: Nanos,
    pub depth: usize,
    pub queue: VecDeque<(Nanos, RequestId)>,
}

impl Logged {
    pub fn boxed(log: &Log, service: Nanos, depth: usize) -> Box<Logged> {
        Box::new(Logged { log: log.clone(), service, depth, queue: VecDeque::new() })
    }

    fn take(&mut self, now: Nanos, id: RequestId, (op, lba, sectors): (Op, u64, u32)) {
        self.log.lock().unwrap().push(Entry::Submitted { at: now, id, op, lba, sectors });
        let start = self.queue.back().map_or(now, |&(done, _)| done);
        self.queue.push_back((start + self.service, id));
    }
}

impl Device for Logged {
    fn capacity_sectors(&self) -> u64 {
        1 << 30
    }
    fn queue_depth(&self) -> usize {
        self.depth
    }
    fn submit(&mut self, now: Nanos, request: &Request) {
        self.take(now, request.id, (request.op, request.lba, request.sectors));
    }
    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.take(now, id, (Op::Write, 0, 0));
        true
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.queue.front().map(|&(done, _)| done)
    }
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(&(at, id)) = self.queue.front().filter(|&&(at, _)| at <= now) {
            self.queue.pop_front();
            self.log.lock().unwrap().push(Entry::Completed { at, id });
            done.push(Completion {
                id,
                at,
                seek: Nanos::ZERO,
                rotation: Nanos::ZERO,
                seek_cylinders: 0,
                cache_hit: false,
                work: None,
            });
        }
    }
    fn busy(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// A scheduler that fails the test on a completion of a request that it did not pick, or on a second completion.
pub struct Spy {
    scheduler: Box<dyn Scheduler>,
    picked: BTreeSet<RequestId>,
}

impl Spy {
    pub fn on(spec: &SchedulerSpec) -> Box<Spy> {
        Box::new(Spy { scheduler: (spec.build)(&Limits::default(), &spec.defaults()), picked: BTreeSet::new() })
    }
}

impl Scheduler for Spy {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.scheduler.insert(now, request)
    }
    fn pick(&mut self, now: Nanos) -> Pick {
        self.pick_with_cost(now, &mut |_| None)
    }
    fn pick_with_cost(&mut self, now: Nanos, cost: &mut dyn FnMut(&Request) -> Option<Nanos>) -> Pick {
        let pick = self.scheduler.pick_with_cost(now, cost);
        if let Pick::Go(request) = pick {
            self.picked.insert(request.id);
        }
        pick
    }
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        assert!(self.picked.remove(&request.id), "completion of {}, which it did not pick", request.id);
        self.scheduler.completed(now, request, service);
    }
    fn tags(&self, room: &Room) -> Option<Tags> {
        self.scheduler.tags(room)
    }
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.scheduler.open_tags(depth, request)
    }
    fn throttles_write_back(&self) -> bool {
        self.scheduler.throttles_write_back()
    }
    fn retune(&mut self, values: &[i64]) {
        self.scheduler.retune(values);
    }
    fn set_limits(&mut self, limits: &Limits) {
        self.scheduler.set_limits(limits);
    }
    fn drain(&mut self, out: &mut Vec<Request>) {
        self.scheduler.drain(out);
    }
}
