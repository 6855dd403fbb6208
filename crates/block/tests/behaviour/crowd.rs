//! Tenants that share a disk, each with its own volume, some of them noisy.

use std::collections::BTreeMap;

use block::{Insertion, Limits, Nanos, Op, Pick, Priority, Request, RequestId, Roster, Scheduler, StreamId, Tenant};

/// Sectors of a volume.
pub const VOLUME: u64 = 1 << 22;

/// The position of the next request.
#[derive(Clone, Copy, Debug)]
pub enum Asks {
    Random {
        sectors: u32,
    },
    Sequential {
        sectors: u32,
    },
    /// Small ones, with a huge one every so often.
    NowAndThenHuge {
        every: u64,
    },
}

/// When requests are issued.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// A constant number in flight.
    Floods { at_once: u32 },
    /// A burst of this many, at this interval after the start of the last one, whether that is done or not.
    Bursts { size: u32, every: Nanos },
    /// Floods for a time and is idle for a time.
    ComesAndGoes { at_once: u32, on: Nanos, off: Nanos },
}

#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    pub weight: u32,
    pub asks: Asks,
    pub manner: Manner,
    /// Asynchronous writes instead of reads.
    pub buffered_writes: bool,
}

impl Neighbour {
    /// A tenant with more requests than any device takes.
    pub fn flood(weight: u32, asks: Asks) -> Neighbour {
        Neighbour { weight, asks, manner: Manner::Floods { at_once: 80 }, buffered_writes: false }
    }
}

/// The requests to be issued, in order of time.
#[derive(Default)]
struct Agenda {
    due: BTreeMap<(Nanos, u64), usize>,
    orders: u64,
}

impl Agenda {
    fn add(&mut self, at: Nanos, number: usize) {
        self.orders += 1;
        self.due.insert((at, self.orders), number);
    }

    fn next(&self) -> Option<Nanos> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the next request if it is due at `now`; returns its tenant.
    fn take(&mut self, now: Nanos) -> Option<usize> {
        self.next().filter(|&at| at <= now)?;
        self.due.pop_first().map(|(_, number)| number)
    }
}

/// Ids, of which those of completed requests are reused.
#[derive(Default)]
struct Ids {
    free: Vec<RequestId>,
    next: RequestId,
}

impl Ids {
    fn take(&mut self) -> RequestId {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next
        })
    }
}

/// Measures each tenant's service by a disk with a queue. The disk serves the request nearest to its head, and reports its disk time.
pub struct Crowd {
    scheduler: Box<dyn Scheduler>,
    neighbours: Vec<Neighbour>,
    /// By tenant: requests issued, end of the last one, and the random state.
    asked: Vec<(u64, u64, u64)>,
    agenda: Agenda,
    depth: usize,
    at_device: Vec<(Request, Nanos)>,
    /// The request being served, and its completion time.
    serving: Option<(Nanos, Nanos, Request, Nanos)>,
    head: u64,
    wake: Option<Nanos>,
    ids: Ids,
    pub now: Nanos,
    pub disk_time: Vec<Nanos>,
    /// Time for which the disk was idle though requests were queued.
    pub wasted: Nanos,
    pub tells_work: bool,
    waiting: usize,
}

impl Crowd {
    pub fn new(mut scheduler: Box<dyn Scheduler>, neighbours: &[Neighbour], depth: usize) -> Crowd {
        // Without merges, so that requests are served as issued.
        scheduler.set_limits(&Limits { max_sectors: 0, ..Limits::default() });
        let tenants = neighbours.iter().enumerate().map(|(n, neighbour)| Tenant::new(format!("{n}")).with_weight(neighbour.weight));
        let volumes = (0..neighbours.len()).map(|n| (n as u64 * VOLUME..(n as u64 + 1) * VOLUME, n)).collect();
        scheduler.set_roster(&Roster::new(tenants.collect(), volumes, &[], 1).unwrap());
        let mut crowd = Crowd {
            scheduler,
            neighbours: neighbours.to_vec(),
            asked: (0..neighbours.len()).map(|n| (0, 0, 88_172_645_463_325_252 + n as u64)).collect(),
            agenda: Agenda::default(),
            depth,
            at_device: Vec::new(),
            serving: None,
            head: 0,
            wake: None,
            ids: Ids::default(),
            now: Nanos::ZERO,
            disk_time: vec![Nanos::ZERO; neighbours.len()],
            wasted: Nanos::ZERO,
            tells_work: true,
            waiting: 0,
        };
        for (number, neighbour) in neighbours.iter().enumerate() {
            let (Manner::Floods { at_once } | Manner::Bursts { size: at_once, .. } | Manner::ComesAndGoes { at_once, .. }) =
                neighbour.manner;
            (0..at_once).for_each(|_| crowd.asks_at(Nanos::ZERO, number));
        }
        crowd
    }

    fn asks_at(&mut self, at: Nanos, number: usize) {
        self.agenda.add(at, number);
    }

    pub fn run_until(&mut self, end: Nanos) {
        loop {
            let done = self.serving.map(|(done, ..)| done);
            let due = self.agenda.next();
            let Some(next) = [done, due, self.wake].into_iter().flatten().min().filter(|&at| at < end) else { return };
            if self.serving.is_none() && self.waiting > 0 {
                self.wasted += next - self.now;
            }
            self.now = self.now.max(next);
            if done == Some(next) {
                self.complete();
            }
            while let Some(number) = self.agenda.take(self.now) {
                self.ask(number);
            }
            self.dispatch();
        }
    }

    fn ask(&mut self, number: usize) {
        let Neighbour { asks, manner, buffered_writes, .. } = self.neighbours[number];
        if let Manner::ComesAndGoes { on, off, .. } = manner {
            let (period, phase) = (on.0 + off.0, self.now.0 % (on.0 + off.0));
            if phase >= on.0 {
                return self.asks_at(Nanos(self.now.0 - phase + period), number);
            }
        }
        let (asked, next, random) = &mut self.asked[number];
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *asked += 1;
        let sectors = match asks {
            Asks::Random { sectors } | Asks::Sequential { sectors } => sectors,
            Asks::NowAndThenHuge { every } => {
                if asked.is_multiple_of(every) {
                    4_096
                } else {
                    8
                }
            }
        };
        let offset = if let Asks::Sequential { .. } = asks { *next } else { *random % (VOLUME - 4_096) };
        *next = (offset + u64::from(sectors)) % (VOLUME - 4_096);
        if let Manner::Bursts { size, every } = manner
            && asked.is_multiple_of(u64::from(size))
        {
            (0..size).for_each(|_| self.asks_at(self.now + every, number));
        }
        let id = self.ids.take();
        let op = if buffered_writes { Op::Write } else { Op::Read };
        let (lba, stream) = (number as u64 * VOLUME + offset, number as StreamId);
        let request =
            Request { id, stream, op, sync: !buffered_writes, priority: Priority::DEFAULT, sectors, lba, arrival: self.now };
        assert_eq!(self.scheduler.insert(self.now, request), Insertion::Queued);
        self.waiting += 1;
    }

    fn complete(&mut self) {
        let Some((_, work, request, submitted)) = self.serving.take() else { return };
        if self.tells_work {
            self.scheduler.record_disk_time(&request, work);
        }
        self.scheduler.completed(self.now, &request, self.now - submitted);
        self.ids.free.push(request.id);
        let number = request.stream as usize;
        self.disk_time[number] += work;
        if !matches!(self.neighbours[number].manner, Manner::Bursts { .. }) {
            self.asks_at(self.now, number);
        }
    }

    fn dispatch(&mut self) {
        self.wake = None;
        while self.at_device.len() + usize::from(self.serving.is_some()) < self.depth {
            match self.scheduler.pick(self.now) {
                Pick::Go(request) => {
                    self.waiting -= 1;
                    self.at_device.push((request, self.now));
                }
                Pick::WaitUntil(time) => {
                    self.wake = Some(time);
                    break;
                }
                Pick::Empty => break,
            }
        }
        let nearest = (0..self.at_device.len()).min_by_key(|&index| self.at_device[index].0.lba.abs_diff(self.head));
        if self.serving.is_none()
            && let Some(index) = nearest
        {
            let (request, submitted) = self.at_device.swap_remove(index);
            let distance = request.lba.abs_diff(self.head);
            let seek = if distance == 0 { 0 } else { 2_000_000 + 4_000_000 * distance.min(4 * VOLUME) / (4 * VOLUME) };
            let work = Nanos(seek + 5_000 * u64::from(request.sectors));
            self.head = request.end();
            self.serving = Some((self.now + work, work, request, submitted));
        }
    }
}
