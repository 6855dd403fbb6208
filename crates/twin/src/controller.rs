//! The controller `seekwise`: asks the twin, acts if that is sure to pay, verifies on the plant, and goes back where a promise is broken.
//!
//! ```text
//! window of 1 s ─▶ another load? ──yes─▶ recall what served one like it
//!                    │ no
//!                    ▼
//!      1, 2, 4, 8 … windows of a load: ask the twin ─▶ sure to gain? ──no─▶ leave it alone
//!                    ▲                                      │ yes
//!                    └── back, or stay ◀── as promised? ◀───┘
//! ```
//! * *Sure.* A gain counts less its error bar, which is as wide as the twin is off under the setting in force, and as promises on this
//!   device were broken before.
//! * *Verified.* After a change what is measured is compared with what was before. Worse: back, and not again for as long as the load
//!   had lasted.
//! * *Guarded.* A stream that waits beyond the bound of [merit](learn::merit) without getting anything ends a setting at once.
//! * *Within its means.* Trials cost processor time: they are as long as the budget allows, one percent of a core by default.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use block::{KnowledgeStore, Nanos, StreamId, Tunable, Unit};
use learn::controller::{ALL, Brief, Chosen, ChosenError, ControllerSpec, Evidence, Promise};
use learn::description::describe;
use learn::experience::{Experience, FEWEST, Served, WINDOW};
use learn::merit::{self, TOLERANCE};
use learn::sched;
use learn::similarity::{Columns, NOWHERE, Point, load_distance};
use learn::{Controller, Decision, Event, Extent, Plant, Preference, Setting, Window, WindowOutcome};
use sim::profile::DeviceProfile;

use crate::ask::{Answer, NoAnswer, Question};
use crate::device::{self, Finding};
use crate::recording::{Recording, Seen};
use crate::trial::Slots;

/// Every controller: those that need no simulator, and this one.
pub fn all() -> impl Iterator<Item = &'static ControllerSpec> + Clone {
    ALL.iter().copied().chain([&SPEC])
}

/// Parses a controller with its tunables.
///
/// # Errors
/// There is no such controller, or a tunable is wrong.
pub fn parse(text: &str) -> Result<Chosen, ChosenError> {
    Chosen::parse_among(all(), text)
}

/// What a person types.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "seekwise",
    summary: "replays what it saw against every candidate in the simulator, sets what is sure to gain, and verifies",
    source: "ours; its parts are named in the head of its file",
    tunables: TUNABLES,
    build: |brief, values| Box::new(Seekwise::new(brief, values.first().copied().unwrap_or(10))),
};

static TUNABLES: &[Tunable] = &[Tunable::new(Unit::Count, 1..=1000, 10)
    .named("budget_permille", "Processor time for trials, in thousandths of one core: with little, trials are short and unsure.")];

/// What a simulated request and a fitted access cost, in nanoseconds (`cargo bench -p seekwise-twin`).
const TRIED_NS: f64 = 2_000.0;
const FITTED_NS: f64 = 20_000.0;
/// A decision is to stand within so many seconds: their budget is there from the beginning.
const DECIDES_S: f64 = 10.0;
/// A device is fitted to at most so many accesses, the latest.
const MOST_FITTED: usize = 4_000;
/// A difference of this many standard errors is significant (95%).
const SURE: f64 = 2.0;
/// Seconds after which a change can be judged, and has to be.
const JUDGED_S: (f64, f64) = (2.0, 8.0);
/// One promise that is not kept counts at most as an error of so many error bars.
const MOST_BROKEN: f64 = 3.0;
/// A load is expected to go on as long as it has lasted (Lindy's law), and at least so many seconds.
const GOES_ON_S: f64 = 8.0;
/// Two windows in a row at this distance from the load are another load, by the definition of the aspects of a [`Point`].
const ANOTHER: f64 = 1.0;
/// Windows over which a load's position is a mean, and those over which what is new is.
const MEMORY: f64 = 60.0;
const NEW: usize = 3;
/// Slots left out at once to see how sure a score is: a second.
const BLOCK: usize = 2;
/// The standard error of a score of which there is one second.
const UNKNOWN: f64 = 0.5;
/// Loads that are remembered.
const PAST: usize = 64;
/// What came of promises counts as if so many had been kept before.
const KEPT_BEFORE: f64 = 4.0;

/// A load, and what serves it.
#[derive(Clone, Debug)]
struct Load {
    from: Nanos,
    /// The mean of the windows under what serves it, and how far they are from it in the mean.
    point: Point,
    spread: f64,
    windows: f64,
    /// The latest windows, with their beginnings: they are not in the mean yet.
    latest: VecDeque<(Nanos, Point)>,
    serves: Setting,
}

impl Load {
    fn new(from: Nanos, serves: Setting) -> Load {
        Load { from, point: NOWHERE, spread: 0.0, windows: 0.0, latest: VecDeque::new(), serves }
    }

    /// Takes a window in. When another load began, if this is one by now.
    fn look(&mut self, from: Nanos, point: Point) -> Option<Nanos> {
        self.latest.push_back((from, point));
        if self.latest.len() <= NEW {
            return None;
        }
        if let Some((_, point)) = self.latest.pop_front() {
            self.windows = (self.windows + 1.0).min(MEMORY);
            approach(&mut self.point, &point, self.windows);
            self.spread += (load_distance(&self.point, &point) - self.spread) / self.windows;
        }
        let is_another = load_distance(&self.point, &self.newest()) >= ANOTHER + self.spread;
        self.latest.front().filter(|_| is_another).map(|(from, _)| *from)
    }

    /// The mean of the latest windows.
    fn newest(&self) -> Point {
        let mut mean = NOWHERE;
        self.latest.iter().enumerate().for_each(|(number, (_, point))| approach(&mut mean, point, number as f64 + 1.0));
        mean
    }

    /// All that is known of where it lies.
    fn whole(&self) -> Point {
        if self.windows > 0.0 { self.point } else { self.newest() }
    }

    /// Something else serves it from now on: what is served changes what is asked.
    fn served_by(&mut self, setting: Setting) {
        (self.serves, self.point, self.spread, self.windows) = (setting, NOWHERE, 0.0, 0.0);
        self.latest.clear();
    }
}

/// Moves a mean towards the latest of so many values.
fn approach(mean: &mut Point, value: &Point, count: f64) {
    for (mean, &value) in mean.iter_mut().zip(value) {
        if mean.is_nan() {
            *mean = value;
        } else if !value.is_nan() {
            *mean += (value - *mean) / count;
        }
    }
}

/// A change whose result is awaited.
#[derive(Clone, Debug)]
struct Pending {
    from: Setting,
    promise: Promise,
    /// How the load was served before it.
    before: Vec<WindowOutcome>,
}

/// What streams wait for, to notice one that gets nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    requests: u32,
    /// When the last one was done, or the first came.
    since: Nanos,
    /// The longest that it ever got nothing under the default.
    longest: Nanos,
}

/// The device, as far as it was fitted.
struct Device {
    profile: Arc<dyn DeviceProfile>,
    findings: Vec<Finding>,
    accesses: usize,
    /// What the schedulers that learn know of this model.
    knowledge: KnowledgeStore,
}

/// The controller.
pub struct Seekwise {
    preference: Preference,
    arms: Vec<Setting>,
    budget: f64,
    columns: Columns,
    recording: Recording,
    slots: Slots,
    device: Option<Device>,
    /// What was in force at first: starvation is judged by it.
    default: Setting,
    in_force: Setting,
    load: Load,
    past: Vec<Load>,
    known: Vec<(Point, Setting)>,
    experience: Arc<Experience>,
    /// From when on what is in force serves the load.
    evidence: Nanos,
    pending: Option<Pending>,
    /// When the twin is asked next.
    asks: Nanos,
    /// Processor time that is left, in nanoseconds.
    credit_ns: f64,
    /// What came of promises: how many, and the sum of the squares of their errors by their error bars.
    kept: (f64, f64),
    /// By arm: before that it is not tried again.
    again: Vec<Nanos>,
    waiting: BTreeMap<StreamId, Waiting>,
    is_settling: bool,
}

impl Seekwise {
    /// Chooses among the candidates of the brief, with so many thousandths of a core.
    pub fn new(brief: &Brief, budget_permille: i64) -> Seekwise {
        let any = brief.candidates.first().cloned().unwrap_or_else(|| Setting::of(block::ALL[0]));
        let budget = budget_permille as f64 / 1000.0;
        Seekwise {
            preference: brief.preference,
            arms: brief.candidates.clone(),
            budget,
            columns: Columns::described(),
            recording: Recording::new(),
            slots: Slots::latest(),
            device: None,
            default: any.clone(),
            in_force: any.clone(),
            load: Load::new(Nanos::ZERO, any),
            past: Vec::new(),
            known: Vec::new(),
            experience: brief.experience.clone(),
            evidence: Nanos::ZERO,
            pending: None,
            asks: Nanos::ZERO,
            credit_ns: budget * DECIDES_S * 1e9,
            kept: (0.0, 0.0),
            again: Vec::new(),
            waiting: BTreeMap::new(),
            is_settling: false,
        }
    }

    /// How many times as wide as usual error bars are.
    fn unsure(&self) -> f64 {
        ((KEPT_BEFORE + self.kept.1) / (KEPT_BEFORE + self.kept.0)).sqrt()
    }

    fn put(&mut self, now: Nanos, setting: Setting) -> Decision {
        self.is_settling = true;
        self.evidence = now;
        self.in_force = setting.clone();
        self.load.served_by(setting.clone());
        Decision::set(setting, String::new())
    }

    /// A stream that waits beyond its bound and gets nothing, and for how long.
    fn starving(&self, now: Nanos) -> Option<(StreamId, f64)> {
        let waits = |(stream, waiting): (&StreamId, &Waiting)| {
            let waits_s = (now - waiting.since).as_secs_f64();
            (waiting.requests > 0 && waits_s > merit::bound_s(waiting.longest.as_secs_f64())).then_some((*stream, waits_s))
        };
        self.waiting.iter().filter_map(waits).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn judge(&mut self, pending: Pending, now: Nanos) -> Decision {
        let to = self.in_force.to_string();
        let from = pending.from.to_string();
        if let Some((stream, waits_s)) = self.starving(now) {
            let why = format!("{to} lets stream {stream} wait: nothing for {waits_s:.1} s; back to {from}");
            return self.go_back(pending, now, why);
        }
        let after = self.served_since(self.evidence, now);
        let seconds = (now - self.evidence).as_secs_f64();
        let (gain, error) = self.difference(&after, &pending.before);
        let so_far = format!(
            "{} than {from}, give or take {:.0}%; {} was promised",
            percent(gain),
            100.0 * error,
            percent(pending.promise.gain)
        );
        let is_over = seconds >= JUDGED_S.1;
        if seconds < JUDGED_S.0 || !gain.is_finite() && !is_over {
            self.pending = Some(pending);
            return Decision::keep(format!("waiting for what comes of {to}"));
        }
        let is_worse = gain < -TOLERANCE.max(SURE * error) || is_over && !(gain >= 0.0);
        let is_better = gain > SURE * error;
        if is_worse {
            self.note(&pending.promise, gain);
            return self.go_back(pending, now, format!("{to} is {so_far}: back"));
        }
        if !is_better && !is_over {
            self.pending = Some(pending);
            return Decision::keep(format!("{to} is {so_far}: not sure yet"));
        }
        self.note(&pending.promise, gain);
        Decision::keep(format!("{to} stays: {so_far}"))
    }

    /// How the load was served from then on.
    fn served_since(&self, from: Nanos, now: Nanos) -> Vec<WindowOutcome> {
        self.slots.between(from.as_secs_f64(), now.as_secs_f64()).copied().collect()
    }

    /// The difference of two scores, and its standard error by the jackknife.
    fn difference(&self, after: &[WindowOutcome], before: &[WindowOutcome]) -> (f64, f64) {
        let score = |slots: &mut dyn Iterator<Item = &WindowOutcome>| {
            Served::of(slots).map_or(f64::NEG_INFINITY, |served| served.score(&self.preference))
        };
        let variance = |slots: &[WindowOutcome]| {
            let blocks = slots.len().div_ceil(BLOCK);
            let without = |block: usize| {
                let others = slots.iter().enumerate().filter(|(number, _)| number / BLOCK != block).map(|(_, slot)| slot);
                score(&mut others.into_iter())
            };
            let scores: Vec<f64> = (0..blocks).map(without).filter(|score| score.is_finite()).collect();
            if scores.len() < 2 {
                return UNKNOWN * UNKNOWN;
            }
            let count = scores.len() as f64;
            let mean = scores.iter().sum::<f64>() / count;
            (count - 1.0) / count * scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>()
        };
        (score(&mut after.iter()) - score(&mut before.iter()), (variance(after) + variance(before)).sqrt())
    }

    /// What came of a promise.
    fn note(&mut self, promise: &Promise, gain: f64) {
        let z = ((gain - promise.gain) / promise.error.max(TOLERANCE)).clamp(-MOST_BROKEN, MOST_BROKEN);
        self.kept = (self.kept.0 + 1.0, self.kept.1 + z * z);
    }

    fn go_back(&mut self, pending: Pending, now: Nanos, why: String) -> Decision {
        if let Some(arm) = self.arms.iter().position(|arm| *arm == pending.promise.setting) {
            self.again[arm] = now + (now - self.load.from);
        }
        let decision = self.put(now, pending.from);
        self.asks = now + WINDOW;
        Decision { why, expected_gain: None, ..decision }
    }

    /// Another load has begun.
    fn begin_load(&mut self, began: Nanos, now: Nanos) -> Decision {
        let mut ended = std::mem::replace(&mut self.load, Load::new(began, self.in_force.clone()));
        let latest = std::mem::take(&mut ended.latest);
        self.past.retain(|past| load_distance(&past.whole(), &ended.whole()) >= ANOTHER);
        self.past.push(ended);
        if self.past.len() > PAST {
            self.past.remove(0);
        }
        latest.into_iter().for_each(|(from, point)| {
            self.load.look(from, point);
        });
        self.pending = None;
        self.again.iter_mut().for_each(|again| *again = Nanos::ZERO);
        (self.evidence, self.asks) = (began, now);
        match self.recalled(&self.load.newest()).filter(|setting| *setting != self.in_force) {
            Some(setting) => {
                let why = format!("another load, like one that {setting} served best");
                Decision { why, ..self.put(now, setting) }
            }
            None => Decision::keep("another load"),
        }
    }

    /// What served a load like this one best.
    fn recalled(&self, point: &Point) -> Option<Setting> {
        let past = self.past.iter().map(|past| (past.whole(), &past.serves));
        let known = self.known.iter().map(|(point, setting)| (*point, setting));
        let apart = past.chain(known).map(|(other, setting)| (load_distance(&other, point), setting));
        apart.filter(|(apart, _)| *apart < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, setting)| setting.clone())
    }

    fn fit(&mut self, capacity_sectors: u64) -> Result<(), String> {
        let accesses = self.recording.seen().len().min(MOST_FITTED);
        // Twice as much tells enough more to pay for another fit.
        if self.device.as_ref().is_some_and(|device| accesses < 2 * device.accesses) {
            return Ok(());
        }
        let affordable = (self.credit_ns / 2.0 / FITTED_NS) as usize;
        if affordable < accesses && self.device.is_some() {
            return Ok(());
        }
        let accesses = accesses.min(affordable);
        let skipped = self.recording.seen().len() - accesses;
        let seen: Vec<Seen> = self.recording.seen().skip(skipped).copied().collect();
        let fitted = device::fit(&seen, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        self.credit_ns -= accesses as f64 * FITTED_NS;
        let mut knowledge = KnowledgeStore::new(sched::all());
        knowledge.turns(fitted.turn());
        self.device = Some(Device { profile: fitted.profile(), findings: fitted.findings, accesses, knowledge });
        Ok(())
    }

    fn ask(&mut self, now: Nanos, plant: &dyn Plant) -> Result<Answer, String> {
        let bounds = plant.bounds();
        self.fit(bounds.capacity_sectors)?;
        let unsure = self.unsure();
        let device = self.device.as_mut().ok_or("no device was fitted")?;
        let measured = self.slots.served(self.evidence.as_secs_f64(), now.as_secs_f64()).ok_or("nothing was done")?;
        let question = Question {
            recording: &self.recording,
            from: self.evidence,
            to: now,
            measured,
            device: &device.profile,
            knowledge: &mut device.knowledge,
            in_force: &self.in_force,
            default: &self.default,
            candidates: &self.arms,
            bounds,
            preference: self.preference,
            requests: (self.credit_ns / TRIED_NS) as u64,
            unsure,
        };
        let answer = question.ask().map_err(|reason: NoAnswer| reason.to_string())?;
        self.credit_ns -= answer.requests as f64 * TRIED_NS;
        Ok(answer)
    }

    fn decide_by(&mut self, answer: Answer, now: Nanos, plant: &dyn Plant) -> Decision {
        let goes_on_s = (now - self.load.from).as_secs_f64().max(GOES_ON_S);
        let evidence = self.evidence_of(&answer);
        let pays = |promise: &&Promise| {
            let costs_s = plant.switching_time(&self.in_force, &promise.setting).as_secs_f64();
            let sure = promise.gain - promise.error;
            let is_free = self.arms.iter().position(|arm| *arm == promise.setting).is_some_and(|arm| self.again[arm] <= now);
            is_free && !promise.starves() && sure > TOLERANCE && sure * goes_on_s > costs_s
        };
        let in_force_starves = answer.promises.iter().any(|promise| promise.setting == self.in_force && promise.starves());
        let best = answer.promises.iter().filter(pays).max_by(|a, b| (a.gain - a.error).total_cmp(&(b.gain - b.error)));
        match best.cloned() {
            Some(promise) => {
                let before = self.served_since(self.evidence, now);
                let from = self.in_force.clone();
                let why = format!(
                    "{} promises to be {}, give or take {:.0}%",
                    promise.setting,
                    percent(promise.gain),
                    100.0 * promise.error
                );
                let decision = self.put(now, promise.setting.clone());
                let expected_gain = Some(promise.gain);
                self.pending = Some(Pending { from, promise, before });
                Decision { why, expected_gain, ..decision }.resting_on(evidence)
            }
            None => {
                let best = answer.promises.iter().find(|promise| !promise.starves() && promise.setting != self.in_force);
                let best = best.map_or(String::new(), |best| {
                    format!("; the best other is {}: {}, give or take {:.0}%", best.setting, percent(best.gain), 100.0 * best.error)
                });
                let starves = if in_force_starves { "; it lets a stream wait too long, as all do that gain" } else { "" };
                Decision::keep(format!("leave {} alone: nothing is sure to be better{best}{starves}", self.in_force))
                    .resting_on(evidence)
            }
        }
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
                self.in_force,
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

    fn begin(&mut self, now: Nanos, plant: &dyn Plant) -> Decision {
        let found = plant.setting();
        let known = plant.schedulers();
        self.arms.retain(|arm| known.iter().any(|spec| spec.name == arm.spec.name));
        if !self.arms.contains(&found) {
            self.arms.insert(0, found.clone());
        }
        self.again = vec![Nanos::ZERO; self.arms.len()];
        (self.default, self.in_force) = (found.clone(), found.clone());
        self.load = Load::new(now, found);
        (self.evidence, self.asks) = (now, now);
        let _ = &self.experience;
        Decision::keep("nothing was seen yet")
    }

    fn extent(&self) -> Extent {
        Extent { time: Some(WINDOW), requests: None }
    }

    fn event(&mut self, event: &Event) -> bool {
        self.recording.event(event);
        self.slots.event(event);
        match event {
            Event::Queued(request) if request.is_sync() => {
                let waiting = self.waiting.entry(request.stream).or_default();
                if waiting.requests == 0 {
                    waiting.since = request.arrival;
                }
                waiting.requests += 1;
            }
            Event::Completed { request, at, .. } if request.is_sync() => {
                let waiting = self.waiting.entry(request.stream).or_default();
                if self.in_force == self.default {
                    waiting.longest = waiting.longest.max(*at - waiting.since);
                }
                (waiting.requests, waiting.since) = (waiting.requests.saturating_sub(1), *at);
            }
            _ => {}
        }
        false
    }

    fn decide(&mut self, window: &Window, plant: &dyn Plant) -> Decision {
        let now = window.to;
        self.slots.until(now);
        self.credit_ns = (self.credit_ns + self.budget * window.duration().0 as f64).min(self.budget * DECIDES_S * 1e9);
        if std::mem::take(&mut self.is_settling) {
            // Requests that were queued before the change are served by another scheduler.
            self.evidence = now;
            return Decision::keep("settling");
        }
        if let Some(pending) = self.pending.take() {
            return self.judge(pending, now);
        }
        if self.in_force != self.default
            && let Some((stream, waits_s)) = self.starving(now)
        {
            let why = format!("stream {stream} got nothing for {waits_s:.1} s under {}: back to {}", self.in_force, self.default);
            self.asks = now + WINDOW;
            return Decision { why, ..self.put(now, self.default.clone()) };
        }
        if window.outcome.requests >= FEWEST {
            let row = describe(&window.features, &window.outcome);
            let point = self.columns.point(|column| row.get(column).copied());
            if let Some(began) = self.load.look(window.from, point) {
                return self.begin_load(began, now);
            }
        }
        if now < self.asks {
            return Decision::keep("nothing new to ask");
        }
        match self.ask(now, plant) {
            Ok(answer) => {
                self.asks = now + (now - self.load.from).max(WINDOW);
                self.decide_by(answer, now, plant)
            }
            Err(reason) => Decision::keep(format!("no advice of the twin: {reason}")),
        }
    }

    fn refused(&mut self, setting: &Setting, _reason: &str) {
        if let Some(arm) = self.arms.iter().position(|arm| arm == setting) {
            self.again[arm] = Nanos(u64::MAX);
        }
        if let Some(pending) = self.pending.take() {
            self.in_force = pending.from.clone();
            self.load.serves = pending.from;
        }
        self.is_settling = false;
    }
}
