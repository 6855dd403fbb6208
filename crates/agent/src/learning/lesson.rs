//! A time of learning on one device: load after load, under each of which a search tries settings.
//!
//! ```text
//! draw a load ─▶ fio ─▶ a controller of its own steers: watches, tries, verifies ─▶ done, or too long ─▶ knowledge base
//!     ▲                                                                                                      │
//!     └────────────────── as it was found, fio gone ◀────────────────────────────────────────────────────────┘
//! ```
//! It knows no clock and no device: whoever has both tells it.

use std::sync::Arc;

use block::{Nanos, StreamId};
use control::controller::{ControllerChoice, ControllerInput};
use control::experience::Experience;
use control::{ControlLoop, Setting, Target};
use observe::{Event, Preference};

use super::foreign_io::{ForeignIo, Work};
use super::load::{Generator, Load, loads};
use super::memory::{Lived, Memory};
use linux::clock::Moment;

/// A search that verifies takes up to ten pairs of turns more than its trials (`control::search::Tuner`), in milliseconds.
const VERIFIES_MS: i64 = 200_000;
/// Seconds after which a search without an end of its own is ended.
const ENDLESS_S: u64 = 900;

/// How it is learned.
#[derive(Clone, Debug)]
pub struct Course {
    /// The controller that searches.
    pub controller: ControllerChoice,
    /// What is wanted more.
    pub preference: Preference,
    /// Whose schedulers are chosen among.
    pub candidates: Vec<Setting>,
    /// What the loads and the searches are drawn from.
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
    /// What serves it best.
    pub setting: String,
    /// By how much it is better than what was found, as a difference of scores; `None` if what was found stays, or nothing was verified.
    pub gain: Option<f64>,
    /// In words.
    pub why: String,
}

/// A load, and the search under it.
struct Exercise {
    load: Load,
    steering: ControlLoop,
    began: Nanos,
}

/// See the head of the file.
pub struct Lesson {
    course: Course,
    loads: Box<dyn Iterator<Item = Load> + Send>,
    generator: Box<dyn Generator>,
    memory: Memory,
    experience: Arc<Experience>,
    strangers: ForeignIo,
    exercise: Option<Exercise>,
    began: Moment,
    count: u64,
    learned: u64,
}

impl Lesson {
    /// With nothing started yet. The experience is what searches begin with.
    pub fn new(now: Moment, course: Course, generator: Box<dyn Generator>, memory: Memory, experience: Arc<Experience>) -> Lesson {
        Lesson {
            loads: Box::new(loads(course.seed)),
            course,
            generator,
            memory,
            experience,
            strangers: ForeignIo::default(),
            exercise: None,
            began: now,
            count: 0,
            learned: 0,
        }
    }

    /// When it began.
    pub fn began(&self) -> Nanos {
        self.began.at
    }

    /// How many loads something was learned of.
    pub fn learned(&self) -> u64 {
        self.learned
    }

    /// The load that runs.
    pub fn load(&self) -> Option<String> {
        self.exercise.as_ref().map(|exercise| exercise.load.to_string())
    }

    /// What steers under the load that runs.
    pub fn steering(&mut self) -> Option<&mut ControlLoop> {
        self.exercise.as_mut().map(|exercise| &mut exercise.steering)
    }

    /// When the window ends that runs.
    pub fn next(&self) -> Option<Nanos> {
        self.exercise.as_ref().and_then(|exercise| exercise.steering.next_deadline())
    }

    /// Takes in what happened. Returns what real work came, if it did.
    pub fn event<'a>(&mut self, event: &Event, name: impl Fn(StreamId) -> Option<&'a str>) -> Option<Work> {
        let generator = &mut self.generator;
        let work = self.strangers.look(event, name, |stream| generator.asks_as(stream));
        if let Some(exercise) = &mut self.exercise {
            exercise.steering.event(event);
        }
        work
    }

    /// Ends what is over, and begins what comes next. Returns what was learned, if something was.
    ///
    /// # Errors
    /// fio fails, or what was learned cannot be kept.
    pub fn step(&mut self, now: Nanos, plant: &mut dyn Target, found: &Setting) -> Result<Option<Learned>, String> {
        let is_there = self.generator.is_there()?;
        let Some(exercise) = &self.exercise else {
            if !is_there {
                self.begin(now, plant)?;
            }
            return Ok(None);
        };
        let is_over = (now - exercise.began).as_secs_f64() > self.course.longest_s() as f64;
        if exercise.steering.controller().is_searching() && !is_over {
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
        let brief = ControllerInput {
            preference: self.course.preference,
            candidates: self.course.candidates.clone(),
            seed: self.course.seed.wrapping_add(self.count),
            experience: self.experience.clone(),
        };
        let mut steering = ControlLoop::new(self.course.controller.build(&brief));
        steering.begin(now, plant);
        self.exercise = Some(Exercise { load, steering, began: now });
        Ok(())
    }

    /// Stops the load, and keeps what was learned so far: of one that was not searched for long, there may be nothing.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn finish(&mut self, plant: &dyn Target) -> Result<Option<Learned>, String> {
        self.generator.stop();
        let Some(Exercise { load, steering, began }) = self.exercise.take() else { return Ok(None) };
        let identity = plant.identity();
        let pools = steering.controller().gene_pools(&identity.device);
        if pools.is_empty() {
            return Ok(None);
        }
        self.memory.keep(&Lived {
            identity,
            source: load.to_string(),
            controller: self.course.controller.label(),
            began_s: self.began.unix_seconds + (began - self.began.at).0 / 1_000_000_000,
            windows: steering.windows(),
            decided: steering.decisions(),
            pools: &pools,
        })?;
        self.learned += 1;
        let is_verified = !steering.controller().is_searching();
        let last = steering.decisions().last().filter(|_| is_verified);
        let best = pools.last().and_then(|pool| pool.members.first()).map(|member| member.setting.clone()).unwrap_or_default();
        Ok(Some(Learned {
            load: load.to_string(),
            setting: last.map_or(best, |last| last.to.to_string()),
            gain: last.and_then(|last| last.expected_gain),
            why: last.map_or_else(|| "what was tried is kept, and none of it verified".to_owned(), |last| last.why.clone()),
        }))
    }

    /// The load that runs tells nothing more, because events were lost: another one comes.
    pub fn give_up_load(&mut self) {
        self.generator.stop();
        self.exercise = None;
    }
}
