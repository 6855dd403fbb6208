//! `seekwise-lab evaluate`, `twin`, `counters`, `worlds`: evaluates controllers on loads and devices that were not used for training or
//! tuning.

use std::path::{Path, PathBuf};

use anyhow::Context;
use observe::Preference;
use research::evaluation;
use research::evaluation::ControllerEvaluation;
use research::evaluation::ceiling::Ceiling;
use research::evaluation::counting::Counting;
use research::evaluation::fleet::FleetEvaluation;
use research::evaluation::no_change::NoChange;
use research::evaluation::processor_time::ProcessorTime;
use research::evaluation::worth::Worth;
use research::shares::Shares;
use research::worlds::Which;
use testbed::pool::Workers;

use crate::live::{BlockDevice, JOURNAL};
use seekwise::number;
use seekwise::output;
use terminal::{self, Terminal};

/// Arguments of `seekwise-lab evaluate`.
#[derive(clap::Args)]
pub struct EvaluateArguments {
    /// First seed for drawing loads and devices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::within::<u32>(1..=1000, "seeds"))]
    seeds: u32,
    /// Controllers, optionally with tunables, separated by semicolons; may be given several times [default: round-robin,
    /// feedback, two-layer with each learner, seekwise]
    #[arg(long, value_name = "NAME[:KEY=VALUE,...][;...]", value_delimiter = ';')]
    controllers: Vec<String>,
    /// Candidate settings: `kernel`, `kernel-tuned`, `linux`, `classic`, `paper`, `all`, or settings separated by semicolons; may be given
    /// several times [default: kernel]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// Weights of merit: throughput, response time, fairness; each 1 to 3, summing to 6 or 7 [default: 2,3,1]
    #[arg(long, value_name = "T,R,F")]
    preference: Option<Preference>,
    /// Also replay this trace, on a device drawn for each seed; may be given several times
    #[arg(long = "trace", value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Experience that controllers learn from [default: built in]
    #[arg(long, value_name = "FILE.json")]
    experience: Option<PathBuf>,
    #[command(flatten)]
    world: WorldArguments,
    /// Run fewer and shorter loads and no cross-validation; takes 1 to 2 minutes
    #[arg(long)]
    quick: bool,
    /// How long each load of one phase runs, in seconds [default: 60; 20 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = number::within::<u32>(5..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// Also evaluate the effect of a knowledge base on `seekwise`: run each load again with one that was filled by its first run, by runs
    /// under every scheduler, or by other loads
    #[arg(long)]
    memory: bool,
    /// Also measure CPU time, the only figure that is not reproducible
    #[arg(long)]
    cpu_time: bool,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON instead of tables, with all cases
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "PAGE.html")]
    html: Option<PathBuf>,
}

/// Selection of one of the three worlds.
#[derive(clap::Args)]
pub struct WorldArguments {
    /// Use the validation world (design choices) instead of the test world (reported results)
    #[arg(long)]
    build_world: bool,
    /// Use the training world instead of the test world
    #[arg(long, conflicts_with = "build_world")]
    learn_world: bool,
}

impl WorldArguments {
    /// The world.
    pub fn which(&self) -> Which {
        match (self.learn_world, self.build_world) {
            (true, _) => Which::Learn,
            (_, true) => Which::Build,
            _ => Which::Report,
        }
    }
}

/// Lists the three worlds.
///
/// # Errors
/// Standard output cannot be written to.
pub fn worlds() -> anyhow::Result<()> {
    Ok(terminal::print(&evaluation::worlds_text()?)?)
}

/// Evaluates controllers.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn controllers(args: &EvaluateArguments) -> anyhow::Result<()> {
    if let Some(html) = &args.html {
        output::check_page("--html", html)?;
    }
    let evaluation = ControllerEvaluation {
        seed: args.seed,
        seeds: args.seeds,
        controllers: args.controllers.clone(),
        candidates: args.candidates.clone(),
        preference: args.preference.unwrap_or_default(),
        traces: args.traces.clone(),
        experience: args.experience.clone(),
        world: args.world.which(),
        is_quick: args.quick,
        seconds: args.seconds,
        measures_cpu: args.cpu_time,
        examines_memory: args.memory,
    };
    let terminal = Terminal::default();
    let report = evaluation.run(Workers::new(&terminal, args.threads.map(usize::from)))?;
    if let Some(html) = &args.html {
        report::record::replace(html, report.html().as_bytes()).with_context(|| format!("cannot write {}", html.display()))?;
    }
    let text = if args.json { report.to_json()? } else { report.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

/// Arguments of `seekwise-lab processor-time`.
#[derive(clap::Args)]
pub struct ProcessorTimeArguments {
    /// The controller, optionally with tunables
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "seekwise")]
    controller: String,
    /// Requests per second
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number::within::<u32>(4..=100_000, "requests per second"))]
    rate: u32,
    /// Seconds of virtual time, of which the first 60 are not measured
    #[arg(long, value_name = "SECONDS", default_value_t = 180, value_parser = number::within::<u32>(61..=86_400, "seconds"))]
    seconds: u32,
}

/// Measures a controller's processor time as a share of a core.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn processor_time(args: &ProcessorTimeArguments) -> anyhow::Result<()> {
    let ProcessorTimeArguments { controller, rate, seconds } = args;
    let asked = ProcessorTime { controller: controller.clone(), rate: *rate, seconds: *seconds };
    let spent = asked.measure(&Terminal::default())?;
    Ok(terminal::print(&format!(
        "{controller}: {:.3}% of a core at {:.0} requests/s, over {:.0} s after the first minute.\n",
        spent.core_percent, spent.requests_per_s, spent.seconds
    ))?)
}

/// Arguments of `seekwise-lab fleet`.
#[derive(clap::Args)]
pub struct FleetArguments {
    /// First seed for drawing loads and devices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::within::<u32>(1..=1000, "seeds"))]
    seeds: u32,
    #[command(flatten)]
    world: WorldArguments,
    /// Run fewer and shorter loads
    #[arg(long)]
    quick: bool,
    /// How long each load of one phase runs, in seconds [default: 60; 20 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = number::within::<u32>(5..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON, with all cases
    #[arg(long)]
    json: bool,
}

/// Evaluates fleets.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn fleet(args: &FleetArguments) -> anyhow::Result<()> {
    let &FleetArguments { seed, seeds, quick: is_quick, seconds, .. } = args;
    let evaluation = FleetEvaluation { seed, seeds, world: args.world.which(), is_quick, seconds };
    let terminal = Terminal::default();
    let report = evaluation.run(Workers::new(&terminal, args.threads.map(usize::from)))?;
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() };
    Ok(terminal::print(&text)?)
}

/// Options for evaluating predictions.
#[derive(clap::Args)]
pub struct Questions {
    /// First seed for drawing loads and devices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::within::<u32>(1..=1000, "seeds"))]
    seeds: u32,
    #[command(flatten)]
    world: WorldArguments,
    /// Run fewer and shorter loads
    #[arg(long)]
    quick: bool,
    /// Candidate settings: `kernel`, `kernel-tuned`, `linux`, `classic`, `paper`, `all`, or settings separated by semicolons; may be given
    /// several times [default: kernel]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON instead of the table, with prediction and result for every setting
    #[arg(long)]
    json: bool,
}

/// Arguments of `seekwise-lab twin`.
#[derive(clap::Args)]
pub struct TwinArguments {
    #[command(flatten)]
    questions: Questions,
    /// Simulate on a device fitted to the observed requests instead of the true model
    #[arg(long)]
    fit_device: bool,
}

/// Compares the twin's predictions with real runs.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn twin(args: &TwinArguments) -> anyhow::Result<()> {
    let Questions { seed, seeds, quick: is_quick, threads, json, .. } = args.questions;
    let (world, candidates) = (args.questions.world.which(), args.questions.candidates.clone());
    let ceiling = Ceiling { seed, seeds, world, is_quick, fits_device: args.fit_device, candidates };
    let terminal = Terminal::default();
    let report = ceiling.measure(Workers::new(&terminal, threads.map(usize::from)))?;
    let text = if json { report.to_json()? } else { report.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

/// Arguments of `seekwise-lab no-change`.
#[derive(clap::Args)]
pub struct NoChangeArguments {
    /// First seed for drawing loads and devices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of seeds: each draws a load of every family of the world, each on a device of its own; with --live one load of its own
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = number::within::<u32>(1..=1000, "seeds"))]
    seeds: u32,
    /// How long each load of one phase runs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = number::within::<u32>(5..=86_400, "seconds"))]
    seconds: u32,
    /// Controllers, optionally with tunables, separated by semicolons; may be given several times
    #[arg(long, value_name = "NAME[:KEY=VALUE,...][;...]", value_delimiter = ';', default_value = "seekwise")]
    controllers: Vec<String>,
    /// Candidate settings: `kernel`, `kernel-tuned`, `linux`, `classic`, `paper`, `all`, or settings separated by semicolons; may be given
    /// several times [default: kernel]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    #[command(flatten)]
    world: WorldArguments,
    /// Let `seekwise` try every setting in turn, regardless of the value: more comparisons, and none that are chosen
    #[arg(long, conflicts_with = "controllers")]
    everything: bool,
    /// Run drawn fio jobs on this device of the real kernel, or on an `emulated` one, instead of simulating; its contents are overwritten, its
    /// settings are not touched
    #[arg(long, value_name = "DEVICE|emulated")]
    live: Option<String>,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON instead of the table, with all comparisons
    #[arg(long)]
    json: bool,
}

/// Measures the gains that controllers state where nothing changes.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn no_change(args: &NoChangeArguments) -> anyhow::Result<()> {
    let &NoChangeArguments { seed, seeds, seconds, everything: tries_everything, .. } = args;
    let (controllers, candidates) = (args.controllers.clone(), args.candidates.clone());
    let measurement = NoChange { seed, seeds, seconds, controllers, candidates, tries_everything, world: args.world.which() };
    let terminal = Terminal::default();
    let report = match &args.live {
        Some(device) => measurement.measure_live(&mut BlockDevice::open(device, Path::new(JOURNAL), &[])?, &terminal)?,
        None => measurement.measure(Workers::new(&terminal, args.threads.map(usize::from)))?,
    };
    Ok(terminal::print(&if args.json { report.to_json()? } else { report.text() })?)
}

/// Arguments of `seekwise-lab worth`.
#[derive(clap::Args)]
pub struct WorthArguments {
    /// First seed for drawing loads and devices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of seeds: each draws some 22 loads, each on a device of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::within::<u32>(1..=1000, "seeds"))]
    seeds: u32,
    /// How long each load of one phase runs, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = number::within::<u32>(5..=86_400, "seconds"))]
    seconds: u32,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print JSON instead of the page, with all pairs
    #[arg(long)]
    json: bool,
}

/// Arguments of `seekwise-lab shares`.
#[derive(clap::Args)]
pub struct SharesArguments {
    /// How many devices with tenants to draw
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = number::within::<u32>(1..=10_000, "draws"))]
    draws: u32,
    /// Number of the first draw
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::within::<u32>(0..=1_000_000, "first draw"))]
    first: u32,
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Draw devices of the validation world: laptop drives, SATA flash and arrays of them (default)
    #[arg(long)]
    build_world: bool,
    /// Draw devices of the training world
    #[arg(long, conflicts_with = "build_world")]
    learn_world: bool,
    /// Number of draws at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
}

/// Measures shares of random tenants on random devices.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn shares(args: &SharesArguments) -> anyhow::Result<()> {
    let world = if args.learn_world { Which::Learn } else { Which::Build };
    let shares = Shares { draws: args.draws, first: args.first, seed: args.seed, world };
    let terminal = Terminal::default();
    let report = shares.measure(Workers::new(&terminal, args.threads.map(usize::from)))?;
    Ok(terminal::print(&report.text())?)
}

/// Evaluates the gain of each group of settings.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn worth(args: &WorthArguments) -> anyhow::Result<()> {
    let worth = Worth { seed: args.seed, seeds: args.seeds, seconds: args.seconds };
    let terminal = Terminal::default();
    let report = worth.measure(Workers::new(&terminal, args.threads.map(usize::from)))?;
    Ok(terminal::print(&if args.json { report.to_json()? } else { report.text() })?)
}

/// Compares predictions from counters with real runs.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn counters(args: &Questions) -> anyhow::Result<()> {
    let Questions { seed, seeds, quick: is_quick, threads, json, .. } = *args;
    let counting = Counting { seed, seeds, world: args.world.which(), is_quick, candidates: args.candidates.clone() };
    let terminal = Terminal::default();
    let report = counting.measure(Workers::new(&terminal, threads.map(usize::from)))?;
    let text = if json { report.to_json()? } else { report.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}
