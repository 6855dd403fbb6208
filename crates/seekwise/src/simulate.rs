//! `seekwise simulate`: one load on one disk under one scheduler or controller.

use experiment::comparison::regime;
use experiment::comparison::regime::Regime;

use control::controller::ControllerSpec;

use crate::arguments;
use crate::controller::parse;
use crate::output::Explain;

/// Arguments of `seekwise simulate`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: arguments::Arguments,
    /// The scheduler, optionally with tunables (`mq-deadline:read_expire=100,fifo_batch=8`)
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = regime::FOUND)]
    scheduler: String,
    /// A controller that chooses scheduler and settings while the load runs, optionally with tunables (`seekwise controller
    /// list`). It starts from `--scheduler`
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    controller: Option<String>,
    /// Print the record as JSON instead
    #[arg(long)]
    json: bool,
    /// Print the results of a job file in the form of fio's own report instead
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    fio: bool,
    #[command(flatten)]
    explain: Explain,
}

/// Runs the command; `controllers` are those that `--controller` may name.
pub fn run(args: &Args, controllers: &[&'static ControllerSpec]) -> anyhow::Result<()> {
    let begins_with = regime::scheduler(&args.scheduler)?;
    let regime = match &args.controller {
        None => Regime::Scheduler(begins_with),
        Some(text) => Regime::Controller { chosen: parse(text, controllers)?, begins_with },
    };
    anyhow::ensure!(!args.fio || args.experiment.is_job_file()?, "--fio: is for job files, and the load is a trace");
    let records = args.experiment.records(vec![regime], false)?;
    let (width, _) = terminal::style();
    let mut text = String::new();
    for record in &records {
        if args.json {
            text.push_str(&serde_json::to_string_pretty(record)?);
            text.push('\n');
        } else if let Some(report) = args.fio.then(|| report::fio::text(record)).flatten() {
            text.push_str(&report);
        } else {
            text.push_str(&report::single::text(record, width, args.explain.shown()));
        }
    }
    Ok(terminal::print(&text)?)
}
