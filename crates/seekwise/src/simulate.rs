//! `seekwise simulate`: one load on one disk under one scheduler, and what came of it.

use crate::experiment::{self, Setting};
use crate::terminal;

/// Arguments of `seekwise simulate`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: experiment::Arguments,
    /// The scheduler, with tunables if wanted (`deadline:read_expire=100,fifo_batch=8`)
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "deadline")]
    scheduler: String,
    /// Print the record as JSON instead
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let records = experiment::records(&args.experiment, vec![Setting::parse(&args.scheduler)?], false)?;
    let (width, _) = terminal::style();
    let mut text = String::new();
    for record in &records {
        if args.json {
            text.push_str(&serde_json::to_string_pretty(record)?);
            text.push('\n');
        } else {
            text.push_str(&report::single::text(record, width));
        }
    }
    Ok(terminal::print(&text)?)
}
