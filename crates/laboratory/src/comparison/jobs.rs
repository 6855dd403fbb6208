//! The jobs of an fio job file as a load: processes that ask, wait and think.

use anyhow::{Context, ensure};
use block::StreamId;
use report::record::{Replay, TraceDigest};
use sha2::Digest;
use sim::host::{Host, HostSettings, Queue, RunSummary};
use sim::replay::FOLLOWED_STREAMS;
use sim::run::{Measure, Pilot, RunError, Watch};
use sim::workload::{Job, PlacedWorkload};

use super::load::{Build, Load};
use super::{ALONE, regime};
use crate::shipped;
use crate::world::{World, hexadecimal};

/// What the record calls the format.
const FORMAT: &str = "fio job file";

/// A job file whose files have their places on the disk.
pub struct JobsLoad {
    name: String,
    sha256: String,
    placed: PlacedWorkload,
    host: HostSettings,
    seed: u64,
}

impl JobsLoad {
    /// Reads a job file's text and lays its files out on the disk.
    pub fn new(text: &str, source: &str, seed: u64, world: &World) -> anyhow::Result<JobsLoad> {
        let workload = shipped::parse(text, source)?;
        let capacity = world.profile.capacity_sectors();
        let swap = world.host.swap_mib.unsigned_abs() * 2048;
        ensure!(swap < capacity, "--set swap_mib={}: {} holds {} MiB", world.host.swap_mib, world.profile.name(), capacity / 2048);
        let placed = workload.place(capacity - swap, seed).with_context(|| format!("on {}", world.profile.name()))?;
        // Whether there can be such a host is known once it is built: better now than in the middle of the work.
        Host::new(world.queue(world.scheduler(&regime::scheduler(ALONE)?)), placed.files(), world.host).context("--set")?;
        Ok(JobsLoad {
            name: source.to_owned(),
            sha256: hexadecimal(&sha2::Sha256::digest(workload.text())),
            placed,
            host: world.host,
            seed,
        })
    }

    /// When each stream may begin at the earliest, in seconds.
    pub fn starts_s(&self) -> impl Iterator<Item = (StreamId, f64)> {
        let start = |job: &Job| job.options().start_delay.0.as_secs_f64();
        self.placed.jobs().iter().map(move |job| (job.stream(), start(job)))
    }

    fn run_on(
        &self,
        queue: Queue,
        only: Option<StreamId>,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError> {
        let mut host = Host::new(queue, self.placed.files(), self.host)?;
        let all = self.placed.jobs().iter().map(|job| job.stream()).take(FOLLOWED_STREAMS);
        let followed = all.filter(|&stream| only.is_none_or(|only| only == stream));
        let only = only.map(|stream| stream as usize);
        let outcome = sim::workload::run(&self.placed, &mut host, only, Measure::new(followed), watch, pilot)?;
        Ok(RunSummary { host: Some(host.tally()), ..RunSummary::new(outcome.measure, host.queue()) })
    }
}

impl Load for JobsLoad {
    fn digest(&self) -> TraceDigest {
        let (name, sha256) = (self.name.clone(), self.sha256.clone());
        TraceDigest { name, format: FORMAT.to_owned(), sha256, requests: None, skipped_lines: 0 }
    }

    fn replay(&self, world: &World) -> Replay {
        Replay {
            mode: "jobs".to_owned(),
            speed: 1.0,
            fit: "exact".to_owned(),
            seed: Some(self.seed),
            host: world.tunables().collect(),
        }
    }

    fn expected_requests(&self) -> Option<u64> {
        None
    }

    fn stream_count(&self) -> usize {
        self.placed.jobs().len()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.placed.jobs().get(stream as usize).map(|job| job.name())
    }

    fn alone_parts(&self, _threads: usize) -> Vec<Vec<StreamId>> {
        self.placed.jobs().iter().take(FOLLOWED_STREAMS).map(|job| vec![job.stream()]).collect()
    }

    fn run(&self, queue: Queue, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError> {
        self.run_on(queue, None, watch, pilot)
    }

    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError> {
        let mut all = Measure::new([]);
        for &stream in streams {
            all.streams.extend(self.run_on(build(), Some(stream), watch, None)?.measure.streams);
        }
        Ok(all)
    }

    fn sustainable_speed(&self, _outcome: &RunSummary) -> Option<f64> {
        None
    }

    fn warnings(&self, _outcome: &RunSummary) -> Vec<String> {
        Vec::new()
    }
}
