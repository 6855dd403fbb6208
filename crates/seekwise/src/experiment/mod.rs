//! What `compare` and `simulate` have in common: a load on a disk under schedulers, and the records that come of it.

pub mod experience;
pub mod gather;
mod jobs;
pub mod laboratory;
mod load;
mod minutes;
mod record;
pub mod regime;
mod remembered;
mod steered;
mod timed;
mod trace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use block::StreamId;
use learn::controller::{Brief, Fixed};
use learn::experience::Experience;
use learn::{Preference, Setting};
use report::record::{DiskDigest, Record, SCHEMA};
use sim::device::hdd::spec::QueuePolicy;
use sim::host::{HostSettings, Queue, RunSummary};
use sim::profile::{DeviceOptions, Profile};
use sim::run::{Pilot, RunError, StreamMeasure, Watch};

use crate::terminal::{self, Interrupted};
use crate::workload;
use load::Load;
use regime::Regime;
use remembered::{Lived, Remembered};
use steered::{Steered, timed};
use timed::Stopwatch;

/// Under this scheduler each stream has the disk to itself when its slowdown is measured: with one stream there is nobody to be
/// fair to.
const ALONE: &str = "noop";

/// The arguments that say what is run, and on what.
#[derive(clap::Args)]
pub struct Arguments {
    /// A trace (`seekwise trace formats` lists what is read), an fio job file, or the name of a workload that comes with the
    /// program (`seekwise workload list`)
    #[arg(value_name = "TRACE|JOB.fio|WORKLOAD")]
    load: PathBuf,
    #[command(flatten)]
    replay: trace::ReplayArguments,
    /// What the jobs of a job file draw from: where their directories lie, and the requests of jobs with `randrepeat=0`
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The disk: a profile's name (`seekwise disk list`) or file, or an array of them in a line, as in
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`
    #[arg(long, value_name = "NAME|FILE|ARRAY", default_value = "sata7200")]
    disk: String,
    /// Requests the disk takes at once [default: the profile's]
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves them [default: the profile's]
    #[arg(long, value_enum)]
    queue_policy: Option<QueuePolicyArgument>,
    /// A tunable of the host (`read_ahead_kb=512`; `seekwise host list` shows them); may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// What controllers choose among: `schedulers` (every one with its defaults), `paper` (the five of the paper and per-request), `all`
    /// (every scheduler, with its defaults and tuned in some ways), or settings as `deadline:fifo_batch=4,read_expire=100`, with the
    /// host's tunables behind a space; several with semicolons between, or given several times [default: schedulers]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// What a controller shall care for: throughput, response time, fairness between streams, each 1 to 3, together 6 or 7
    /// [default: 2,3,1]
    #[arg(long, value_name = "T,R,F")]
    preference: Option<Preference>,
    /// What controllers learn from: experience gathered before [default: what comes with the program]
    #[arg(long, value_name = "FILE.json")]
    experience: Option<PathBuf>,
    /// A knowledge base, created where there is none: what is lived through is added to it (windows, decisions with their reasons,
    /// requests under per-request, models), and controllers learn from what runs before left in it, besides --experience. So what
    /// they decide depends on what is in the file
    #[arg(long, value_name = "FILE")]
    kb: Option<PathBuf>,
    /// Write one record per scheduler and controller into this folder
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Leave out the schedulers' and controllers' processor time, the one figure that differs from run to run
    #[arg(long)]
    no_cpu_time: bool,
    /// Replays to run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum QueuePolicyArgument {
    /// As they came
    Fifo,
    /// The fewest cylinders away
    Sstf,
    /// The soonest under the head
    Sptf,
}

impl From<QueuePolicyArgument> for QueuePolicy {
    fn from(argument: QueuePolicyArgument) -> QueuePolicy {
        match argument {
            QueuePolicyArgument::Fifo => QueuePolicy::Fifo,
            QueuePolicyArgument::Sstf => QueuePolicy::Sstf,
            QueuePolicyArgument::Sptf => QueuePolicy::Sptf,
        }
    }
}

/// The disk and the host that every run gets anew.
pub struct World {
    profile: Profile,
    device: DeviceOptions,
    host: HostSettings,
}

impl Arguments {
    /// What every controller is told, besides what it is to learn from.
    fn brief(&self) -> anyhow::Result<Brief> {
        let candidates = learn::candidates::parse(self.candidates.iter().map(String::as_str));
        let candidates = candidates.with_context(|| format!("--candidates {}", self.candidates.join(";")))?;
        Ok(Brief { preference: self.preference.unwrap_or_default(), candidates, seed: self.seed, experience: Arc::default() })
    }

    /// What controllers are to learn from: what is shipped or named, and what the knowledge base has seen.
    fn lessons(&self, remembered: Option<&Remembered>) -> anyhow::Result<Arc<Experience>> {
        let experience = experience::load(self.experience.as_deref())?;
        match remembered.and_then(Remembered::experience).filter(|lived| !lived.cases.is_empty()) {
            Some(lived) => Ok(Arc::new(experience.and(lived))),
            None => Ok(experience),
        }
    }

    /// Refuses what only controllers heed.
    fn expect_controller(&self) -> anyhow::Result<()> {
        let given = [
            (!self.candidates.is_empty(), "--candidates"),
            (self.preference.is_some(), "--preference"),
            (self.experience.is_some(), "--experience"),
            (self.kb.is_some(), "--kb"),
        ];
        let given = given.into_iter().find(|(given, _)| *given);
        given.map_or(Ok(()), |(_, name)| Err(anyhow::anyhow!("{name}: is for controllers, and no --controller is given")))
    }
}

impl World {
    /// A queue at rest before a disk at rest.
    fn queue(&self, scheduler: Box<dyn block::Scheduler>) -> Queue {
        Queue::new(scheduler, self.profile.build(self.device), self.host.queue())
    }

    fn scheduler(&self, setting: &Setting) -> Box<dyn block::Scheduler> {
        (setting.spec.build)(&self.host.queue().limits(), &setting.values)
    }

    /// What the disk is called where it counts how it was used: with the depth and the policy of its queue, if these are not the
    /// profile's.
    fn device(&self) -> String {
        let mut name = self.profile.name().to_owned();
        if let Some(depth) = self.device.queue_depth {
            name += &format!("@{depth}");
        }
        if let Some(policy) = self.device.queue_policy {
            name += &format!(" {}", policy.name());
        }
        name
    }

    /// The host's tunables with their values.
    fn tunables(&self) -> impl Iterator<Item = (String, i64)> {
        HostSettings::all().map(|tunable| tunable.name.to_owned()).zip(self.host.values())
    }

    /// Refuses a host of which anything but these tunables is set.
    fn expect_defaults_but(&self, allowed: &[&str]) -> anyhow::Result<()> {
        for ((name, value), default) in self.tunables().zip(HostSettings::default().values()) {
            ensure!(value == default || allowed.contains(&name.as_str()), "--set {name}={value} would change nothing");
        }
        Ok(())
    }

    fn digest(&self) -> DiskDigest {
        use sha2::Digest;
        DiskDigest {
            name: self.profile.name().to_owned(),
            sha256: hexadecimal(&sha2::Sha256::digest(self.profile.text())),
            description: self.profile.description().to_owned(),
            capacity_sectors: self.profile.capacity_sectors(),
            queue_depth: self.profile.build(self.device).queue_depth() as u32,
            queue_policy: self.profile.queue_policy(self.device).name().to_owned(),
        }
    }
}

/// Everything that will be run.
struct Plan {
    load: Box<dyn Load>,
    world: World,
    regimes: Vec<Regime>,
    /// What every controller is told.
    brief: Brief,
    /// What was lived through is wanted when all is over.
    remembers: bool,
    /// Under what each stream is also run alone, so that slowdown and fairness can be told.
    alone: Option<Setting>,
    measure_cpu: bool,
    threads: usize,
}

/// Runs the load under each of the regimes; `alone` also runs its streams one by one, so that slowdown and fairness can be told.
/// Writes the records if the arguments say so.
pub fn records(args: &Arguments, regimes: Vec<Regime>, alone: bool) -> anyhow::Result<Vec<Record>> {
    if let Some(folder) = &args.record {
        check_folder(folder).with_context(|| format!("--record {}", folder.display()))?;
    }
    let steered = regimes.iter().any(Regime::is_steered);
    if !steered {
        args.expect_controller()?;
    }
    let remembered = args.kb.as_deref().map(Remembered::open).transpose()?;
    let mut brief = args.brief()?;
    if steered {
        brief.experience = args.lessons(remembered.as_ref())?;
    }
    regime::expect_different(&regimes)?;
    let plan = plan(args, regimes, brief, alone)?;
    let results = run_all(&plan)?;
    if let Some(remembered) = &remembered {
        plan.keep(&results, remembered);
    }
    let records = plan.records(&results);
    if let Some(folder) = &args.record {
        std::fs::create_dir_all(folder).with_context(|| format!("--record {}", folder.display()))?;
        for record in &records {
            report::record::write(folder, record)?;
        }
    }
    Ok(records)
}

/// Refuses a folder that records could not be written into, before any work is done for them.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    ensure!(existing.is_dir(), "{} is a file; a folder is wanted", existing.display());
    report::record::check_replaceable(&existing.join("record"))?;
    Ok(())
}

fn plan(args: &Arguments, regimes: Vec<Regime>, brief: Brief, alone: bool) -> anyhow::Result<Plan> {
    let world = World {
        profile: sim::profile::load(&args.disk)?,
        device: DeviceOptions { queue_depth: args.queue_depth, queue_policy: args.queue_policy.map(QueuePolicy::from) },
        host: HostSettings::parse(&args.settings.join(",")).context("--set")?,
    };
    let load: Box<dyn Load> = match workload::job_text(&args.load)? {
        Some((text, source)) => Box::new(jobs::JobsLoad::new(&text, &source, args, &world)?),
        None => Box::new(trace::TraceLoad::new(&args.load, &args.replay, &world)?),
    };
    let settable: Vec<String> = load.replay(&world).host.into_iter().map(|(name, _)| name).collect();
    brief.candidates.iter().try_for_each(|setting| regime::expect_settable(setting, &settable))?;
    let threads = match args.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let alone = if alone { Some(regime::scheduler(ALONE)?) } else { None };
    Ok(Plan { load, world, regimes, brief, remembers: args.kb.is_some(), alone, measure_cpu: !args.no_cpu_time, threads })
}

/// The digest of one file's bytes or several files', one after the other.
fn sha256(files: &[PathBuf]) -> anyhow::Result<String> {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        loop {
            let read = std::io::Read::read(&mut file, &mut buffer).with_context(|| path.display().to_string())?;
            if read == 0 {
                break;
            }
            if terminal::interrupted().load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            hasher.update(&buffer[..read]);
        }
    }
    Ok(hexadecimal(&hasher.finalize()))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What single streams got.
type Streams = BTreeMap<StreamId, StreamMeasure>;

/// A piece of the work that one core does.
enum Task<'a> {
    /// The load under the regime of this number.
    Under(usize),
    /// Each of these streams alone.
    Alone(&'a Setting, Vec<StreamId>),
}

enum Done {
    Under(usize, Box<Ran>),
    Alone(Streams),
}

/// What a run under a regime gives.
struct Ran {
    outcome: RunSummary,
    /// Processor time of schedulers and controller.
    cpu_ns: Option<u64>,
    /// What was seen and done, under a controller and where it is to be remembered.
    steered: Option<Steered>,
}

/// What the runs give: each regime's, and the streams alone.
struct Results {
    runs: Vec<Ran>,
    alone: Option<Streams>,
}

impl Plan {
    /// The longest pieces first, so that no core is left with one at the end: schedulers are listed with the simple ones at the top
    /// and controllers behind them, and the streams alone can be parted.
    fn tasks(&self) -> Vec<Task<'_>> {
        let schedulers = (0..self.regimes.len()).rev().map(Task::Under);
        let alone = self
            .alone
            .iter()
            .flat_map(|setting| self.load.alone_parts(self.threads).into_iter().map(move |streams| Task::Alone(setting, streams)));
        schedulers.chain(alone).collect()
    }

    fn perform(&self, task: &Task, watch: &Watch) -> Result<Done, RunError> {
        match task {
            Task::Under(number) => Ok(Done::Under(*number, Box::new(self.run(&self.regimes[*number], watch)?))),
            Task::Alone(setting, streams) => {
                let build = || self.world.queue(self.world.scheduler(setting));
                Ok(Done::Alone(self.load.alone(streams, &build, watch)?.streams))
            }
        }
    }

    fn run(&self, regime: &Regime, watch: &Watch) -> Result<Ran, RunError> {
        let stopwatch = self.measure_cpu.then(|| Arc::new(Stopwatch::new()));
        let queue = self.world.queue(timed(self.world.scheduler(regime.begins_with()), &stopwatch));
        let device = self.world.device();
        let mut steered = match regime {
            // Nothing is steered, but it is to be remembered how it went.
            Regime::Scheduler(setting) => self.remembers.then(|| {
                let watcher = Box::new(Fixed::new(setting.clone(), gather::WINDOW));
                Steered::new(watcher, setting, &device, None)
            }),
            Regime::Controller { chosen, begins_with } => {
                Some(Steered::new(chosen.build(&self.brief), begins_with, &device, stopwatch.clone()))
            }
        };
        if let Some(steered) = steered.as_mut().filter(|_| self.remembers) {
            steered.keep_requests();
        }
        let pilot = steered.as_mut().map(|steered| steered as &mut dyn Pilot);
        let outcome = self.load.run(queue, watch, pilot)?;
        Ok(Ran { outcome, cpu_ns: stopwatch.map(|stopwatch| stopwatch.spent_ns()), steered })
    }

    /// Writes what was lived through into the knowledge base.
    fn keep(&self, results: &Results, remembered: &Remembered) {
        let source = self.source();
        let lived = self.regimes.iter().zip(&results.runs).filter_map(|(regime, ran)| {
            Some(Lived {
                source: &source,
                seed: self.brief.seed,
                under: regime.label(),
                preference: &self.brief.preference,
                steered: ran.steered.as_ref()?,
            })
        });
        remembered.keep(lived);
    }

    /// The load with all that tells it from others, but for its disk and its seed: what has the same name there is the same.
    fn source(&self) -> String {
        let (load, replay) = (self.load.digest(), self.load.replay(&self.world));
        let mut source = format!("{} {}", load.name, &load.sha256[..8]);
        if replay.mode != "jobs" {
            source += &format!(" {} speed={} fit={}", replay.mode, replay.speed, replay.fit);
        }
        for ((name, value), default) in self.world.tunables().zip(HostSettings::default().values()) {
            if value != default {
                source += &format!(" {name}={value}");
            }
        }
        source
    }

    fn records(&self, results: &Results) -> Vec<Record> {
        let (trace, replay, disk) = (self.load.digest(), self.load.replay(&self.world), self.world.digest());
        let minutes = |steered: &Steered| minutes::minutes(steered.steering(), &self.brief);
        let one = |(regime, Ran { outcome, cpu_ns, steered }): (&Regime, &Ran)| {
            let streams = record::streams(&*self.load, outcome, results.alone.as_ref());
            let mut figures = record::figures(outcome, self.world.profile.disks(), &streams, *cpu_ns);
            figures.sustainable_speed = self.load.sustainable_speed(outcome);
            let mut warnings = self.load.warnings(outcome);
            let (judged, all) = (record::judged(&streams).len(), self.load.stream_count());
            if self.alone.is_some() && all > judged {
                warnings.push(format!("Fairness and slowdown are judged by the {judged} busiest of {all} streams."));
            }
            Record {
                schema: SCHEMA,
                seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
                trace: trace.clone(),
                disk: disk.clone(),
                scheduler: regime.record(),
                steering: steered.as_ref().filter(|_| regime.is_steered()).map(minutes),
                replay: replay.clone(),
                warnings,
                figures,
                curves: record::curves(&outcome.measure),
                streams,
            }
        };
        self.regimes.iter().zip(&results.runs).map(one).collect()
    }
}

/// Does all tasks, as many at once as there are threads, with one progress bar for all.
fn run_all(plan: &Plan) -> anyhow::Result<Results> {
    let tasks = plan.tasks();
    let counters: Vec<AtomicU64> = tasks.iter().map(|_| AtomicU64::new(0)).collect();
    let done = Mutex::new(Vec::new());
    let (next, all_done, failed) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let work = || {
        while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < tasks.len()) {
            let watch = Watch { stop: Some(terminal::interrupted()), completed: Some(&counters[number]) };
            match plan.perform(&tasks[number], &watch) {
                Ok(one) => lock(&done).push(one),
                Err(error) => {
                    // Of several errors the first task's is reported, whichever came first.
                    let mut failed = lock(&failed);
                    if failed.as_ref().is_none_or(|&(first, _)| number < first) {
                        *failed = Some((number, error));
                    }
                    next.store(tasks.len(), Ordering::Relaxed);
                }
            }
        }
    };
    let total = plan.load.expected_requests().map_or(0, |requests| requests * tasks.len() as u64);
    std::thread::scope(|scope| {
        scope.spawn(|| show_progress(total, &counters, &all_done));
        std::thread::scope(|workers| {
            (0..plan.threads.min(tasks.len())).for_each(|_| drop(workers.spawn(work)));
        });
        all_done.store(true, Ordering::Relaxed);
    });
    match lock(&failed).take() {
        Some((_, RunError::Interrupted)) => return Err(Interrupted.into()),
        Some((_, error)) => return Err(error.into()),
        None => {}
    }
    let done = std::mem::take(&mut *lock(&done));
    Ok(gather(done))
}

fn gather(done: Vec<Done>) -> Results {
    let mut runs = Vec::new();
    let mut alone: Option<Streams> = None;
    for one in done {
        match one {
            Done::Under(number, ran) => runs.push((number, *ran)),
            Done::Alone(streams) => alone.get_or_insert_default().extend(streams),
        }
    }
    runs.sort_by_key(|&(number, _)| number);
    Results { runs: runs.into_iter().map(|(_, ran)| ran).collect(), alone }
}

/// A thread that panics takes the program down anyway; what the lock holds is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn show_progress(total: u64, counters: &[AtomicU64], all_done: &AtomicBool) {
    let bar = terminal::progress_bar(total, if total == 0 { "simulating, requests:" } else { "replaying" });
    while !all_done.load(Ordering::Relaxed) {
        bar.set_position(counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum());
        std::thread::sleep(Duration::from_millis(20));
    }
    bar.finish_and_clear();
}
