//! `seekwise compare`: one trace, one disk, all schedulers, one table.

mod record;
mod timed;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use block::Spec;
use rayon::prelude::*;
use report::record::{DiskDigest, Record, Replay, SCHEMA, SchedulerSetting, TraceDigest};
use sim::device::hdd::spec::QueuePolicy;
use sim::host::{Queue, QueueSettings};
use sim::profile::{BuildOptions, Profile};
use sim::replay::{Fit, Mode, Outcome, Placement, Settings, Survey, replay, replay_alone};
use sim::run::{Measure, RunError, Watch};
use sim::trace::{OpenOptions, TraceReader};

use crate::output::{self, Output};
use crate::terminal::{self, Interrupted};
use timed::Timed;

/// Under this scheduler each stream has the disk to itself when its slowdown is measured: with one stream there is nobody to be
/// fair to.
const ALONE: &str = "noop";

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace; `seekwise trace formats` lists what is read
    trace: PathBuf,
    /// The trace's format, if it shall not be recognised by content
    #[arg(long)]
    format: Option<String>,
    /// Pass over damaged records and count them, instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
    /// The disk: a profile's name (`seekwise disk list`) or file
    #[arg(long, value_name = "NAME|FILE", default_value = "sata7200")]
    disk: String,
    /// Requests the disk takes at once [default: the profile's]
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves them [default: the profile's]
    #[arg(long, value_enum)]
    queue_policy: Option<QueuePolicyArgument>,
    /// A scheduler, with tunables if wanted (`deadline:read_expire=100,fifo_batch=8`); may be given several times [default: all]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// Issue each stream's next request its recorded think time after the one it waited for completes, instead of at the
    /// trace's own times
    #[arg(long)]
    closed: bool,
    /// Divide the trace's times by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed, allow_negative_numbers = true)]
    speed: f64,
    /// Requests the host's queue holds, synchronous and asynchronous ones each, before whoever issues more must wait
    #[arg(long, value_name = "REQUESTS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nr_requests: u32,
    /// What to do with a trace that reaches beyond the disk's end
    #[arg(long, value_enum, default_value = "exact")]
    fit: FitArgument,
    /// Write one record per scheduler into this folder
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Leave out the schedulers' processor time, the one figure that differs from run to run
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

#[derive(Clone, Copy, clap::ValueEnum)]
enum FitArgument {
    /// Refuse it: every request stays where it was
    Exact,
    /// Leave out what the trace never touches, in pieces of 16 MiB
    Compact,
}

/// What `--speed` takes.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

/// Longer replays are refused: the clock of 64 bits ends after 584 years, and a disk that falls behind needs some of them.
const LONGEST_REPLAY_S: f64 = 100.0 * 365.25 * 86_400.0;

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if SPEEDS.contains(&value) => Ok(value),
        _ => Err("a number from 0.000001 to 1000000 is wanted".to_owned()),
    }
}

/// A scheduler and the values of its tunables.
struct Setting {
    spec: &'static Spec,
    values: Vec<i64>,
}

impl Setting {
    fn parse(text: &str) -> Result<Setting, block::SettingError> {
        let (spec, values) = block::parse(text)?;
        Ok(Setting { spec, values })
    }

    /// The name, and the tunables that are not at their defaults: enough to tell any two settings apart.
    fn label(&self) -> String {
        let changed = self.spec.tunables.iter().zip(&self.values).filter(|(tunable, value)| tunable.default != **value);
        let changed: Vec<String> = changed.map(|(tunable, value)| format!("{}={value}", tunable.name)).collect();
        if changed.is_empty() { self.spec.name.to_owned() } else { format!("{}:{}", self.spec.name, changed.join(",")) }
    }
}

/// Everything the replays have in common.
struct Plan {
    path: PathBuf,
    options: OpenOptions,
    format: &'static str,
    sha256: String,
    survey: Survey,
    profile: Profile,
    device: BuildOptions,
    fit: Fit,
    placement: Placement,
    settings: Settings,
    schedulers: Vec<Setting>,
    alone: Setting,
    measure_cpu: bool,
}

/// What the replays give: each scheduler's outcome with its processor time, and the streams alone.
struct Results {
    outcomes: Vec<(Outcome, Option<u64>)>,
    alone: Measure,
}

/// Runs it.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    if let Some(folder) = &args.record {
        check_folder(folder).with_context(|| format!("--record {}", folder.display()))?;
    }
    let plan = plan(&args)?;
    let threads = args.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start the replays' threads")?;
    let results = pool.install(|| replay_all(&plan))?;
    let records = records(&plan, &results);
    if let Some(folder) = &args.record {
        std::fs::create_dir_all(folder).with_context(|| format!("--record {}", folder.display()))?;
        for record in &records {
            report::record::write(folder, record)?;
        }
    }
    output::show(&records, &args.output)
}

/// Refuses a folder that records could not be written into, before any work is done for them.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    ensure!(existing.is_dir(), "{} is a file; a folder is wanted", existing.display());
    report::record::check_replaceable(&existing.join("record"))?;
    Ok(())
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let schedulers = if args.schedulers.is_empty() {
        block::ALL.iter().map(|spec| Setting { spec, values: spec.defaults() }).collect()
    } else {
        let parse = |text: &String| Setting::parse(text).with_context(|| format!("--scheduler {text}"));
        args.schedulers.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?
    };
    let labels: Vec<String> = schedulers.iter().map(Setting::label).collect();
    for (i, label) in labels.iter().enumerate() {
        ensure!(!labels[..i].contains(label), "--scheduler {label}: is given twice; once is right");
    }
    let profile = sim::profile::load(&args.disk)?;
    let options = OpenOptions { format: args.format.clone(), skip_bad: args.skip_bad };
    let (survey, format, sha256) = survey(&args.trace, &options)?;
    let lasts_s = survey.duration.as_secs_f64() / args.speed;
    ensure!(
        lasts_s <= LONGEST_REPLAY_S,
        "{}: lasts {:.0} years at --speed {}; a replay may last 100 years: give --speed {:.1e} or faster",
        args.trace.display(),
        lasts_s / LONGEST_REPLAY_S * 100.0,
        args.speed,
        // A little more, for the rounding.
        args.speed * lasts_s / LONGEST_REPLAY_S * 1.1
    );
    let fit = match args.fit {
        FitArgument::Exact => Fit::Exact,
        FitArgument::Compact => Fit::Compact,
    };
    let placement = Placement::new(&survey, profile.capacity_sectors(), fit)
        .with_context(|| format!("{} on {}", args.trace.display(), profile.name()))?;
    let mode = if args.closed { Mode::Closed } else { Mode::Open };
    let queue = QueueSettings { nr_requests: args.nr_requests, ..QueueSettings::default() };
    Ok(Plan {
        path: args.trace.clone(),
        options: OpenOptions { format: Some(format.to_owned()), ..options },
        format,
        sha256,
        survey,
        profile,
        device: BuildOptions { queue_depth: args.queue_depth, queue_policy: args.queue_policy.map(QueuePolicy::from) },
        fit,
        placement,
        settings: Settings { mode, speed: args.speed, queue },
        schedulers,
        alone: Setting::parse(ALONE)?,
        measure_cpu: !args.no_cpu_time,
    })
}

/// Reads the trace once: how large it is, who is in it, and whether it can be read to its end at all.
fn survey(path: &Path, options: &OpenOptions) -> anyhow::Result<(Survey, &'static str, String)> {
    let mut opened = sim::trace::open(path, options)?;
    let sha256 = sha256(&sim::trace::files(path))?;
    let bar = terminal::progress_bar(0, "reading the trace, requests:");
    let survey = Survey::take(&mut *opened.reader, |requests| {
        bar.set_position(requests);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let survey = survey?.ok_or(Interrupted)?;
    ensure!(survey.requests > 0, "{}: holds no request; there is nothing to replay", path.display());
    Ok((survey, opened.format.name, sha256))
}

/// The digest of the files' bytes, one after the other.
fn sha256(files: &[PathBuf]) -> anyhow::Result<String> {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
        ensure!(metadata.is_file(), "{}: is not a regular file; a comparison reads its trace several times", path.display());
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

impl Plan {
    fn reader(&self) -> Result<Box<dyn TraceReader>, RunError> {
        Ok(sim::trace::open(&self.path, &self.options)?.reader)
    }

    fn queue(&self, scheduler: Box<dyn block::Scheduler>) -> Queue {
        Queue::new(scheduler, self.profile.build(self.device), self.settings.queue)
    }

    fn limits(&self) -> block::Limits {
        block::Limits { max_sectors: self.settings.queue.max_sectors }
    }

    fn measure(&self) -> Measure {
        Measure::new(self.survey.requests, self.survey.followed().into_iter().map(|(stream, _)| stream))
    }

    /// Replays the trace under one scheduler.
    fn under(&self, setting: &Setting, watch: &Watch) -> Result<(Outcome, Option<u64>), RunError> {
        let scheduler = (setting.spec.build)(&self.limits(), &setting.values);
        let (scheduler, spent) = if self.measure_cpu {
            let (timed, spent) = Timed::new(scheduler);
            (Box::new(timed) as Box<dyn block::Scheduler>, Some(spent))
        } else {
            (scheduler, None)
        };
        let queue = self.queue(scheduler);
        let outcome = replay(self.reader()?, &self.placement, queue, &self.settings, self.measure(), watch)?;
        Ok((outcome, spent.map(|spent| spent.load(Ordering::Relaxed))))
    }

    /// Replays the trace with every stream alone on the disk, first come, first served.
    fn alone(&self, watch: &Watch) -> Result<Measure, RunError> {
        let build = || self.queue((self.alone.spec.build)(&self.limits(), &self.alone.values));
        replay_alone(self.reader()?, &self.placement, &build, &self.settings, self.measure(), watch)
    }
}

enum Job<'a> {
    Alone,
    Under(&'a Setting),
}

enum Done {
    Alone(Measure),
    Under(Outcome, Option<u64>),
}

/// Runs all replays, as many at once as there are threads, with one progress bar for all.
fn replay_all(plan: &Plan) -> anyhow::Result<Results> {
    let jobs: Vec<Job> = std::iter::once(Job::Alone).chain(plan.schedulers.iter().map(Job::Under)).collect();
    let counters: Vec<AtomicU64> = jobs.iter().map(|_| AtomicU64::new(0)).collect();
    let all_done = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| show_progress(plan.survey.requests * jobs.len() as u64, &counters, &all_done));
        let run = |(job, completed): (&Job, &AtomicU64)| {
            let watch = Watch { stop: Some(terminal::interrupted()), completed: Some(completed) };
            match job {
                Job::Alone => plan.alone(&watch).map(Done::Alone),
                Job::Under(setting) => plan.under(setting, &watch).map(|(outcome, cpu)| Done::Under(outcome, cpu)),
            }
        };
        let done: Result<Vec<Done>, RunError> = jobs.par_iter().zip(&counters).map(run).collect();
        all_done.store(true, Ordering::Relaxed);
        done
    });
    let mut alone = None;
    let mut outcomes = Vec::new();
    for one in done.map_err(explain)? {
        match one {
            Done::Alone(measure) => alone = Some(measure),
            Done::Under(outcome, cpu) => outcomes.push((outcome, cpu)),
        }
    }
    let Some(alone) = alone else { bail!("the replay of the streams alone is missing") };
    Ok(Results { outcomes, alone })
}

fn explain(error: RunError) -> anyhow::Error {
    match error {
        RunError::Interrupted => Interrupted.into(),
        error => error.into(),
    }
}

fn show_progress(total: u64, counters: &[AtomicU64], all_done: &AtomicBool) {
    let bar = terminal::progress_bar(total, "replaying");
    while !all_done.load(Ordering::Relaxed) {
        bar.set_position(counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum());
        std::thread::sleep(Duration::from_millis(20));
    }
    bar.finish_and_clear();
}

fn records(plan: &Plan, results: &Results) -> Vec<Record> {
    let one = |(setting, (outcome, cpu)): (&Setting, &(Outcome, Option<u64>))| {
        let streams = record::streams(&plan.survey, outcome, &results.alone);
        let mut figures = record::figures(outcome, &streams, *cpu);
        if plan.settings.mode == Mode::Open {
            figures.sustainable_speed = outcome.sustainable_speed(plan.settings.speed);
        }
        Record {
            schema: SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            trace: trace_digest(plan),
            disk: disk_digest(plan),
            scheduler: scheduler_setting(setting),
            replay: Replay {
                mode: if plan.settings.mode == Mode::Open { "open" } else { "closed" }.to_owned(),
                speed: plan.settings.speed,
                fit: if plan.fit == Fit::Exact { "exact" } else { "compact" }.to_owned(),
                nr_requests: plan.settings.queue.nr_requests,
            },
            warnings: warnings(plan, outcome, record::judged(&streams).len(), figures.sustainable_speed),
            figures,
            curves: record::curves(&outcome.measure),
            streams,
        }
    };
    plan.schedulers.iter().zip(&results.outcomes).map(one).collect()
}

fn trace_digest(plan: &Plan) -> TraceDigest {
    TraceDigest {
        name: plan.path.file_name().unwrap_or(plan.path.as_os_str()).to_string_lossy().into_owned(),
        format: plan.format.to_owned(),
        sha256: plan.sha256.clone(),
        requests: plan.survey.requests,
        skipped_lines: plan.survey.skipped,
    }
}

fn disk_digest(plan: &Plan) -> DiskDigest {
    use sha2::Digest;
    DiskDigest {
        name: plan.profile.name().to_owned(),
        sha256: hexadecimal(&sha2::Sha256::digest(plan.profile.text())),
        description: plan.profile.description().to_owned(),
        capacity_sectors: plan.profile.capacity_sectors(),
        queue_depth: plan.profile.build(plan.device).queue_depth() as u32,
        queue_policy: plan.profile.queue_policy(plan.device).name().to_owned(),
    }
}

fn scheduler_setting(setting: &Setting) -> SchedulerSetting {
    let names = setting.spec.tunables.iter().map(|tunable| tunable.name.to_owned());
    SchedulerSetting {
        name: setting.spec.name.to_owned(),
        label: setting.label(),
        tunables: names.zip(setting.values.iter().copied()).collect(),
    }
}

/// What the reader must know before believing the figures.
fn warnings(plan: &Plan, outcome: &Outcome, judged_streams: usize, sustainable_speed: Option<f64>) -> Vec<String> {
    let survey = &plan.survey;
    let mut warnings = Vec::new();
    if let Some(speed) = sustainable_speed {
        let offered = survey.requests as f64 / (outcome.measure.last_arrival - outcome.measure.first_arrival).as_secs_f64();
        // Rounded down to two digits, so that the advice holds when followed.
        let step = 10f64.powf(speed.log10().floor() - 1.0);
        let speed = (speed / step).floor() * step;
        // Of a burst that no speed there is would spread enough, only the closed replay is left.
        let slower = if SPEEDS.contains(&speed) {
            format!("it would take the load at --speed {speed} or slower, or replay with --closed")
        } else {
            "replay with --closed".to_owned()
        };
        warnings.push(format!("The disk cannot keep up with {offered:.0} requests a second; {slower}."));
    }
    if survey.skipped > 0 {
        warnings.push(format!("{} damaged lines of the trace were passed over.", survey.skipped));
    }
    if survey.writes_without_sync > 0 {
        warnings.push(
            "The trace does not say which writes somebody waits for: those without a sync flag count as asynchronous.".to_owned(),
        );
    }
    if plan.settings.mode == Mode::Closed && survey.without_response > 0 {
        warnings.push(format!(
            "The trace has no completion times for {} of {} requests: there the whole gap to the next request counts as think time.",
            survey.without_response, survey.requests
        ));
    }
    if survey.stream_count() > judged_streams {
        let streams = survey.stream_count();
        warnings.push(format!("Fairness and slowdown are judged by the {judged_streams} busiest of {streams} streams."));
    }
    warnings
}
