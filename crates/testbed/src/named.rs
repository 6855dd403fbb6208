//! Loads by name: a trace, an fio job file, or a shipped workload.

use std::path::Path;

use progress::monitor::Monitor;

use crate::jobs::JobsLoad;
use crate::load::Load;
use crate::shipped;
use crate::trace::{ReplayOptions, TraceLoad};
use crate::world::World;

/// Options for the jobs of a job file.
#[derive(Clone, Copy, Debug)]
pub struct JobOptions {
    /// Seed for all random draws, in spite of `randrepeat`; 1 is fio's own.
    pub seed: u64,
    /// Whether the processes start one after the other, as on a real machine, rather than all at once.
    pub begin_apart: bool,
}

/// Text of a load's job file, with its name for messages; `None` for a trace.
///
/// # Errors
/// There is no such load, or it cannot be read.
pub fn job_text(load: &Path, replay: &ReplayOptions) -> anyhow::Result<Option<(String, String)>> {
    if replay.memory.is_some() { Ok(None) } else { shipped::job_text(load) }
}

/// The load with this name, placed on the disk of `world`.
///
/// # Errors
/// It cannot be read or does not fit the disk, or it is a job file and `replay` has options.
pub fn open(
    load: &Path,
    replay: &ReplayOptions,
    jobs: JobOptions,
    world: &World,
    monitor: &dyn Monitor,
) -> anyhow::Result<Box<dyn Load>> {
    Ok(match job_text(load, replay)? {
        Some((text, source)) => {
            if let Some(argument) = replay.given() {
                anyhow::bail!("{argument}: is for traces; {source} is a job file, which says itself how its jobs run");
            }
            let load = JobsLoad::new(&text, &source, jobs.seed, world)?.drawn_by_seed();
            Box::new(if jobs.begin_apart { load.with_staggered_starts() } else { load })
        }
        None => Box::new(TraceLoad::new(load, replay, world, monitor)?),
    })
}
