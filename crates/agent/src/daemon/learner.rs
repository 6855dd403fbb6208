//! Schedules learning mode: within the configured hours, while the device is idle.

use std::sync::Arc;

use block::Nanos;
use control::experience::Experience;

use super::{DeviceSession, Notice, Ownership};
use crate::configuration::{Learning, WallTime};
use crate::learning::{Course, Equipment, Lesson, Memory};
use linux::clock::Moment;

/// Interval of checks whether a lesson may begin. Choice: a shorter one costs CPU time, a longer one delays lessons; not varied.
const LOOKS: Nanos = Nanos(1_000_000_000);
/// Minimum idle time; a shorter one in the configuration has no effect. Choice: a shorter one starts a lesson in a pause of a load;
/// not varied.
const LEAST_IDLE: Nanos = Nanos(3_000_000_000);
/// Retry interval after an obstacle. Choice: a shorter one repeats the error in the log; not varied.
const AGAIN: Nanos = Nanos(60_000_000_000);

/// Starts and ends lessons.
pub struct Learner {
    plan: Learning,
    /// Started by hand: hours and idle minutes do not apply.
    by_hand: bool,
    equipment: Box<dyn Equipment>,
    memory: Memory,
    /// Device of the scratch file; `None` until known.
    device: Option<String>,
    looks: Nanos,
    /// Why no lesson runs; `None` while one does.
    waits: Option<String>,
    /// Earliest time of the next lesson.
    again: Nanos,
}

impl Learner {
    /// Follows `plan`; with `by_hand`, ignores hours and idle time.
    pub fn new(plan: Learning, by_hand: bool, equipment: Box<dyn Equipment>, memory: Memory) -> Learner {
        let waits = Some("the daemon has just begun".to_owned());
        Learner { plan, by_hand, equipment, memory, device: None, looks: Nanos::ZERO, waits, again: Nanos::ZERO }
    }

    /// Starts a lesson if one is due, and ends the running one outside its hours. Returns notices with the names of their devices. `errors` returns
    /// the error count of a device's driver.
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

    /// Checks that learning is allowed at this time; the error is the reason why not.
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
            // A new seed per lesson, for different loads.
            seed: now.unix_seconds,
        };
        // A minute longer than the search, because a load is stopped and must not end by itself.
        let seconds = course.longest_s() + 60;
        let generator = self.equipment.generator(&name, seconds).map_err(|why| self.fail(now, why))?;
        // The device's own controller restarts afterwards.
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

    /// State of learning mode as a sentence.
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
