//! What every candidate would have done with what was seen.
//!
//! ```text
//! recording ─┬─▶ load, and what processes get of it ──┐
//!            └─▶ device ──────────────────────────────┴─▶ the setting in force: as it was measured? ─▶ candidates: promises
//! ```
//! The setting in force is tried first. How far that is from what was measured says how much the twin can be trusted, and widens every
//! promise. Schedulers are tried first, then the tunings of the best of them. All meet the same load: what is random in it is drawn
//! alike.

use std::fmt;
use std::sync::Arc;

use block::{KnowledgeStore, Limits, Nanos, Scheduler};
use control::Setting;
use control::controller::Prediction;
use control::target::Bounds;
use observe::merit;
use observe::performance::Performance;
use observe::{Event, Preference};
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, DeviceProfile};
use sim::run::Watch;

use crate::above::Above;
use crate::load::{Load, Understood};
use crate::recording::{Recording, Seen};
use crate::trial::{Change, Extent, Successor, Tried};

/// Fewer requests tell too little of a load.
pub const LEAST_REQUESTS: usize = 50;
/// A trial with fewer requests is none.
const LEAST_TRIED: u64 = 200;
/// Trials are at most this long: loads do not stay the same for longer.
const LONGEST: Nanos = Nanos::from_millis(20_000);
/// A stream is judged by its p99 from so many requests on: a trial should hold some more.
const JUDGED_REQUESTS: f64 = 1.5 * merit::LEAST_REQUESTS as f64;
/// So many schedulers, the best, are tried with their tunings.
const TUNED: usize = 2;
/// A stream with fewer requests in a trial is not judged by its waits.
const FEWEST_JUDGED: u64 = 5;
/// A twin that is off by more under the setting in force is not used: a factor of 1.5.
pub const MOST_OFF: f64 = 0.4;
/// What a twin has wrong it has wrong of all settings alike, so a gain is off by a share of itself: by this much on a twin that is right
/// under the setting in force, and by so many times what it is off there; and a little by chance. From the training world: `seekwise lab
/// twin --learn-world --fit-device`.
const GAIN_ERROR: f64 = 0.25;
const OFF_ERROR: f64 = 2.0;
const LEAST_ERROR: f64 = 0.01;

/// What is asked.
pub struct Question<'a> {
    /// What was seen.
    pub recording: &'a Recording,
    /// From when on there was this load, to now.
    pub from: Nanos,
    /// See `from`.
    pub to: Nanos,
    /// What was measured under the setting in force.
    pub measured: Performance,
    /// The device.
    pub device: &'a Arc<dyn DeviceProfile>,
    /// What the schedulers that learn know of it: on the plant they learn from every request, whoever sent it.
    pub knowledge: &'a mut KnowledgeStore,
    /// What is in force.
    pub in_force: &'a Setting,
    /// What starvation is judged by.
    pub default: &'a Setting,
    /// What there is to choose from.
    pub candidates: &'a [Setting],
    /// What the queue allows.
    pub bounds: Bounds,
    /// What counts.
    pub preference: Preference,
    /// Requests that may be simulated in all.
    pub requests: u64,
    /// How many times as wide as usual promises are, from what came of earlier ones.
    pub unsure: f64,
    /// How what is chosen will come into force.
    pub comes: Comes,
}

/// How a setting comes into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comes {
    /// It takes over from what is in force, in the middle of the load.
    Now,
    /// It is there before the load begins, as what is set when a machine starts.
    Before,
}

/// What the twin says.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The load's streams.
    pub streams: Vec<Understood>,
    /// What the twin says of the setting in force, and how far its score is above what was measured.
    pub in_force: Performance,
    /// See `in_force`.
    pub off: f64,
    /// What the candidates promise, the best first.
    pub promises: Vec<Prediction>,
    /// Requests that were simulated.
    pub requests: u64,
}

/// Why the twin says nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum ForecastError {
    /// So few requests.
    TooFew(usize),
    /// Nothing was done under the setting in force, in truth or in the twin.
    Nothing,
    /// There is so little processor time to spend that a trial would end before this scheduler, which took over in the middle of the load,
    /// had shown what it does.
    TooShort(&'static str),
    /// Under the setting in force it says something else than was measured.
    Off {
        /// What it says.
        twin: Performance,
        /// What was measured.
        measured: Performance,
        /// Requests that were simulated.
        requests: u64,
    },
}

impl fmt::Display for ForecastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForecastError::TooFew(requests) => write!(f, "{requests} requests tell too little"),
            ForecastError::NothingServed => write!(f, "nothing was done"),
            ForecastError::BudgetTooSmall(scheduler) => {
                write!(f, "there is too little to spend for a trial in which {scheduler} would show what it does")
            }
            ForecastError::Off { twin, measured, .. } => {
                let text = |served: &Performance| {
                    let (mb_s, ms) = (f64::from(served.throughput) / 1e6, 1e3 * f64::from(served.response_s));
                    format!("{mb_s:.3} MB/s, {ms:.3} ms, fairness {:.2}", served.fairness)
                };
                write!(f, "the twin does not reproduce what was measured: {} and not {}", text(twin), text(measured))
            }
        }
    }
}

/// The tunable of the host that a trial can change.
pub(crate) const NR_REQUESTS: &str = "nr_requests";

/// The one that changes the load itself: how far files are read ahead.
pub(crate) const READ_AHEAD: &str = "read_ahead_kb";

/// How far a setting has files read ahead, in KiB, where they were found to be so; `None` if that is not known.
pub(crate) fn read_ahead_kib(setting: &Setting, found: Option<u32>) -> Option<u32> {
    let named = setting.host.iter().find(|(name, _)| name == READ_AHEAD);
    named.map_or(found, |(_, kib)| u32::try_from(*kib).ok())
}

/// The same setting without what it says of read-ahead.
fn without_read_ahead(setting: &Setting) -> Setting {
    let host = setting.host.iter().filter(|(name, _)| name != READ_AHEAD).cloned().collect();
    Setting { host, ..setting.clone() }
}

/// Whether two settings differ in how far files are read ahead, and in nothing else.
pub(crate) fn differ_by_read_ahead(one: &Setting, other: &Setting) -> bool {
    one != other && without_read_ahead(one) == without_read_ahead(other)
}

/// The load under every read-ahead that comes into question.
struct Loads<'a> {
    seen: &'a Load,
    others: Vec<(u32, Load)>,
}

impl<'a> Loads<'a> {
    /// Of what was seen under a read-ahead of so many KiB; `settings` say what comes into question.
    fn of<'b>(seen: &'a Load, kib: Option<u32>, settings: impl Iterator<Item = &'b Setting>, bounds: &Bounds) -> Loads<'a> {
        let mut loads = Loads { seen, others: Vec::new() };
        let Some(now) = kib else { return loads };
        for other in settings.filter_map(|setting| read_ahead_kib(setting, bounds.read_ahead_kib)) {
            if !loads.others.iter().any(|(kib, _)| *kib == other)
                && let Some(load) = seen.reading_ahead(now.saturating_mul(2), other.saturating_mul(2))
            {
                loads.others.push((other, load));
            }
        }
        loads
    }

    /// Under a read-ahead of so many KiB: the one that was seen where it makes no difference, or is not known.
    fn under(&self, kib: Option<u32>) -> &Load {
        self.others.iter().find(|(other, _)| Some(*other) == kib).map_or(self.seen, |(_, load)| load)
    }

    /// Whether a candidate can be tried instead of what is in force. Live not a scheduler and a read-ahead at once, for nobody could tell
    /// which of the two did it: the one is in force at once, the other for files that are opened from then on.
    fn can_be_tried(&self, setting: &Setting, in_force: &Setting, (bounds, comes): (&Bounds, Comes)) -> bool {
        if comes == Activation::AtStart {
            return can_be_tried(&without_read_ahead(setting), &without_read_ahead(in_force));
        }
        if !keeps_what_is_fixed(setting, in_force) {
            return false;
        }
        if differ_by_read_ahead(setting, in_force) {
            return self.others.iter().any(|(other, _)| Some(*other) == read_ahead_kib(setting, bounds.read_ahead_kib));
        }
        can_be_tried(setting, in_force)
    }
}

/// Whether a setting leaves those tunables alone that should not be [changed under a load](block::LiveSwitch::fixed_tunables).
fn keeps_what_is_fixed(setting: &Setting, in_force: &Setting) -> bool {
    let spec = setting.spec;
    let fixed = spec.live_switch().fixed_tunables;
    spec.tunables.iter().enumerate().filter(|(_, tunable)| fixed.contains(&tunable.name)).all(|(index, tunable)| {
        let is = if spec.name == in_force.spec.name { in_force.values[index] } else { tunable.default };
        setting.values[index] == is
    })
}

/// Whether a trial tells what this would bring: it knows the block layer alone, so but for the room in the queue tunables of the host
/// must be as they are. Nobody knows what room there was before the setting in force changed it.
pub(crate) fn can_be_tried(setting: &Setting, in_force: &Setting) -> bool {
    let others = |setting: &Setting| setting.host.iter().filter(|(name, _)| name != NR_REQUESTS).cloned().collect::<Vec<_>>();
    let has_room = |setting: &Setting| setting.host.iter().any(|(name, _)| name == NR_REQUESTS);
    others(setting) == others(in_force) && (has_room(setting) || !has_room(in_force))
}

/// A load before a device, to be tried under one setting or another. Trials do not depend on each other.
pub(crate) struct Stage<'a> {
    /// What serves it.
    pub device: &'a dyn DeviceProfile,
    /// What the queue allows.
    pub bounds: Bounds,
    /// What is asked.
    pub load: &'a Load,
    /// What processes get of it.
    pub above: Option<&'a Above>,
    /// How long a trial is.
    pub extent: Extent,
}

/// Makes the scheduler of a setting for a queue with these limits.
type Build<'a> = &'a dyn Fn(&Setting, &Limits) -> Box<dyn Scheduler>;

/// When in a trial a setting takes over, as a share of the time that is not judged: by then every stream has asked for something. And when
/// it does in one that is repeated.
const TAKES_OVER: f64 = 0.25;
const TAKES_OVER_AGAIN: f64 = 0.35;

/// What a setting takes over from in the middle of a trial, and when.
#[derive(Clone, Copy)]
pub(crate) struct TakeOver<'a> {
    from: &'a Setting,
    at: f64,
}

impl TakeOver<'_> {
    /// From this one, at the usual moment.
    pub fn from(from: &Setting) -> TakeOver<'_> {
        TakeOver { from, at: TAKES_OVER }
    }

    fn changes_scheduler(&self, setting: &Setting) -> bool {
        self.from.spec.name != setting.spec.name
    }

    /// Whether a trial of this extent is long enough for what the scheduler of a setting makes of it.
    fn shows(&self, setting: &Setting, extent: &Extent) -> bool {
        !self.changes_scheduler(setting) || extent.shows_taken_over(setting.spec)
    }
}

impl Stage<'_> {
    /// A trial under `setting`, which takes over from another one if that is given, and whose scheduler `build` makes; `None` if nothing
    /// came of it. What happens is told to `tell`.
    pub fn tried(&self, setting: &Setting, from: Option<TakeOver>, build: Build, tell: &mut dyn FnMut(&Event)) -> Option<Tried> {
        let tried = self.within((setting, from), build, self.extent, tell)?;
        if tried.until >= self.extent.settles + Nanos(self.extent.lasts.0 / 2) {
            return Some(tried);
        }
        // It is so much faster than what was seen that its requests were used up, most of them before they count.
        let again = self.within((setting, from), build, self.extent.within(tried.until), &mut |_| {})?;
        Some(Tried { requests: tried.requests + again.requests, ..again })
    }

    /// A trial of this extent, whatever comes of it; `None` where it would be too short for a scheduler that takes over.
    pub fn within(
        &self,
        (setting, from): (&Setting, Option<TakeOver>),
        build: Build,
        extent: Extent,
        tell: &mut dyn FnMut(&Event),
    ) -> Option<Tried> {
        if from.is_some_and(|over| !over.shows(setting, &extent)) {
            return None;
        }
        let bounds = &self.bounds;
        let room = setting.host.iter().find(|(name, _)| name == NR_REQUESTS).and_then(|(_, room)| u32::try_from(*room).ok());
        let settings = QueueSettings {
            nr_requests: room.unwrap_or(bounds.nr_requests),
            max_sectors: bounds.limits.max_sectors,
            merges: bounds.limits.merges,
            ..QueueSettings::default()
        };
        let limits = settings.limits();
        let successor = from.map(|over| Successor {
            at: Nanos::from_secs_f64(over.at * extent.settles.as_secs_f64()),
            change: match over.changes_scheduler(setting) {
                true => Change::Scheduler(build(&Setting::of(setting.spec), &limits), setting.values.clone()),
                false => Change::Values(setting.values.clone()),
            },
        });
        let queue = Queue::new(
            build(from.map_or(setting, |over| over.from), &limits),
            self.device.build(DeviceOptions::default()),
            settings,
        );
        Tried::of(self.load, (queue, successor), extent, self.above, &Watch::default(), tell).ok()
    }
}

/// Trials of schedulers that know of the device what those on the plant do.
struct Trials<'a> {
    stage: Stage<'a>,
    knowledge: &'a mut KnowledgeStore,
    spent: u64,
}

impl Trials<'_> {
    /// Those that learn do so from the trial if it `teaches`.
    fn of(&mut self, setting: &Setting, from: Option<TakeOver>, teaches: bool) -> Option<Tried> {
        let mut lessons: Vec<Event> = Vec::new();
        let knowledge = &*self.knowledge;
        let build = |setting: &Setting, limits: &Limits| knowledge.scheduler(setting.spec, limits, &setting.values);
        let tried = self.stage.tried(setting, from, &build, &mut |event| {
            if teaches && matches!(event, Event::Completed { .. }) {
                lessons.push(*event);
            }
        })?;
        for lesson in lessons {
            if let Event::Completed { request, dispatched, at } = lesson {
                self.knowledge.learn(setting.spec, &request, dispatched, at);
            }
        }
        self.spent += tried.requests;
        Some(tried)
    }
}

impl Question<'_> {
    /// Asks it.
    ///
    /// # Errors
    /// Too little was seen, or the twin does not reproduce it.
    pub fn ask(self) -> Result<Forecast, ForecastError> {
        let from = self.latest();
        let under_way = |seen: &&Seen| seen.completed >= from && seen.request.arrival < self.to;
        let asked = || self.recording.seen().chain(self.recording.flushes());
        let waiting: Vec<Seen> = self.recording.under_way().collect();
        let load = Load::infer(asked().chain(&waiting).filter(under_way), from, self.to);
        if load.requests() < LEAST_REQUESTS {
            return Err(ForecastError::TooFew(load.requests()));
        }
        let call_model = CallModel::infer(self.recording.calls(), asked(), from, self.to);
        let variation = variation(asked().filter(under_way));
        let rate = load.requests() as f64 / load.span().as_secs_f64();
        let bounds = self.bounds;
        let from_now = load.from_now().filter(|_| self.comes == Activation::Live);
        let kib = read_ahead_kib(self.in_force, bounds.read_ahead_kib);
        let asked_about = self.candidates.iter().chain([self.default]);
        let loads = Loads::of(from_now.as_ref().unwrap_or(&load), kib, asked_about, &bounds);
        let tried: Vec<Setting> = self
            .candidates
            .iter()
            .filter(|setting| *setting == self.in_force || loads.can_be_tried(setting, self.in_force, (&bounds, self.comes)))
            .cloned()
            .collect();
        let extent = self.extent(&load, rate, &tried);
        let Question { in_force: current, default, preference, measured, unsure, .. } = self;
        let (device, knowledge) = (&**self.device, self.knowledge);
        let is_live = self.comes == Activation::Live;
        let stage = Stage { device, bounds, load: &load, above: above.as_ref(), extent };
        let mut trials = Trials { stage, knowledge, spent: 0 };
        // What another setting took over from in the middle of the load, this one did as well.
        let from = Some(default).filter(|_| is_live && default != current).map(TakeOver::from);
        if from.is_some_and(|over| !over.shows(current, &extent)) {
            return Err(ForecastError::BudgetTooSmall(current.spec.name));
        }
        let mut now = trials.of(current, from, true).ok_or(ForecastError::NothingServed)?;
        // So much is the mean of response times off by chance, and a fifth as much where both settings meet the same draws.
        let chance = 0.2 * variation * (load.requests() as f64).sqrt().recip();
        let score = |tried: &Tried| tried.calls.map_or(f64::NEG_INFINITY, |calls| calls.score(&preference));
        let in_force = now.calls.ok_or(ForecastError::NothingServed)?;
        let off = score(&now) - measured.score(&preference);
        if !off.is_finite() {
            return Err(ForecastError::NothingServed);
        }
        if off.abs() > MOST_OFF {
            return Err(ForecastError::Off { twin: in_force, measured, requests: trials.spent });
        }
        if from_now.is_some() {
            trials.stage.load = loads.seen;
            now = trials.of(current, from, false).ok_or(ForecastError::NothingServed)?;
        }
        let mut under = |setting: &Setting, at: f64| {
            trials.stage.load = loads.under(read_ahead_kib(setting, bounds.read_ahead_kib));
            trials.of(setting, is_live.then_some(TakeOver { from: current, at }), false)
        };
        let standard =
            if default == current { now.clone() } else { under(default, TAKES_OVER).ok_or(ForecastError::NothingServed)? };
        let judged = judged_requests(extent);
        let promise = |setting: &Setting, tried: &Tried| {
            let gain = score(tried) - score(&now);
            let error = unsure * (LEAST_ERROR + gain.abs() * (GAIN_ERROR + OFF_ERROR * off.abs()) + chance.min(gain.abs()));
            let calls = tried.calls;
            Prediction {
                setting: setting.clone(),
                throughput: calls.map_or(0.0, |calls| calls.throughput.into()),
                response_s: calls.map_or(f64::INFINITY, |calls| calls.response_s.into()),
                p99_by_bound: (1.0 + OFF_ERROR * off.abs()) * merit::max_wait_ratio_of(&tried.tails, &standard.tails, judged),
                gain,
                error,
            }
        };
        let mut promises = vec![promise(current, &now)];
        let mut try_all = |settings: &mut dyn Iterator<Item = &Setting>| {
            let tried = settings.filter_map(|setting| Some(promise(setting, &under(setting, TAKES_OVER)?)));
            promises.extend(tried);
            rank(&mut promises);
            let mut best: Vec<&str> = promises.iter().map(|promise| promise.setting.spec.name).collect();
            best.dedup();
            best.truncate(TUNED);
            best
        };
        let others = || tried.iter().filter(|&setting| setting != current);
        let is_first = |setting: &Setting| is_first(&tried, setting) || differ_by_read_ahead(setting, current);
        let best = try_all(&mut others().filter(|setting| is_first(setting)));
        try_all(&mut others().filter(|setting| !is_first(setting) && best.contains(&setting.spec.name)));
        if is_live {
            repeat(&mut promises, current, |setting| Some(promise(setting, &under(setting, TAKES_OVER_AGAIN)?)));
        }
        Ok(Answer { streams: load.streams().collect(), in_force, off, promises, requests: trials.spent })
    }

    /// How many trials there will be, about. Live the best is tried twice.
    fn trials(&self, tried: &[Setting]) -> usize {
        let first = tried.iter().filter(|setting| is_first(tried, setting)).count();
        2 + usize::from(self.comes == Activation::Live) + first + (tried.len() - first) * TUNED / first.max(TUNED)
    }

    /// From when on a trial can repeat all that was asked: one that is shorter would know the load's beginning alone, which is the least
    /// like what comes. What is to hold from the beginning of a load is tried on all of it.
    fn latest(&self) -> Nanos {
        if self.comes == Activation::AtStart {
            return self.from;
        }
        let fewest = (LEAST_REQUESTS as u64).max(self.requests_of_each(self.candidates)) as usize;
        let all = self.recording.seen().rev().take_while(|seen| seen.completed >= self.from);
        let all = all.filter(|seen| seen.request.arrival < self.to);
        all.take(fewest + 1).last().map_or(self.from, |seen| seen.completed)
    }

    fn requests_of_each(&self, tried: &[Setting]) -> u64 {
        (self.requests / (self.trials(tried) as u64)).max(LEAST_TRIED)
    }

    /// As long as the load was seen, and until every stream has enough requests to be judged, as far as the budget goes.
    fn extent(&self, load: &Load, rate: f64, tried: &[Setting]) -> Extent {
        let slowest = load.streams().map(|stream| stream.rate).filter(|rate| *rate > 1.0).fold(f64::INFINITY, f64::min);
        let wanted_s = load.span().as_secs_f64().max(JUDGED_REQUESTS / slowest).min(LONGEST.as_secs_f64());
        let each = self.requests_of_each(tried);
        let lasts = Nanos::from_secs_f64(wanted_s.min(each as f64 / rate));
        // A candidate that is many times as fast has many times as many requests. They tell no more, but for how long others wait.
        let requests = (2 * each).max(self.requests / 4);
        match self.comes {
            Activation::Live => Extent::taken_over(lasts, requests),
            Activation::AtStart => Extent::lasting(lasts, requests),
        }
    }
}

/// Repeats the trials of those that would be chosen, until one is chosen that was repeated. What a setting makes of streams that it takes over
/// can hang on the moment: bfq serves streams together or not by which of them asks first. Then a single trial says what may happen, and
/// not what to expect.
fn repeat(promises: &mut [Prediction], current: &Setting, mut again: impl FnMut(&Setting) -> Option<Prediction>) {
    let mut repeated: Vec<Setting> = Vec::new();
    loop {
        let sure_ones = promises.iter_mut().filter(|promise| promise.setting != *current && promise.is_sure());
        let best = sure_ones.min_by(|a, b| a.surest_first(b));
        let Some(first) = best.filter(|promise| !repeated.contains(&promise.setting)) else { break };
        repeated.push(first.setting.clone());
        if let Some(second) = again(&first.setting) {
            *first = of_both(first, &second);
        }
    }
    rank(promises);
}

/// The best first, and those that starve a stream behind all others.
pub(crate) fn rank(promises: &mut [Prediction]) {
    promises.sort_by(|a, b| a.starves().cmp(&b.starves()).then(b.gain.total_cmp(&a.gain)));
}

/// The same promise of a twin that is off by so much more than under the setting in force.
pub(crate) fn off_by(promise: Prediction, off: f64) -> Prediction {
    Prediction { error: promise.error + OFF_ERROR * off * promise.gain.abs(), ..promise }
}

/// What two trials of a setting promise. How far they are apart says how far their mean is off.
fn of_both(first: &Prediction, second: &Prediction) -> Prediction {
    let mean = |of: fn(&Prediction) -> f64| (of(first) + of(second)) / 2.0;
    Prediction {
        setting: first.setting.clone(),
        throughput: mean(|promise| promise.throughput),
        response_s: mean(|promise| promise.response_s),
        p99_by_bound: first.p99_by_bound.max(second.p99_by_bound),
        gain: mean(|promise| promise.gain),
        error: mean(|promise| promise.error).hypot((first.gain - second.gain) / 2.0),
    }
}

/// From so many requests on a stream is judged by its waits: as many as it has in a trial that has enough of them to be judged in a minute.
pub(crate) fn judged_requests(extent: Extent) -> u64 {
    let judged = (merit::LEAST_REQUESTS as f64 * extent.lasts.as_secs_f64() / 60.0) as u64;
    judged.clamp(FEWEST_JUDGED, merit::LEAST_REQUESTS)
}

/// By how much response times vary, as a part of their mean. As much as they are long, at least: where many are served from memory, the
/// mean is that of a few.
fn variation<'a>(seen: impl Iterator<Item = &'a Seen>) -> f64 {
    let (mut number, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for seen in seen.filter(|seen| !seen.is_flush()) {
        let response_s = (seen.completed - seen.request.arrival).as_secs_f64();
        number += 1.0;
        sum += response_s;
        squares += response_s * response_s;
    }
    (number * squares / (sum * sum) - 1.0).sqrt().max(1.0)
}

/// A scheduler with its defaults, or a tuning of one that is no candidate with its defaults.
pub(crate) fn is_first(candidates: &[Setting], setting: &Setting) -> bool {
    let read_ahead = setting.host.iter().filter(|(name, _)| name == READ_AHEAD).cloned().collect();
    let plain = Setting { host: read_ahead, ..Setting::of(setting.spec) };
    *setting == plain || !candidates.contains(&plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn what_would_be_chosen_is_tried_again_and_not_chosen_for_a_single_trial() {
        let promise = |setting: &str, gain: f64| {
            let setting = Setting::parse(setting).unwrap();
            Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain, error: 0.05 }
        };
        let mut promises = vec![promise("cfq", 0.6), promise("noop", 0.2), promise("sstf", 0.19), promise("deadline", 0.0)];
        let current = promises[3].setting.clone();
        let mut asked = Vec::new();
        repeat(&mut promises, &current, |setting| {
            asked.push(setting.to_string());
            Some(promise(&setting.to_string(), if setting.spec.name == "cfq" { -0.04 } else { 0.22 }))
        });
        assert_eq!(asked, ["cfq", "noop"]);
        let of = |name: &str| promises.iter().find(|promise| promise.setting.spec.name == name).unwrap();
        assert!((of("cfq").gain - 0.28).abs() < 1e-9 && of("cfq").error > 0.32, "{promises:?}");
        assert!((of("noop").gain - 0.21).abs() < 1e-9 && of("noop").error < 0.06, "{promises:?}");
        assert_eq!(of("sstf").gain, 0.19, "it would not be chosen");
    }

    #[test]
    fn what_spoils_a_scheduler_under_a_load_is_not_tried_live() {
        let parse = |text: &str| Setting::parse(text).unwrap();
        let keeps = |setting: &str, in_force: &str| keeps_what_is_fixed(&parse(setting), &parse(in_force));
        assert!(!keeps("bfq:low_latency=0", "mq-deadline"), "it comes with its defaults first");
        assert!(!keeps("bfq:low_latency=0", "bfq"));
        assert!(keeps("bfq:low_latency=0,slice_idle=0", "bfq:low_latency=0"), "somebody else had set it");
        assert!(keeps("bfq:slice_idle=0", "mq-deadline") && keeps("mq-deadline:fifo_batch=1", "bfq:low_latency=0"));
    }

    #[test]
    fn a_scheduler_or_a_read_ahead_is_changed_and_not_both() {
        let parse = |text: &str| Setting::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (deadline, wider) = (parse("deadline"), parse("deadline read_ahead_kb=1024"));
        assert!(differ_by_read_ahead(&wider, &deadline) && !differ_by_read_ahead(&wider, &wider));
        assert!(!differ_by_read_ahead(&wider, &parse("cfq")) && !differ_by_read_ahead(&parse("cfq"), &deadline));
        let all = [parse("cfq"), parse("cfq read_ahead_kb=1024"), wider.clone(), parse("deadline:fifo_batch=1 read_ahead_kb=1024")];
        let first = |setting: &str| is_first(&all, &parse(setting));
        assert!(first("cfq read_ahead_kb=1024") && first("deadline read_ahead_kb=1024"));
        assert!(!first("deadline:fifo_batch=1 read_ahead_kb=1024"));
        assert!(can_be_tried(&all[1], &wider) && !can_be_tried(&all[0], &wider));
    }

    #[test]
    fn a_trial_can_change_the_room_in_the_queue_and_no_other_tunable_of_the_host() {
        let can = |setting: &str, in_force: &str| {
            let parse = |text: &str| Setting::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            can_be_tried(&parse(setting), &parse(in_force))
        };
        assert!(can("cfq", "deadline") && can("deadline nr_requests=8", "deadline"));
        assert!(can("cfq nr_requests=8 read_ahead_kb=64", "noop nr_requests=64 read_ahead_kb=64"));
        assert!(!can("deadline read_ahead_kb=64", "deadline") && !can("deadline", "deadline read_ahead_kb=64"));
        assert!(!can("deadline", "deadline nr_requests=8"), "what it was before is not known");
    }
}
