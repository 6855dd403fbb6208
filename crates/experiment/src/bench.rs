//! Single runs of a job file, under a setting or a controller, with all observations: the building blocks of papers' experiments.

use std::sync::Arc;

use anyhow::Context;
use block::{Knowledge, SchedulerSpec};
use control::{Controller, Setting};
use observe::starvation::{Tail, Tails};
use sim::host::{Host, RunSummary};
use sim::run::{Measure, StreamMeasure, Watch};
use sim::workload::{PlacedWorkload, Span};
use testbed::shipped;
use testbed::world::World;

use crate::steered::{Steered, timed};
use crate::timed::Stopwatch;
use progress::monitor::Monitor;

/// A job file on a disk.
pub struct Bench {
    world: World,
    placed: PlacedWorkload,
    learns: bool,
}

/// The result of a run.
pub struct Observed {
    /// Measurements of the streams and of the host.
    pub outcome: RunSummary,
    /// Start and end of each job; `None` if it did not run.
    pub spans: Vec<Option<Span>>,
    /// The control loop with its windows and decisions.
    pub steered: Steered,
    /// Processor time of schedulers and controller; `None` if it was not measured.
    pub cpu_ns: Option<u64>,
}

impl Bench {
    /// Lays out the files of a job file's `text` on the disk; `source` names the file in errors.
    ///
    /// # Errors
    /// The text is not a job file, or its files do not fit.
    pub fn new(text: &str, source: &str, world: World, seed: u64) -> anyhow::Result<Bench> {
        let workload = shipped::parse(text, source)?;
        let placed = workload.place(world.profile.capacity_sectors(), seed);
        let placed = placed.with_context(|| format!("{source} on {}", world.profile.name()))?;
        Ok(Bench { world, placed, learns: true })
    }

    /// For runs in which no scheduler that learns is set, except the one at the start or those that an experiment adds.
    #[must_use]
    pub fn without_learning(self) -> Bench {
        Bench { learns: false, ..self }
    }

    /// The jobs with their files.
    pub fn placed(&self) -> &PlacedWorkload {
        &self.placed
    }

    /// Runs the jobs under `controller`, with the setting `begins_with` at the start. The wall clock is read only if processor time is
    /// measured.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn run(
        &self,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        measures_cpu: bool,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Observed> {
        self.run_with(Vec::new(), begins_with, controller, measures_cpu, monitor)
    }

    /// Like [`Bench::run`], with schedulers of an experiment besides the program's, each with its knowledge. The run cannot begin under
    /// one of them.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn run_with(
        &self,
        schedulers: Vec<(&'static SchedulerSpec, Box<dyn Knowledge>)>,
        begins_with: &Setting,
        controller: Box<dyn Controller>,
        measures_cpu: bool,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<Observed> {
        let stopwatch = measures_cpu.then(|| Arc::new(Stopwatch::new()));
        let queue = self.world.queue(timed(self.world.scheduler(begins_with), &stopwatch));
        let mut host = Host::new(queue, self.placed.files(), self.world.host)?;
        let mut steered = Steered::new(controller, begins_with, &self.world.device(), stopwatch.clone());
        if !self.learns {
            steered = steered.without_learning();
        }
        schedulers.into_iter().for_each(|(spec, knowledge)| steered.add_scheduler(spec, knowledge));
        let measure = Measure::new(self.placed.jobs().iter().map(|job| job.stream()));
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let ran = sim::workload::run(&self.placed, &mut host, None, measure, &watch, Some(&mut steered))?;
        Ok(Observed {
            outcome: RunSummary { host: Some(host.tally()), ..RunSummary::new(ran.measure, host.queue()) },
            spans: ran.spans,
            steered,
            cpu_ns: stopwatch.map(|stopwatch| stopwatch.spent_ns()),
        })
    }
}

/// The p99 response time of each stream, and the number of its measured requests.
pub fn tails<'a>(streams: impl Iterator<Item = (&'a block::StreamId, &'a StreamMeasure)>) -> Tails {
    let tail = |measure: &StreamMeasure| Tail {
        requests: measure.responses.count(),
        p99_s: measure.responses.quantile(0.99).as_secs_f64(),
    };
    streams.map(|(stream, measure)| (*stream, tail(measure))).collect()
}
