//! `seekwise trace merge`.

use std::path::{Path, PathBuf};

use sim::trace::Order;
use sim::trace::merge::{Identity, Merged, Part, in_folders};

use super::copy::{Destination, ReadOptions};

/// Arguments of `seekwise trace merge`.
#[derive(clap::Args)]
pub struct MergeArguments {
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
pub fn run(args: &MergeArguments) -> anyhow::Result<()> {
    let target = args.destination.begin()?;
    let paths = in_folders(&args.inputs)?;
    let order = if args.align == Align::Start { Order::FromZero } else { Order::OwnClock };
    let identity = if args.same_devices { Identity::ByName } else { Identity::OfEachTrace };
    let mut parts = Vec::new();
    for path in &paths {
        let opened = args.options.open(path, order)?;
        parts.push(Part::new(path, opened.reader, identity));
    }
    let from = format!("{} traces", paths.len());
    target.write(&mut Merged::new(parts, identity), (Path::new("merged"), &from))
}
