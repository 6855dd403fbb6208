//! `seekwise workload`: the papers' workloads as fio job files, random ones, and what a job file asks of the disk.

mod requests;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laboratory::shipped::{self, workload_text};
use sim::workload::random;

use crate::terminal;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the workloads that come with the program
    List,
    /// Print one as the fio job file it is
    Show {
        /// Its name, or a job file's path
        name: String,
    },
    /// Draw random mixes of disk access as IOPerf does, as an fio job file
    Random(RandomArgs),
    /// Print what a job asks for, request by request, as fio's own log (iolog version 2)
    Requests(requests::Args),
}

/// Arguments of `seekwise workload random`.
#[derive(clap::Args)]
pub struct RandomArgs {
    /// Which mixes: the same seed gives the same ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many, one after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(random::MAX_MIXES)))]
    count: u32,
    /// How long each takes
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Where to write them; - is standard output
    #[arg(short, long, value_name = "FILE.fio", default_value = "-")]
    output: PathBuf,
}

/// Does it.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => Ok(terminal::print(&list())?),
        Command::Show { name } => Ok(terminal::print(&workload_text(&name)?.0)?),
        Command::Random(args) => write(&args.output, &random::job_file(args.seed, args.count, args.seconds)),
        Command::Requests(args) => requests::run(&args),
    }
}

/// A paragraph for each paper, with a line for each of its workloads.
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
