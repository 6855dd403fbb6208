//! `seekwise workload requests`: a job's requests in fio's log format.

use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use block::did_you_mean;
use sim::workload::{Iolog, Job};

use crate::number;
use terminal::{self, Interrupted};

/// Arguments of `seekwise workload requests`.
#[derive(clap::Args)]
pub struct RequestsArguments {
    /// A job file, or the name of a built-in workload
    #[arg(value_name = "JOB.fio")]
    workload: String,
    /// The job, if the file has several
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Stop after this many requests: a job limited only by time has no last one
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = number::within::<usize>(0..=u64::MAX, "requests"))]
    limit: usize,
    /// The disk that holds the files: name of a built-in one, or path of a profile
    #[arg(long, default_value = "sata7200")]
    disk: String,
    /// Seed for jobs with randrepeat=0
    #[arg(long, default_value_t = 1, value_parser = number::seed)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &RequestsArguments) -> anyhow::Result<()> {
    let (text, source) = testbed::shipped::workload_text(&args.workload)?;
    let workload = testbed::shipped::parse(&text, &source)?;
    let job = chosen(workload.jobs(), args.job.as_deref())?;
    let placed = workload.place(sim::profile::load(&args.disk)?.capacity_sectors(), args.seed)?;
    for piece in Iolog::new(&placed, job, args.limit) {
        terminal::print(&piece)?;
        if terminal::interrupted().load(Ordering::Relaxed) {
            return Err(Interrupted.into());
        }
    }
    Ok(())
}

/// Maximum job names in an error message.
const SOME: usize = 8;

/// Index of the selected job.
fn chosen(jobs: &[Job], name: Option<&str>) -> anyhow::Result<usize> {
    let names = || {
        let mut names: Vec<&str> = jobs.iter().take(SOME).map(Job::name).collect();
        names.extend((jobs.len() > SOME).then_some("…"));
        names.join(", ")
    };
    match name {
        Some(name) => jobs.iter().position(|job| job.name() == name).with_context(|| {
            let meant = did_you_mean(name, jobs.iter().map(Job::name));
            format!("--job {name}: no such job; the file has {}{meant}", names())
        }),
        None if jobs.len() == 1 => Ok(0),
        None => bail!("there are {} jobs: choose one with --job ({})", jobs.len(), names()),
    }
}
