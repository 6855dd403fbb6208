//! `seekwise workload`: the papers' workloads as fio job files, random ones, and what a job file asks of the disk.

mod requests;
pub mod shipped;

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use sim::workload::random;

pub use shipped::workload_text;

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

/// The text of a job file and what errors shall call it; `None` if the path leads to something else, such as a trace.
///
/// # Errors
/// What should be a job file cannot be read.
pub fn job_text(path: &Path) -> anyhow::Result<Option<(String, String)>> {
    let name = path.to_string_lossy();
    if let Some(found) = shipped::find(&name) {
        return Ok(Some(found));
    }
    if path.extension().is_some_and(|extension| extension == "fio") || begins_with_section(path) {
        return shipped::file_text(path).map(Some);
    }
    // A trace may be named by less than a file's name, as blktrace's recordings are.
    ensure!(
        sim::trace::files(path).iter().any(|file| file.symlink_metadata().is_ok()),
        "{name}: neither a file nor a workload that comes with the program; `seekwise workload list` shows those"
    );
    Ok(None)
}

/// Whether a file's first line that says anything is a section of a job file. No trace begins so.
fn begins_with_section(path: &Path) -> bool {
    const BYTES: u64 = 4096;
    let mut bytes = Vec::new();
    // Only a regular file can be looked into without taking something away from its reader.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_file || std::fs::File::open(path).and_then(|file| file.take(BYTES).read_to_end(&mut bytes)).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| line.starts_with('[') && line.contains(']'))
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
