//! `seekwise trace merge`, and files that are named by their folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use sim::trace::merge::{Identity, Merged, Part};
use sim::trace::{self, Order};

use super::copy::{Destination, ReadOptions};

/// Arguments of `seekwise trace merge`.
#[derive(clap::Args)]
pub struct Args {
    /// The traces to read, or folders of them
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    options: ReadOptions,
    /// By which times the traces are merged
    #[arg(long, value_enum, default_value = "clock")]
    align: Align,
    /// Devices and streams of the same name (or number, if they have none) are the same in all files: parts of one recording
    #[arg(long)]
    same_devices: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Align {
    /// By the traces' own clocks: those that were recorded at the same time are merged as they ran
    Clock,
    /// All begin at the same time
    Start,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let target = args.destination.begin()?;
    let paths = files(&args.inputs)?;
    let order = if args.align == Align::Start { Order::FromZero } else { Order::OwnClock };
    let mut parts = Vec::new();
    for path in &paths {
        let opened = args.options.open(path, order)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let name = if args.same_devices { String::new() } else { stem };
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        parts.push(Part { reader: opened.reader, file, name, began: None });
    }
    let identity = if args.same_devices { Identity::ByName } else { Identity::OfEachTrace };
    let from = format!("{} traces", paths.len());
    target.write(&mut Merged::new(parts, identity), (Path::new("merged"), &from))
}

/// These files, and those in folders among them, in the order of their names. Of a recording in several files only the first is there.
pub fn files(given: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot_read = || format!("{}", path.display());
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).with_context(cannot_read)? {
            let file = entry.with_context(cannot_read)?.path();
            let is_hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let is_first = || trace::files(&file).first().is_none_or(|first| *first == file);
            if !is_hidden && file.is_file() && is_first() {
                inside.push(file);
            }
        }
        ensure!(!inside.is_empty(), "{}: has no file in it", path.display());
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}
