//! `seekwise paper`: repeats a paper's experiments and shows the results beside the paper's.

use std::path::{Path, PathBuf};

use anyhow::Context;
use laboratory::paper::{self, Wanted};
use laboratory::pool::Crew;
use report::paper::Replication;

use crate::number;
use crate::output;
use terminal::{self, Terminal};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the papers that can be repeated, with their figures
    List,
    /// Repeat a paper's experiments; targets that are missed are reported as missed
    Run(Arguments),
}

/// Arguments of `seekwise paper run`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The paper (`seekwise paper list`)
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
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => Ok(terminal::print(&paper::list()?)?),
        Command::Run(arguments) => repeat(&arguments),
    }
}

fn repeat(arguments: &Arguments) -> anyhow::Result<()> {
    let wanted = Wanted {
        name: arguments.name.clone(),
        is_quick: arguments.quick,
        seed: arguments.seed,
        only: arguments.only.clone(),
        measures_cpu: arguments.cpu_time,
        trace: arguments.trace.clone(),
    };
    wanted.check()?;
    for (argument, path) in [("--output", &arguments.output), ("--json", &arguments.json)] {
        path.as_deref().map_or(Ok(()), |path| output::check_page(argument, path))?;
    }
    let terminal = Terminal::default();
    write(arguments, &wanted.repeat(Crew::new(&terminal, arguments.threads.map(usize::from)))?)
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
