//! The jobs of an fio job file as a load: processes that issue requests, wait for them and think.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use anyhow::{Context, ensure};
use block::{Nanos, Roster, StreamId};
use control::Setting;
use report::record::{Replay, TraceDigest};
use sha2::Digest;
use sim::host::{Host, HostSettings, Queue, RunSummary};
use sim::replay::FOLLOWED_STREAMS;
use sim::run::{Measure, Owner, Pilot, RunError, Watch};
use sim::workload::{Job, PlacedWorkload, WorkloadError};

use crate::load::{Build, Draws, Load, Row};
use crate::shipped;
use crate::world::{World, hexadecimal};

/// Mode of a replay in records that is a run of jobs.
pub const MODE: &str = "jobs";

/// Name of the format in records.
const FORMAT: &str = "fio job file";

/// How long after a process fio starts the next one: measured with fio 3.33, by the first requests of four processes in four runs.
const FIO_STARTS: RangeInclusive<Nanos> = Nanos::from_micros(150)..=Nanos::from_micros(550);

/// A job file whose files have been placed on the disk.
pub struct JobsLoad {
    name: String,
    sha256: String,
    placed: PlacedWorkload,
    host: HostSettings,
    seed: u64,
}

impl JobsLoad {
    /// Parses the text of a job file and places its files on the disk.
    pub fn new(text: &str, source: &str, seed: u64, world: &World) -> anyhow::Result<JobsLoad> {
        let workload = shipped::parse(text, source)?;
        let capacity = world.profile.capacity_sectors();
        let swap = world.host.swap_mib.unsigned_abs() * 2048;
        ensure!(swap < capacity, "--set swap_mib={}: {} holds {} MiB", world.host.swap_mib, world.profile.name(), capacity / 2048);
        let placed = workload.place(capacity - swap, seed).with_context(|| format!("on {}", world.profile.name()))?;
        // Invalid host settings show only when the host is built: checked here rather than in the middle of the work.
        Host::new(world.queue(world.scheduler(&Setting::of(block::CLASSIC[0]))), placed.files(), world.host).context("--set")?;
        Ok(JobsLoad {
            name: source.to_owned(),
            sha256: hexadecimal(&sha2::Sha256::digest(workload.text())),
            placed,
            host: world.host,
            seed,
        })
    }

    /// The jobs as another run of them: places of files and all random numbers depend on the seed, in spite of `randrepeat`. With seed 1
    /// the random numbers are those of fio.
    #[must_use]
    pub fn drawn_by_seed(self) -> JobsLoad {
        let placed = self.placed.drawn_by(self.seed);
        JobsLoad { placed, ..self }
    }

    /// Starts the processes one after the other, as fio does on a real machine, and not all at once.
    pub fn with_staggered_starts(self) -> JobsLoad {
        let placed = self.placed.with_staggered_starts(FIO_STARTS, self.seed);
        JobsLoad { placed, ..self }
    }

    /// The same jobs on the same files with other random numbers, different for each `draw`, in spite of `randrepeat`.
    #[must_use]
    pub fn redrawn(&self, draw: u64) -> JobsLoad {
        let (name, sha256, host, seed) = (self.name.clone(), self.sha256.clone(), self.host, self.seed);
        JobsLoad { name, sha256, placed: self.placed.clone().redrawn(draw), host, seed }
    }

    /// Earliest start of each stream, in seconds.
    pub fn starts_s(&self) -> impl Iterator<Item = (StreamId, f64)> {
        let start = |job: &Job| job.options().together.start_delay.0.as_secs_f64();
        self.placed.jobs().iter().map(move |job| (job.stream(), start(job)))
    }

    /// Groups successive jobs into rows; a job starts a new one unless it `joins` the previous job.
    fn rows(&self, joins: impl Fn(&Job, &Job) -> bool) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let mut previous: Option<&Job> = None;
        for job in self.placed.jobs() {
            // The row of the clones `a.0` and `a.1` is called `a`.
            let clone = if job.options().together.clones > 1 && job.clone_number() == 1 { ".0" } else { "" };
            match rows.last_mut() {
                Some(row) if previous.is_some_and(|previous| joins(previous, job)) => {
                    row.streams.push(job.stream());
                    row.name = row.name.strip_suffix(clone).unwrap_or(&row.name).to_owned();
                }
                _ => rows.push(Row { name: job.name().to_owned(), group: job.group(), streams: vec![job.stream()] }),
            }
            previous = Some(job);
        }
        rows
    }

    /// Runs only these streams; the files of all jobs keep their places.
    ///
    /// # Errors
    /// The host cannot be built, or the run was interrupted.
    pub fn run_streams(
        &self,
        streams: &[StreamId],
        queue: Queue,
        host: HostSettings,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError> {
        let only: Vec<usize> = streams.iter().map(|&stream| stream as usize).collect();
        let roster = queue.roster().cloned();
        self.run_on(Host::new(queue, self.placed.files(), host)?, Some(&only), roster.as_ref(), watch, pilot)
    }

    fn run_on(
        &self,
        host: Host,
        only: Option<&[usize]>,
        roster: Option<&Roster>,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError> {
        let mut host = host;
        // All streams are followed, for the totals of their groups.
        let all = self.placed.jobs().iter().map(|job| job.stream());
        let followed = all.filter(|&stream| only.is_none_or(|only| only.contains(&(stream as usize))));
        let measure = Measure::new(followed).by_tenant(roster, Owner::Stream);
        let outcome = sim::workload::run(&self.placed, &mut host, only, measure, watch, pilot)?;
        Ok(RunSummary { host: Some(host.tally()), ..RunSummary::new(outcome.measure, host.queue()) })
    }
}

/// Common name of the clones of a job: `a` for `a.0` and `a.1`.
fn family(job: &Job) -> &str {
    let name = job.name();
    if job.options().together.clones == 1 { name } else { name.rsplit_once('.').map_or(name, |(family, _)| family) }
}

impl Load for JobsLoad {
    fn digest(&self) -> TraceDigest {
        let (name, sha256) = (self.name.clone(), self.sha256.clone());
        TraceDigest { name, format: FORMAT.to_owned(), sha256, requests: None, skipped_lines: 0 }
    }

    fn replay(&self, world: &World) -> Replay {
        Replay {
            mode: MODE.to_owned(),
            speed: 1.0,
            fit: "exact".to_owned(),
            seed: Some(self.seed),
            host: world.tunables().collect(),
        }
    }

    fn expected_requests(&self) -> Option<u64> {
        None
    }

    /// Phases follow one another, each as long as its longest job; `None` if a job has no time limit.
    fn expected_end(&self) -> Option<Nanos> {
        let mut phases: BTreeMap<u32, Nanos> = BTreeMap::new();
        for job in self.placed.jobs() {
            let options = job.options();
            let ends = options.together.start_delay.1 + options.length.ramp + options.length.runtime?;
            let phase = phases.entry(job.phase()).or_default();
            *phase = ends.max(*phase);
        }
        Some(phases.into_values().fold(Nanos::ZERO, |sum, phase| sum + phase))
    }

    fn stream_count(&self) -> usize {
        self.placed.jobs().len()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.placed.jobs().get(stream as usize).map(|job| job.name())
    }

    fn streams_of(&self, name: &str) -> Vec<StreamId> {
        let jobs = self.placed.jobs().iter();
        jobs.filter(|job| job.name() == name || job.section() == name || family(job) == name).map(Job::stream).collect()
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.placed.jobs().iter().map(|job| family(job).to_owned()).collect();
        names.dedup();
        names
    }

    fn sectors_of(&self, stream: StreamId) -> Vec<Range<u64>> {
        self.placed.sectors(stream as usize)
    }

    fn follows(&self, stream: StreamId) -> bool {
        (stream as usize) < FOLLOWED_STREAMS
    }

    /// As fio does (`__show_run_stats`): with `group_reporting`, a job adds to the row of the job before it in the same group.
    fn reported(&self) -> Vec<Row> {
        self.rows(|previous, job| job.options().together.group_reporting && previous.group() == job.group())
    }

    fn groups(&self) -> Vec<Row> {
        self.rows(|previous, job| previous.group() == job.group())
    }

    fn alone_parts(&self, _threads: usize) -> Vec<Vec<StreamId>> {
        self.placed.jobs().iter().take(FOLLOWED_STREAMS).map(|job| vec![job.stream()]).collect()
    }

    fn run(&self, queue: Queue, host: HostSettings, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError> {
        let roster = queue.roster().cloned();
        self.run_on(Host::new(queue, self.placed.files(), host)?, None, roster.as_ref(), watch, pilot)
    }

    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError> {
        let mut all = Measure::new([]);
        for &stream in streams {
            all.streams.extend(
                self.run_on(Host::new(build(), self.placed.files(), self.host)?, Some(&[stream as usize]), None, watch, None)?
                    .measure
                    .streams,
            );
        }
        Ok(all)
    }

    fn run_tenant(
        &self,
        roster: &Roster,
        tenant: usize,
        queue: Queue,
        draws: Draws,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError> {
        let jobs: Vec<usize> = roster.streams().filter(|(_, owner)| *owner == tenant).map(|(stream, _)| stream as usize).collect();
        let files = self.placed.files_alone(&jobs, roster, tenant);
        let ends = files.iter().flat_map(|file| &file.extents).map(|extent| extent.lba + extent.sectors).max().unwrap_or(0);
        if ends > queue.capacity_sectors() {
            let name = roster.tenants().get(tenant).map_or("", |tenant| tenant.name.as_str());
            let (needs, has) = (ends / 2048, queue.capacity_sectors() / 2048);
            let message = format!("tenant {name}: its files take {needs} MiB, and its reference disk holds {has} MiB");
            return Err(RunError::failed(WorkloadError { source_name: self.name.clone(), line: None, message }));
        }
        // Pages without an owner are not on the tenant's disk.
        let settings = HostSettings { swap_mib: 0, anonymous_mib: 0, ..self.host };
        let host = Host::new(queue, files, settings)?;
        match draws {
            Draws::OfTheRun => self.run_on(host, Some(&jobs), Some(&Roster::default()), watch, pilot),
            Draws::Others => self.redrawn(1).run_on(host, Some(&jobs), Some(&Roster::default()), watch, pilot),
        }
    }

    fn warnings(&self, _outcome: &RunSummary) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn jobs_that_end_by_time_are_expected_to_end_phase_after_phase_and_others_at_no_known_time() {
        let world = World::new("sata7200", None, None).unwrap();
        let end = |text: &str| JobsLoad::new(text, "test.fio", 1, &world).unwrap().expected_end();
        let timed = "[global]\nrw=read\nsize=1g\nruntime=10\n[a]\n[b]\nramp_time=2\nstartdelay=3\n[c]\nstonewall\nruntime=5\n";
        assert_eq!(end(timed), Some(Nanos::from_millis(20_000)));
        assert_eq!(end(&format!("{timed}[d]\nstonewall\nruntime=0\n")), None);
    }
}
