//! `seekwise compare`: one load on one disk under several schedulers and controllers, in one table.

use learn::Setting;

use laboratory::comparison::regime::{self, Regime};

use crate::experiment;
use crate::output::{self, Output};

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: experiment::Arguments,
    /// A scheduler, optionally with tunables (`deadline:read_expire=100,fifo_batch=8`); may be given several times [default: all]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// A controller that chooses scheduler and settings while the load runs, optionally with tunables (`seekwise controller
    /// list`); may be given several times. It starts from deadline
    #[arg(long = "controller", value_name = "NAME[:KEY=VALUE,...]")]
    controllers: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.output.check()?;
    let records = args.experiment.records(regimes(&args)?, true)?;
    output::show(&records, &args.output)
}

fn regimes(args: &Args) -> anyhow::Result<Vec<Regime>> {
    let mut regimes: Vec<Regime> = if args.schedulers.is_empty() {
        ::learn::sched::all().map(|spec| Regime::Scheduler(Setting::of(spec))).collect()
    } else {
        args.schedulers.iter().map(|text| regime::scheduler(text).map(Regime::Scheduler)).collect::<anyhow::Result<_>>()?
    };
    for text in &args.controllers {
        let (chosen, begins_with) = (regime::controller(text)?, regime::scheduler(regime::FOUND)?);
        regimes.push(Regime::Controller { chosen, begins_with });
    }
    Ok(regimes)
}
