//! `seekwise learn gather`: runs workloads under every candidate and writes what was lived through.

use std::path::PathBuf;

use ::learn::Setting;
use anyhow::{Context, ensure};

use super::mix;
use crate::experiment::experience;
use crate::experiment::gather::{Disk, gather};
use crate::whole_file::WholeFile;
use crate::workload;

/// Arguments of `seekwise learn gather`.
#[derive(clap::Args)]
pub struct Args {
    /// Job files, or names of workloads that come with the program
    #[arg(value_name = "JOB.fio|WORKLOAD")]
    workloads: Vec<PathBuf>,
    /// So many workloads drawn at random besides: one to three kinds of programs at once
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    random: u32,
    /// A disk, with the depth of its queue if it is not the profile's; may be given several times
    #[arg(long = "disk", value_name = "NAME[@DEPTH]", default_value = "sata7200")]
    disks: Vec<String>,
    /// A scheduler with its tunables, and the host's; may be given several times [default: every scheduler]
    #[arg(long = "candidate", value_name = "SETTING")]
    candidates: Vec<String>,
    /// How long each workload runs: the runtime that its jobs are given
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// What is drawn at random, and where files lie
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Workloads to run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to write it; compressed if the name ends in .zst
    #[arg(short, long, value_name = "FILE.json[.zst]")]
    output: PathBuf,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let file = WholeFile::create(&args.output)?;
    let disks = args.disks.iter().map(|text| Disk::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let candidate = |text: &String| Setting::parse(text).with_context(|| format!("--candidate {text}"));
    let mut settings = args.candidates.iter().map(candidate).collect::<anyhow::Result<Vec<_>>>()?;
    if settings.is_empty() {
        settings = ::learn::sched::all().map(Setting::of).collect();
    }
    let mut sources = Vec::new();
    for path in &args.workloads {
        let (text, name) = workload::job_text(path)?.with_context(|| format!("{}: is no job file", path.display()))?;
        sources.push((name, with_runtime(&text, args.seconds)));
    }
    sources.extend((0..args.random).map(|number| (format!("random-{number}"), mix::text(args.seed, number, args.seconds))));
    ensure!(!sources.is_empty(), "there is nothing to run: name workloads, or give --random N");
    let threads = args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let gathered = gather(&sources, &disks, &settings, args.seed, threads)?;
    experience::write(file, &args.output, &gathered)?;
    eprintln!("{} cases of {} workloads on {} disks", gathered.cases.len(), sources.len(), disks.len());
    Ok(())
}

/// The job file with this runtime wherever it names one.
fn with_runtime(text: &str, seconds: u32) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((key, _)) if key.trim() == "runtime" => format!("runtime={seconds}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_is_replaced_and_nothing_else() {
        assert_eq!(with_runtime("[a]\nruntime=60\nrw=read\n runtime = 5m", 7), "[a]\nruntime=7\nrw=read\nruntime=7\n");
    }

    #[test]
    fn what_is_drawn_is_a_job_file_and_the_same_again() {
        for number in 0..300 {
            let text = mix::text(1, number, 5);
            assert_eq!(text, mix::text(1, number, 5));
            sim::workload::Workload::parse(&text, "drawn").unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}
