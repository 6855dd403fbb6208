//! `seekwise place`: plan migrations between arrays and simulate their effect.

use std::path::PathBuf;

use crate::number;
use guarantee::placement::{Specification, Trial, place};
use terminal::{self, Terminal};
use testbed::pool::Workers;

/// Arguments of `seekwise place`.
#[derive(clap::Args)]
pub struct PlaceArguments {
    /// A TOML file of arrays (`[[array]]`: name, disk, capacity_percent) and volumes (`[[volume]]`: name, on, reference, mib, load), as
    /// described in docs/reference/placement.md
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Run all volumes in the simulator before, during and after the moves, and say whether a promise was broken
    #[arg(long)]
    simulate: bool,
    /// How long they run before and after the moves
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: u32,
    /// Seed for the random draws of loads
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &PlaceArguments) -> anyhow::Result<()> {
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, args.threads.map(usize::from));
    let specification = Specification::read(&args.file, args.seed, workers)?;
    let trial = args.simulate.then(|| Trial::new(f64::from(args.seconds))).transpose()?;
    let placement = place(&specification, trial.as_ref(), workers)?;
    let text = if args.json { placement.to_json()? } else { placement.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}
