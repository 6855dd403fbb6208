//! `seekwise-lab paper`: replicates a paper's experiments and compares the results with the paper's.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use research::paper;
use research::paper::{EMULATED, OnDevice, PaperRequest};
use research::report;
use research::report::paper::Replication;
use testbed::pool::Workers;

use crate::live::{self, BlockDevice};
use seekwise::number;
use seekwise::output;
use terminal::{self, Terminal};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List papers and their figures
    List,
    /// Replicate a paper's experiments
    Run(Arguments),
    /// Compare the statements of papers with the results of `run`: reproduced, not reproduced, better; prints Markdown
    Overview(Overview),
}

/// Arguments of `seekwise-lab paper overview`.
#[derive(clap::Args)]
pub struct Overview {
    /// JSON of `seekwise-lab paper run`, one for each paper
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// Write a self-contained HTML page
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
}

/// Arguments of `seekwise-lab paper run`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The paper (`seekwise-lab paper list`)
    #[arg(value_name = "PAPER")]
    name: String,
    /// Run fewer and shorter experiments; takes about a minute
    #[arg(long)]
    quick: bool,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Write a self-contained HTML page
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replicate only this figure (`fig-6`), or the targets (`bars`); may be given several times
    #[arg(long, value_name = "FIGURE")]
    only: Vec<String>,
    /// Include the figures of CPU time, the only ones that are not reproducible
    #[arg(long)]
    cpu_time: bool,
    /// A trace for the paper's one that is not available: youchoose's WebSearch
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Run fio on the real kernel, on this whole block device, such as /dev/sdb, or on an `emulated` one. Settings are restored at the end.
    /// Requires root, fio and seekwise-agent
    #[arg(long, value_name = "DEVICE|emulated", conflicts_with_all = ["only", "cpu_time", "trace", "threads"])]
    live: Option<String>,
    /// Allow overwriting DEVICE; required unless it is emulated
    #[arg(long, requires = "live")]
    overwrite: bool,
    /// Time limit on a device; at least one workload or pair is run
    #[arg(long, value_name = "MINUTES", default_value_t = 60, requires = "live", value_parser = number::within::<u32>(1..=10_000, "minutes"))]
    minutes: u32,
    /// Journal directory for the original settings
    #[arg(long, value_name = "DIR", default_value = live::JOURNAL, requires = "live")]
    journal: PathBuf,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => Ok(terminal::print(&paper::list()?)?),
        Command::Run(arguments) => repeat(&arguments),
        Command::Overview(arguments) => overview(&arguments),
    }
}

fn repeat(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = PaperRequest {
        name: arguments.name.clone(),
        is_quick: arguments.quick,
        seed: arguments.seed,
        only: arguments.only.clone(),
        measures_cpu: arguments.cpu_time,
        trace: arguments.trace.clone(),
        live: arguments.live.clone().map(|device| OnDevice { device, minutes: arguments.minutes }),
    };
    wanted.check()?;
    if let Some(device) = arguments.live.as_ref().filter(|device| *device != EMULATED && !arguments.overwrite) {
        bail!("--live {device}: would be overwritten; add --overwrite to allow that");
    }
    for (argument, path) in [("--output", &arguments.output), ("--json", &arguments.json)] {
        path.as_deref().map_or(Ok(()), |path| output::check_page(argument, path))?;
    }
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, arguments.threads.map(usize::from));
    let replication = match &arguments.live {
        Some(device) => {
            let mut device = BlockDevice::open(device, &arguments.journal, wanted.host_tunables()?)?;
            wanted.repeat_live(&mut device, workers)?
        }
        None => wanted.repeat(workers)?,
    };
    write(arguments, &replication)
}

fn overview(arguments: &Overview) -> anyhow::Result<()> {
    arguments.output.as_deref().map_or(Ok(()), |path| output::check_page("--output", path))?;
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        report::paper::Overview::read(&text).with_context(|| path.display().to_string())
    };
    let all = arguments.results.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = &arguments.output {
        replace(path, &report::paper::Overview::html(&all))?;
    }
    Ok(terminal::print(&report::paper::Overview::markdown(&all))?)
}

fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    ::report::record::replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn write(arguments: &Arguments, replication: &Replication) -> anyhow::Result<()> {
    if let Some(path) = &arguments.json {
        replace(path, &replication.to_json()?)?;
    }
    if let Some(path) = &arguments.output {
        replace(path, &replication.html())?;
    }
    Ok(terminal::print(&replication.text())?)
}
