//! `seekwise workload`: the papers' workloads as fio job files, random ones, and the requests of a job.

mod requests;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sim::workload::random;
use testbed::shipped;
use testbed::shipped::workload_text;

use crate::number;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the built-in workloads
    List,
    /// Print a workload's fio job file
    Show {
        /// Its name, or a job file's path
        name: String,
    },
    /// Generate random mixes of disk access as IOPerf does, as an fio job file
    Random(RandomArgs),
    /// Print a job's requests in fio's log format (iolog version 2)
    Requests(requests::RequestsArguments),
}

/// Arguments of `seekwise workload random`.
#[derive(clap::Args)]
pub struct RandomArgs {
    /// Random seed: the same seed gives the same mixes
    #[arg(long, default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of mixes, run one after another
    #[arg(long, default_value_t = 1, value_parser = number::within::<u32>(1..=u64::from(random::MAX_MIXES), "mixes"))]
    count: u32,
    /// Runtime of each mix
    #[arg(long, default_value_t = 30, value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: u32,
    /// Where to write the job file; - is standard output
    #[arg(short, long, value_name = "FILE.fio", default_value = "-")]
    output: PathBuf,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => Ok(terminal::print(&list())?),
        Command::Show { name } => Ok(terminal::print(&workload_text(&name)?.0)?),
        Command::Random(args) => write(&args.output, &random::job_file(args.seed, args.count, args.seconds)),
        Command::Requests(args) => requests::run(&args),
    }
}

/// List of workloads: one paragraph per paper, one line per workload.
fn list() -> String {
    let heads: Vec<(&str, shipped::Head<'_>)> = shipped::ALL.iter().map(|(name, text)| (*name, shipped::head(text))).collect();
    let width = |of: fn(&(&str, shipped::Head<'_>)) -> usize| heads.iter().map(of).max().unwrap_or(0);
    let (names, places) = (width(|(name, _)| name.len()), width(|(_, head)| head.place.len()));
    let mut text = String::new();
    let mut paper = "";
    for (name, head) in &heads {
        if head.paper != paper {
            let gap = if text.is_empty() { "" } else { "\n" };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{gap}{}", head.paper);
            paper = head.paper;
        }
        let _ = writeln!(text, "  {name:names$}  {:places$}  {}", head.place, head.summary);
    }
    text
}

/// Writes a file by rename, or to standard output.
fn write(output: &Path, text: &str) -> anyhow::Result<()> {
    if output == Path::new("-") {
        return Ok(terminal::print(text)?);
    }
    report::record::replace(output, text.as_bytes()).with_context(|| format!("{}", output.display()))
}
