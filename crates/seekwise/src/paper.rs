//! `seekwise paper`: repeats the experiments of a paper, and shows what it states beside what comes out here.

mod bars;
mod figures;
mod judge;
mod plan;
mod runs;
mod schemes;
mod stated;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use report::paper::{Replication, SCHEMA};

use crate::terminal;
use figures::{Drawing, World};
use plan::{ONLINE, Plan};
use runs::Store;
use stated::Stated;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// The papers that can be repeated, and their figures
    List,
    /// Repeat a paper's experiments; what was aimed at and missed is printed as missed
    Run(Arguments),
}

/// Arguments of `seekwise paper run`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The paper (`seekwise paper list`)
    #[arg(value_name = "PAPER")]
    name: String,
    /// One disk and each workload once: about a minute instead of several
    #[arg(long)]
    quick: bool,
    /// Of everything that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Write a self-contained page
    #[arg(short, long, value_name = "PAGE.html")]
    output: Option<PathBuf>,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only this figure (`fig-6`), or `bars`; may be given several times
    #[arg(long, value_name = "FIGURE")]
    only: Vec<String>,
    /// Leave out figures of processor time, the only ones that differ from run to run
    #[arg(long)]
    no_cpu_time: bool,
}

/// Does it.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => list(),
        Command::Run(arguments) => repeat(&arguments),
    }
}

fn list() -> anyhow::Result<()> {
    let stated = Stated::read()?;
    let mut text = format!("{}  {}, {}; {}\n", stated.name, stated.authors, stated.title, stated.published);
    text.push_str(&format!("  {:7} what is aimed at: met or missed\n", bars::ID));
    figures::ALL.iter().for_each(|drawing| text.push_str(&format!("  {:7} {}\n", drawing.id, drawing.title)));
    Ok(terminal::print(&text)?)
}

fn repeat(arguments: &Arguments) -> anyhow::Result<()> {
    let stated = Stated::read()?;
    let name = &arguments.name;
    ensure!(*name == stated.name, "{name}: there is no such paper; known is {} (see `seekwise paper list`)", stated.name);
    let drawings = wanted(arguments)?;
    for (argument, path) in [("--output", &arguments.output), ("--json", &arguments.json)] {
        path.as_deref().map_or(Ok(()), |path| check(argument, path))?;
    }
    let plan = Plan::new(arguments.quick, arguments.seed)?;
    let with_bars = arguments.only.is_empty() || arguments.only.iter().any(|only| only == bars::ID);
    let threads = arguments.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let mut store = Store::default();
    let (figures, bars) = loop {
        let world = World { plan: &plan, store: &store };
        let figures: Vec<_> = drawings.iter().map(|drawing| drawing.draw(&world, &stated)).collect();
        let bars = if with_bars { bars::all(&world) } else { Vec::new() };
        if !store.fill(&plan, threads)? {
            break (figures, bars);
        }
    };
    let replication = Replication {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command(arguments),
        setup: setup(&plan),
        notes: notes(&plan),
        bars,
        figures,
        name: stated.name,
        authors: stated.authors,
        title: stated.title,
        published: stated.published,
    };
    write(arguments, &replication)
}

fn wanted(arguments: &Arguments) -> anyhow::Result<Vec<&'static Drawing>> {
    for only in &arguments.only {
        let known = figures::ALL.iter().any(|drawing| drawing.id == only) || only == bars::ID;
        let ids: Vec<&str> = figures::ALL.iter().map(|drawing| drawing.id).collect();
        ensure!(known, "--only {only}: there is no such figure; known are {}, {}", bars::ID, ids.join(", "));
    }
    let is_wanted = |drawing: &&Drawing| {
        let named = arguments.only.is_empty() || arguments.only.iter().any(|only| only == drawing.id);
        named && !(drawing.is_cpu && arguments.no_cpu_time)
    };
    let drawings: Vec<&Drawing> = figures::ALL.iter().filter(is_wanted).collect();
    let is_something = !drawings.is_empty() || arguments.only.iter().any(|only| only == bars::ID);
    ensure!(is_something, "--no-cpu-time: nothing is left of --only {}", arguments.only.join(" --only "));
    Ok(drawings)
}

/// Refuses a file that could not be written, before any work is done for it.
fn check(argument: &str, path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{argument} {}: there is no folder {}", path.display(), folder.display());
    ensure!(!path.is_dir(), "{argument} {}: is a folder; a file is wanted", path.display());
    report::record::check_replaceable(path).with_context(|| format!("{argument} {}", path.display()))
}

fn write(arguments: &Arguments, replication: &Replication) -> anyhow::Result<()> {
    let replace = |path: &Path, text: String| {
        report::record::replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &arguments.json {
        replace(path, replication.to_json()?)?;
    }
    if let Some(path) = &arguments.output {
        replace(path, replication.html())?;
    }
    Ok(terminal::print(&replication.text())?)
}

/// What does the same again; where it was written and how many threads there were changes nothing.
fn command(arguments: &Arguments) -> String {
    let mut text = format!("seekwise paper run {}", arguments.name);
    if arguments.quick {
        text.push_str(" --quick");
    }
    text.push_str(&format!(" --seed {}", arguments.seed));
    arguments.only.iter().for_each(|only| text.push_str(&format!(" --only {only}")));
    if arguments.no_cpu_time {
        text.push_str(" --no-cpu-time");
    }
    text + " --output page.html"
}

fn setup(plan: &Plan) -> Vec<(String, String)> {
    let disks: Vec<&str> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
    let facts = [
        (
            "Disk",
            format!(
                "{}: a drive of 7,200 rpm that takes one request at a time, as the paper’s WD2500JD, which had no command queueing; it is \
                 newer and larger than that one{}",
                disks[0],
                disks.get(1).map_or_else(String::new, |second| format!(". {second} is the same drive with its queue of 32"))
            ),
        ),
        ("Length", plan.length_text()),
        ("Repetitions", format!("Tables 4 and 5 × {}, each time with other draws of what is at random", plan.repeats)),
        (
            "Correct",
            "A decision is correct when the performance data of its setting, run by itself on the same workload, are at least those of the \
             best of the five fixed schedulers in the phase of the workload in which it is made (phases are the jobs between stonewalls). \
             Performance is throughput and mean response time, weighed 2 to 3, of the requests to the disk, which is what the paper’s \
             schemes log; of response times, those of requests that somebody waited for. Phases shorter than the second over which \
             that is measured are not judged. A second count takes the jobs’ own calls instead, of which memory answers many. Every window’s decision counts, those that keep what is set \
             too. What is within 2% counts as equal, unless said otherwise: without chance several schedulers often give the same to a \
             fraction of a percent."
                .to_owned(),
        ),
        ("Offline training", "The workloads of Table 3 under each setting, never those of Tables 4 and 5.".to_owned()),
        ("Online training", format!("Stands for the paper’s day of further real-world workloads: also {}", ONLINE.join(", "))),
        ("Cross-validation", format!("{} batches, each similar to a workload of Table 4: {}", plan.batches, plan.batches_text())),
        (
            "Schemes",
            "The paper’s choose among its five schedulers, the hybrid also the one that learns request by request; seekwise among the five \
             and clook. All find deadline in force."
                .to_owned(),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "The paper ran Linux 2.6.13 on one real disk of 2004; this is a simulation. Its figures are printed without numbers: only what its \
         text states is put beside ours, and other bars are not given."
            .to_owned(),
    ];
    if plan.repeats == 1 {
        notes.push(
            "A quick run: one disk, each workload once, half of the batches, and windows compared in runs of a minute.".to_owned(),
        );
    }
    notes
}
