//! A candidate tried: the load on a device under a setting, measured as the plant is.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use block::{Nanos, Op, Request, Scheduler, SchedulerSpec, StreamId};
use observe::merit::{Tail, Tails};
use observe::performance::Performance;
use observe::window::Tally;
use observe::{Event, WindowOutcome};
use sim::host::Queue;
use sim::run::{Finished, Flushed, Issue, Measure, Pilot, RunError, Server, ServerEvent, Steerable, Watch};

use crate::above::{Above, Got};
use crate::load::{Asked, Load, Replayed};

/// Length of a slot: long enough for a few requests of a hard disk, short beside any load.
pub const SLOT: Nanos = Nanos::from_millis(500);
/// A judged part has so many slots at least.
const LEAST_SLOTS: u64 = 8;
/// The share of a trial that is not judged.
const SETTLES: f64 = 0.2;
/// What takes over in the middle of a load settles for longer: bfq decides after 600 ms which queues it serves together
/// (`bfq_late_stable_merging` in `block/bfq-iosched.c`), and has its tunables [written](block::LiveSwitch) nearly as late. But at most this
/// share of a trial.
const TAKEN_OVER: Nanos = Nanos::from_millis(1_000);
const TAKEN_OVER_SHARE: f64 = 0.5;
/// Slots that are kept, the latest: the minutes that a decision looks back on.
const MOST_SLOTS: usize = 600;

/// How a run was served, slot by slot.
#[derive(Clone, Debug)]
pub struct Slots {
    tally: Tally,
    length: Nanos,
    ends: Nanos,
    /// Slots that were dropped, then those that are kept.
    dropped: usize,
    outcomes: VecDeque<WindowOutcome>,
    most: usize,
}

impl Slots {
    /// From time 0, all of them kept.
    pub fn new() -> Slots {
        Slots::of(SLOT, usize::MAX)
    }

    /// From time 0, of which the latest minutes are kept.
    pub fn latest() -> Slots {
        Slots::of(SLOT, MOST_SLOTS)
    }

    fn of(length: Nanos, most: usize) -> Slots {
        Slots { tally: Tally::new(), length, ends: length, dropped: 0, outcomes: VecDeque::new(), most }
    }

    /// Takes one event in.
    pub fn event(&mut self, event: &Event) {
        // An issue that had to wait for room in the queue is told of later than it arrived.
        if !matches!(event, Event::Queued(_)) {
            self.until(event.at());
        }
        self.tally.event(event);
    }

    /// Closes the slots that end by `now`.
    pub fn until(&mut self, now: Nanos) {
        while self.ends <= now {
            self.outcomes.push_back(self.tally.close(self.length));
            if self.outcomes.len() > self.most {
                self.outcomes.pop_front();
                self.dropped += 1;
            }
            self.ends += self.length;
        }
    }

    /// How it was served between these times, in seconds; `None` if nothing was done.
    pub fn served(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        Performance::of(self.between(from_s, to_s))
    }

    /// The same by requests alone, whether calls were seen or not.
    pub fn requests(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        let by_requests: Vec<WindowOutcome> =
            self.between(from_s, to_s).map(|slot| WindowOutcome { calls: None, ..*slot }).collect();
        Performance::of(&by_requests)
    }

    /// The slots between these times, in seconds.
    pub fn between(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = &WindowOutcome> {
        let slot = |time_s: f64| ((time_s / self.length.as_secs_f64()).round() as usize).saturating_sub(self.dropped);
        let to = slot(to_s).min(self.outcomes.len());
        self.outcomes.range(slot(from_s).min(to)..to)
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::new()
    }
}

/// How long a trial is.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// At first, not judged: queues and caches fill.
    pub settles: Nanos,
    /// Then, judged.
    pub lasts: Nanos,
    /// It ends before with so many requests.
    pub requests: u64,
}

impl Extent {
    /// This long, with at most so many requests.
    pub fn lasting(whole: Nanos, requests: u64) -> Extent {
        Extent::settling(whole, Nanos::from_secs_f64(whole.as_secs_f64() * SETTLES), requests)
    }

    /// The same, where a setting takes over.
    pub fn taken_over(whole: Nanos, requests: u64) -> Extent {
        let share = |share: f64| Nanos::from_secs_f64(whole.as_secs_f64() * share);
        Extent::settling(whole, share(SETTLES).max(TAKEN_OVER.min(share(TAKEN_OVER_SHARE))), requests)
    }

    /// Whether what is judged comes late enough to show what a scheduler makes of streams that it takes over: one that settles decides late.
    pub fn shows_taken_over(&self, scheduler: &SchedulerSpec) -> bool {
        self.settles >= TAKEN_OVER || scheduler.live_switch().settle_time == Nanos::ZERO
    }

    fn settling(whole: Nanos, settles: Nanos, requests: u64) -> Extent {
        Extent { settles, lasts: whole - settles, requests }
    }

    /// The same in so much time.
    pub fn within(self, whole: Nanos) -> Extent {
        let share = self.settles.as_secs_f64() / (self.settles + self.lasts).as_secs_f64();
        Extent::settling(whole, Nanos::from_secs_f64(whole.as_secs_f64() * share), self.requests)
    }
}

/// A setting that takes over in the middle of the load. What it takes over shows for long: under another scheduler every stream's queue
/// begins at that moment, and bfq serves streams together whose queues began together. Linux has the scheduler before it serve all that it
/// holds, and lets nobody ask for more meanwhile (`blk_mq_freeze_queue` in `elevator_switch`, `block/elevator.c`): the new one meets the first
/// request of every stream, and of those who read at a [take-over](block::LiveSwitch), and each is at the device before its
/// tunables are written.
pub struct Successor {
    /// When.
    pub at: Nanos,
    /// What changes.
    pub change: Change,
}

/// What a setting that takes over changes.
pub enum Change {
    /// The scheduler, and then the values of its tunables: Linux puts a scheduler in force with its defaults, and what asks at that moment
    /// is met by these.
    Scheduler(Box<dyn Scheduler>, Vec<i64>),
    /// The values of its tunables.
    Values(Vec<i64>),
}

/// How long it takes to write the tunables of a scheduler that is in force, after the time of its switch.
const WRITES: Nanos = Nanos::from_millis(1);

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Tried {
    /// How the load's requests were served; `None` if nothing was done.
    pub served: Option<Performance>,
    /// What processes got of it: the same where no calls were seen.
    pub calls: Option<Performance>,
    /// What streams waited.
    pub tails: Tails,
    /// Requests that were done.
    pub requests: u64,
    /// When it ended.
    pub until: Nanos,
}

impl Tried {
    /// Runs the load through `queue`, which is at rest, and whose scheduler may have a successor. Everything that happens is told to `tell`,
    /// too.
    ///
    /// # Errors
    /// It was stopped.
    pub fn of(
        load: &Load,
        (mut queue, successor): (Queue, Option<Successor>),
        extent: Extent,
        above: Option<&Above>,
        watch: &Watch,
        tell: &mut dyn FnMut(&Event),
    ) -> Result<Tried, RunError> {
        let Extent { settles, lasts, requests } = extent;
        let slot = SLOT.min(Nanos(lasts.0 / LEAST_SLOTS)).max(Nanos(1));
        let freezes = Cell::new(false);
        let mut recorder = Recorder {
            freezes: &freezes,
            under_way: 0,
            slots: Slots::of(slot, usize::MAX),
            from: settles,
            until: settles + lasts,
            left: requests,
            successor,
            above,
            got: BTreeMap::new(),
            tell,
        };
        let measure = Measure::new(load.streams().map(|one| one.stream));
        let source = Replayed::new(load, queue.capacity_sectors(), settles + lasts, requests);
        let mut server = Flushing { queue: &mut queue, flushed: Vec::new(), freezes: &freezes };
        let measure = sim::run::run(source, &mut server, measure, watch, Some(&mut recorder))?;
        let until = recorder.until;
        recorder.slots.until(until);
        if let Some(above) = above {
            recorder.got.iter_mut().for_each(|(stream, got)| got.close(until, *stream, above, settles));
        }
        let lasts = until - settles;
        let counts = load.counts();
        let served = recorder.slots.served(settles.as_secs_f64(), until.as_secs_f64());
        let tails = measure.streams.iter().filter_map(|(stream, measure)| {
            let responses = &measure.responses;
            let tail = match above {
                // It waited as long as there was time to, and no longer.
                _ if responses.count() == 0 => Tail { requests: 1, p99_s: until.as_secs_f64() },
                None => {
                    // Of what is read ahead the time of 128 KiB counts, as on the plant.
                    let counts_as = counts.get(stream).copied().unwrap_or(1.0);
                    Tail { requests: responses.count(), p99_s: responses.quantile(0.99).as_secs_f64() / counts_as }
                }
                Some(above) => above.tail(*stream, responses)?,
            };
            Some((*stream, tail))
        });
        Ok(Tried {
            served,
            calls: served.map(|served| above.map_or(served, |above| above.served(&served, &recorder.got, lasts))),
            tails: tails.collect(),
            requests: measure.completed(),
            until,
        })
    }
}

/// A queue that takes flushes, too.
struct Flushing<'a> {
    queue: &'a mut Queue,
    /// Of a device without a write cache: done at once.
    flushed: Vec<Flushed>,
    /// What is there is served, and nothing else gets in.
    freezes: &'a Cell<bool>,
}

impl Server for Flushing<'_> {
    type Work = Asked;

    fn has_room(&self) -> bool {
        !self.freezes.get() && self.queue.has_room()
    }

    fn admit(&mut self, now: Nanos, asked: Asked) {
        match asked {
            Asked::Transfer(issue) => self.queue.admit(now, issue),
            Asked::Flush(stream, token) => {
                if !self.queue.flush(now, stream, token) {
                    self.flushed.push(Flushed { arrival: now, stream, token, at: now });
                }
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let flushed = self.flushed.first().map(|flushed| flushed.at);
        [flushed, self.queue.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        finished.extend(self.flushed.drain(..).map(Finished::Flush));
        self.queue.advance(now, finished);
    }

    fn dispatch(&mut self, now: Nanos) {
        self.queue.dispatch(now);
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        self.queue.steerable()
    }
}

struct Recorder<'a> {
    /// See [`Flushing`].
    freezes: &'a Cell<bool>,
    /// Requests that are queued or at the device.
    under_way: u32,
    slots: ScoreBuckets,
    from: Nanos,
    until: Nanos,
    /// Requests until it ends.
    left: u64,
    successor: Option<Successor>,
    above: Option<&'a Above>,
    got: BTreeMap<StreamId, Got>,
    tell: &'a mut dyn FnMut(&Event),
}

impl Pilot for Recorder<'_> {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(event) {
            self.slots.event(&event);
            (self.tell)(&event);
            match &event {
                Event::Queued(request) => {
                    self.under_way += 1;
                    self.left = self.left.saturating_sub(1);
                    if self.left == 0 {
                        self.until = self.until.min(request.arrival);
                    }
                }
                Event::Completed { .. } => self.under_way -= 1,
                _ => {}
            }
            let Some(above) = self.above else { continue };
            match &event {
                Event::Queued(request) => self.got.entry(request.stream).or_default().queued(request, self.from),
                Event::Completed { request, at, .. } if *at < self.until => {
                    self.got.entry(request.stream).or_default().completed(request, *at, above, self.from);
                }
                Event::Flushed { stream, asked, at } if *at < self.until => {
                    self.got.entry(*stream).or_default().flushed((*asked, *at), *stream, above, self.from);
                }
                _ => {}
            }
        }
    }

    fn next_step(&self) -> Option<Nanos> {
        let successor = self.successor.as_ref().filter(|_| !self.freezes.get() || self.under_way == 0);
        successor.map(|successor| successor.at)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        let Some(successor) = self.successor.take() else { return false };
        match successor.change {
            Change::Scheduler(..) if self.under_way > 0 => {
                self.freezes.set(true);
                self.successor = Some(successor);
                return false;
            }
            Change::Scheduler(scheduler, values) => {
                self.freezes.set(false);
                let written = plant.switch_time() + scheduler.live_switch().settle_time.max(WRITES);
                plant.switch(now, scheduler);
                self.successor = Some(Successor { at: now + written, change: Change::Values(values) });
            }
            Change::Values(values) => plant.retune(&values),
        }
        true
    }
}

/// What a controller would be told.
pub fn event(noted: &ServerEvent) -> Event {
    match noted {
        ServerEvent::Issued(issue) => Event::Queued(request(issue)),
        ServerEvent::Finished(done) => Event::Completed { request: request(&done.issue), dispatched: done.dispatched, at: done.at },
        ServerEvent::Flushed(done) => Event::Flushed { stream: done.stream, asked: done.arrival, at: done.at },
        ServerEvent::Called(at) => Event::Called(*at),
        ServerEvent::Returned(done) => {
            let (op, bytes) = match done.transfer() {
                Some(done) => (done.issue.op, u64::from(done.issue.sectors) * 512),
                None => (Op::Write, 0),
            };
            Event::Returned { stream: done.stream(), op, bytes, called: done.arrival(), at: done.at() }
        }
    }
}

fn request(issue: &Issue) -> Request {
    let &Issue { arrival, lba, sectors, op, sync, stream, priority, .. } = issue;
    Request { id: 0, stream, op, sync, priority, sectors, lba, arrival }
}
