//! A learning session on one device: runs one load after the other and searches for the best setting under each.
//!
//! ```text
//! draw a load ─▶ fio ─▶ search controller: observes, tries, verifies ─▶ finished or timed out ─▶ knowledge base
//!     ▲                                                                                                │
//!     └──────────────── original setting restored, fio stopped ◀───────────────────────────────────────┘
//! ```
//! Clock and device are passed in by the caller.

use std::sync::Arc;

use block::{Nanos, StreamId};
use control::controller::{ControllerChoice, ControllerInput};
use control::experience::Experience;
use control::{ControlLoop, Setting, Target, Verdict};
use observe::{Event, Preference};

use super::foreign_io::{ForeignIo, ForeignProcess};
use super::load::{Generator, Load, loads};
use super::memory::{LoadRecord, Memory};
use linux::clock::Moment;

/// Time that verification adds to the trials of a search, in milliseconds: up to ten pairs of turns (`control::search::Tuner`).
/// Derived: two challengers, five pairs, two turns each, of 6 s and 4 s of settling.
const VERIFIES_MS: i64 = 200_000;
/// Time limit of a search that has no end of its own, in seconds. Choice: a longer one learns fewer loads in a night, a shorter one ends a
/// search before its best; not varied.
const ENDLESS_S: u64 = 900;

/// Parameters of a lesson.
#[derive(Clone, Debug)]
pub struct Course {
    /// The search controller.
    pub controller: ControllerChoice,
    /// Weights of throughput, response time and fairness.
    pub preference: Preference,
    /// The candidate settings, whose schedulers are tried.
    pub candidates: Vec<Setting>,
    /// Seed of the loads and of the searches.
    pub seed: u64,
}

impl Course {
    /// Maximum seconds of search under one load.
    pub fn longest_s(&self) -> u64 {
        let value = |names: &[&str]| {
            let place = self.controller.spec.tunables.iter().position(|tunable| names.contains(&tunable.name));
            place.and_then(|place| self.controller.values.get(place).copied())
        };
        match (value(&["trials"]), value(&["child_ms", "evaluation_ms"])) {
            (Some(trials), Some(child_ms)) if trials > 0 => (trials * child_ms + VERIFIES_MS).unsigned_abs() / 1000,
            _ => ENDLESS_S,
        }
    }
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The load.
    pub load: String,
    /// The best setting.
    pub setting: String,
    /// The comparison with the original setting; `None` if that is best, or nothing was verified.
    pub verdict: Option<Arc<Verdict>>,
    /// The reason as a sentence.
    pub why: String,
}

/// A running load and its search.
struct Exercise {
    load: Load,
    control_loop: ControlLoop,
    began: Nanos,
}

/// A learning session; see the module documentation.
pub struct Lesson {
    course: Course,
    loads: Box<dyn Iterator<Item = Load> + Send>,
    generator: Box<dyn Generator>,
    memory: Memory,
    experience: Arc<Experience>,
    foreign_io: ForeignIo,
    exercise: Option<Exercise>,
    began: Moment,
    count: u64,
    learned: u64,
}

impl Lesson {
    /// A session that has not started a load yet. Searches start from the gene pools in `experience`.
    pub fn new(now: Moment, course: Course, generator: Box<dyn Generator>, memory: Memory, experience: Arc<Experience>) -> Lesson {
        Lesson {
            loads: Box::new(loads(course.seed)),
            course,
            generator,
            memory,
            experience,
            foreign_io: ForeignIo::default(),
            exercise: None,
            began: now,
            count: 0,
            learned: 0,
        }
    }

    /// When the session began.
    pub fn began(&self) -> Nanos {
        self.began.at
    }

    /// Number of loads with a result.
    pub fn learned(&self) -> u64 {
        self.learned
    }

    /// The running load as text; `None` between loads.
    pub fn load(&self) -> Option<String> {
        self.exercise.as_ref().map(|exercise| exercise.load.to_string())
    }

    /// The control loop of the running load; `None` between loads.
    pub fn steering(&mut self) -> Option<&mut ControlLoop> {
        self.exercise.as_mut().map(|exercise| &mut exercise.control_loop)
    }

    /// End of the current window; `None` between loads.
    pub fn next(&self) -> Option<Nanos> {
        self.exercise.as_ref().and_then(|exercise| exercise.control_loop.next_deadline())
    }

    /// Processes an event. Returns the foreign I/O that it reveals; `None` if it does not.
    pub fn event<'a>(&mut self, event: &Event, name: impl Fn(StreamId) -> Option<&'a str>) -> Option<ForeignProcess> {
        let generator = &mut self.generator;
        let work = self.foreign_io.look(event, name, |stream| generator.asks_as(stream));
        if let Some(exercise) = &mut self.exercise {
            exercise.control_loop.event(event);
        }
        work
    }

    /// Ends a load whose search has finished or timed out, and starts the next one. Returns the result of an ended load; `None` if there is
    /// none.
    ///
    /// # Errors
    /// fio fails, or the result cannot be stored.
    pub fn step(&mut self, now: Nanos, plant: &mut dyn Target, found: &Setting) -> Result<Option<Learned>, String> {
        let is_there = self.generator.is_there()?;
        self.generator.forget_cached();
        let Some(exercise) = &self.exercise else {
            if !is_there {
                self.begin(now, plant)?;
            }
            return Ok(None);
        };
        let is_over = (now - exercise.began).as_secs_f64() > self.course.longest_s() as f64;
        if exercise.control_loop.controller().is_searching() && !is_over {
            return Ok(None);
        }
        let learned = self.finish(plant)?;
        plant.apply(now, found).map_err(|error| error.to_string())?;
        Ok(learned)
    }

    fn begin(&mut self, now: Nanos, plant: &mut dyn Target) -> Result<(), String> {
        let Some(load) = self.loads.next() else { return Ok(()) };
        self.count += 1;
        self.generator.start(&load)?;
        let input = ControllerInput {
            preference: self.course.preference,
            candidates: self.course.candidates.clone(),
            seed: self.course.seed.wrapping_add(self.count),
            experience: self.experience.clone(),
            ..ControllerInput::default()
        };
        let mut control_loop = ControlLoop::new(self.course.controller.build(&input));
        control_loop.begin(now, plant);
        self.exercise = Some(Exercise { load, control_loop, began: now });
        Ok(())
    }

    /// Stops the load and stores the result so far; `None` if there is no load, or its search has no result yet.
    ///
    /// # Errors
    /// The result cannot be stored.
    pub fn finish(&mut self, plant: &dyn Target) -> Result<Option<Learned>, String> {
        self.generator.stop();
        let Some(Exercise { load, control_loop, began }) = self.exercise.take() else { return Ok(None) };
        let identity = plant.identity();
        let pools = control_loop.controller().gene_pools(&identity.device);
        if pools.is_empty() {
            return Ok(None);
        }
        self.memory.keep(&LoadRecord {
            identity,
            source: load.to_string(),
            controller: self.course.controller.label(),
            began_s: self.began.unix_seconds + (began - self.began.at).0 / 1_000_000_000,
            windows: control_loop.windows(),
            decided: control_loop.decisions(),
            pools: &pools,
        })?;
        self.learned += 1;
        let is_verified = !control_loop.controller().is_searching();
        let last = control_loop.decisions().last().filter(|_| is_verified);
        let best = pools.last().and_then(|pool| pool.members.first()).map(|member| member.setting.clone()).unwrap_or_default();
        Ok(Some(Learned {
            load: load.to_string(),
            setting: last.map_or(best, |last| last.to.to_string()),
            verdict: last.and_then(|last| last.verdict.clone()).filter(|verdict| verdict.is_outcome()),
            why: last.map_or_else(|| "the trials are stored; none was verified".to_owned(), |last| last.why.clone()),
        }))
    }

    /// Abandons the running load because events were lost; the next `step` starts another one.
    pub fn give_up_load(&mut self) {
        self.generator.stop();
        self.exercise = None;
    }
}
