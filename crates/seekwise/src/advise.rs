//! `seekwise advise`: the setting to use for a load, what it would bring, and how sure that is.

use std::path::PathBuf;

use anyhow::Context;
use laboratory::advice::{Wanted, advise};
use laboratory::comparison::regime;
use laboratory::pool::Crew;

use crate::experiment;
use crate::number;
use crate::output::check_page;
use terminal::{self, Terminal};

/// Arguments of `seekwise advise`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: experiment::LoadArguments,
    /// The disk to run it on: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64` [default: a trace with completion times is judged as it was recorded, all
    /// else is run on sata7200]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    disk: Option<String>,
    /// The scheduler that was in force when the trace was recorded, or under which the load is run first, optionally with tunables
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = regime::FOUND)]
    scheduler: String,
    /// What there is to choose from: `kernel` (today's Linux), `kernel-tuned` (in tuned variants, too), `classic`, `paper`, `all`, or
    /// settings such as `mq-deadline:fifo_batch=4,read_expire=100`; separated by semicolons, or given several times [default:
    /// kernel-tuned]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// Number of the device within a recorded trace [default: the one with the most requests]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(0..=u32::MAX.into(), "as the device's number"))]
    device: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What is chosen from if nothing else is said.
const CANDIDATES: &str = "kernel-tuned";

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))?;
    let in_force = regime::scheduler(&args.scheduler)?;
    let mut experiment = args.load.experiment(args.disk.as_deref());
    experiment.candidates = if args.candidates.is_empty() { vec![CANDIDATES.to_owned()] } else { args.candidates };
    let wanted = Wanted { experiment, names_disk: args.disk.is_some(), device: args.device, in_force };
    let terminal = Terminal::default();
    let advice = advise(&wanted, Crew::new(&terminal, args.load.threads()))?;
    if let Some(html) = &args.html {
        report::record::replace(html, advice.html().as_bytes()).with_context(|| html.display().to_string())?;
    }
    let text = if args.json { advice.to_json()? } else { advice.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}
