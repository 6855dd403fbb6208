//! Tenants that share a disk, and the service of each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex};

use block::{Insertion, Limits, Nanos, Op, Pick, Priority, Rates, Request, Room, Roster, Scheduler, StreamId, Tags, Tenant, parse};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::host::{Queue, QueueSettings};
use sim::run::{Finished, Issue, Measure, RunError, Source, Watch};

/// Where a tenant's requests lie, and how large they are.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// Anywhere in these parts (of 1,000) of the disk.
    Random { from: u64, to: u64, sectors: u32 },
    /// One after the other from this part (of 1,000) of the disk on.
    Sequential { from: u64, sectors: u32 },
    /// Small requests and now and then huge ones.
    Mixed { from: u64, to: u64, small: u32, huge: u32, every: u64 },
    /// Illustration 2 of Arunagiri and others, with growing sizes and jumps.
    Growing { from: u64 },
}

/// The timing of its requests.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// This number of requests, one each interval.
    Open { interval: Nanos, count: u64 },
    /// A closed loop of this depth, with think time.
    Closed { depth: u32, think: Nanos },
    /// Bursts of requests, each at an interval after the last.
    Bursts { size: u32, interval: Nanos },
}

/// A stream of a tenant, usually its only one.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    pub weight: u32,
    pub pattern: Pattern,
    pub pace: Pace,
    pub op: Op,
    pub sync: bool,
    pub rates: Rates,
    /// It is of the same tenant as the one before.
    pub is_same: bool,
}

impl Asker {
    pub fn reader(weight: u32, pattern: Pattern, pace: Pace) -> Asker {
        Asker { weight, pattern, pace, op: Op::Read, sync: true, rates: Rates::default(), is_same: false }
    }
}

/// A stream's service: dispatch and sectors, and completion, disk time and sectors of each of its requests.
#[derive(Clone, Debug, Default)]
pub struct Served {
    pub dispatched: Vec<(Nanos, u32)>,
    pub done: Vec<(Nanos, Nanos, u32)>,
}

impl Served {
    /// Disk time until `end`.
    pub fn disk_time(&self, from: Nanos, end: Nanos) -> Nanos {
        let inside = self.done.iter().filter(|(at, ..)| *at >= from && *at < end);
        inside.fold(Nanos::ZERO, |sum, (_, work, _)| sum + *work)
    }

    /// Requests done in each whole second before `end`, each counted as often as `count` says.
    pub fn done_per_second(&self, end: Nanos, count: impl Fn(u32) -> u64) -> Vec<u64> {
        per_second(self.done.iter().map(|&(at, _, sectors)| (at, count(sectors))), end)
    }

    /// The same for requests sent to the device.
    pub fn dispatched_per_second(&self, end: Nanos, count: impl Fn(u32) -> u64) -> Vec<u64> {
        per_second(self.dispatched.iter().map(|&(at, sectors)| (at, count(sectors))), end)
    }

    pub fn sectors(&self, from: Nanos, end: Nanos) -> u64 {
        self.done.iter().filter(|(at, ..)| *at >= from && *at < end).map(|(.., sectors)| u64::from(*sectors)).sum()
    }
}

fn per_second(counts: impl Iterator<Item = (Nanos, u64)>, end: Nanos) -> Vec<u64> {
    let mut seconds = vec![0; (end.0 / 1_000_000_000) as usize];
    for (at, count) in counts {
        if let Some(second) = seconds.get_mut((at.0 / 1_000_000_000) as usize) {
            *second += count;
        }
    }
    seconds
}

/// The result of a run: the service of each stream.
pub struct Outcome {
    pub tenants: Vec<Served>,
}

impl Outcome {
    /// Shares of disk time between two times.
    pub fn shares(&self, from: Nanos, end: Nanos) -> Vec<f64> {
        let times: Vec<f64> = self.tenants.iter().map(|served| served.disk_time(from, end).as_secs_f64()).collect();
        let all: f64 = times.iter().sum();
        times.iter().map(|time| time / all).collect()
    }

    /// The largest difference to shares by weight, in points.
    pub fn error(&self, askers: &[Asker], from: Nanos, end: Nanos) -> f64 {
        let weights: f64 = askers.iter().map(|asker| f64::from(asker.weight)).sum();
        let shares = self.shares(from, end).into_iter().zip(askers);
        shares.map(|(share, asker)| (share - f64::from(asker.weight) / weights).abs() * 100.0).fold(0.0, f64::max)
    }

    /// In MB/s, of all together.
    pub fn throughput(&self, from: Nanos, end: Nanos) -> f64 {
        let sectors: u64 = self.tenants.iter().map(|served| served.sectors(from, end)).sum();
        sectors as f64 * 512.0 / 1e6 / (end - from).as_secs_f64()
    }

    /// When the first tenant had its last request done.
    pub fn first_end(&self) -> Nanos {
        self.tenants.iter().filter_map(|served| served.done.last().map(|(at, ..)| *at)).min().unwrap()
    }
}

/// A scheduler, and a record of its dispatches and of the disk times reported to it.
struct CountedWork {
    inner: Box<dyn Scheduler>,
    work: Nanos,
    served: Arc<Mutex<BTreeMap<StreamId, Served>>>,
}

impl Scheduler for CountedWork {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.inner.insert(now, request)
    }
    fn pick(&mut self, now: Nanos) -> Pick {
        let pick = self.inner.pick(now);
        if let Pick::Go(request) = &pick {
            let mut served = self.served.lock().unwrap();
            served.entry(request.stream).or_default().dispatched.push((now, request.sectors));
        }
        pick
    }
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.inner.completed(now, request, service);
        let mut served = self.served.lock().unwrap();
        served.entry(request.stream).or_default().done.push((now, std::mem::take(&mut self.work), request.sectors));
    }
    fn record_disk_time(&mut self, request: &Request, disk_time: Nanos) {
        self.work = disk_time;
        self.inner.record_disk_time(request, disk_time);
    }
    fn retune(&mut self, values: &[i64]) {
        self.inner.retune(values);
    }
    fn tags(&self, room: &Room) -> Option<Tags> {
        self.inner.tags(room)
    }
    fn open_tags(&self, depth: u32, request: &Request) -> u32 {
        self.inner.open_tags(depth, request)
    }
    fn set_limits(&mut self, limits: &Limits) {
        self.inner.set_limits(limits);
    }
    fn set_roster(&mut self, roster: &Roster) {
        self.inner.set_roster(roster);
    }
    fn drain(&mut self, out: &mut Vec<Request>) {
        self.inner.drain(out);
    }
}

struct Asking {
    asker: Asker,
    random: Xoshiro256PlusPlus,
    issued: u64,
    at: u64,
}

struct Crowd {
    asking: Vec<Asking>,
    capacity: u64,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    taken: u64,
    end: Nanos,
}

impl Crowd {
    fn new(askers: &[Asker], capacity: u64, seed: u64, end: Nanos) -> Crowd {
        let mut crowd = Crowd { asking: Vec::new(), capacity, due: BinaryHeap::new(), taken: 0, end };
        for (number, &asker) in askers.iter().enumerate() {
            let random = Xoshiro256PlusPlus::seed_from_u64(seed * 1_000 + number as u64);
            let at = match asker.pattern {
                Pattern::Sequential { from, .. } | Pattern::Growing { from } => capacity / 1_000 * from,
                _ => 0,
            };
            crowd.asking.push(Asking { asker, random, issued: 0, at });
            let first = match asker.pace {
                Pace::Closed { depth, .. } => depth,
                Pace::Bursts { size, .. } => size,
                Pace::Open { .. } => 1,
            };
            (0..first).for_each(|_| crowd.due.push(Reverse((0, number))));
        }
        crowd
    }

    fn next_place(&mut self, number: usize) -> (u64, u32) {
        let capacity = self.capacity;
        let Asking { asker, random, issued, at } = &mut self.asking[number];
        let mut between = |from: u64, to: u64, sectors: u32| {
            let unit = u64::from(sectors.next_power_of_two()).min(128);
            let (first, last) = (capacity / 1_000 * from / unit, (capacity / 1_000 * to - u64::from(sectors)) / unit);
            random.random_range(first..last.max(first + 1)) * unit
        };
        match asker.pattern {
            Pattern::Random { from, to, sectors } => (between(from, to, sectors), sectors),
            Pattern::Mixed { from, to, small, huge, every } => {
                let sectors = if *issued % every == every - 1 { huge } else { small };
                (between(from, to, sectors), sectors)
            }
            Pattern::Sequential { sectors, .. } => {
                let lba = if *at + u64::from(sectors) > capacity { 0 } else { *at };
                *at = lba + u64::from(sectors);
                (lba, sectors)
            }
            Pattern::Growing { .. } => {
                let step = *issued / 100;
                let (lba, sectors) = (*at, 16 + 10 * step);
                *at += sectors + 10 * (1 + step);
                if *at + 2 * sectors > capacity {
                    *at = 0;
                }
                (lba, sectors as u32)
            }
        }
    }
}

impl Source for Crowd {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.due.peek().map(|Reverse((at, _))| Nanos(*at)).filter(|&at| at < self.end))
    }

    fn take(&mut self, _now: Nanos) -> Result<Option<Issue>, RunError> {
        let Some(Reverse((at, number))) = self.due.pop() else { return Ok(None) };
        let (lba, sectors) = self.next_place(number);
        let Asking { asker, issued, .. } = &mut self.asking[number];
        *issued += 1;
        match asker.pace {
            Pace::Open { interval, count } if *issued < count => self.due.push(Reverse((at + interval.0, number))),
            Pace::Bursts { size, interval } if issued.is_multiple_of(u64::from(size)) => {
                (0..size).for_each(|_| self.due.push(Reverse((at + interval.0, number))));
            }
            _ => {}
        }
        let Asker { op, sync, .. } = *asker;
        let (priority, token) = (Priority::DEFAULT, self.taken);
        self.taken += 1;
        Ok(Some(Issue { arrival: Nanos(at), lba, sectors, op, sync, stream: number as StreamId, priority, token }))
    }

    fn completed(&mut self, finished: &Finished) {
        let number = finished.stream() as usize;
        if let Pace::Closed { think, .. } = self.asking[number].asker.pace {
            self.due.push(Reverse((finished.at().0 + think.0, number)));
        }
    }
}

/// Runs all tenants on a device under a scheduler until `end`; requests are attributed by stream.
pub fn run(device: &str, setting: &str, askers: &[Asker], seed: u64, end: Nanos) -> Outcome {
    let profile = sim::profile::load(device).unwrap();
    let (spec, values) = parse(setting).unwrap_or_else(|error| panic!("{error}"));
    let settings = QueueSettings { write_back_latency: Some(Nanos::ZERO), ..QueueSettings::default() };
    let served = Arc::new(Mutex::new(BTreeMap::new()));
    let inner = (spec.build)(&settings.limits(), &values);
    let watched = CountedWork { inner, work: Nanos::ZERO, served: served.clone() };
    let device = profile.build(Default::default());
    let mut queue = Queue::new(Box::new(watched), device, settings);
    let mut tenants: Vec<Tenant> = Vec::new();
    let mut streams = Vec::new();
    for (number, asker) in askers.iter().enumerate() {
        if !asker.is_same {
            tenants.push(Tenant::new(format!("{number}")).with_weight(asker.weight).with_rates(asker.rates));
        }
        streams.push((number as StreamId, tenants.len() - 1));
    }
    queue.set_roster(&Roster::new(tenants, Vec::new(), &streams, profile.disks() as u32).unwrap());
    let crowd = Crowd::new(askers, profile.capacity_sectors(), seed, end);
    sim::run::run(crowd, &mut queue, Measure::new([]), &Watch::default(), None).unwrap();
    let mut served = std::mem::take(&mut *served.lock().unwrap());
    Outcome { tenants: (0..askers.len()).map(|number| served.remove(&(number as StreamId)).unwrap_or_default()).collect() }
}
