//! `seekwise-lab paper`: repeats a paper's experiments and shows the results next to the paper's.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use experiment::pool::Workers;
use research::paper;
use research::paper::{EMULATED, OnDevice, PaperRequest};
use research::report::paper::Replication;

use crate::live::{self, BlockDevice};
use seekwise::number;
use seekwise::output;
use terminal::{self, Terminal};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the papers that can be repeated, with their figures
    List,
    /// Repeat a paper's experiments; targets that are missed are reported as missed
    Run(Arguments),
}

/// Arguments of `seekwise-lab paper run`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The paper (`seekwise-lab paper list`)
    #[arg(value_name = "PAPER")]
    name: String,
    /// Run less of everything: about a minute instead of several
    #[arg(long)]
    quick: bool,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Write a self-contained page
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Repeat only this figure (`fig-6`), or `bars`; may be given several times
    #[arg(long, value_name = "FIGURE")]
    only: Vec<String>,
    /// Draw the figures of processor time, too: the only ones that differ from run to run
    #[arg(long)]
    cpu_time: bool,
    /// A trace in place of one that the paper has and that cannot be had: youchoose's WebSearch
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// On the real kernel: on this whole block device, such as /dev/sdb, or on one that is `emulated` for this. The real fio runs on it, the
    /// searches steer it, and at the end everything that was set is put back. Needs root, fio and seekwise-agent
    #[arg(long, value_name = "DEVICE|emulated", conflicts_with_all = ["only", "cpu_time", "trace", "threads"])]
    live: Option<String>,
    /// What is on DEVICE may be overwritten; without this nothing is done to a device that was there before
    #[arg(long, requires = "live")]
    overwrite: bool,
    /// How long it may take on a device: as much is run as that allows, and one workload or pair at least
    #[arg(long, value_name = "MINUTES", default_value_t = 60, requires = "live", value_parser = number::within::<u32>(1..=10_000, "minutes"))]
    minutes: u32,
    /// Where the values before are kept until they are put back
    #[arg(long, value_name = "DIR", default_value = live::JOURNAL, requires = "live")]
    journal: PathBuf,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => Ok(terminal::print(&paper::list()?)?),
        Command::Run(arguments) => repeat(&arguments),
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
        bail!("--live {device}: what is on it would be overwritten; if that is wanted, say --overwrite");
    }
    for (argument, path) in [("--output", &arguments.output), ("--json", &arguments.json)] {
        path.as_deref().map_or(Ok(()), |path| output::check_page(argument, path))?;
    }
    let terminal = Terminal::default();
    let crew = Workers::new(&terminal, arguments.threads.map(usize::from));
    let replication = match &arguments.live {
        Some(device) => {
            let mut device = BlockDevice::open(device, &arguments.journal, wanted.host_tunables()?)?;
            wanted.repeat_live(&mut device, crew)?
        }
        None => wanted.repeat(crew)?,
    };
    write(arguments, &replication)
}

fn write(arguments: &Arguments, replication: &Replication) -> anyhow::Result<()> {
    let replace = |path: &Path, text: String| {
        report::record::replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &arguments.json {
        replace(path, replication.to_json()?)?;
    }
    if let Some(path) = &arguments.output {
        replace(path, replication.html())?;
    }
    Ok(terminal::print(&replication.text())?)
}
