//! A run of an evaluation: one load on one device under one candidate or controller, with the data for its scores.

use std::sync::Arc;

use block::{Nanos, Op};
use control::{Controller, Setting};
use observe::Event;
use observe::performance::Performance;
use observe::starvation::Tails;
use sim::run::{Pilot, ServerEvent, Steerable, Watch};
use twin::{Recording, ScoreBuckets};

use super::case::EvaluationCase;
use super::decided::Decided;
use experiment::bench::tails;
use experiment::steered::{Steered, timed};
use experiment::timed::Stopwatch;
use progress::monitor::Monitor;

/// Bytes per sector.
const SECTOR_BYTES: u64 = 512;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Run {
    slots: ScoreBuckets,
    /// The active setting from each time in seconds; the first from the beginning.
    pub in_force: Vec<(f64, String)>,
    /// End of the run, in seconds.
    pub ended_s: f64,
    /// Response times by stream.
    pub tails: Tails,
    /// Processor time of scheduler and controller for each request, in nanoseconds.
    pub cpu_ns: Option<f64>,
    /// The controller's decisions.
    pub decided: Decided,
    /// Bytes read from the device as a share of those that programs read; `None` if these read nothing.
    pub read_from_device: Option<f64>,
}

/// Numbers of bytes read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadBytes {
    by_programs: u64,
    from_device: u64,
}

impl ReadBytes {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Returned { op: Op::Read, bytes, .. } => self.by_programs += bytes,
            Event::Completed { request, .. } if request.op == Op::Read => {
                self.from_device += u64::from(request.sectors) * SECTOR_BYTES
            }
            _ => {}
        }
    }

    fn share_from_device(&self) -> Option<f64> {
        (self.by_programs > 0).then(|| self.from_device as f64 / self.by_programs as f64)
    }
}

impl Run {
    /// Runs the question's load under `controller`, which starts with `begins_with` active. Events are also recorded in `keep`.
    ///
    /// # Errors
    /// The load cannot be run, or the work was interrupted.
    pub fn of(
        question: &EvaluationCase,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        measures_cpu: bool,
        keep: Option<&mut Recording>,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Run> {
        Ok(Run::steered(question, begins_with, controller, measures_cpu, keep, monitor)?.0)
    }

    /// The same, and returns the controller's history as well.
    ///
    /// # Errors
    /// As for [`Run::of`].
    pub fn steered(
        question: &EvaluationCase,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        measures_cpu: bool,
        keep: Option<&mut Recording>,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<(Run, Steered)> {
        let stopwatch = measures_cpu.then(|| Arc::new(Stopwatch::new()));
        let world = &question.world.under(begins_with);
        let queue = world.queue(timed(world.scheduler(begins_with), &stopwatch));
        let mut recorder = Recorder {
            steered: Steered::new(controller, begins_with, &world.device(), stopwatch.clone()),
            slots: ScoreBuckets::new(),
            read: ReadBytes::default(),
            keep,
        };
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let ran = question.load.run(queue, world.host, &watch, Some(&mut recorder));
        monitor.check()?;
        let measure = ran?.measure;
        let ended = measure.last_completion;
        recorder.slots.until(ended);
        let decided = recorder.steered.steering().decisions();
        let run = Run {
            slots: recorder.slots,
            in_force: decided.iter().map(|decided| (decided.at.as_secs_f64(), decided.to.to_string())).collect(),
            ended_s: ended.as_secs_f64(),
            tails: tails(measure.streams.iter()),
            cpu_ns: stopwatch.map(|stopwatch| stopwatch.spent_ns() as f64 / measure.all.count().max(1) as f64),
            decided: Decided::of(decided),
            read_from_device: recorder.read.share_from_device(),
        };
        Ok((run, recorder.steered))
    }

    /// Performance between two times in seconds; `None` if nothing completed.
    pub fn served(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        self.slots.served(from_s, to_s)
    }

    /// The same, at the level of requests.
    pub fn requests(&self, from_s: f64, to_s: f64) -> Option<Performance> {
        self.slots.requests(from_s, to_s)
    }

    /// The active settings between two times, as consecutive intervals: from, to and setting.
    pub fn pieces(&self, from_s: f64, to_s: f64) -> impl Iterator<Item = (f64, f64, &str)> {
        let ends = self.in_force.iter().skip(1).map(|(at, _)| *at).chain([f64::INFINITY]);
        let pieces = self.in_force.iter().zip(ends);
        pieces.map(move |((at, setting), end)| (at.max(from_s), end.min(to_s), setting.as_str())).filter(|(from, to, _)| to > from)
    }

    /// The active setting at a time in seconds.
    pub fn setting_at(&self, at_s: f64) -> &str {
        self.in_force.iter().rev().find(|(from, _)| *from <= at_s).map_or("", |(_, setting)| setting)
    }

    /// Number of setting changes.
    pub fn changes(&self) -> usize {
        // Settings applied before the first request do not count, as nothing was served under another one.
        self.in_force.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
    }
}

/// Records scores in time slots that are independent of the controller's windows.
struct Recorder<'a> {
    steered: Steered,
    slots: ScoreBuckets,
    read: ReadBytes,
    keep: Option<&'a mut Recording>,
}

impl Pilot for Recorder<'_> {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        self.steered.begin(plant);
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(twin::event) {
            self.slots.event(&event);
            self.read.event(&event);
            if let Some(recording) = &mut self.keep {
                recording.event(&event);
            }
        }
        self.steered.events(noted);
    }

    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        self.steered.next_step(quiet_until)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.steered.step(now, plant)
    }
}
