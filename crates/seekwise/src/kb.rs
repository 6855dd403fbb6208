//! `seekwise kb`: inspect, export, import, prune and merge knowledge bases.

mod exchange;
mod info;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use knowledge::{ExchangeError, Knowledge, KnowledgeError, Problem, Retention};

use crate::number;
use crate::trace::{counted, figure};
use terminal::eprint_line;
use terminal::{self, Interrupted};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show the contents of a knowledge base
    Info(info::InfoArgs),
    /// Write a table as CSV or JSON
    Export(exchange::ExportArgs),
    /// Add a table that export wrote as CSV; rows already present are not added twice
    Import(exchange::ImportArgs),
    /// Delete rows beyond given limits and shrink the file
    Prune(PruneArgs),
    /// Add all rows of other knowledge bases; rows already present are not added twice
    Merge(MergeArgs),
}

/// Arguments of `seekwise kb prune`.
#[derive(clap::Args)]
pub struct PruneArgs {
    /// The knowledge base: a file, or a server as postgresql://user@host/database
    file: PathBuf,
    /// Windows to keep for each setting of each device, with their decisions
    #[arg(long, value_name = "N", default_value_t = Retention::default().windows, value_parser = number::within::<u64>(0..=u64::MAX, "windows"))]
    keep_windows: u64,
    /// Number of requests to keep
    #[arg(long, value_name = "N", default_value_t = Retention::default().requests, value_parser = number::within::<u64>(0..=u64::MAX, "requests"))]
    keep_requests: u64,
    /// Number of models to keep of each name
    #[arg(long, value_name = "N", default_value_t = Retention::default().models, value_parser = number::within::<u64>(0..=u64::MAX, "models"))]
    keep_models: u64,
    /// Maximum size of the file, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Retention::default().max_mib, value_parser = number::within::<u64>(0..=u64::MAX, "MiB"))]
    max_mib: u64,
}

/// Arguments of `seekwise kb merge`.
#[derive(clap::Args)]
pub struct MergeArgs {
    /// The knowledge base to add to; created if it does not exist
    into: PathBuf,
    /// The knowledge bases to add; they are not changed
    #[arg(required = true)]
    from: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    let done = match command {
        Command::Info(args) => info::run(&args),
        Command::Export(args) => exchange::export(&args),
        Command::Import(args) => exchange::import(&args),
        Command::Prune(args) => prune(&args),
        Command::Merge(args) => merge(&args),
    };
    done.map_err(|error| error.downcast().map_or_else(|other| other, interruption))
}

fn prune(args: &PruneArgs) -> anyhow::Result<()> {
    let &PruneArgs { keep_windows: windows, keep_requests: requests, keep_models: models, max_mib, .. } = args;
    let mut knowledge = Knowledge::open_existing(&args.file)?;
    let pruned = knowledge.prune(&Retention { windows, requests, models, max_mib })?;
    eprint_line(&format!(
        "{}: forgot {}, {}, {} and {}; {} kB are now {} kB",
        knowledge.path().display(),
        counted(pruned.windows, "window"),
        counted(pruned.decisions, "decision"),
        counted(pruned.requests, "request"),
        counted(pruned.models, "model"),
        kilobytes(pruned.bytes_before),
        kilobytes(pruned.bytes)
    ));
    if pruned.bytes > max_mib.saturating_mul(1 << 20) {
        eprint_line(&format!(
            "{}: still larger: one window of each setting and the last model of each name are kept",
            knowledge.path().display()
        ));
    }
    Ok(())
}

fn merge(args: &MergeArgs) -> anyhow::Result<()> {
    let others = args.from.iter().map(|path| Knowledge::open_to_read(path)).collect::<Result<Vec<_>, _>>()?;
    let (name, merged) = receive(&args.into, |knowledge, proceed| knowledge.merge(&others, proceed).map_err(interruption))?;
    eprint_line(&format!("{name}: {}", came_in(merged.new, merged.known)));
    Ok(())
}

/// Reports progress; returns `false` after Ctrl-C.
type Proceed<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Runs work with a progress bar; Ctrl-C cancels it.
fn watched<T>(work: impl FnOnce(Proceed) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let bar = terminal::progress_bar(0, "rows");
    let result = work(&mut |rows| {
        bar.set_position(rows);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    result
}

/// Opens a knowledge base to add rows, and returns its name for messages with the result of `work`. A newly created file is removed if
/// `work` fails before adding any rows.
fn receive<T>(path: &Path, work: impl FnOnce(&mut Knowledge, Proceed) -> anyhow::Result<T>) -> anyhow::Result<(String, T)> {
    let is_new = !Knowledge::is_server(path) && fs::metadata(path).is_err();
    let mut knowledge = Knowledge::open(path)?;
    let result = watched(|proceed| work(&mut knowledge, proceed));
    let is_empty = knowledge.summary().is_ok_and(|summary| summary.runs == 0 && summary.models.is_empty());
    let name = knowledge.path().display().to_string();
    drop(knowledge);
    if result.is_err() && is_new && is_empty {
        for suffix in ["", "-wal", "-shm"] {
            let name: OsString = [path.as_os_str(), suffix.as_ref()].into_iter().collect();
            // A leftover empty knowledge base is harmless; failing to remove it must not hide the original error.
            let _ = fs::remove_file(name);
        }
    }
    result.map(|result| (name, result))
}

/// Maps a cancelled operation to [`Interrupted`], without the file name.
fn interruption(error: KnowledgeError) -> anyhow::Error {
    if matches!(error.problem, Problem::Interrupted) { Interrupted.into() } else { error.into() }
}

/// As [`interruption`], for tables.
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
