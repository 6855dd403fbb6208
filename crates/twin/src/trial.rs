//! A candidate tried: the load on a device under a setting, measured as the plant is.

use std::collections::BTreeMap;

use block::{Nanos, Op, Request, StreamId};
use learn::experience::Served;
use learn::merit::{Tail, Tails};
use learn::window::Tally;
use learn::{Event, WindowOutcome};
use sim::host::Queue;
use sim::run::{Issue, Measure, Noted, Pilot, RunError, Steerable, Watch};

use crate::above::{Above, Got};
use crate::load::{Load, Replayed};

/// Length of a slot: long enough for a few requests of a hard disk, short beside any load.
const SLOT: Nanos = Nanos::from_millis(500);

/// How a run was served, slot by slot.
#[derive(Clone, Debug)]
pub struct Slots {
    tally: Tally,
    ends: Nanos,
    outcomes: Vec<WindowOutcome>,
}

impl Slots {
    /// From time 0.
    pub fn new() -> Slots {
        Slots { tally: Tally::new(), ends: SLOT, outcomes: Vec::new() }
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
            self.outcomes.push(self.tally.close(SLOT));
            self.ends += SLOT;
        }
    }

    /// How it was served between these times, in seconds; `None` if nothing was done.
    pub fn served(&self, from_s: f64, to_s: f64) -> Option<Served> {
        Served::of(self.between(from_s, to_s))
    }

    /// The same by requests alone, whether calls were seen or not.
    pub fn requests(&self, from_s: f64, to_s: f64) -> Option<Served> {
        let by_requests: Vec<WindowOutcome> =
            self.between(from_s, to_s).iter().map(|slot| WindowOutcome { calls: None, ..*slot }).collect();
        Served::of(&by_requests)
    }

    fn between(&self, from_s: f64, to_s: f64) -> &[WindowOutcome] {
        let slot = |time_s: f64| (time_s / SLOT.as_secs_f64()).round() as usize;
        let to = slot(to_s).min(self.outcomes.len());
        self.outcomes.get(slot(from_s).min(to)..to).unwrap_or_default()
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::new()
    }
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Tried {
    /// How the load's requests were served; `None` if nothing was done.
    pub served: Option<Served>,
    /// What processes got of it: the same where no calls were seen.
    pub calls: Option<Served>,
    /// What streams waited.
    pub tails: Tails,
    /// Requests that were done.
    pub requests: u64,
}

impl Tried {
    /// Runs the load through `queue`, which is at rest: first for `settles`, which is not judged, then for `lasts`.
    ///
    /// # Errors
    /// It was stopped.
    pub fn of(
        load: &Load,
        mut queue: Queue,
        (settles, lasts): (Nanos, Nanos),
        above: Option<&Above>,
        watch: &Watch,
    ) -> Result<Tried, RunError> {
        let until = settles + lasts;
        let mut recorder = Recorder { slots: Slots::new(), from: settles, until, above, got: BTreeMap::new() };
        let measure = Measure::new(load.streams().map(|one| one.stream));
        let measure = sim::run::run(Replayed::new(load, until), &mut queue, measure, watch, Some(&mut recorder))?;
        recorder.slots.until(until);
        if let Some(above) = above {
            recorder.got.iter_mut().for_each(|(stream, got)| got.close(until, *stream, above, settles));
        }
        let served = recorder.slots.served(settles.as_secs_f64(), until.as_secs_f64());
        let tails = measure.streams.iter().filter_map(|(stream, measure)| {
            let responses = &measure.responses;
            let tail = match above {
                None => Tail { requests: responses.count(), p99_s: responses.quantile(0.99).as_secs_f64() },
                Some(above) => above.tail(*stream, responses)?,
            };
            Some((*stream, tail))
        });
        Ok(Tried {
            served,
            calls: served.map(|served| above.map_or(served, |above| above.served(&served, &recorder.got, lasts))),
            tails: tails.collect(),
            requests: measure.completed(),
        })
    }
}

struct Recorder<'a> {
    slots: Slots,
    from: Nanos,
    until: Nanos,
    above: Option<&'a Above>,
    got: BTreeMap<StreamId, Got>,
}

impl Pilot for Recorder<'_> {
    fn begin(&mut self, _plant: &mut dyn Steerable) {}

    fn events(&mut self, noted: &[Noted]) {
        for event in noted.iter().map(event) {
            self.slots.event(&event);
            let Some(above) = self.above else { continue };
            match &event {
                Event::Queued(request) => self.got.entry(request.stream).or_default().queued(request),
                Event::Completed { request, at, .. } if *at < self.until => {
                    self.got.entry(request.stream).or_default().completed(request, *at, above, self.from);
                }
                _ => {}
            }
        }
    }

    fn next_step(&self) -> Option<Nanos> {
        None
    }

    fn step(&mut self, _now: Nanos, _plant: &mut dyn Steerable) -> bool {
        false
    }
}

/// What a controller would be told.
pub fn event(noted: &Noted) -> Event {
    match noted {
        Noted::Issued(issue) => Event::Queued(request(issue)),
        Noted::Finished(done) => Event::Completed { request: request(&done.issue), dispatched: done.dispatched, at: done.at },
        Noted::Called(at) => Event::Called(*at),
        Noted::Returned(done) => {
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
