//! When it is learned on which device: by the configuration's hours, and while the device is idle.

use std::sync::Arc;

use block::Nanos;
use control::experience::Experience;

use super::{DeviceSession, Notice, Ownership};
use crate::configuration::{Learning, WallTime};
use crate::learning::{Course, Equipment, Lesson, Memory};
use linux::clock::Moment;

/// How often it is looked whether it may begin.
const LOOKS: Nanos = Nanos(1_000_000_000);
/// Minimum idle time, whatever the configuration says.
const LEAST_IDLE: Nanos = Nanos(3_000_000_000);
/// After something was in the way it is tried again then.
const AGAIN: Nanos = Nanos(60_000_000_000);

/// Decides when it is learned.
pub struct Learner {
    plan: Learning,
    /// Started by hand: hours and idle minutes do not apply.
    by_hand: bool,
    equipment: Box<dyn Equipment>,
    memory: Memory,
    /// The scratch file's device, once it is known.
    device: Option<String>,
    looks: Nanos,
    /// Why nothing is learned; `None` while it is.
    waits: Option<String>,
    /// Not before this time.
    again: Nanos,
}

impl Learner {
    /// By this plan; or now, if it is asked for by hand.
    pub fn new(plan: Learning, by_hand: bool, equipment: Box<dyn Equipment>, memory: Memory) -> Learner {
        let waits = Some("the daemon has just begun".to_owned());
        Learner { plan, by_hand, equipment, memory, device: None, looks: Nanos::ZERO, waits, again: Nanos::ZERO }
    }

    /// Begins a lesson where it is time for one, and ends the one that goes on where its time is over. Returns devices' names and their notices;
    /// `errors` are those that a device's driver has counted.
    pub fn step(
        &mut self,
        now: Moment,
        devices: &mut [&mut DeviceSession],
        experience: &Arc<Experience>,
        errors: impl Fn(&str) -> Option<u64>,
    ) -> Vec<(String, Notice)> {
        if let Some(watched) = devices.iter_mut().find(|watched| watched.lesson().is_some()) {
            let Err(why) = self.is_time(now) else { return Vec::new() };
            let name = watched.name().to_owned();
            return watched.end_lesson(now.at, &why).into_iter().map(|notices| (name.clone(), notices)).collect();
        }
        if devices.iter_mut().any(|watched| watched.lesson_failed()) {
            self.fail(now, "it failed lately, as the history says".to_owned());
        }
        if now.at < self.looks {
            return Vec::new();
        }
        self.looks = now.at + LOOKS;
        match self.begin(now, devices, experience, errors) {
            Ok((name, notices)) => {
                self.waits = None;
                vec![(name, notices)]
            }
            Err(why) => {
                self.waits = Some(why);
                Vec::new()
            }
        }
    }

    /// Whether it may be learned at this time of the day.
    fn is_time(&self, now: Moment) -> Result<(), String> {
        let time = WallTime::at(now.unix_seconds);
        if self.by_hand || self.plan.hours.is_empty() || self.plan.hours.iter().any(|hours| hours.contain(time)) {
            return Ok(());
        }
        let hours = self.plan.hours.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(format!("its hours are {hours}, and it is {time}"))
    }

    fn fail(&mut self, now: Moment, why: String) -> String {
        self.again = now.at + AGAIN;
        self.device = None;
        self.waits = Some(why.clone());
        why
    }

    fn begin(
        &mut self,
        now: Moment,
        devices: &mut [&mut DeviceSession],
        experience: &Arc<Experience>,
        errors: impl Fn(&str) -> Option<u64>,
    ) -> Result<(String, Notice), String> {
        self.is_time(now)?;
        if now.at < self.again {
            return Err(self.waits.clone().unwrap_or_default());
        }
        let name = match &self.device {
            Some(name) => name.clone(),
            None => self.equipment.device().map_err(|why| self.fail(now, why))?,
        };
        self.device = Some(name.clone());
        let Some(watched) = devices.iter_mut().find(|watched| watched.name() == name) else {
            return Err(self.fail(now, format!("the scratch file is on {name}, which is not watched")));
        };
        match watched.ownership() {
            Ownership::Agent => {}
            Ownership::ReadOnly => {
                return Err(format!("{name} is only watched; to try settings on it, the configuration says mode = \"act\""));
            }
            Ownership::StoodDown(_) => return Err(format!("the agent has stood down on {name}")),
        }
        self.is_idle(now, watched)?;
        let course = Course {
            controller: self.plan.controller.clone(),
            preference: watched.settings().preference,
            candidates: watched.settings().candidates.clone(),
            // Each lesson draws other loads.
            seed: now.unix_seconds,
        };
        // A minute more than the search: a load is ended, and does not end by itself.
        let seconds = course.longest_s() + 60;
        let generator = self.equipment.generator(&name, seconds).map_err(|why| self.fail(now, why))?;
        // Its own controller starts again afterwards.
        if let Err(why) = self.memory.keep_pools(&watched.gene_pools()) {
            return Err(self.fail(now, why));
        }
        let lesson = Lesson::new(now, course, generator, self.memory.clone(), experience.clone());
        let begun = watched.begin_lesson(now.at, lesson, errors(&name)).map_err(|why| self.fail(now, why))?;
        Ok((name, begun))
    }

    fn is_idle(&self, now: Moment, watched: &DeviceSession) -> Result<(), String> {
        let minutes = if self.by_hand { 0 } else { self.plan.idle_minutes };
        let needed = LEAST_IDLE.max(Nanos(u64::from(minutes) * 60_000_000_000));
        let (idle, work) = watched.idle(now.at);
        if idle >= needed {
            return Ok(());
        }
        let (idle_s, needed) = (idle.as_secs_f64(), if minutes > 0 { format!("{minutes} min") } else { "3 s".to_owned() });
        let last = work.map_or_else(String::new, |work| format!(", the last was {work}"));
        Err(format!("{} is idle for {idle_s:.0} s, and has to be for {needed}{last}", watched.name()))
    }

    /// What it does, or why it does nothing.
    pub fn says<'a>(&self, now: Moment, mut devices: impl Iterator<Item = &'a DeviceSession>) -> String {
        let lesson = devices.find_map(|watched| Some((watched, watched.lesson()?)));
        match lesson {
            Some((watched, lesson)) => {
                let since_s = (now.at - lesson.began()).as_secs_f64();
                let load = lesson.load().map_or_else(|| "between two loads".to_owned(), |load| format!("under {load}"));
                let (name, learned) = (watched.name(), lesson.learned());
                format!("It learns on {name} since {since_s:.0} s; now {load}; learned of {learned} before.")
            }
            None => format!("It does not learn: {}.", self.waits.as_deref().unwrap_or("a lesson has just ended")),
        }
    }
}
