//! Advice for a whole load: the setting to use, what it would bring, and how sure that is.
//!
//! ```text
//! recording, or a run in the simulator ─▶ observed ─┬─▶ phases ─▶ samples ─┐
//!                                                   └─▶ device ────────────┴─▶ twin: every candidate ─▶ one for all ─▶ run, where simulated
//! ```
//! The brain is that of the controller `seekwise`; here it has the whole recording and no budget.

mod asked;
mod choose;
mod confirm;
mod cost;
pub mod counted;
pub mod iostat;
mod judgement;
mod linux;
mod observed;
mod phases;
mod text;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail, ensure};
use control::Setting;
use control::experience::MIN_REQUESTS;
use observe::merit::Tail;
use observe::performance::Performance;
use report::advice::Advice;
use sim::trace::OpenOptions;
use sim::trace::parquet::SCHEDULER_KEY;
use twin::device;

use crate::comparison::{Experiment, ReplayOptions, promise as on_record, regime};
use crate::pool::Workers;
use crate::shipped;
use asked::Brain;
use choose::Choice;
use confirm::whole_run;
use judgement::Judgement;
use observed::Observed;
use progress::Monitor;
use text::{leave_alone, nothing_known};

/// The tunable of the host that is judged.
const READ_AHEAD: &str = "read_ahead_kb";
/// The share of the requests that the fit which is judged goes by.
const JUDGED_BEHIND: f64 = 2.0 / 3.0;

/// What is to be judged.
pub struct AdviceRequest {
    /// The load, and on what it is run if it is run.
    pub experiment: Experiment,
    /// Whether a disk was named: else a trace is taken as it was recorded.
    pub names_disk: bool,
    /// Of several devices in a recording, this one.
    pub device: Option<u32>,
    /// The active setting; `None` takes what the recording says, else the default of Linux.
    pub active: Option<Setting>,
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
pub fn advise(request: &AdviceRequest, workers: Workers) -> anyhow::Result<Advice> {
    let AdviceRequest { experiment, .. } = request;
    let mut candidates = experiment.candidates()?;
    let preference = experiment.preference.unwrap_or_default();
    let is_recorded = !request.names_disk && shipped::job_text(&experiment.load)?.is_none();
    // Of a recording it shows what was read ahead; in the simulator it is confirmed by running it.
    let is_judged = |name: &str| is_recorded && name == READ_AHEAD;
    if let Some(setting) = candidates.iter().find(|setting| setting.host.iter().any(|(name, _)| !is_judged(name))) {
        bail!("--candidates {setting}: tunables of the host are not judged here; name a scheduler with its own tunables");
    }
    let run = if is_recorded {
        request.expect_recording()?;
        None
    } else {
        ensure!(request.device.is_none(), "--device: is for a recording, and with --disk all of a trace is run on one disk");
        let world = experiment.world()?;
        Some((experiment.load(&world, workers.monitor)?, world))
    };
    let observed = match &run {
        None => {
            let ReplayOptions { format, columns, skip_bad, .. } = experiment.replay.clone();
            let options = OpenOptions { format, columns, skip_bad, ..OpenOptions::default() };
            Observed::recorded(&experiment.load, &options, request.device, workers.monitor)?
        }
        Some((load, world)) => {
            workers.monitor.begin(load.expected_requests().unwrap_or(0), "running it");
            let active = request.active(None)?;
            let observed = Observed::simulated(&**load, world, &active, workers.monitor);
            workers.monitor.end();
            observed?
        }
    };
    let active = &request.active(observed.scheduler.as_deref())?;
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
    let mut advice = nothing_known(name(&experiment.load), source, lasts_s, (active, &preference.to_string()));
    advice.is_simulated = run.is_some();
    advice.requests = observed.seen.len() as u64;
    advice.busy_s = phases.iter().map(|phase| phase.seconds() as f64).sum();
    advice.notes.clone_from(&observed.notes);
    if phases.is_empty() {
        let why = format!("no second has {MIN_REQUESTS} requests, so hardly any two of them meet, and no scheduler has a choice.");
        advice.verdict = leave_alone(active, why);
        return Ok(advice);
    }
    workers.monitor.begin(0, "fitting the device");
    let capacity = observed.knows_capacity.then_some(observed.bounds.capacity_sectors);
    let fitted = device::fit_and_judge(&asked::fitted_to(&observed), capacity, JUDGED_BEHIND);
    workers.monitor.end();
    workers.monitor.check()?;
    let (fitted, residual) = match fitted {
        Ok(fitted) => fitted,
        Err(error) => {
            advice.verdict = leave_alone(active, format!("too little was seen to know the device by: {error}."));
            return Ok(advice);
        }
    };
    advice.device = fitted.findings.iter().map(|one| (one.name.to_owned(), one.text(), one.rests_on())).collect();
    let device = fitted.profile();
    let brain = Brain { observed: &observed, device: &device, turn: fitted.turn(), active, candidates: &candidates, preference };
    let judgement = Judgement::of(&brain, &phases, &seconds, workers)?;
    advice.candidates = judgement.overall.iter().map(on_record).collect();
    advice.sure = judgement.sure(&phases, &residual, active);
    let runs = match &run {
        Some((load, world)) => {
            let promises = judgement.worth_a_run(active);
            let found = workers.map("running the best of them", &promises, |promise| {
                Observed::simulated(&**load, world, &promise.setting, &Unseen(workers.monitor))
            })?;
            let runs = promises.into_iter().zip(found);
            runs.map(|(promise, found)| judgement.confirmed(&observed, &seconds, &phases, found, promise, &preference)).collect()
        }
        None => Vec::new(),
    };
    let choice = Choice { active, judgement: &judgement, runs: &runs, is_run: run.is_some() };
    advice.verdict = choice.verdict();
    if advice.verdict.is_change {
        advice.verdict.cost = choice.cost(&advice.verdict, &observed);
    }
    let shown = choice.shown();
    let confirmed = runs.iter().find(|confirmed| Some(&confirmed.promise.setting) == shown);
    advice.phases = judgement.phases(&phases, &seconds, shown, &observed, confirmed, &preference);
    advice.measured = runs.iter().map(|confirmed| confirmed.measured(&seconds)).collect();
    let to_use = choice.best().map_or(active, |best| &best.setting);
    advice.udev = linux::rule(to_use, active, choice.best_of(linux::has).map(|best| &best.setting));
    Ok(advice)
}

impl AdviceRequest {
    /// The active setting, where the recording says this.
    fn active(&self, recorded: Option<&str>) -> anyhow::Result<Setting> {
        let said = |text: &str| {
            let of = || format!("{}: {SCHEDULER_KEY} {text:?}; --scheduler says what it was", self.experiment.load.display());
            Setting::parse(text).with_context(of)
        };
        match (&self.active, recorded) {
            (Some(setting), _) => Ok(setting.clone()),
            (None, Some(text)) => said(text),
            (None, None) => regime::scheduler(regime::FOUND),
        }
    }

    /// Refuses what only a run heeds.
    fn expect_recording(&self) -> anyhow::Result<()> {
        let Experiment { replay, queue_depth, queue_policy, host, .. } = &self.experiment;
        let of_replay = ReplayOptions { format: None, columns: None, skip_bad: false, ..replay.clone() }.given();
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
