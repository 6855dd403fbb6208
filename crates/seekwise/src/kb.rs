//! `seekwise kb`: what a knowledge base holds, out of it, into it, and small.

mod exchange;
mod info;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use learn::knowledge::{ExchangeError, Knowledge, KnowledgeError, Problem, Retention};

use crate::terminal::{self, Interrupted};
use crate::trace::{counted, eprint_line, figure};

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Say what a knowledge base holds
    Info(info::Args),
    /// Write a table as CSV or JSON
    Export(exchange::ExportArgs),
    /// Take in a table that export wrote as CSV; rows that are there are not taken in twice
    Import(exchange::ImportArgs),
    /// Forget what is beyond some bounds, and make the file smaller
    Prune(PruneArgs),
    /// Take in all that other knowledge bases hold; rows that are there are not taken in twice
    Merge(MergeArgs),
}

/// Arguments of `seekwise kb prune`.
#[derive(clap::Args)]
pub struct PruneArgs {
    /// The knowledge base
    file: PathBuf,
    /// Windows to keep for each setting of each device; their decisions stay with them
    #[arg(long, value_name = "N", default_value_t = Retention::default().windows)]
    keep_windows: u64,
    /// Requests to keep
    #[arg(long, value_name = "N", default_value_t = Retention::default().requests)]
    keep_requests: u64,
    /// Models to keep of each name
    #[arg(long, value_name = "N", default_value_t = Retention::default().models)]
    keep_models: u64,
    /// Size of the file, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Retention::default().max_mib)]
    max_mib: u64,
}

/// Arguments of `seekwise kb merge`.
#[derive(clap::Args)]
pub struct MergeArgs {
    /// The knowledge base that takes in; it is created if there is none
    into: PathBuf,
    /// Those that are taken in; they stay as they are
    #[arg(required = true)]
    from: Vec<PathBuf>,
}

/// Does it.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Export(args) => exchange::export(&args),
        Command::Import(args) => exchange::import(&args),
        Command::Prune(args) => prune(&args),
        Command::Merge(args) => merge(&args),
    }
}

fn prune(args: &PruneArgs) -> anyhow::Result<()> {
    let &PruneArgs { keep_windows: windows, keep_requests: requests, keep_models: models, max_mib, .. } = args;
    let mut knowledge = Knowledge::open_existing(&args.file)?;
    let pruned = knowledge.prune(&Retention { windows, requests, models, max_mib })?;
    eprint_line(&format!(
        "{}: forgot {}, {}, {} and {}; {} kB are now {} kB",
        args.file.display(),
        counted(pruned.windows, "window"),
        counted(pruned.decisions, "decision"),
        counted(pruned.requests, "request"),
        counted(pruned.models, "model"),
        kilobytes(pruned.bytes_before),
        kilobytes(pruned.bytes)
    ));
    if pruned.bytes > max_mib.saturating_mul(1 << 20) {
        eprint_line(&format!("{}: one window of each setting and the last model of each name stay even so", args.file.display()));
    }
    Ok(())
}

fn merge(args: &MergeArgs) -> anyhow::Result<()> {
    let others = args.from.iter().map(|path| Knowledge::open_to_read(path)).collect::<Result<Vec<_>, _>>()?;
    let merged = receive(&args.into, |knowledge, proceed| knowledge.merge(&others, proceed).map_err(interruption))?;
    eprint_line(&format!("{}: {}", args.into.display(), came_in(merged.new, merged.known)));
    Ok(())
}

/// Work that a progress bar shows and Ctrl-C ends.
type Proceed<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Runs such work.
fn watched<T>(work: impl FnOnce(Proceed) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let bar = terminal::progress_bar(0, "rows");
    let result = work(&mut |rows| {
        bar.set_position(rows);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    result
}

/// Opens a knowledge base that takes something in. If there was none and nothing comes in, there is none afterwards.
fn receive<T>(path: &Path, work: impl FnOnce(&mut Knowledge, Proceed) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let is_new = fs::metadata(path).is_err();
    let mut knowledge = Knowledge::open(path)?;
    let result = watched(|proceed| work(&mut knowledge, proceed));
    let is_empty = knowledge.summary().is_ok_and(|summary| summary.runs == 0 && summary.models.is_empty());
    drop(knowledge);
    if result.is_err() && is_new && is_empty {
        for suffix in ["", "-wal", "-shm"] {
            let name: OsString = [path.as_os_str(), suffix.as_ref()].into_iter().collect();
            // What cannot be removed is an empty knowledge base: no reason to hide the error that matters.
            let _ = fs::remove_file(name);
        }
    }
    result
}

/// What Ctrl-C ends is no error of the file.
fn interruption(error: KnowledgeError) -> anyhow::Error {
    if matches!(error.problem, Problem::Interrupted) { Interrupted.into() } else { error.into() }
}

/// The same of a table.
fn interrupted_exchange(error: ExchangeError) -> anyhow::Error {
    match error {
        ExchangeError::Interrupted => Interrupted.into(),
        ExchangeError::Knowledge(error) => interruption(error),
        error => error.into(),
    }
}

fn came_in(new: u64, known: u64) -> String {
    let there = if known == 0 { String::new() } else { format!(", {} were there already", report::number::grouped(known)) };
    format!("{} taken in{there}", counted(new, "row"))
}

fn kilobytes(bytes: u64) -> String {
    figure(bytes as f64 / 1000.0)
}
