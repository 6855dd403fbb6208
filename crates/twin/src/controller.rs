//! The controller `seekwise`: asks the twin, acts if that is sure to pay, verifies on the plant, and goes back where a promise is broken.
//!
//! ```text
//! window of 1 s ─▶ another load? ──yes─▶ recall what served one like it
//!                    │ no
//!                    ▼
//!      2, 4, 8 … windows of a load: ask the twin ─▶ sure to gain? ──no─▶ leave it alone; sooner again if a gain is expected
//!                    ▲                                      │ yes
//!                    └── back, or stay ◀── as promised? ◀───┘
//! ```
//! * *All there.* Processes of a load often begin one after another. What was measured before the last of them began is of another load.
//! * *Sure.* A gain must exceed its error bar, which is the wider the more the twin is off under the setting in force, or under others that
//!   were measured, and the more promises on this device were broken before.
//! * *Verified.* After a change what is measured is compared with what was before. Worse, or so much less than was promised that promise
//!   and measurement together expect a loss: back, and not again for as long as the load had lasted. Better, but less than was promised:
//!   the twin is asked again. What every setting gave under the load is kept, and the best of them returned to.
//! * *Learning.* What the load asks is taken from all of it, whatever was in force meanwhile. The device is fitted anew where twice as
//!   much was seen of it, or where the twin was off; to requests from under every setting, for each shows another side of the device.
//! * *Remembering.* The first window of a load is looked for among those that are known of the device. What gained there in the mean,
//!   by more than chance, is set; what did worse is not tried. Where nothing is like it, a run is the same as without a memory.
//! * *Files to come.* A read-ahead has to be in force before the files are opened that gain by it, so loads that would are supposed.
//! * *Guarded.* A stream that waits beyond the bound of [merit](observe::merit) without getting anything ends a setting at once.
//! * *Within its means.* Trials cost processor time: they are as long as the budget allows, one percent of a core by default.

mod known;
mod promises;
mod read_ahead;
mod rehearsal;
mod sample;
mod streams;
mod to_come;
mod tuners;

use std::collections::VecDeque;
use std::sync::Arc;

use block::{KnowledgeStore, Nanos, Tunable, Unit};
use control::controller::{ALL, ControllerChoice, ControllerChoiceError, ControllerInput, ControllerSpec, Evidence, Prediction};
use control::experience::{Experience, MIN_REQUESTS, WINDOW};
use control::{Controller, Decision, Setting, Target, Window, WindowLength};
use device_model::sched;
use observe::description::describe;
use observe::load_tracker::LoadTracker;
use observe::merit::{Scored, TOLERANCE};
use observe::performance::Performance;
use observe::similarity::{ANOTHER, Columns, Point, load_distance};
use observe::window::depth;
use observe::{Event, Preference, WindowOutcome};
use sim::profile::DeviceProfile;

use self::known::Known;
use self::promises::Promises;
use self::read_ahead::FilesToCome;
use self::streams::Streams;
use crate::ask::{Answer, Comes, ForecastError, Question, differ_by_read_ahead, off_by, rank};
use crate::device::{self, Finding};
use crate::recording::Recording;
use crate::trial::Slots;

/// Every controller: those that need no simulator, those that search and can do so in the twin, and this one.
pub fn all() -> impl Iterator<Item = &'static ControllerSpec> + Clone {
    ALL.iter().copied().chain([&tuners::GENETIC, &tuners::IOPERF, &tuners::RANDOM, &tuners::BAYES, &SPEC])
}

/// Parses a controller with its tunables.
///
/// # Errors
/// There is no such controller, or a tunable is wrong.
pub fn parse(text: &str) -> Result<ControllerChoice, ControllerChoiceError> {
    ControllerChoice::parse_among(all(), text)
}

/// What a person types.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "seekwise",
    summary: "replays what it saw against every candidate in the simulator, sets what is sure to gain, and verifies",
    source: "ours; its parts are named in the head of its file",
    tunables: TUNABLES,
    build: |brief, values| {
        let means = Means::of(values);
        Box::new(Seekwise::new(brief, means.budget_permille).saving(means.saved_s).keeping(means.memory_mib))
    },
};

static TUNABLES: &[Tunable] = Means::TUNABLES;

block::tunables! {
    /// What it may use.
    struct Means {
        /// Processor time for observing and for trials, in thousandths of one core. A small budget makes trials short and predictions unsure.
        budget_permille: i64 = Tunable::new(Unit::Count, 1..=1000, 10),
        /// Seconds for which processor time that is not spent is kept, and of which all is there at first: a small budget and many seconds
        /// allow thorough first decisions and cost little later.
        saved_s: i64 = Tunable::new(Unit::Count, 1..=86_400, KEPT_S).logarithmic(),
        /// Memory for observed requests. A small one keeps only the latest.
        memory_mib: u64 = Tunable::new(Unit::Mebibytes, 1..=4096, 64),
    }
}

/// What a request costs that is watched (perf of `seekwise-agent watch`: 0.5% of a core at 10,000 a second), and a simulated one
/// (`cargo bench -p seekwise-twin`), in nanoseconds. A load is inferred from no more requests than a trial repeats, at a twentieth of that.
const WATCHED_NS: f64 = 500.0;
const TRIED_NS: f64 = 2_000.0;
/// What is not spent is kept for so many seconds if nothing else is said. It is all there at first, for the first decisions bring the most.
const KEPT_S: i64 = 30;
/// Where watching costs more than the budget, this part of it is for trials all the same.
const FOR_TRIALS: f64 = 0.1;
/// A device is fitted to at most so many requests, taken from the times between so many changes of the setting or of the load.
const MOST_FITTED: usize = 4_000;
const MOST_PARTS: usize = 4;
/// It is fitted anew, and the twin asked again, where so many times as much was seen; or so much more, where the twin was off, or not sure of
/// what it expects to gain.
const MORE: f64 = 2.0;
const SOME_MORE: f64 = 1.25;
/// A difference of this many standard errors is significant (95%).
const SURE: f64 = 2.0;
/// Not before the load ends.
const NEVER: Nanos = Nanos(u64::MAX);
/// What loads drift by between two measurements, as a standard deviation of their scores.
const DRIFT: f64 = 0.01;
/// Seconds after which a change can be judged, and has to be.
const JUDGED_S: (f64, f64) = (2.0, 8.0);
/// Where a process began within this time, another one is expected to.
const BEGINS: Nanos = WINDOW;
/// A load is expected to go on as long as it has lasted (Lindy's law), and at least so many seconds.
const GOES_ON_S: f64 = 8.0;
/// Slots left out at once to see how sure a score is: a second, and more where there would be more such parts than are needed.
const BLOCK: usize = 2;
const MOST_BLOCKS: usize = 30;
/// Loads that are remembered.
const PAST: usize = 64;

/// A candidate, and what is known of it under the load.
#[derive(Clone, Debug)]
struct Arm {
    setting: Setting,
    /// Before that it is not tried again.
    again: Nanos,
    /// How it served the load when it was last in force.
    measured: Option<Measured>,
}

impl Arm {
    fn new(setting: Setting) -> Arm {
        Arm { setting, again: Nanos::ZERO, measured: None }
    }
}

/// A score that was measured.
#[derive(Clone, Copy, Debug)]
struct Measured {
    scored: Scored,
    variance: f64,
}

impl Measured {
    /// The difference of two scores, and its standard error. Loads drift meanwhile.
    fn over(&self, other: &Measured, preference: &Preference) -> (f64, f64) {
        (self.scored.over(&other.scored, preference), (self.variance + other.variance + DRIFT * DRIFT).sqrt())
    }
}

/// A change whose result is awaited.
#[derive(Clone, Debug)]
struct Pending {
    from: usize,
    promise: Prediction,
}

/// The device, as far as it was fitted.
struct Device {
    profile: Arc<dyn DeviceProfile>,
    findings: Vec<Finding>,
    accesses: usize,
    /// Requests that had been seen by then, and those of them of the load that there is now.
    seen: usize,
    of_load: usize,
    /// What the schedulers that learn know of this model.
    knowledge: KnowledgeStore,
}

/// The controller.
pub struct Seekwise {
    preference: Preference,
    arms: Vec<Arm>,
    budget: f64,
    /// For how long what is not spent of it is kept, in seconds.
    saved_s: f64,
    columns: Columns,
    recording: Recording,
    slots: ScoreBuckets,
    device: Option<Device>,
    /// When the twin did not reproduce what was measured, and nothing was fitted since.
    off: Option<Nanos>,
    /// When another setting was put in force, or another load began.
    changes: VecDeque<Nanos>,
    /// What was in force at first: starvation is judged by it.
    default: usize,
    in_force: usize,
    /// What was in force before that.
    before: usize,
    load: LoadTracker,
    /// When the last of the processes began that it is made of.
    all_there: Nanos,
    /// Loads that ended: where they lay, and what served them in the end.
    past: Vec<(Point, usize)>,
    experience: Arc<Experience>,
    known: Vec<Known>,
    /// From when on what is in force serves the load.
    evidence: Nanos,
    pending: Option<Pending>,
    /// How far files were read ahead, and are if they are opened from now on, in KiB; while most are from before.
    awaits_files: Option<(u32, u32)>,
    /// The read-ahead that was found, in KiB.
    found_read_ahead_kib: Option<u32>,
    files_to_come: FilesToCome,
    /// What was promised of this load when the twin last knew it, and what was in force.
    promised: Option<(usize, Vec<Prediction>)>,
    /// When the twin is asked next.
    asks: Nanos,
    /// Processor time that is left, in nanoseconds.
    credit_ns: f64,
    promises: Promises,
    streams: Streams,
    is_settling: bool,
    /// The queue's tags under the arm that it was last asked for them.
    tags: Option<(usize, u32)>,
    /// The load is one that is remembered, and so is what serves it.
    is_known: bool,
    /// No window was looked at yet.
    is_new: bool,
}

impl Seekwise {
    /// Chooses among the candidates of the brief, with so many thousandths of a core.
    pub fn new(brief: &ControllerInput, budget_permille: i64) -> Seekwise {
        let budget = budget_permille as f64 / 1000.0;
        Seekwise {
            preference: brief.preference,
            arms: brief.candidates.iter().cloned().map(Arm::new).collect(),
            budget,
            saved_s: KEPT_S as f64,
            columns: Columns::described(),
            recording: Recording::new(),
            slots: Slots::latest(),
            device: None,
            off: None,
            changes: VecDeque::new(),
            default: 0,
            in_force: 0,
            before: 0,
            load: LoadTracker::new(Nanos::ZERO),
            all_there: Nanos::ZERO,
            past: Vec::new(),
            experience: brief.experience.clone(),
            known: Vec::new(),
            evidence: Nanos::ZERO,
            pending: None,
            awaits_files: None,
            found_read_ahead_kib: None,
            files_to_come: FilesToCome::default(),
            promised: None,
            asks: Nanos::ZERO,
            credit_ns: budget * KEPT_S as f64 * 1e9,
            promises: Promises::default(),
            streams: Streams::default(),
            is_settling: false,
            tags: None,
            is_known: false,
            is_new: true,
        }
    }

    /// The same, where processor time is kept for so many seconds.
    fn saving(self, saved_s: i64) -> Seekwise {
        let saved_s = saved_s as f64;
        Seekwise { saved_s, credit_ns: self.budget * saved_s * 1e9, ..self }
    }

    /// The same, with so much memory for what it saw.
    fn keeping(self, memory_mib: u64) -> Seekwise {
        Seekwise { recording: Recording::within(memory_mib as usize * (1 << 20)), ..self }
    }

    fn setting(&self) -> &Setting {
        &self.arms[self.in_force].setting
    }

    fn arm_of(&self, setting: &Setting) -> Option<usize> {
        self.arms.iter().position(|arm| arm.setting == *setting)
    }

    /// From when on what was seen tells of the load. Its beginning tells little: files are opened, queues and caches are empty, the first
    /// window may be of the load before, too, and processes begin one after another.
    fn tells_from(&self) -> Nanos {
        self.all_there.max(self.load.from + WINDOW)
    }

    /// What was measured before the last process of the load began is of another load.
    fn awaits_all(&mut self, now: Nanos) {
        let longest = Nanos::from_secs_f64(GOES_ON_S);
        if now > self.load.from + longest + BEGINS {
            return;
        }
        self.all_there = self.streams.all_there(self.load.from, now, BEGINS, longest);
        let tells_from = self.tells_from();
        if self.evidence < tells_from {
            self.evidence = tells_from;
            self.changed(tells_from);
            (self.pending, self.off) = (None, None);
            self.arms.iter_mut().for_each(|arm| arm.measured = None);
        }
    }

    fn put(&mut self, now: Nanos, arm: usize, why: String) -> Decision {
        self.awaits_files = match self.reads_ahead_kib(self.in_force).zip(self.reads_ahead_kib(arm)) {
            Some((was, is)) if was != is => Some((was, is)),
            _ => self.awaits_files,
        };
        self.files_to_come.put(self.reads_ahead_kib(arm));
        (self.before, self.in_force) = (self.in_force, arm);
        let setting = self.setting().clone();
        // Another read-ahead changes nothing until files are opened: what was measured before is of the same load, served alike.
        if !differ_by_read_ahead(&setting, &self.arms[self.before].setting) {
            self.is_settling = true;
            self.serves_anew(now);
        }
        Decision::set(setting, why)
    }

    /// From now on the load is served in another way.
    fn serves_anew(&mut self, now: Nanos) {
        self.evidence = now;
        self.changed(now);
        self.load.reset();
    }

    /// From now on requests show another side of the device.
    fn changed(&mut self, at: Nanos) {
        self.changes.push_back(at);
        if self.changes.len() > MOST_PARTS {
            self.changes.pop_front();
        }
    }

    /// How the load was served by what is in force, so far.
    fn measure(&self, now: Nanos, tags: u32) -> Option<Measured> {
        let slots: Vec<&WindowOutcome> = self.slots.between(self.evidence.as_secs_f64(), now.as_secs_f64()).collect();
        let score =
            |slots: &mut dyn Iterator<Item = &WindowOutcome>| Performance::of(slots).map(|served| served.score(&self.preference));
        let whole = score(&mut slots.iter().copied())?;
        let block = BLOCK.max(slots.len().div_ceil(MOST_BLOCKS));
        let without = |left_out: usize| {
            let others = slots.iter().enumerate().filter(|(number, _)| number / block != left_out);
            score(&mut others.map(|(_, slot)| *slot))
        };
        // The jackknife.
        let scores: Vec<f64> = (0..slots.len().div_ceil(block)).filter_map(without).filter(|score| score.is_finite()).collect();
        let count = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        // Of one second that does not show: response times vary by as much as they are long.
        let requests: u64 = slots.iter().map(|slot| slot.requests).sum();
        let variance = if scores.len() < 2 { 1.0 / requests.max(1) as f64 } else { (count - 1.0) / count * squares };
        let scored = Scored::of(whole, depth(slots.iter().copied()), tags);
        whole.is_finite().then_some(Measured { scored, variance })
    }

    /// Goes by what was measured: to what served the load better, or on with what is in force; `None` where the twin may be asked.
    fn compare(&mut self, now: Nanos, tags: u32) -> Option<Decision> {
        if let Some(awaited) = self.awaits_files
            && self.files_are_opened_anew(now, awaited)
        {
            self.awaits_files = None;
            self.serves_anew(now);
            self.streams.are_served_anew();
            return Some(Decision::keep(format!("files are read ahead by {} KiB from now on", awaited.1)));
        }
        let seconds = (now - self.evidence).as_secs_f64();
        let pending = self.pending.clone().filter(|pending| self.compares_with(&self.arms[pending.from]));
        let measured = self.measure(now, tags);
        let known = measured.or(self.arms[self.in_force].measured);
        for arm in 0..self.arms.len() {
            // Those that nothing measured tells apart from what is in force would have served alike.
            if arm == self.in_force || !self.compares_with(&self.arms[arm]) {
                self.arms[arm].measured = known;
            }
        }
        let Some(measured) = measured.filter(|_| seconds >= JUDGED_S.0) else {
            return pending.map(|_| Decision::keep(format!("waiting for what comes of {}", self.setting())));
        };
        let can_be = |arm: usize, other: &Arm| arm != self.in_force && other.again != NEVER && self.compares_with(other);
        let others = self.arms.iter().enumerate().filter(|(arm, other)| can_be(*arm, other));
        let gains = others.filter_map(|(arm, other)| {
            let (gain, error) = other.measured?.over(&measured, &self.preference);
            let is_sure = gain > TOLERANCE.max(SURE * error);
            let is_missed = pending
                .as_ref()
                .filter(|pending| pending.from == arm)
                .is_some_and(|pending| seconds >= JUDGED_S.1 && gain > 0.0 || pending.promise.with(-gain, error) < 0.0);
            (is_sure || is_missed).then_some((arm, gain))
        });
        if let Some((arm, gain)) = gains.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let promised = pending.map_or(String::new(), |pending| {
                let came = self.arms[pending.from].measured.map_or(0.0, |from| measured.over(&from, &self.preference).0);
                self.promises.note(&pending.promise, came);
                format!(", {} was promised", percent(pending.promise.gain))
            });
            let (was, is) = (self.setting().to_string(), self.arms[arm].setting.to_string());
            self.arms[self.in_force].again = now + (now - self.load.from);
            self.pending = None;
            self.asks = now + WINDOW;
            return Some(self.put(now, arm, format!("{was} is {} than {is} was{promised}: back to {is}", percent(-gain))));
        }
        let pending = pending?;
        let (gain, error) = measured.over(&self.arms[pending.from].measured?, &self.preference);
        let came = format!(
            "{} than {}, give or take {:.0}%; {} was promised",
            percent(gain),
            self.arms[pending.from].setting,
            100.0 * error,
            percent(pending.promise.gain)
        );
        // What is far less than was promised is not what the twin had in mind: it is asked again.
        let is_less = gain > 0.0 && gain + error < pending.promise.sure_gain();
        if gain > SURE * error || is_less || seconds >= JUDGED_S.1 {
            self.promises.note(&pending.promise, gain);
            self.pending = None;
            self.asks = if is_less { now } else { self.asks };
            return (!is_less).then(|| Decision::keep(format!("{} stays: {came}", self.setting())));
        }
        Some(Decision::keep(format!("{} is {came}: not sure yet", self.setting())))
    }

    /// The promise that is awaited did harm.
    fn note_broken(&mut self) {
        if let Some(Pending { promise, .. }) = self.pending.take() {
            self.promises.note_broken(&promise);
        }
    }

    /// Another load has begun.
    fn begin_load(&mut self, began: Nanos, now: Nanos) -> Decision {
        let ended = self.load.mean_point();
        self.past.retain(|(past, _)| load_distance(past, &ended) >= ANOTHER);
        self.past.push((ended, self.in_force));
        if self.past.len() > PAST {
            self.past.remove(0);
        }
        self.load.begin_load(began);
        self.changed(began);
        if let Some(device) = &mut self.device {
            device.of_load = 0;
        }
        (self.pending, self.promised, self.off, self.awaits_files) = (None, None, None, None);
        self.promises.begin_load();
        self.arms.iter_mut().for_each(|arm| (arm.again, arm.measured) = (Nanos::ZERO, None));
        (self.evidence, self.asks) = (self.tells_from(), now);
        match self.recall(&self.load.recent_point()).filter(|arm| *arm != self.in_force) {
            Some(arm) => {
                let why = format!("another load, like one that {} served best", self.arms[arm].setting);
                self.put(now, arm, why)
            }
            None => Decision::keep("another load"),
        }
    }

    /// The first window of the first load: is it a known one?
    fn recognise(&mut self, now: Nanos) -> Option<Decision> {
        let arm = self.recall(&self.load.recent_point()).filter(|arm| *arm != self.in_force)?;
        Some(self.put(now, arm, format!("a known load, which {} served best", self.arms[arm].setting)))
    }

    /// What served a load like this one best: one of this run, else those that are known of the device.
    fn recall(&mut self, point: &Point) -> Option<usize> {
        let past = self.past.iter().map(|(past, arm)| (load_distance(past, point), *arm));
        let nearest = past.filter(|(apart, _)| *apart < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0));
        let recalled = nearest.map(|(_, arm)| arm).or_else(|| self.recall_known(point));
        self.is_known = recalled.is_some();
        recalled.map(|arm| self.reading_ahead_as_now(arm))
    }

    /// Of known loads like this one, what served them better than what is in force, by more than chance; what did worse is not tried.
    fn recall_known(&mut self, point: &Point) -> Option<usize> {
        let in_force = self.setting().to_string();
        let gains = known::gains(&self.known, point, &in_force, self.arms.iter().map(|arm| arm.setting.to_string()));
        let better = gains.iter().enumerate().filter_map(|(arm, known)| known.filter(known::is_sure).map(|(gain, _)| (arm, gain)));
        let best = better.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(self.in_force, |(arm, _)| arm);
        let (most, unsure) = gains[best]?;
        for (arm, known) in self.arms.iter_mut().zip(&gains) {
            if known.is_some_and(|(gain, error)| known::is_sure(&(most - gain, error.hypot(unsure)))) {
                arm.again = NEVER;
            }
        }
        Some(best)
    }

    /// Fits the device anew where more was seen of it than before: twice as much, or, where the twin was off, so much that it tells.
    /// At most half of the credit goes into it.
    fn fit(&mut self, capacity_sectors: u64) -> Result<(), String> {
        let seen = self.recording.seen().len();
        let of_load = seen - self.recording.done_before(self.load.from);
        let affordable = sample::affordable(self.credit_ns / 2.0);
        if let Some(device) = &self.device {
            // Where it is off, what counts is what was seen of this load: another one may have shown little of what matters now.
            let tells_more = match self.off {
                Some(_) => of_load as f64 >= SOME_MORE * device.of_load as f64,
                None => seen as f64 >= MORE * device.seen as f64,
            };
            if !tells_more || affordable < device.accesses.min(seen) / 2 {
                return Ok(());
            }
        }
        let accesses = seen.min(MOST_FITTED).min(affordable);
        let sample = sample::sample(&self.recording, self.changes.iter().copied(), accesses);
        let fitted = device::fit(&sample, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        self.credit_ns -= sample::costs_ns(accesses);
        let mut knowledge = KnowledgeStore::new(sched::all());
        knowledge.set_rotation(fitted.turn());
        self.device = Some(Device { profile: fitted.profile(), findings: fitted.findings, accesses, seen, of_load, knowledge });
        self.off = None;
        Ok(())
    }

    fn ask(&mut self, now: Nanos, plant: &dyn Target) -> Result<Answer, String> {
        let bounds = plant.bounds();
        self.fit(bounds.capacity_sectors)?;
        // What it was off by it is still off by, until much more is known of the load.
        if let Some(off) = self.off.filter(|&off| (now - self.load.from).0 < 2 * (off - self.load.from).0) {
            return Err(format!("it was off {:.0} s ago, and too little was seen since", (now - off).as_secs_f64()));
        }
        let unsure = self.promises.unsure();
        let from = self.tells_from().max(self.recording.known_from());
        let device = self.device.as_mut().ok_or("no device was fitted")?;
        let measured = self.slots.served(self.evidence.as_secs_f64(), now.as_secs_f64()).ok_or("nothing was done")?;
        let candidates: Vec<Setting> = self.arms.iter().map(|arm| arm.setting.clone()).collect();
        let request = ForecastRequest {
            recording: &self.recording,
            from,
            to: now,
            measured,
            device: &device.profile,
            knowledge: &mut device.knowledge,
            in_force: &self.arms[self.in_force].setting,
            default: &self.arms[self.default].setting,
            candidates: &candidates,
            bounds,
            preference: self.preference,
            requests: (self.credit_ns / 2.0 / TRIED_NS) as u64,
            unsure,
            activation: Activation::Live,
        };
        let answer = request.run();
        self.off = matches!(answer, Err(ForecastError::Off { .. })).then_some(now);
        let requests = match &answer {
            Ok(Answer { requests, .. }) | Err(ForecastError::Off { requests, .. }) => *requests,
            Err(_) => 0,
        };
        self.credit_ns -= requests as f64 * TRIED_NS;
        let mut answer = answer.map_err(|reason| reason.to_string())?;
        self.promised = Some((self.in_force, answer.promises.clone()));
        answer.promises = self.weighed(&answer.promises);
        Ok(answer)
    }

    /// Promises by what came of others, and by what was measured; the best first.
    fn weighed(&self, promises: &[Prediction]) -> Vec<Prediction> {
        // Of the scheduler that is in force it is measured how it serves.
        let in_force = self.setting().spec.name;
        let off = self.belied_by(promises);
        let trusted = |promise: &Prediction| self.promises.trusted(promise, promise.setting.spec.name != in_force);
        let mut weighed: Vec<Prediction> = promises.iter().map(|promise| off_by(trusted(promise), off)).collect();
        rank(&mut weighed);
        weighed
    }

    /// By how much the twin has the difference wrong between what is in force and what served the load before, by more than chance. What was
    /// made of processes by a scheduler that judges them by how they begin tells of one take-over and not of the next.
    fn belied_by(&self, promises: &[Prediction]) -> f64 {
        let Some(is) = self.arms[self.in_force].measured else { return 0.0 };
        let wrong = promises.iter().filter_map(|promise| {
            let arm = self.arm_of(&promise.setting)?;
            let measured = self.arms[arm].measured.filter(|_| arm != self.in_force && self.compares_with(&self.arms[arm]))?;
            let (came, error) = measured.over(&is, &self.preference);
            (promise.setting.spec.live_switch().min_readers == 0).then(|| (promise.gain - came).abs() - SURE * error)
        });
        wrong.fold(0.0, f64::max)
    }

    fn decide_by(&mut self, answer: Answer, now: Nanos, plant: &dyn Target) -> Decision {
        let goes_on_s = (now - self.load.from).as_secs_f64().max(GOES_ON_S);
        let evidence = self.evidence_of(&answer);
        let in_force = self.setting();
        let pays = |promise: &Prediction| {
            let costs_s = plant.switching_time(in_force, &promise.setting).as_secs_f64();
            let sure = if self.is_free_to_try(&promise.setting) { promise.gain } else { promise.sure_gain() };
            let arm = self.arm_of(&promise.setting).filter(|&arm| self.arms[arm].again <= now && arm != self.in_force)?;
            let is_sure = promise.gain > TOLERANCE && sure * goes_on_s > costs_s;
            (is_sure && !promise.starves()).then_some((arm, sure))
        };
        let best = answer.promises.iter().filter_map(|promise| Some((pays(promise)?, promise)));
        match best.max_by(|a, b| a.0.1.total_cmp(&b.0.1)) {
            Some((_, promise)) if self.comes_too_early(&promise.setting, now) => {
                self.asks = now + WINDOW;
                Decision::keep(format!("{} would take over while processes still begin: waiting", promise.setting))
                    .with_evidence(evidence)
            }
            Some(((arm, _), promise)) => {
                let gain = percent(promise.gain);
                let is_for_files = differ_by_read_ahead(&promise.setting, in_force);
                let files = if is_for_files { ", in files that are opened from now on" } else { "" };
                // Those that are open are served as before, perhaps not by the best scheduler.
                self.asks = if is_for_files { now + WINDOW } else { self.asks };
                let why = format!("{} promises to be {gain}, give or take {:.0}%{files}", promise.setting, 100.0 * promise.error);
                self.pending = Some(Pending { from: self.in_force, promise: promise.clone() });
                Decision { expected_gain: Some(promise.gain), ..self.put(now, arm, why) }.with_evidence(evidence)
            }
            None => {
                let other = answer.promises.iter().find(|promise| !promise.starves() && promise.setting != *in_force);
                let other = other.map_or(String::new(), |other| {
                    let gain = percent(other.gain);
                    format!("; the best other is {}: {gain}, give or take {:.0}%", other.setting, 100.0 * other.error)
                });
                Decision::keep(format!("leave {in_force} alone: nothing is sure to be better{other}")).with_evidence(evidence)
            }
        }
    }

    /// When there is enough more of the load to ask again, after an answer before which there was so much to spend: twice as much. Where
    /// something that may be tried is expected to gain and is not sure to, some more may decide it, if there is enough left for a question like
    /// this one.
    fn asks_again(&self, answer: &Answer, now: Nanos, had_ns: f64) -> Nanos {
        let may_be_tried = |promise: &Prediction| self.arm_of(&promise.setting).is_some_and(|arm| self.arms[arm].again <= now);
        let is_unsure = |promise: &Prediction| {
            promise.gain > TOLERANCE && promise.sure_gain() <= 0.0 && !promise.starves() && may_be_tried(promise)
        };
        let is_open = answer.promises.iter().any(is_unsure) && self.credit_ns >= had_ns / 2.0;
        let more = if is_open { SOME_MORE } else { MORE };
        now + Nanos::from_secs_f64((more - 1.0) * (now - self.load.from).as_secs_f64()).max(WINDOW)
    }

    /// Whether a scheduler that judges processes by how they begin would meet some that are late, and make of those that run already what they
    /// are not. A load that has processes begin for as long as it lasts is not waited for, nor one in which many do.
    fn comes_too_early(&self, setting: &Setting, now: Nanos) -> bool {
        let many = setting.spec.live_switch().min_readers as usize;
        let begins = setting.spec.name != self.setting().spec.name && (now - self.load.from).as_secs_f64() < GOES_ON_S;
        many > 0 && begins && (1..many).contains(&self.recording.newcomers(now - BEGINS))
    }

    /// What is in force is not as the twin says, but it knew the load before, and something untried was promised more than came.
    fn decide_by_promises(&mut self, now: Nanos) -> Option<Decision> {
        let (then, promises) = self.promised.as_ref().filter(|(then, _)| *then != self.in_force)?;
        // What changed since another read-ahead was set for files to come is the load.
        if differ_by_read_ahead(&self.arms[*then].setting, self.setting()) {
            return None;
        }
        let (came, _) = self.arms[self.in_force].measured?.over(&self.arms[*then].measured?, &self.preference);
        let unsure = self.promises.unsure();
        let more = promises.iter().filter_map(|promise| {
            let arm = self.arm_of(&promise.setting)?;
            let is_untried = arm != self.in_force && self.arms[arm].measured.is_none() && self.arms[arm].again <= now;
            let promise = self.promises.trusted(promise, true);
            let promise = Prediction { gain: promise.gain - came, error: promise.error * unsure, ..promise };
            (is_untried && promise.is_sure()).then_some((arm, promise))
        });
        let (arm, promise) = more.min_by(|a, b| a.1.surest_first(&b.1))?;
        let why = format!(
            "{} was promised to be {} under {}, give or take {:.0}%, and was not tried",
            promise.setting,
            percent(promise.gain + came),
            self.arms[*then].setting,
            100.0 * promise.error
        );
        let expected_gain = Some(promise.gain);
        self.pending = Some(Pending { from: self.in_force, promise });
        Some(Decision { expected_gain, ..self.put(now, arm, why) })
    }

    /// What was chosen for another load has no claim on this one if the twin does not reproduce what it gives: back to what was found, under which
    /// the twin is asked again.
    fn go_back_unknown(&mut self, now: Nanos) -> Option<Decision> {
        let has_claim = self.in_force == self.default || self.is_known || self.arms[self.default].measured.is_some();
        let back = self.found_again();
        (self.off.is_some() && !has_claim && back != self.in_force).then(|| {
            let setting = &self.arms[back].setting;
            let why = format!("another load, and the twin does not reproduce it under {}: back to {setting}", self.setting());
            self.asks = now + WINDOW;
            self.put(now, back, why)
        })
    }

    fn evidence_of(&self, answer: &Answer) -> Evidence {
        let mut seen = Vec::new();
        for stream in answer.streams.iter().take(MOST_STREAMS) {
            let thought = stream.thought.map_or(String::new(), |thought| format!(", {:.2} ms of thought", thought.as_millis_f64()));
            seen.push((
                format!("stream {}", stream.stream),
                format!("{}, {} in flight{thought}, {:.1} requests/s", stream.pace.name(), stream.in_flight, stream.rate),
            ));
        }
        if answer.streams.len() > MOST_STREAMS {
            seen.push(("streams".to_owned(), format!("{} more", answer.streams.len() - MOST_STREAMS)));
        }
        let findings = self.device.iter().flat_map(|device| &device.findings);
        seen.extend(findings.map(|finding| (finding.name.to_owned(), format!("{} ({})", finding.text(), finding.rests_on()))));
        seen.push((
            "twin".to_owned(),
            format!(
                "{:.3} MB/s and {:.3} ms under {}; its score is {} than measured",
                f64::from(answer.in_force.throughput) / 1e6,
                1e3 * f64::from(answer.in_force.response_s),
                self.setting(),
                percent(answer.off)
            ),
        ));
        Evidence { seen, candidates: answer.promises.clone() }
    }
}

/// Streams that are shown.
const MOST_STREAMS: usize = 8;

/// A difference of scores.
fn percent(gain: f64) -> String {
    let percent = gain.exp_m1() * 100.0;
    if percent >= 0.0 { format!("{percent:.0}% better") } else { format!("{:.0}% worse", -percent) }
}

impl Controller for Seekwise {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn begin(&mut self, now: Nanos, plant: &dyn Target) -> Decision {
        let found = plant.setting();
        let known = plant.schedulers();
        self.arms.retain(|arm| known.iter().any(|spec| spec.name == arm.setting.spec.name));
        let arm = self.arm_of(&found).unwrap_or_else(|| {
            self.arms.insert(0, Arm::new(found.clone()));
            0
        });
        (self.default, self.in_force, self.before) = (arm, arm, arm);
        self.load = LoadTracker::new(now);
        (self.evidence, self.asks) = (self.tells_from(), self.tells_from() + WINDOW);
        self.known = known::loads(&self.experience, &plant.identity().device, &self.preference);
        self.found_read_ahead_kib = plant.bounds().read_ahead_kib;
        Decision::keep("nothing was seen yet")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(WINDOW), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.recording.event(event);
        self.slots.event(event);
        match event {
            Event::Queued(request) => self.streams.queued(request),
            Event::Completed { request, at, .. } => {
                let evidence = (!self.is_as_found()).then_some(self.evidence);
                self.streams.completed(request, *at, evidence);
            }
            _ => {}
        }
        false
    }

    fn decide(&mut self, window: &Window, plant: &dyn Target) -> Decision {
        let now = window.to;
        self.slots.until(now);
        let means_ns = self.budget * window.duration().0 as f64;
        let left_ns = (means_ns - window.outcome.requests as f64 * WATCHED_NS).max(FOR_TRIALS * means_ns);
        self.credit_ns = (self.credit_ns + left_ns).min(self.budget * self.saved_s * 1e9);
        if std::mem::take(&mut self.is_settling) {
            // Requests that were queued before the change are served by another scheduler.
            self.evidence = now;
            self.streams.are_served_anew();
            return Decision::keep("settling");
        }
        if !self.is_as_found()
            && let Some(starving) = self.streams.starving(now)
        {
            let back = self.pending.as_ref().map_or(self.default, |pending| pending.from);
            self.note_broken();
            let setting = &self.arms[back].setting;
            let why = format!("{starving} under {}: back to {setting}", self.setting());
            self.arms[self.in_force].again = NEVER;
            self.asks = now + WINDOW;
            return self.put(now, back, why);
        }
        if window.outcome.requests >= MIN_REQUESTS {
            let row = describe(&window.features, &window.outcome);
            let point = self.columns.point(|column| row.get(column).copied());
            if let Some(began) = self.load.add_window(window.from, point) {
                return self.begin_load(began, now);
            }
            if std::mem::take(&mut self.is_new) {
                // Before that nothing was asked, and there was no load.
                self.load.from = window.from;
                (self.evidence, self.asks) = (self.tells_from(), self.tells_from() + WINDOW);
                if let Some(decision) = self.recognise(now) {
                    return decision;
                }
            }
        }
        self.awaits_all(now);
        let asked = self.tags.filter(|(arm, _)| *arm == self.in_force);
        let (_, tags) = *self.tags.insert(asked.unwrap_or_else(|| (self.in_force, plant.bounds().nr_requests)));
        if let Some(decision) = self.compare(now, tags) {
            return decision;
        }
        if let Some(decision) = self.prepare_for_files(now, || plant.bounds()) {
            return decision;
        }
        if now < self.asks {
            return Decision::keep("nothing new to ask");
        }
        let before_ns = self.credit_ns;
        match self.ask(now, plant) {
            Ok(answer) => {
                self.asks = self.asks_again(&answer, now, before_ns);
                self.decide_by(answer, now, plant)
            }
            Err(reason) => match self.decide_by_promises(now).or_else(|| self.go_back_unknown(now)) {
                Some(decision) => decision,
                None => Decision::keep(format!("no advice of the twin: {reason}")),
            },
        }
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        if let Some(arm) = self.arm_of(setting) {
            self.arms[arm].again = NEVER;
        }
        (self.pending, self.in_force) = (None, self.before);
        let kib = self.reads_ahead_kib(self.in_force);
        self.awaits_files = self.awaits_files.filter(|(_, is)| Some(*is) == kib);
        self.files_to_come.refused(kib);
        self.is_settling = false;
    }

    fn overruled(&mut self, now: Nanos, setting: &Setting, reason: &str) -> Decision {
        // As after one that starves a stream: what did harm is not tried again under this load.
        self.arms[self.in_force].again = NEVER;
        self.note_broken();
        self.asks = now + WINDOW;
        let back = self.arm_of(setting).unwrap_or(self.default);
        self.put(now, back, reason.to_owned())
    }
}
#[cfg(test)]
mod tests;
