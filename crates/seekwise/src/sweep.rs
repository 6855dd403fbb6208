//! `seekwise sweep`: many loads, disks, settings and seeds, into one Parquet data set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use experiment::sweep::{self, Estimate, Plan, Report, Shard, VolumesRequest};
use testbed::pool::Workers;

use crate::arguments;
use crate::number;
use terminal::{self, Failed, Terminal, eprint_line};

/// Arguments of `seekwise sweep`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SweepArguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(clap::Args)]
struct RunArguments {
    /// The plan: loads, disks, schedulers, tunables, host settings and seeds (docs/sweep.md)
    #[arg(value_name = "PLAN.toml", required = true)]
    plan: Option<PathBuf>,
    /// The folder of the data set, made if it does not exist. If it holds an unfinished sweep of this plan, that is continued
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    output: Option<PathBuf>,
    /// Run only every N-th file of the data set, from the I-th on, as one of N machines. The files of all shards together are those of one
    /// run, byte by byte
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Check the plan, and print the number of cases and about how long they take
    #[arg(long)]
    dry_run: bool,
    /// Number of cases to run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the best setting of every load and disk, and its gain over the default
    Report(ReportArguments),
    /// Characterise and advise every volume of a cloud's trace, or of a folder of traces: which gain by which setting, and how much in all
    ///
    /// Volumes are the devices within a trace, as in those of Alibaba and Tencent, or files of their own. Each is run on a disk of its own if one
    /// is named, else judged by its recorded response times, from which its device is inferred. Killed at any moment, the same command continues
    /// where it stopped.
    Volumes(Box<VolumesArguments>),
}

#[derive(clap::Args)]
struct VolumesArguments {
    #[command(flatten)]
    load: arguments::LoadArguments,
    /// The disk that each volume is run on by itself [default: volumes are judged as they were recorded]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    disk: Option<String>,
    /// The folder of the table (volumes.parquet), made if it does not exist
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// The settings to choose from, as for `advise`
    #[arg(long, value_name = "SET|SETTING[;...]", default_value = "kernel")]
    candidates: Vec<String>,
    /// Number of volumes to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::within::<usize>(0..=u64::MAX, "volumes"))]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ReportArguments {
    /// The folder of a sweep, finished or not
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Rank settings by this figure [default: the plan's]
    #[arg(long, value_name = "FIGURE")]
    objective: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &SweepArguments) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Report(args)) => report(args),
        Some(Command::Volumes(args)) => volumes(args),
        None => sweep(&args.run),
    }
}

fn sweep(args: &RunArguments) -> anyhow::Result<()> {
    let plan = Arc::new(Plan::read(args.plan.as_deref().unwrap_or(Path::new("")))?);
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, args.threads.map(usize::from));
    if args.dry_run {
        return Ok(terminal::print(&estimated(&plan, &sweep::estimate(&plan, workers)?, workers.threads))?);
    }
    let folder = args.output.as_deref().unwrap_or(Path::new(""));
    let outcome = sweep::run(&plan, folder, args.shard.unwrap_or(Shard::WHOLE), workers)?;
    let of = if outcome.run == outcome.cases { String::new() } else { format!(" of {}", outcome.cases) };
    eprint_line(&format!(
        "{}{of} cases in {}, {:.0}% of the cores' time in simulations; {}",
        outcome.run,
        duration(outcome.seconds),
        100.0 * outcome.simulating_share,
        if outcome.is_whole { "the data set is complete" } else { "files of other shards are missing" }
    ));
    if let Some(error) = outcome.first_error {
        let failed = outcome.failed;
        return Err(Failed(format!("{failed} cases could not be run (column error), the first: {error}")).into());
    }
    Ok(())
}

fn estimated(plan: &Plan, estimate: &Estimate, threads: usize) -> String {
    let Estimate { cases, parts, core_s } = *estimate;
    let lasts = match core_s {
        Some(seconds) => {
            format!("about {} on {threads} {}", duration(seconds / threads as f64), if threads == 1 { "thread" } else { "threads" })
        }
        None => "too little could be tried to tell how long they take".to_owned(),
    };
    let figures = [
        (plan.loads.len(), "load"),
        (plan.disks.len(), "disk"),
        (plan.points, "setting"),
        (plan.seeds.len(), "seed"),
        (parts as usize, "file"),
    ];
    let figures = figures.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    format!("{cases} cases: {}; {lasts}\n", figures.join(", "))
}

/// Formats a duration in the largest unit in which it is at least 2.
fn duration(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2.0 * length);
    let (length, name) = unit.unwrap_or((1.0, "s"));
    format!("{:.1} {name}", seconds / length)
}

fn report(args: &ReportArguments) -> anyhow::Result<()> {
    let report = Report::read(&args.folder, args.objective.as_deref())?;
    ensure!(
        !report.best.is_empty(),
        "{}: no load has results under {} yet; run the sweep on",
        args.folder.display(),
        report.default
    );
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() };
    Ok(terminal::print(&text)?)
}

fn volumes(args: &VolumesArguments) -> anyhow::Result<()> {
    let path = args.load.only()?.to_owned();
    let mut experiment = args.load.experiment_of(path.clone(), Vec::new(), args.disk.as_deref());
    // The position of a volume on a shared disk is unknown.
    experiment.candidates.clone_from(&args.candidates);
    let request = VolumesRequest { path, experiment, names_disk: args.disk.is_some() };
    let terminal = Terminal::default();
    let report = request.run(&args.output, Workers::new(&terminal, args.load.threads()))?;
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text(args.top) };
    Ok(terminal::print(&text)?)
}
