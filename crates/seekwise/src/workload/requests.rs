//! `seekwise workload requests`: a job's requests in fio's log format.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use block::Op;
use sim::host::{Action, Files};
use sim::workload::{Job, PlacedWorkload, Workload};

use crate::terminal::{self, Interrupted};

/// Arguments of `seekwise workload requests`.
#[derive(clap::Args)]
pub struct Args {
    /// A job file, or the name of a built-in workload
    #[arg(value_name = "JOB.fio")]
    workload: String,
    /// The job, if the file has several
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Stop after this many requests: a job limited only by time has no last one
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    limit: usize,
    /// The disk that holds the files: name of a built-in one, or path of a profile
    #[arg(long, default_value = "sata7200")]
    disk: String,
    /// Seed for jobs with randrepeat=0
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (text, source) = laboratory::shipped::workload_text(&args.workload)?;
    let workload = Workload::parse(&text, &source)?;
    let job = chosen(workload.jobs(), args.job.as_deref())?;
    let placed = workload.place(sim::profile::load(&args.disk)?.capacity_sectors(), args.seed)?;
    print(&placed, job, args.limit)
}

/// How many job names an error message lists.
const SOME: usize = 8;

/// The index of the chosen job.
fn chosen(jobs: &[Job], name: Option<&str>) -> anyhow::Result<usize> {
    let names = || {
        let mut names: Vec<&str> = jobs.iter().take(SOME).map(Job::name).collect();
        names.extend((jobs.len() > SOME).then_some("…"));
        names.join(", ")
    };
    match name {
        Some(name) => jobs
            .iter()
            .position(|job| job.name() == name)
            .with_context(|| format!("--job {name}: no such job; the file has {}", names())),
        None if jobs.len() == 1 => Ok(0),
        None => bail!("there are {} jobs: choose one with --job ({})", jobs.len(), names()),
    }
}

/// Prints fio's log of requests, version 2. It has no times; `fio --read_iolog` replays it.
fn print(placed: &PlacedWorkload, job: usize, limit: usize) -> anyhow::Result<()> {
    let files = placed.files();
    let mut opened = vec![false; files.len()];
    let mut text = String::from("fio version 2 iolog\n");
    for action in placed.requests(job).take(limit) {
        line(&mut text, &files, &mut opened, action)?;
        if text.len() > 1 << 16 {
            terminal::print(&text)?;
            text.clear();
            if terminal::interrupted().load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
        }
    }
    for (file, _) in files.iter().zip(&opened).filter(|(_, opened)| **opened) {
        writeln!(text, "{} close", file.name)?;
    }
    Ok(terminal::print(&text)?)
}

fn line(text: &mut String, files: &Files, opened: &mut [bool], action: Action) -> std::fmt::Result {
    let (Action::Access { file, .. } | Action::Sync { file } | Action::Invalidate { file, .. }) = action;
    let name = &files[file as usize].name;
    if !std::mem::replace(&mut opened[file as usize], true) {
        writeln!(text, "{name} add\n{name} open")?;
    }
    match action {
        Action::Access { op, offset, bytes, .. } => {
            let verb = match op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Discard => "trim",
            };
            writeln!(text, "{name} {verb} {offset} {bytes}")
        }
        Action::Sync { .. } => writeln!(text, "{name} sync 0 0"),
        // fio does it by itself when it opens a file.
        Action::Invalidate { .. } => Ok(()),
    }
}
