//! A run in an exam: one load on one device under one candidate or one controller, with all that marks need.

use std::sync::Arc;

use block::Nanos;
use learn::experience::Served;
use learn::merit::Tails;
use learn::window::Tally;
use learn::{Controller, Event, Setting, WindowOutcome};
use sim::run::{Noted, Pilot, Steerable, Watch};

use super::question::Question;
use crate::bench::tails;
use crate::monitor::Monitor;
use crate::steered::{self, Steered, timed};
use crate::timed::Stopwatch;

/// Length of the slots in which a run is recorded: a phase of a drawn load is many times as long.
const SLOT: Nanos = Nanos::from_millis(500);

/// What is kept of a run.
#[derive(Clone, Debug)]
pub struct Sitting {
    /// How each slot was served.
    pub slots: Vec<WindowOutcome>,
    /// What was in force, from when on, in seconds; the first from the beginning.
    pub in_force: Vec<(f64, String)>,
    /// When the run ended, in seconds.
    pub ended_s: f64,
    /// What streams waited.
    pub tails: Tails,
    /// Processor time of scheduler and controller for each request, in nanoseconds.
    pub cpu_ns: Option<f64>,
}

impl Sitting {
    /// Runs the question's load under `controller`, which finds `begins_with` in force.
    ///
    /// # Errors
    /// The load cannot be run, or the work was interrupted.
    pub fn of(
        question: &Question,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        measures_cpu: bool,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Sitting> {
        let stopwatch = measures_cpu.then(|| Arc::new(Stopwatch::new()));
        let world = &question.world;
        let queue = world.queue(timed(world.scheduler(begins_with), &stopwatch));
        let mut recorder = Recorder {
            steered: Steered::new(controller, begins_with, &world.device(), stopwatch.clone()),
            tally: Tally::new(),
            ends: SLOT,
            slots: Vec::new(),
        };
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let ran = question.load.run(queue, &watch, Some(&mut recorder));
        monitor.check()?;
        let measure = ran?.measure;
        let ended = measure.last_completion;
        recorder.until(ended);
        let decided = recorder.steered.steering().decided();
        Ok(Sitting {
            slots: recorder.slots,
            in_force: decided.iter().map(|decided| (decided.at.as_secs_f64(), decided.to.to_string())).collect(),
            ended_s: ended.as_secs_f64(),
            tails: tails(measure.streams.iter()),
            cpu_ns: stopwatch.map(|stopwatch| stopwatch.spent_ns() as f64 / measure.all.count().max(1) as f64),
        })
    }

    /// How it was served between these times, in seconds; `None` if nothing was done.
    pub fn served(&self, from_s: f64, to_s: f64) -> Option<Served> {
        let slot = |time_s: f64| (time_s / SLOT.as_secs_f64()).round() as usize;
        let to = slot(to_s).min(self.slots.len());
        Served::of(self.slots.get(slot(from_s).min(to)..to)?)
    }

    /// What was in force between these times, piece by piece: from, to and what.
    pub fn pieces(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = (f64, f64, &str)> {
        let ends = self.in_force.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        let pieces = self.in_force.iter().zip(ends);
        pieces.map(move |((at, setting), end)| (at.max(from_s), end.min(to_s), setting.as_str())).filter(|(from, to, _)| to > from)
    }

    /// How often something else was set.
    pub fn changes(&self) -> usize {
        // What is set before the first request is no change of anything that serves.
        self.in_force.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
    }
}

/// Records in slots of its own, whatever windows the controller looks at.
struct Recorder {
    steered: Steered,
    tally: Tally,
    /// When the slot that is open ends.
    ends: Nanos,
    slots: Vec<WindowOutcome>,
}

impl Recorder {
    /// Closes the slots that end by `now`.
    fn until(&mut self, now: Nanos) {
        while self.ends <= now {
            self.slots.push(self.tally.close(SLOT));
            self.ends += SLOT;
        }
    }
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        self.steered.begin(plant);
    }

    fn events(&mut self, noted: &[Noted]) {
        for event in noted.iter().map(steered::event) {
            // An issue that had to wait for room in the queue is told of later than it arrived.
            if !matches!(event, Event::Queued(_)) {
                self.until(event.at());
            }
            self.tally.event(&event);
        }
        self.steered.events(noted);
    }

    fn next_step(&self) -> Option<Nanos> {
        self.steered.next_step()
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.steered.step(now, plant)
    }
}
