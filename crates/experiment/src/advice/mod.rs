//! Advice for a whole load: the setting to use, what it would bring, and how sure that is.
//!
//! ```text
//! recording, or a run in the simulator ─▶ observed ─┬─▶ phases ─▶ samples ─┐
//!                                                   └─▶ device ────────────┴─▶ twin: every candidate ─▶ one for all ─▶ run, where simulated
//! ```
//! The brain is that of the controller `seekwise`; here it has the whole recording and no budget.

mod asked;
pub mod counted;
mod linux;
mod observed;
mod phases;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};
use control::Setting;
use control::controller::Prediction;
use control::experience::{MIN_REQUESTS, WINDOW};
use observe::Preference;
use observe::merit;
use observe::merit::{TOLERANCE, Tail};
use observe::performance::Performance;
use observe::window::Tally;
use report::advice::{Advice, Measured, SCHEMA, Verdict};
use sim::trace::OpenOptions;
use sim::trace::parquet::SCHEDULER_KEY;
use twin::device::{self, Residual};

use crate::bench::tails;
use crate::comparison::{Experiment, ReplayOptions, percent, promise as on_record, regime};
use crate::pool::Crew;
use crate::shipped;
use asked::{Brain, Judged, MOST_JUDGED, Sample};
use observed::Observed;
use phases::{Phase, Seconds};
use progress::Monitor;

/// The tunable of the host that is judged.
const READ_AHEAD: &str = "read_ahead_kb";
/// Phases that are asked about, the longest.
const MOST_PHASES: usize = 8;
/// The share of the requests that the fit which is judged goes by.
const JUDGED_BEHIND: f64 = 2.0 / 3.0;
/// Schedulers that are run where there is a simulator.
const MOST_RUN: usize = 3;
/// Streams of a phase that are shown.
const MOST_STREAMS: usize = 3;
/// A stream whose mean response time grows less does not pay.
const PAYS: f64 = 1.1;
/// Two runs whose lengths differ by less, as a share, are compared second by second.
const ALIKE: f64 = 0.05;

/// What is to be judged.
pub struct Wanted {
    /// The load, and on what it is run if it is run.
    pub experiment: Experiment,
    /// Whether a disk was named: else a trace is taken as it was recorded.
    pub names_disk: bool,
    /// Of several devices in a recording, this one.
    pub device: Option<u32>,
    /// What was in force, or is in force when it is run; else what the recording says, or what Linux gives a disk.
    pub in_force: Option<Setting>,
}

/// Under what another setting was run, and what came of it.
struct Tried {
    observed: Observed,
    seconds: Seconds,
    promise: Prediction,
    gain: f64,
    p99_by_bound: f64,
}

/// A monitor for one of several pieces of work: their number is shown, and not how far each is.
struct Unseen<'a>(&'a dyn Monitor);

impl Monitor for Unseen<'_> {
    fn begin(&self, _total: u64, _what: &str) {}

    fn progress(&self, _done: u64) {}

    fn end(&self) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }

    fn stop(&self) -> &AtomicBool {
        self.0.stop()
    }
}

/// Judges it.
///
/// # Errors
/// Something of the input is wrong, a file cannot be read, or the work was interrupted.
pub fn advise(wanted: &Wanted, crew: Crew) -> anyhow::Result<Advice> {
    let Wanted { experiment, .. } = wanted;
    let mut candidates = experiment.candidates()?;
    let preference = experiment.preference.unwrap_or_default();
    let is_recorded = !wanted.names_disk && shipped::job_text(&experiment.load)?.is_none();
    // Of a recording it shows what was read ahead; in the simulator it is tried by running it.
    let is_judged = |name: &str| is_recorded && name == READ_AHEAD;
    if let Some(setting) = candidates.iter().find(|setting| setting.host.iter().any(|(name, _)| !is_judged(name))) {
        bail!("--candidates {setting}: tunables of the host are not judged here; name a scheduler with its own tunables");
    }
    let run = if is_recorded {
        wanted.expect_recording()?;
        None
    } else {
        ensure!(wanted.device.is_none(), "--device: is for a recording, and with --disk all of a trace is run on one disk");
        let world = experiment.world()?;
        Some((experiment.load(&world, crew.monitor)?, world))
    };
    let observed = match &run {
        None => {
            let ReplayOptions { format, skip_bad, .. } = experiment.replay.clone();
            let options = OpenOptions { format, skip_bad };
            Observed::recorded(&experiment.load, &options, wanted.device, crew.monitor)?
        }
        Some((load, world)) => {
            crew.monitor.begin(load.expected_requests().unwrap_or(0), "running it");
            let in_force = wanted.in_force(None)?;
            let observed = Observed::simulated(&**load, world, &in_force, crew.monitor);
            crew.monitor.end();
            observed?
        }
    };
    let in_force = &wanted.in_force(observed.scheduler.as_deref())?;
    if !observed.seen.iter().any(|seen| seen.request.is_read_ahead()) {
        candidates.retain(|setting| setting.host.is_empty());
    }
    let seconds = phases::seconds(&observed);
    let phases = phases::phases(&seconds);
    let source = match &run {
        None => "times as recorded".to_owned(),
        Some((_, world)) => format!("run on {} in the simulator", world.device()),
    };
    let lasts_s = observed.lasts().as_secs_f64();
    let mut advice = nothing_known(name(&experiment.load), source, lasts_s, (in_force, &preference.to_string()));
    advice.is_simulated = run.is_some();
    advice.requests = observed.seen.len() as u64;
    advice.busy_s = phases.iter().map(|phase| phase.seconds() as f64).sum();
    advice.notes.clone_from(&observed.notes);
    if phases.is_empty() {
        let why = format!("no second has {MIN_REQUESTS} requests, so hardly any two of them meet, and no scheduler has a choice.");
        advice.verdict = leave_alone(in_force, why);
        return Ok(advice);
    }
    crew.monitor.begin(0, "fitting the device");
    let capacity = observed.knows_capacity.then_some(observed.bounds.capacity_sectors);
    let fitted = device::fit_and_judge(&asked::fitted_to(&observed), capacity, JUDGED_BEHIND);
    crew.monitor.end();
    crew.monitor.check()?;
    let (fitted, residual) = match fitted {
        Ok(fitted) => fitted,
        Err(error) => {
            advice.verdict = leave_alone(in_force, format!("too little was seen to know the device by: {error}."));
            return Ok(advice);
        }
    };
    advice.device = fitted.findings.iter().map(|one| (one.name.to_owned(), one.text(), one.rests_on())).collect();
    let device = fitted.profile();
    let brain = Brain { observed: &observed, device: &device, turn: fitted.turn(), in_force, candidates: &candidates, preference };
    let judgement = Judgement::of(&brain, &phases, &seconds, crew)?;
    advice.candidates = judgement.overall.iter().map(on_record).collect();
    advice.sure = judgement.sure(&phases, &residual, in_force);
    let runs = match &run {
        Some((load, world)) => {
            let promises = judgement.worth_a_run(in_force);
            let found = crew.map("running the best of them", &promises, |promise| {
                Observed::simulated(&**load, world, &promise.setting, &Unseen(crew.monitor))
            })?;
            let runs = promises.into_iter().zip(found);
            runs.map(|(promise, found)| judgement.tried(&observed, &seconds, &phases, found, promise, &preference)).collect()
        }
        None => Vec::new(),
    };
    let choice = Choice { in_force, judgement: &judgement, runs: &runs, is_run: run.is_some() };
    advice.verdict = choice.verdict();
    if advice.verdict.is_change {
        advice.verdict.cost = choice.cost(&advice.verdict, &observed);
    }
    let shown = choice.shown();
    let tried = runs.iter().find(|tried| Some(&tried.promise.setting) == shown);
    advice.phases = judgement.phases(&phases, &seconds, shown, &observed, tried, &preference);
    advice.measured = runs.iter().map(|tried| tried.measured(&seconds)).collect();
    let to_use = choice.best().map_or(in_force, |best| &best.setting);
    advice.udev = linux::rule(to_use, in_force, choice.best_of(linux::has).map(|best| &best.setting));
    Ok(advice)
}

impl Wanted {
    /// What is or was in force, where the recording says this.
    fn in_force(&self, recorded: Option<&str>) -> anyhow::Result<Setting> {
        let said = |text: &str| {
            let of = || format!("{}: {SCHEDULER_KEY} {text:?}; --scheduler says what it was", self.experiment.load.display());
            Setting::parse(text).with_context(of)
        };
        match (&self.in_force, recorded) {
            (Some(setting), _) => Ok(setting.clone()),
            (None, Some(text)) => said(text),
            (None, None) => regime::scheduler(regime::FOUND),
        }
    }

    /// Refuses what only a run heeds.
    fn expect_recording(&self) -> anyhow::Result<()> {
        let Experiment { replay, queue_depth, queue_policy, host, .. } = &self.experiment;
        let of_replay = ReplayOptions { format: None, skip_bad: false, ..replay.clone() }.given();
        let given =
            [(queue_depth.is_some(), "--queue-depth"), (queue_policy.is_some(), "--queue-policy"), (!host.is_empty(), "--set")];
        let given = of_replay.or_else(|| given.into_iter().find(|(given, _)| *given).map(|(_, name)| name));
        match given {
            Some(name) => bail!(
                "{name}: is for a run in the simulator, and the times of a recording are taken as they are; name a --disk to run it on"
            ),
            None => Ok(()),
        }
    }
}

fn name(path: &Path) -> String {
    let is_shipped = shipped::find(&path.to_string_lossy()).is_some();
    let name = if is_shipped { path.as_os_str() } else { path.file_name().unwrap_or(path.as_os_str()) };
    name.to_string_lossy().into_owned()
}

/// Advice before anything was found out of a load, which is to leave alone what is in force.
fn nothing_known(load: String, source: String, lasts_s: f64, (in_force, preference): (&Setting, &str)) -> Advice {
    Advice {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        load,
        source,
        is_simulated: false,
        requests: 0,
        lasts_s,
        busy_s: 0.0,
        in_force: in_force.to_string(),
        preference: preference.to_owned(),
        verdict: leave_alone(in_force, String::new()),
        candidates: Vec::new(),
        measured: Vec::new(),
        phases: Vec::new(),
        device: Vec::new(),
        sure: Vec::new(),
        udev: linux::rule(in_force, in_force, None),
        notes: Vec::new(),
    }
}

fn leave_alone(in_force: &Setting, why: String) -> Verdict {
    Verdict { setting: in_force.to_string(), is_change: false, text: format!("Leave {in_force} alone: {why}"), cost: Vec::new() }
}

/// A gain as text.
fn text_of(gain: f64) -> String {
    report::promises::signed(percent(gain))
}

fn text_with_error(promise: &Prediction) -> String {
    report::promises::with_error(percent(promise.gain), 100.0 * promise.error)
}

/// What to choose, from promises and runs.
struct Choice<'a> {
    in_force: &'a Setting,
    judgement: &'a Judgement,
    runs: &'a [Tried],
    /// What was not run is not chosen where things are run.
    is_run: bool,
}

impl Choice<'_> {
    /// What is better than what is in force, if anything is.
    fn best(&self) -> Option<&Prediction> {
        self.best_of(|_| true)
    }

    fn best_of(&self, counts: impl Fn(&Setting) -> bool) -> Option<&Prediction> {
        if self.is_run {
            let good = self.runs.iter().filter(|tried| tried.is_better() && counts(&tried.promise.setting));
            return good.max_by(|a, b| a.gain.total_cmp(&b.gain)).map(|tried| &tried.promise);
        }
        self.judgement.others(self.in_force).find(|promise| counts(&promise.setting)).filter(|promise| promise.is_sure())
    }

    /// What is best, or comes nearest to being so.
    fn shown(&self) -> Option<&Setting> {
        let run = || self.runs.first().map(|tried| &tried.promise);
        let promised = || self.judgement.others(self.in_force).next();
        self.best().or_else(run).or_else(promised).map(|promise| &promise.setting)
    }

    fn verdict(&self) -> Verdict {
        let in_force = self.in_force;
        if let Some(best) = self.best() {
            let promised = text_with_error(best);
            let run = self.runs.iter().find(|tried| tried.promise.setting == best.setting);
            let why = match run.map(|tried| text_of(tried.gain)) {
                None => format!("it promises {promised}."),
                Some(gain) if best.is_sure() => format!("it promises {promised}, and gains {gain} when it is run."),
                Some(gain) => format!("it gains {gain} when it is run; the twin alone was not sure of it ({promised})."),
            };
            let text = format!("Use {} instead of {in_force}: {why}", best.setting);
            return Verdict { setting: best.setting.to_string(), is_change: true, text, cost: Vec::new() };
        }
        let Some(best) = self.judgement.others(in_force).next() else {
            return match self.judgement.reason() {
                Some(reason) => leave_alone(in_force, format!("there is no advice for any phase: {reason}.")),
                None => leave_alone(in_force, "every other candidate lets a stream starve.".to_owned()),
            };
        };
        let promised = text_with_error(best);
        let sure = self.runs.iter().find(|tried| tried.promise.is_sure());
        if let Some(tried) = sure {
            let came =
                if tried.p99_by_bound > 1.0 { "lets a stream starve".to_owned() } else { format!("gains {}", text_of(tried.gain)) };
            let promised = text_with_error(&tried.promise);
            return leave_alone(in_force, format!("{} promised {promised}, but {came} when it is run.", tried.promise.setting));
        }
        if self.judgement.overall.iter().all(|promise| promise.gain.abs() < TOLERANCE) {
            return leave_alone(in_force, format!("no candidate is {:.0}% better or worse by the twin.", 100.0 * TOLERANCE));
        }
        leave_alone(in_force, format!("nothing is sure to be better. The best other is {}: {promised}.", best.setting))
    }

    /// Who pays for the change.
    fn cost(&self, verdict: &Verdict, observed: &Observed) -> Vec<String> {
        let tried = self.runs.iter().find(|tried| tried.promise.setting.to_string() == verdict.setting);
        self.judgement.cost(verdict, self.in_force, observed, tried)
    }
}

/// What the twin says of every phase, and of all.
struct Judgement {
    samples: Vec<Sample>,
    answers: Vec<Result<Judged, twin::NoAnswer>>,
    /// By phase; empty where there is no answer.
    by_phase: Vec<Vec<Prediction>>,
    overall: Vec<Prediction>,
}

impl Judgement {
    fn of(brain: &Brain, phases: &[Phase], seconds: &Seconds, crew: Crew) -> anyhow::Result<Judgement> {
        let asked = phases.iter().enumerate().take(MOST_PHASES);
        let samples: Vec<Sample> = asked.flat_map(|(number, phase)| asked::samples(number, phase, seconds)).collect();
        let answers = brain.ask(&samples, crew)?;
        let by_phase: Vec<Vec<Prediction>> = (0..phases.len())
            .map(|number| {
                let of_phase = samples.iter().zip(&answers).filter(|(sample, _)| sample.phase == number);
                let judged: Vec<&Judged> = of_phase.filter_map(|(_, answer)| answer.as_ref().ok()).collect();
                asked::of_phase(&judged, brain.in_force)
            })
            .collect();
        let answered: Vec<(f64, &[Prediction])> = phases
            .iter()
            .zip(&by_phase)
            .filter(|(_, promises)| !promises.is_empty())
            .map(|(phase, promises)| (phase.seconds() as f64, promises.as_slice()))
            .collect();
        let overall = asked::of_all(&answered);
        Ok(Judgement { samples, answers, by_phase, overall })
    }

    /// Why there is no answer, of the first sample without one, where there is none at all.
    fn reason(&self) -> Option<String> {
        if !self.overall.is_empty() {
            return None;
        }
        self.answers.iter().find_map(|answer| answer.as_ref().err()).map(ToString::to_string)
    }

    /// Those that let nobody starve, the best first.
    fn others(&self, in_force: &Setting) -> impl Iterator<Item = &Prediction> {
        self.overall.iter().filter(move |promise| promise.setting != *in_force && !promise.starves())
    }

    /// Of each of the best schedulers the setting that promises most, sure or not; and what Linux has, with its defaults.
    fn worth_a_run(&self, in_force: &Setting) -> Vec<Prediction> {
        let mut worth: Vec<Prediction> = Vec::new();
        for promise in self.others(in_force).filter(|promise| promise.gain > 0.0) {
            let is_first = worth.iter().all(|other| other.setting.spec.name != promise.setting.spec.name);
            if is_first && worth.len() < MOST_RUN {
                worth.push(promise.clone());
            }
        }
        // What a person would set on Linux, even if it promises nothing.
        let plain = |promise: &&Prediction| linux::has(&promise.setting) && promise.setting == Setting::of(promise.setting.spec);
        let of_linux: Vec<Prediction> =
            self.others(in_force).filter(plain).filter(|promise| !worth.contains(promise)).cloned().collect();
        worth.extend(of_linux);
        worth
    }

    fn is_answered(&self, phase: usize) -> bool {
        !self.by_phase[phase].is_empty()
    }

    fn sure(&self, phases: &[Phase], residual: &Residual, in_force: &Setting) -> Vec<String> {
        let busy: u64 = phases.iter().map(Phase::seconds).sum();
        let answered = phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)).map(|(_, phase)| phase.seconds());
        let good: Vec<f64> = self.answers.iter().flatten().map(|judged| judged.off.abs()).collect();
        let worst = good.iter().copied().fold(0.0, f64::max);
        vec![
            format!(
                "Samples spread over the phases: {}, of each phase about {MOST_JUDGED} requests at most; {:.0}% of the busy time has an answer.",
                self.samples.len(),
                100.0 * answered.sum::<u64>() as f64 / busy.max(1) as f64
            ),
            format!(
                "Under {in_force} the twin reproduces {} of {} samples, the worst of them to {:.0}%: errors are at least as wide as that.",
                good.len(),
                self.answers.len(),
                percent(worst)
            ),
            format!(
                "The fitted device takes {:.3} ms a request where the real one took {:.3}, on {} accesses held out.",
                residual.mean_ms + residual.mean_error_ms,
                residual.mean_ms,
                residual.accesses
            ),
        ]
    }

    fn phases(
        &self,
        phases: &[Phase],
        seconds: &Seconds,
        shown: Option<&Setting>,
        observed: &Observed,
        tried: Option<&Tried>,
        preference: &Preference,
    ) -> Vec<report::advice::Phase> {
        let one = |(number, phase): (usize, &Phase)| {
            let promises = &self.by_phase[number];
            let promise = promises.iter().find(|promise| Some(&promise.setting) == shown);
            let least = promise.map_or(0.0, |promise| promise.gain.max(0.0));
            let wants = promises.first().filter(|best| !best.starves() && best.sure_gain() > least + TOLERANCE);
            let of_phase =
                || self.samples.iter().zip(&self.answers).filter(|(sample, _)| sample.phase == number).map(|(_, answer)| answer);
            let off = of_phase().flatten().map(|judged| judged.off).max_by(|a, b| a.abs().total_cmp(&b.abs()));
            let reason = || match of_phase().find_map(|answer| answer.as_ref().err()) {
                Some(reason) => reason.to_string(),
                None => "too small a part of the load".to_owned(),
            };
            let streams = of_phase().flatten().next().map_or(Vec::new(), |judged| streams(judged, observed));
            report::advice::Phase {
                number: number as u32 + 1,
                spans_s: phase.stretches.iter().map(|stretch| (stretch.from as f64, stretch.to as f64)).collect(),
                lasts_s: phase.seconds() as f64,
                requests: phase.requests(seconds),
                streams,
                wants: wants.filter(|wants| Some(&wants.setting) != shown).map(on_record),
                promise: promise.map(on_record),
                measured_percent: tried.and_then(|tried| tried.gain_in(observed, seconds, phase, preference)).map(percent),
                off_percent: off.map(percent),
                unanswered: (!self.is_answered(number)).then(reason),
            }
        };
        phases.iter().enumerate().map(one).collect()
    }

    /// What came of running the promise.
    fn tried(
        &self,
        before: &Observed,
        seconds_before: &Seconds,
        phases: &[Phase],
        observed: Observed,
        promise: Prediction,
        preference: &Preference,
    ) -> Tried {
        let seconds = phases::seconds(&observed);
        let p99_by_bound = merit::max_wait_ratio(&tails(observed.streams.iter()), &tails(before.streams.iter()));
        let mut tried = Tried { observed, seconds, promise, gain: 0.0, p99_by_bound };
        // As the promise is added up, where both runs do the same at the same time.
        let (mut sum, mut whole) = (0.0, 0.0);
        for (_, phase) in phases.iter().enumerate().filter(|(number, _)| self.is_answered(*number)) {
            if let Some(gain) = tried.gain_in(before, seconds_before, phase, preference) {
                sum += gain * phase.seconds() as f64;
                whole += phase.seconds() as f64;
            }
        }
        let score = |seconds: &Seconds| whole_run(seconds).map_or(f64::NAN, |served| served.score(preference));
        tried.gain = if whole > 0.0 { sum / whole } else { score(&tried.seconds) - score(seconds_before) };
        tried
    }

    /// Who pays for the change.
    fn cost(&self, verdict: &Verdict, in_force: &Setting, observed: &Observed, tried: Option<&Tried>) -> Vec<String> {
        let of = |setting: &str| self.overall.iter().find(|promise| promise.setting.to_string() == setting);
        let (Some(to), Some(from)) = (of(&verdict.setting), of(&in_force.to_string())) else { return Vec::new() };
        let mut cost = Vec::new();
        if to.throughput < 0.99 * from.throughput {
            cost.push(format!("Throughput pays: {:.3} MB/s instead of {:.3}.", to.throughput / 1e6, from.throughput / 1e6));
        }
        if to.response_s > 1.01 * from.response_s {
            cost.push(format!(
                "Response time pays: {:.3} ms in the mean instead of {:.3}.",
                1e3 * to.response_s,
                1e3 * from.response_s
            ));
        }
        if to.p99_by_bound > PAYS * from.p99_by_bound {
            let (to, from) = (to.p99_by_bound, from.p99_by_bound);
            cost.push(format!("The longest p99 response time of a stream rises to {to:.2} of its bound, from {from:.2}."));
        }
        if let Some(tried) = tried.filter(|tried| tried.promise.setting == to.setting) {
            cost.extend(streams_that_pay(observed, &tried.observed));
        }
        if cost.is_empty() {
            cost.push("Nobody pays for it by more than a tenth.".to_owned());
        }
        cost
    }
}

/// The streams whose response time grew most.
fn streams_that_pay(before: &Observed, after: &Observed) -> Option<String> {
    let mut grown: Vec<(f64, String)> = Vec::new();
    for (&stream, was) in before.streams.iter().filter(|(_, was)| was.responses.count() >= merit::LEAST_REQUESTS) {
        let Some(is) = after.streams.get(&stream).filter(|is| is.responses.count() > 0) else { continue };
        let (was_ms, is_ms) = (was.responses.mean().as_millis_f64(), is.responses.mean().as_millis_f64());
        if is_ms > PAYS * was_ms {
            grown.push((is_ms / was_ms, format!("{} ({is_ms:.2} ms instead of {was_ms:.2})", before.name(stream))));
        }
    }
    grown.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = if grown.len() > MOST_STREAMS { format!(" and {} more", grown.len() - MOST_STREAMS) } else { String::new() };
    let named: Vec<String> = grown.into_iter().take(MOST_STREAMS).map(|(_, text)| text).collect();
    (!named.is_empty()).then(|| format!("Streams that wait longer: {}{more}.", named.join(", ")))
}

fn streams(judged: &Judged, observed: &Observed) -> Vec<String> {
    let mut streams = judged.streams.clone();
    streams.sort_by_key(|stream| (std::cmp::Reverse(stream.requests), stream.stream));
    let more = streams.len().saturating_sub(MOST_STREAMS);
    let one = |stream: &twin::load::Understood| {
        format!(
            "stream {}: {}, {} in flight, {:.1} requests/s",
            observed.name(stream.stream),
            stream.pace.name(),
            stream.in_flight,
            stream.rate
        )
    };
    let mut texts: Vec<String> = streams.iter().take(MOST_STREAMS).map(one).collect();
    if more > 0 {
        texts.push(format!("and {more} more streams"));
    }
    texts
}

/// How the requests of a recording were served.
pub struct ServedIn {
    /// All of them.
    pub served: Performance,
    /// How long its streams waited, each with its program's name, in the order of their numbers.
    pub tails: Vec<(String, Tail)>,
}

/// How the requests of a recording were served; `None` if no second has enough of them to judge by.
///
/// # Errors
/// As for [`advise`].
pub fn served_in(path: &Path, options: &OpenOptions, monitor: &dyn Monitor) -> anyhow::Result<Option<ServedIn>> {
    let observed = Observed::recorded(path, options, None, monitor)?;
    let seconds = phases::seconds(&observed);
    let is_busy = seconds.values().any(phases::Second::is_busy);
    let name = |stream| observed.names.get(&stream).cloned().unwrap_or_default();
    let tails = observed.tails().into_iter().map(|(stream, tail)| (name(stream), tail)).collect();
    Ok(whole_run(&seconds).filter(|_| is_busy).map(|served| ServedIn { served, tails }))
}

fn whole_run(seconds: &Seconds) -> Option<Performance> {
    Performance::of(seconds.values().map(|second| &second.outcome))
}

impl Tried {
    /// Whether it gains something and lets nobody starve.
    fn is_better(&self) -> bool {
        self.gain > TOLERANCE && self.p99_by_bound <= 1.0
    }

    /// By how much it serves a phase better, where both runs do the same at the same time.
    fn gain_in(&self, before: &Observed, seconds: &Seconds, phase: &Phase, preference: &Preference) -> Option<f64> {
        let (was, is) = (before.lasts().as_secs_f64(), self.observed.lasts().as_secs_f64());
        if (is - was).abs() > ALIKE * was {
            return None;
        }
        // A second in which nothing was done still passes.
        let nothing = Tally::new().close(WINDOW);
        let score = |seconds: &Seconds| {
            let numbers = phase.stretches.iter().flat_map(|stretch| stretch.from..stretch.to);
            let outcomes: Vec<_> = numbers.map(|number| seconds.get(&number).map_or(nothing, |second| second.outcome)).collect();
            Some(Performance::of(&outcomes)?.score(preference))
        };
        Some(score(&self.seconds)? - score(seconds)?).filter(|gain| gain.is_finite())
    }

    fn measured(&self, before: &Seconds) -> Measured {
        let figures = |seconds: &Seconds| {
            whole_run(seconds)
                .map_or((f64::NAN, f64::NAN), |served| (f64::from(served.throughput) / 1e6, 1e3 * f64::from(served.response_s)))
        };
        let (was, is) = (figures(before), figures(&self.seconds));
        Measured {
            setting: self.promise.setting.to_string(),
            promised_percent: percent(self.promise.gain),
            error_percent: 100.0 * self.promise.error,
            gain_percent: percent(self.gain),
            throughput_mb_s: (was.0, is.0),
            response_ms: (was.1, is.1),
            p99_by_bound: self.p99_by_bound,
        }
    }
}
