//! `seekwise compare`: one load on one disk under several schedulers and controllers, in one table.

use experiment::comparison::regime;
use experiment::comparison::regime::Regime;

use control::controller::ControllerSpec;

use crate::arguments;
use crate::controller::parse;
use crate::library;
use crate::output::{self, Output};
use terminal::InterruptDeadline;

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct CompareArguments {
    #[command(flatten)]
    experiment: arguments::ExperimentArguments,
    /// A scheduler, optionally with tunables (`mq-deadline:read_expire=100,fifo_batch=8`), or a set of them: `kernel` (today's Linux),
    /// `classic` (textbooks, Linux up to 4.20, and per-request), `all`, or a shared library with one (`./elevator.so:patience_ms=20`;
    /// docs/guide/own-scheduler.md); may be given several times. Tunables of the host may follow, each after a space (`bfq
    /// read_ahead_kb=1024`) [default: kernel]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...][ KEY=VALUE...]")]
    schedulers: Vec<String>,
    /// Compare every scheduler with each of these values of a tunable of the host (`seekwise host list`); given several times, with
    /// every combination. --set sets a value for all, once for each tunable
    #[arg(long, value_name = "KEY=VALUE,...")]
    vary: Vec<String>,
    /// A controller that chooses scheduler and settings while the load runs, optionally with tunables (`seekwise controller
    /// list`); may be given several times. It starts from mq-deadline
    #[arg(long = "controller", value_name = "NAME[:KEY=VALUE,...]")]
    controllers: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command; `controllers` are those that `--controller` may name.
pub fn run(args: CompareArguments, controllers: &[&'static ControllerSpec]) -> anyhow::Result<()> {
    args.output.check()?;
    let interrupted = InterruptDeadline::begin();
    let records = args.experiment.records(regimes(&args, controllers)?, true)?;
    drop(interrupted);
    library::check()?;
    // The table itself does not name the load.
    let merged = if args.experiment.is_merged()? { records.first().map(|record| record.trace.name.as_str()) } else { None };
    output::show(&records, merged, &args.output)
}

fn regimes(args: &CompareArguments, controllers: &[&'static ControllerSpec]) -> anyhow::Result<Vec<Regime>> {
    let named = args.schedulers.iter().map(String::as_str);
    let usual = args.schedulers.is_empty().then_some(regime::USUAL);
    let mut settings = Vec::new();
    for text in named.chain(usual) {
        settings.extend(regime::schedulers(&library::named(text)?)?);
    }
    let mut regimes: Vec<Regime> = regime::varied(settings, &args.vary)?.into_iter().map(Regime::Scheduler).collect();
    for text in &args.controllers {
        let (chosen, begins_with) = (parse(text, controllers)?, regime::scheduler(regime::FOUND)?);
        regimes.push(Regime::Controller { chosen, begins_with });
    }
    Ok(regimes)
}
