//! `seekwise compare`: one load, one disk, all schedulers, one table.

use anyhow::ensure;

use crate::experiment::{self, Setting};
use crate::output::{self, Output};

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: experiment::Arguments,
    /// A scheduler, with tunables if wanted (`deadline:read_expire=100,fifo_batch=8`); may be given several times [default: all]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Runs it.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    let records = experiment::records(&args.experiment, settings(&args.schedulers)?, true)?;
    output::show(&records, &args.output)
}

fn settings(schedulers: &[String]) -> anyhow::Result<Vec<Setting>> {
    if schedulers.is_empty() {
        return Ok(block::ALL.iter().map(|spec| Setting::of(spec)).collect());
    }
    let settings = schedulers.iter().map(|text| Setting::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let labels: Vec<String> = settings.iter().map(Setting::label).collect();
    for (i, label) in labels.iter().enumerate() {
        ensure!(!labels[..i].contains(label), "--scheduler {label}: is given twice; once is right");
    }
    Ok(settings)
}
