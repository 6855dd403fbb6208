//! `seekwise compare`: one load on one disk under several schedulers and controllers, in one table.

use experiment::comparison::regime;
use experiment::comparison::regime::Regime;

use control::controller::ControllerSpec;

use crate::arguments;
use crate::controller::parse;
use crate::output::{self, Output};

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: arguments::Arguments,
    /// A scheduler, optionally with tunables (`mq-deadline:read_expire=100,fifo_batch=8`), or a set of them: `kernel` (today's Linux),
    /// `classic` (textbooks, Linux up to 4.20, and per-request), `all`; may be given several times [default: kernel]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// A controller that chooses scheduler and settings while the load runs, optionally with tunables (`seekwise controller
    /// list`); may be given several times. It starts from mq-deadline
    #[arg(long = "controller", value_name = "NAME[:KEY=VALUE,...]")]
    controllers: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command; `controllers` are those that `--controller` may name.
pub fn run(args: Args, controllers: &[&'static ControllerSpec]) -> anyhow::Result<()> {
    args.output.check()?;
    let records = args.experiment.records(regimes(&args, controllers)?, true)?;
    output::show(&records, &args.output)
}

fn regimes(args: &Args, controllers: &[&'static ControllerSpec]) -> anyhow::Result<Vec<Regime>> {
    let named = args.schedulers.iter().map(String::as_str);
    let usual = args.schedulers.is_empty().then_some(regime::USUAL);
    let mut regimes = Vec::new();
    for text in named.chain(usual) {
        regimes.extend(regime::schedulers(text)?.into_iter().map(Regime::Scheduler));
    }
    for text in &args.controllers {
        let (chosen, begins_with) = (parse(text, controllers)?, regime::scheduler(regime::FOUND)?);
        regimes.push(Regime::Controller { chosen, begins_with });
    }
    Ok(regimes)
}
