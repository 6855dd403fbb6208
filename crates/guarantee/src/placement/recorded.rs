//! Traces and job files as workloads of volumes: they run alone on the volume's reference disk, and the requests at the disk's queue
//! there become the volume's workload.

use std::path::Path;

use block::Nanos;
use sim::run::{Issue, Pilot, ServerEvent, Steerable};
use testbed::named::{self, JobOptions};
use testbed::pool::Workers;
use testbed::trace::ReplayOptions;
use testbed::world::World;

use super::asks::Asks;
use super::elevator;
use crate::tenants::Reference;

/// Maximum number of requests: more have to fit into memory.
const MOST: usize = 2_000_000;

/// Records the issued requests of a run.
#[derive(Default)]
struct Recorder {
    issues: Vec<Issue>,
}

impl Pilot for Recorder {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        plant.record_events();
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        let issued = noted.iter().filter_map(|note| match note {
            ServerEvent::Issued(issue) => Some(*issue),
            _ => None,
        });
        let room = MOST - self.issues.len();
        self.issues.extend(issued.take(room));
    }
}

/// The workload of a load on this disk, and the number of sectors up to the end of its last request's place.
///
/// # Errors
/// The load cannot be read, does not fit on the disk or issues no requests, or the run was interrupted.
pub(super) fn run(load: &Path, reference: &Reference, seed: u64, workers: Workers) -> anyhow::Result<(Asks, u64)> {
    let world = World::new(&reference.disk()?, None, None)?;
    let jobs = JobOptions { seed, begin_apart: false };
    let load = named::open(load, &ReplayOptions::default(), jobs, &world, workers.monitor)?;
    let mut recorder = Recorder::default();
    let watch = workers.watch();
    let outcome = load.run(world.queue(elevator()), world.host, &watch, Some(&mut recorder));
    workers.monitor.check()?;
    let ends = outcome?.measure.last_completion;
    let mut issues = recorder.issues;
    anyhow::ensure!(!issues.is_empty(), "asks the disk for nothing");
    issues.sort_by_key(|issue| issue.arrival);
    let first = issues[0].arrival;
    issues.iter_mut().for_each(|issue| issue.arrival = Nanos(issue.arrival.0 - first.0));
    let last = issues.last().map_or(first, |issue| issue.arrival);
    let reach = issues.iter().map(|issue| issue.lba + u64::from(issue.sectors)).max().unwrap_or(1);
    // The next cycle begins when the last request is completed.
    let lasts = (Nanos(ends.0.saturating_sub(first.0))).max(last + Nanos::from_millis(1));
    Ok((Asks::Recorded { issues: issues.into(), lasts }, reach))
}
