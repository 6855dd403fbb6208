//! A host on a device that logs its requests, and processes that make calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use block::rates::Rate;
use block::{Nanos, Op, Priority, Request, Roster, StreamId, Tenant};
use sim::device::{Completion, Device};
use sim::host::{Access, Action, Advice, Call, Extent, File, FileId, Files, Host, HostSettings, Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile};
use sim::run::{Finished, Server};

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;
pub const SECTORS: u64 = 1 << 24;

/// A logged request.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRequest {
    pub at: Nanos,
    pub op: Op,
    pub stream: StreamId,
    pub lba: u64,
    pub sectors: u32,
}

impl LoggedRequest {
    pub fn covers(&self, lba: u64) -> bool {
        (self.lba..self.lba + u64::from(self.sectors)).contains(&lba)
    }
}

pub type Log = Arc<Mutex<Vec<LoggedRequest>>>;

/// Serves one request at a time: a fixed time for each, plus some for each sector.
struct Plain {
    log: Log,
    each: Nanos,
    sector: Nanos,
    queue: VecDeque<(Nanos, u32)>,
    busy: Nanos,
}

impl Device for Plain {
    fn capacity_sectors(&self) -> u64 {
        SECTORS
    }
    fn queue_depth(&self) -> usize {
        4
    }
    fn submit(&mut self, now: Nanos, request: &Request) {
        assert!(request.end() <= SECTORS && request.sectors > 0, "{request:?}");
        let Request { op, stream, lba, sectors, .. } = *request;
        self.log.lock().unwrap().push(LoggedRequest { at: now, op, stream, lba, sectors });
        let start = self.queue.back().map_or(now, |&(done, _)| done);
        let service = Nanos(self.each.0 + self.sector.0 * u64::from(sectors));
        self.busy += service;
        self.queue.push_back((start + service, request.id));
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.queue.front().map(|&(done, _)| done)
    }
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(&(at, id)) = self.queue.front().filter(|&&(at, _)| at <= now) {
            self.queue.pop_front();
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
        self.busy
    }
}

pub struct Machine {
    pub host: Host,
    pub now: Nanos,
    pub log: Log,
    calls: u64,
    finished: Vec<Finished>,
}

/// Files of these sizes, one behind the other.
pub fn files(bytes: &[u64]) -> Files {
    let mut lba = 0;
    let mut file = |(number, &bytes): (usize, &u64)| {
        let sectors = bytes.div_ceil(4096) * 8;
        lba += sectors;
        File { name: format!("f{number}"), bytes, extents: vec![Extent { offset: 0, lba: lba - sectors, sectors }], is_new: false }
    };
    bytes.iter().enumerate().map(&mut file).collect()
}

fn queue(scheduler: &str, device: Box<dyn Device>) -> Queue {
    let (spec, values) = block::parse(scheduler).unwrap();
    Queue::new((spec.build)(&block::Limits::default(), &values), device, QueueSettings::default())
}

impl Machine {
    /// A device of 100 µs for each request and 100 MB/s, behind noop.
    pub fn new(files: Files, settings: &str) -> Machine {
        Machine::with("noop", files, settings)
    }

    pub fn with(scheduler: &str, files: Files, settings: &str) -> Machine {
        let log = Log::default();
        let (each, sector) = (Nanos::from_micros(100), Nanos(5_120));
        let device = Plain { log: log.clone(), each, sector, queue: VecDeque::new(), busy: Nanos::ZERO };
        Machine::on(queue(scheduler, Box::new(device)), log, files, settings)
    }

    pub fn on_disk(disk: &str, scheduler: &str, files: Files, settings: &str) -> Machine {
        Machine::on_profile(&sim::profile::load(disk).unwrap(), scheduler, files, settings)
    }

    pub fn on_profile(profile: &Profile, scheduler: &str, files: Files, settings: &str) -> Machine {
        Machine::on(queue(scheduler, profile.build(DeviceOptions::default())), Log::default(), files, settings)
    }

    /// [`Machine::new`] with two tenants, the first of whom has the first file; the second may write 1 MiB a second to the device.
    /// `are_cgroups`: write-back counts each for itself.
    pub fn with_limited_tenant(files: Files, are_cgroups: bool, settings: &str) -> Machine {
        let device = Plain {
            log: Log::default(),
            each: Nanos::from_micros(100),
            sector: Nanos(5_120),
            queue: VecDeque::new(),
            busy: Nanos::ZERO,
        };
        let places = files.iter().map(|file| file.extents[0].lba..file.extents[0].lba + file.extents[0].sectors);
        let roster = Roster::new(vec![Tenant::new("free"), Tenant::new("limited")], places.zip(0..).collect(), &[], 1).unwrap();
        let mut queue = queue("noop", Box::new(device));
        queue.set_roster(&roster);
        let queue = if are_cgroups { queue.with_cgroups() } else { queue };
        let mut machine = Machine::on(queue, Log::default(), files, settings);
        machine.host.steerable().unwrap().set_io_max(Nanos::ZERO, 1, [Rate::default(), Rate::bytes_per_s(MIB)]);
        machine
    }

    pub fn on_device(device: Box<dyn Device>, scheduler: &str, files: Files, settings: &str) -> Machine {
        Machine::on(queue(scheduler, device), Log::default(), files, settings)
    }

    fn on(queue: Queue, log: Log, files: Files, settings: &str) -> Machine {
        let host = Host::new(queue, Arc::new(files), HostSettings::parse(settings).unwrap()).unwrap();
        Machine { host, now: Nanos::ZERO, log, calls: 0, finished: Vec::new() }
    }

    /// Makes a call and returns its number.
    pub fn start(&mut self, stream: StreamId, action: Action) -> u64 {
        self.start_advised(stream, Advice::Normal, action)
    }

    /// The same by a process that has given advice.
    pub fn start_advised(&mut self, stream: StreamId, advice: Advice, action: Action) -> u64 {
        self.calls += 1;
        let (arrival, priority, token) = (self.now, Priority::DEFAULT, self.calls);
        self.host.admit(self.now, Call { arrival, stream, priority, token, advice, action });
        self.host.dispatch(self.now);
        token
    }

    /// Processes the next event. False if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.host.next_event() else { return false };
        assert!(at >= self.now, "time ran backwards from {} to {at}", self.now);
        self.now = at;
        self.host.advance(at, &mut self.finished);
        self.host.dispatch(at);
        true
    }

    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Makes a call and lets time pass until it is done.
    pub fn call(&mut self, stream: StreamId, action: Action) -> Finished {
        self.call_advised(stream, Advice::Normal, action)
    }

    /// The same by a process that has given advice.
    pub fn call_advised(&mut self, stream: StreamId, advice: Advice, action: Action) -> Finished {
        let token = self.start_advised(stream, advice, action);
        loop {
            assert!(self.step(), "the call is never done");
            if let Some(place) = self.finished.iter().position(|done| done.token() == token) {
                return self.finished.remove(place);
            }
        }
    }

    /// Lets time pass until `at`.
    pub fn pass_until(&mut self, at: Nanos) {
        while self.host.next_event().is_some_and(|event| event <= at) {
            self.step();
        }
        self.now = self.now.max(at);
    }

    /// Lets each process make its calls one after the other, all processes at the same time, until the first of them is done with
    /// all. Processes are their places in the list.
    pub fn race(&mut self, mut processes: Vec<Box<dyn Iterator<Item = Action>>>) {
        let mut waiting: Vec<(u64, usize)> = Vec::new();
        for (process, actions) in processes.iter_mut().enumerate() {
            waiting.push((self.start(process as StreamId, actions.next().unwrap()), process));
        }
        loop {
            assert!(self.step(), "a call is never done");
            for done in self.take_finished() {
                let place = waiting.iter().position(|&(token, _)| token == done.token()).unwrap();
                let (_, process) = waiting.swap_remove(place);
                let Some(action) = processes[process].next() else { return };
                let token = self.start(process as StreamId, action);
                waiting.push((token, process));
            }
        }
    }

    pub fn seen(&self) -> Vec<LoggedRequest> {
        self.log.lock().unwrap().clone()
    }

    pub fn forget(&mut self) {
        self.log.lock().unwrap().clear();
    }
}

pub fn read(file: FileId, offset: u64, bytes: u64) -> Action {
    Action::Access { op: Op::Read, file, offset, bytes: bytes as u32, access: Access::Buffered }
}

pub fn write(file: FileId, offset: u64, bytes: u64) -> Action {
    Action::Access { op: Op::Write, file, offset, bytes: bytes as u32, access: Access::Buffered }
}

pub fn direct(op: Op, file: FileId, offset: u64, bytes: u64) -> Action {
    Action::Access { op, file, offset, bytes: bytes as u32, access: Access::Direct }
}

pub fn fsync(file: FileId) -> Action {
    Action::Sync { file }
}

/// How many sectors a call moved.
pub fn sectors(done: &Finished) -> u32 {
    done.transfer().map_or(0, |done| done.issue.sectors)
}

/// Pieces of a file in order.
pub fn in_order(action: fn(FileId, u64, u64) -> Action, file: FileId, bytes: u64, piece: u64) -> Box<dyn Iterator<Item = Action>> {
    Box::new((0..bytes / piece).map(move |number| action(file, number * piece, piece)))
}

/// A number from a number, without order (SplitMix64).
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
