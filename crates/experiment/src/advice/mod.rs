//! Advice for a whole load: the setting to use, its predicted effect and the error of the prediction.
//!
//! ```text
//! recording, or a run in the simulator ─▶ observed ─┬─▶ phases ─▶ samples ─┐
//!                                                   └─▶ device ────────────┴─▶ twin: every candidate ─▶ one for all ─▶ run, where simulated
//! ```
//! The forecasts are those of the controller `seekwise`, made from the whole recording and without a limit on CPU time.

mod aim;
mod asked;
mod choose;
mod confirm;
mod cost;
pub mod counted;
mod effects;
pub mod files;
pub mod iostat;
mod judgement;
mod linux;
mod observed;
mod phases;
mod requests;
mod text;
pub mod udev;

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use control::Setting;
use control::experience::MIN_REQUESTS;
use observe::Preference;
use observe::performance::Performance;
use observe::starvation::Tail;
use report::advice::{Advice, NOT_TOLD};
use report::verdict::FAST_IOPS;
use sim::trace::OpenOptions;
use sim::trace::parquet::SCHEDULER_KEY;
use testbed::load::Load;
use testbed::pool::{Unseen, Workers};
use testbed::shipped;
use testbed::trace::ReplayOptions;
use testbed::world::World;
use twin::{Finding, device};

use crate::comparison::{Experiment, prediction as on_record, regime};
use aim::ResolvedAim;
pub use aim::{Aim, expect_of_device};
use asked::Brain;
use choose::Choice;
use confirm::FullRun;
use judgement::Judgement;
use observed::Observed;
use phases::{Phase, Seconds};
use progress::Monitor;
use text::{leave_alone, nothing_known};

/// The only host tunable that is judged for a recording.
const READ_AHEAD: &str = "read_ahead_kb";
/// Maximum number of streams that an error lists.
const MOST_NAMED: usize = 12;
/// Share of the accesses to which the device is fitted for judging the fit on the rest.
const JUDGED_BEHIND: f64 = 2.0 / 3.0;

/// Input of [`advise`].
pub struct AdviceRequest {
    /// The load, with the world to simulate it in.
    pub experiment: Experiment,
    /// Whether a disk was named. If not, a trace is judged as recorded.
    pub names_disk: bool,
    /// Number of the device to judge in a recording of several; `None` takes the one with the most requests.
    pub device: Option<u32>,
    /// The active setting; `None` takes that of the recording, or else Linux's default.
    pub active: Option<Setting>,
    /// Goals for single streams, which take precedence over the load as a whole.
    pub aims: Vec<Aim>,
    /// Host tunables with the values to try, in the syntax of `--vary`.
    pub varied: Vec<String>,
}

/// Recommends a setting, or to keep the active one.
///
/// # Errors
/// Part of the input is invalid, a file cannot be read, or the work was interrupted.
pub fn advise(request: &AdviceRequest, workers: Workers) -> anyhow::Result<Advice> {
    let AdviceRequest { experiment, .. } = request;
    let preference = experiment.preference.unwrap_or_default();
    let (observed, run) = request.observe(workers)?;
    let active = &request.active(observed.scheduler.as_deref())?;
    let candidates = request.candidates(&observed, run.as_ref())?;
    let aims = request.resolved_aims(&observed, run.as_ref().map(|(load, _)| &**load))?;
    let (seconds, phases) = phases::seconds(&observed, workers.monitor)?;
    let source = match &run {
        None => "times as recorded".to_owned(),
        Some((_, world)) => format!("run on {} in the simulator", world.device()),
    };
    let lasts_s = observed.lasts().as_secs_f64();
    let mut advice = nothing_known(name(experiment), source, lasts_s, (active, &preference.to_string()));
    advice.is_simulated = run.is_some();
    advice.requests = observed.requests.len() as u64;
    advice.busy_s = phases.iter().map(|phase| phase.seconds() as f64).sum();
    advice.overload.clone_from(&observed.overload);
    advice.notes.clone_from(&observed.notes);
    // The twin cannot judge host tunables and goals of single streams: with these every candidate is simulated in full.
    let must_run = run.is_some() && (!aims.is_empty() || candidates.iter().any(|setting| !setting.host.is_empty()));
    let judgement = match judged(&mut advice, (&observed, &phases, &seconds), (active, &candidates, preference), workers)? {
        Ok(judgement) => judgement,
        Err(why) if must_run => Judgement::unanswered(&phases, why),
        Err(why) => {
            advice.verdict = leave_alone(active, why);
            return Ok(advice);
        }
    };
    let runs = match &run {
        Some((load, world)) => {
            let all = || candidates.iter().filter(|setting| *setting != active).cloned().collect();
            let settings: Vec<Setting> = if must_run { all() } else { judgement.worth_a_run(active) };
            let what = if must_run { "running every candidate" } else { "running the best of them" };
            let found =
                workers.map(what, &settings, |setting| FullRun::simulated(&**load, world, setting, &Unseen(workers.monitor)))?;
            let runs = settings.into_iter().zip(found);
            runs.map(|run| judgement.confirmed(&observed, &seconds, &phases, run, &preference)).collect()
        }
        None => Vec::new(),
    };
    let choice = Choice { active, observed: &observed, judgement: &judgement, runs: &runs, is_run: run.is_some(), aims: &aims };
    advice.verdict = choice.verdict();
    if advice.verdict.is_change {
        advice.verdict.cost = judgement.cost(&advice.verdict, active);
    }
    if let Some((judged, all)) = &observed.judged_of {
        advice.verdict.text = format!("By the first {judged} of {all} requests: {}", advice.verdict.text);
    }
    let per_second = advice.requests as f64 / lasts_s.max(1e-9);
    if !advice.verdict.is_change && per_second >= FAST_IOPS {
        advice.notes.push(format!(
            "At {per_second:.0} requests a second the scheduler's own processor time counts more than its order, and none takes the least (compare --cpu-time measures it)."
        ));
    }
    let to_use = choice.best().unwrap_or(active);
    advice.aims = choice.aimed();
    advice.effects = effects::effects(&observed, &judgement, &runs, (active, to_use));
    let shown = choice.shown();
    let confirmed = runs.iter().find(|confirmed| Some(&confirmed.setting) == shown);
    advice.phases = judgement.phases(&phases, &seconds, shown, &observed, confirmed, &preference);
    advice.measured = runs.iter().map(|confirmed| confirmed.measured(&observed)).collect();
    if must_run {
        // There may be many: the best first.
        advice
            .measured
            .sort_by(|a, b| (a.p99_by_bound > 1.0).cmp(&(b.p99_by_bound > 1.0)).then(b.gain_percent.total_cmp(&a.gain_percent)));
    }
    advice.udev = linux::rule(to_use, active, choice.best_of_linux());
    Ok(advice)
}

/// Forecasts every candidate with the twin, and adds the inferred device and the replay error to the advice. The inner `Err` is
/// the reason why no forecast is possible.
fn judged(
    advice: &mut Advice,
    (observed, phases, seconds): (&Observed, &[Phase], &Seconds),
    (active, candidates, preference): (&Setting, &[Setting], Preference),
    workers: Workers,
) -> anyhow::Result<Result<Judgement, String>> {
    if phases.is_empty() {
        return Ok(Err(format!(
            "no second has {MIN_REQUESTS} requests, so hardly any two of them meet, and no scheduler has a choice."
        )));
    }
    workers.monitor.begin(0, "fitting the device");
    let capacity = observed.knows_capacity.then_some(observed.bounds.capacity_sectors);
    let fitted = device::fit_and_judge(&asked::fitted_to(observed)?, capacity, JUDGED_BEHIND);
    workers.monitor.end();
    workers.monitor.check()?;
    let (fitted, residual) = match fitted {
        Ok(fitted) => fitted,
        Err(error) => return Ok(Err(format!("too little was seen to know the device by: {error}."))),
    };
    let basis = |one: &Finding| if one.is_told() { one.rests_on() } else { NOT_TOLD.to_owned() };
    advice.device = fitted.findings.iter().map(|one| (one.name.to_owned(), one.text(), basis(one))).collect();
    let device = fitted.profile();
    // For a recording, a larger read-ahead can be forecast. In the simulator, host tunables are run instead.
    let asked: Vec<Setting> =
        candidates.iter().filter(|setting| !advice.is_simulated || setting.host.is_empty()).cloned().collect();
    let brain = Brain { observed, device: &device, turn: fitted.turn(), active, candidates: &asked, preference };
    let judgement = Judgement::of(&brain, phases, seconds, workers)?;
    advice.candidates = judgement.overall.iter().map(on_record).collect();
    advice.sure = judgement.sure(phases, &residual, active);
    Ok(Ok(judgement))
}

/// A load and the world to simulate it in.
type RunOn = (Box<dyn Load>, World);

impl AdviceRequest {
    /// The requests to judge by: the recording, or a run under the active setting.
    fn observe(&self, workers: Workers) -> anyhow::Result<(Observed, Option<RunOn>)> {
        let AdviceRequest { experiment, .. } = self;
        if !self.names_disk && experiment.job_text()?.is_none() {
            self.expect_recording()?;
            return Ok((Observed::recorded(&experiment.load, &experiment.replay.open(), self.device, workers.monitor)?, None));
        }
        ensure!(self.device.is_none(), "--device: is for a recording, and with --disk all of a trace is run on one disk");
        let world = experiment.world()?;
        let load = experiment.load(&world, workers.monitor)?;
        let active = self.active(None)?;
        regime::expect_settable_for("--scheduler", &active, &*load, &world)?;
        workers.monitor.begin(load.expected_requests().unwrap_or(0), "running it");
        let observed = Observed::simulated(&*load, &world, &active, workers.monitor);
        workers.monitor.end();
        Ok((observed?, Some((load, world))))
    }

    /// The settings to choose from. A simulation can vary every host tunable; for a recording only read-ahead is judged, and only if the
    /// recording marks read-ahead requests.
    fn candidates(&self, observed: &Observed, run: Option<&RunOn>) -> anyhow::Result<Vec<Setting>> {
        let mut candidates = regime::varied(self.experiment.candidates()?, &self.varied)?;
        if let Some((load, world)) = run {
            let given = if self.varied.is_empty() { "--candidates" } else { "--candidates or --vary" };
            candidates.iter().try_for_each(|setting| regime::expect_settable_for(given, setting, &**load, world))?;
            return Ok(candidates);
        }
        if let Some(varied) = self.varied.first() {
            bail!("--vary {varied}: is for a run in the simulator, and this is a recording; name a --disk to run it on");
        }
        let is_judged = |name: &str| name == READ_AHEAD;
        if let Some(setting) = candidates.iter().find(|setting| setting.host.iter().any(|(name, _)| !is_judged(name))) {
            bail!(
                "--candidates {setting}: of a recording no other tunable of the host is judged than {READ_AHEAD}; name a --disk to run it on"
            );
        }
        if !observed.requests.has_read_ahead() {
            candidates.retain(|setting| setting.host.is_empty());
        }
        Ok(candidates)
    }

    fn resolved_aims<'a>(&'a self, observed: &Observed, load: Option<&dyn Load>) -> anyhow::Result<Vec<ResolvedAim<'a>>> {
        let Some(load) = load else {
            if let Some(aim) = self.aims.iter().find(|aim| !aim.is_forecast()) {
                bail!(
                    "--protect {aim}: of a recording only mean, p99 and throughput of reads and writes are forecast; judge the job file that makes the load, or name a --disk"
                );
            }
            let of_name = |name: &str| {
                let row = observed.rows.iter().find(|(row, _)| row == name).map(|(_, streams)| streams.clone());
                let number = || name.parse().ok().filter(|stream| observed.streams.contains_key(stream));
                row.or_else(|| number().map(|stream| vec![stream])).unwrap_or_default()
            };
            let known: Vec<String> = observed.rows.iter().take(MOST_NAMED).map(|(name, _)| name.clone()).collect();
            return aim::resolve(&self.aims, observed, &of_name, &known);
        };
        aim::resolve(&self.aims, observed, &|name| load.streams_of(name), &load.names())
    }

    /// The active setting: as given, else as recorded, else Linux's default.
    fn active(&self, recorded: Option<&str>) -> anyhow::Result<Setting> {
        let said = |text: &str| {
            let of =
                || format!("{}: {SCHEDULER_KEY} {text:?}; name the scheduler with --scheduler", self.experiment.load.display());
            Setting::parse(text).with_context(of)
        };
        match (&self.active, recorded) {
            (Some(setting), _) => Ok(setting.clone()),
            (None, Some(text)) => said(text),
            (None, None) => regime::scheduler(regime::FOUND),
        }
    }

    /// Rejects options that apply only to simulations.
    fn expect_recording(&self) -> anyhow::Result<()> {
        let Experiment { replay, queue_depth, queue_policy, host, .. } = &self.experiment;
        let of_replay =
            ReplayOptions { format: None, columns: None, skip_bad: false, same_devices: false, ..replay.clone() }.given();
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

fn name(Experiment { load: path, replay, .. }: &Experiment) -> String {
    if !replay.others.is_empty() {
        return replay.open().name(path);
    }
    let is_shipped = shipped::find(&path.to_string_lossy()).is_some();
    let name = if is_shipped { path.as_os_str() } else { path.file_name().unwrap_or(path.as_os_str()) };
    name.to_string_lossy().into_owned()
}

/// Performance of a recording.
pub struct ServedIn {
    /// Over all requests.
    pub served: Performance,
    /// Response time tail of each stream with its program's name, ordered by stream number.
    pub tails: Vec<(String, Tail)>,
}

/// Measures how the requests of a recording were served; `None` if no second has enough requests to judge.
///
/// # Errors
/// As for [`advise`].
pub fn served_in(path: &Path, options: &OpenOptions, monitor: &dyn Monitor) -> anyhow::Result<Option<ServedIn>> {
    let observed = Observed::recorded(path, options, None, monitor)?;
    let seconds = phases::outcomes(&observed, monitor)?;
    let is_busy = seconds.any_is_busy();
    let name = |stream| observed.names.get(&stream).cloned().unwrap_or_default();
    let tails = observed.tails()?.into_iter().map(|(stream, tail)| (name(stream), tail)).collect();
    Ok(seconds.performance().filter(|_| is_busy).map(|served| ServedIn { served, tails }))
}
