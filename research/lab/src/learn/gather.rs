//! `seekwise-lab learn gather`: runs workloads under every candidate and writes the experience.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use control::Setting;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::world::Device;

use experiment::experience;
use research::gather::{Lesson, gather, lessons, lessons_of_world};
use research::loads::{mix, with_runtime};

use seekwise::number;
use seekwise::whole_file::WholeFile;
use terminal::Terminal;

/// Arguments of `seekwise-lab learn gather`.
#[derive(clap::Args)]
pub struct GatherArguments {
    /// Job files, or names of built-in workloads
    #[arg(value_name = "JOB.fio|WORKLOAD")]
    workloads: Vec<PathBuf>,
    /// Number of additional random workloads, each with one to three kinds of programs in parallel
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::within::<u32>(0..=10_000, "workloads"))]
    random: u32,
    /// Number of loads of each family on each device of the training world (`seekwise-lab worlds`) to run instead; used for the
    /// built-in experience
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1..=1000, "loads"), conflicts_with_all = ["workloads", "random", "disks"])]
    world: Option<u32>,
    /// A disk, optionally with its queue depth; may be given several times
    #[arg(long = "disk", value_name = "NAME[@DEPTH]", default_value = "sata7200")]
    disks: Vec<String>,
    /// A scheduler with tunables and host tunables; may be given several times [default: every scheduler]
    #[arg(long = "candidate", value_name = "SETTING")]
    candidates: Vec<String>,
    /// Runtime of each workload's jobs
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: u32,
    /// Seed for random workloads and the placement of files
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of workloads to run in parallel [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// File for the experience; compressed if the name ends in .zst
    #[arg(short, long, value_name = "FILE.json[.zst]")]
    output: PathBuf,
}

/// Runs the command.
pub fn run(args: &GatherArguments) -> anyhow::Result<()> {
    let file = WholeFile::create(&args.output)?;
    let candidate = |text: &String| Setting::parse(text).with_context(|| format!("--candidate {text}"));
    let mut settings = args.candidates.iter().map(candidate).collect::<anyhow::Result<Vec<_>>>()?;
    if settings.is_empty() {
        settings = research::gather::settings();
    }
    let lessons = match args.world {
        Some(count) => lessons_of_world(count, args.seconds, args.seed)?,
        None => named(args)?,
    };
    let terminal = Terminal::default();
    let gathered = gather(&lessons, &settings, Workers::new(&terminal, args.threads.map(usize::from)))?;
    file.write_all(&experience::encode(&args.output, &gathered)?)?;
    eprintln!("{} cases of {} loads on devices", gathered.cases.len(), lessons.len());
    Ok(())
}

fn named(args: &GatherArguments) -> anyhow::Result<Vec<Lesson>> {
    let disks = args.disks.iter().map(|text| Device::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut sources = Vec::new();
    for path in &args.workloads {
        let (text, name) =
            shipped::job_text(path)?.with_context(|| format!("{}: is not a job file or a built-in workload", path.display()))?;
        sources.push((name, with_runtime(&text, args.seconds)));
    }
    sources.extend((0..args.random).map(|number| (format!("random-{number}"), mix::text(args.seed, number, args.seconds))));
    ensure!(!sources.is_empty(), "nothing to run: name workloads, or use --random N or --world N");
    lessons(&sources, &disks, args.seed)
}
