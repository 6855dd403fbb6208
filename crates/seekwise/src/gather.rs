//! `seekwise gather`: runs workloads under every candidate and writes what was lived through.

mod mix;

use std::path::PathBuf;

use anyhow::Context;
use learn::Setting;

use crate::experiment::gather::{Disk, gather};
use crate::workload;

/// Arguments of `seekwise gather`.
#[derive(clap::Args)]
pub struct Args {
    /// Job files or names of workloads
    workloads: Vec<PathBuf>,
    /// A disk, as NAME or NAME@DEPTH
    #[arg(long = "disk", default_value = "sata7200")]
    disks: Vec<String>,
    /// A candidate
    #[arg(long = "candidate")]
    candidates: Vec<String>,
    /// So many mixes drawn at random besides
    #[arg(long, default_value_t = 0)]
    random: u32,
    /// How long each runs, in seconds: the runtime that its jobs are given
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 2)]
    threads: u16,
    /// Where to write it
    #[arg(short, long)]
    output: PathBuf,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let disks = args.disks.iter().map(|text| Disk::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut settings =
        args.candidates.iter().map(|text| Setting::parse(text).context("--candidate")).collect::<anyhow::Result<Vec<_>>>()?;
    if settings.is_empty() {
        settings = learn::setting::schedulers().map(Setting::of).collect();
    }
    let mut sources = Vec::new();
    for path in &args.workloads {
        sources.push(
            workload::job_text(path)?
                .map(|(text, name)| (name, with_runtime(&text, args.seconds)))
                .with_context(|| format!("{}: is no job file", path.display()))?,
        );
    }
    sources.extend((0..args.random).map(|number| (format!("random-{number}"), mix::text(args.seed, number, args.seconds))));
    let experience = gather(&sources, &disks, &settings, args.seed, usize::from(args.threads))?;
    std::fs::write(&args.output, experience.to_json()?)?;
    println!("{} cases", experience.cases.len());
    Ok(())
}

/// The job file with this runtime wherever it names one.
fn with_runtime(text: &str, seconds: u32) -> String {
    let line = |line: &str| if line.starts_with("runtime=") { format!("runtime={seconds}\n") } else { format!("{line}\n") };
    text.lines().map(line).collect()
}
