//! Loads: a trace, or the jobs of a job file.

use std::ops::Range;

use block::{Nanos, Roster, StreamId};
use report::advice::Overload;
use report::record::{Replay, TraceDigest};
use sim::host::{HostSettings, Queue, RunSummary};
use sim::run::{Measure, Pilot, RunError, Watch};

use crate::world::World;

/// Builds a queue in front of a disk at rest.
pub type Build<'a> = dyn Fn() -> Queue + 'a;

/// Random numbers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The same in every run.
    OfTheRun,
    /// Other random numbers: the same load with a different outcome of chance. A trace has no random numbers; its volume is placed on other
    /// sectors instead, if its disk has them.
    Others,
}

/// A row of a report of jobs.
pub struct Row {
    /// The first job's name.
    pub name: String,
    /// The reporting group, from 0.
    pub group: u32,
    /// Streams whose results it sums up.
    pub streams: Vec<StreamId>,
}

/// A load that issues the same requests in every run.
pub trait Load: Send + Sync {
    /// Identity of the load, for the record.
    fn digest(&self) -> TraceDigest;

    /// Parameters of its run, for the record.
    fn replay(&self, world: &World) -> Replay;

    /// The number of requests of a run, if it is known in advance.
    fn expected_requests(&self) -> Option<u64>;

    /// The approximate end of a run in simulated time, if that is known in advance and the number of requests is not.
    fn expected_end(&self) -> Option<Nanos> {
        None
    }

    /// The number of streams, reported by themselves or not.
    fn stream_count(&self) -> usize;

    /// A stream's name, if it has one.
    fn stream_name(&self, stream: StreamId) -> Option<&str>;

    /// The streams that a name refers to: those of a job, of all its clones or of a section; in a trace those with that name or number.
    fn streams_of(&self, name: &str) -> Vec<StreamId>;

    /// The names that [`Load::streams_of`] knows.
    fn names(&self) -> Vec<String>;

    /// Sectors of a stream's files, in any order; empty for a load without files.
    fn sectors_of(&self, _stream: StreamId) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Whether a measured stream is reported by itself.
    fn follows(&self, _stream: StreamId) -> bool {
        true
    }

    /// Report rows of the jobs as the load requests them, in its order; empty for a load without jobs.
    fn reported(&self) -> Vec<Row> {
        Vec::new()
    }

    /// Report rows of the jobs by group, in order; empty for a load without jobs.
    fn groups(&self) -> Vec<Row> {
        Vec::new()
    }

    /// Partitions the followed streams into parts of about the same work, for this many threads.
    fn alone_parts(&self, threads: usize) -> Vec<Vec<StreamId>>;

    /// Runs the load, controlled by `pilot` if there is one. Of the host's settings, only those of the queue affect a block trace.
    fn run(&self, queue: Queue, host: HostSettings, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError>;

    /// Runs each of these streams alone on a queue of its own.
    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError>;

    /// Runs the load of one tenant of a roster alone, on a queue whose disk holds only that tenant's sectors, in their order from 0 on. Its
    /// service is measured as that outside the roster ([`Tenants::others`](sim::run::Tenants::others)).
    fn run_tenant(
        &self,
        roster: &Roster,
        tenant: usize,
        queue: Queue,
        draws: Draws,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError>;

    /// Whether requests arrived faster than the disk served them, so that response times tell how long the replay was and not how fast the
    /// disk is; `None` if it kept up, or if the load waits for it.
    fn overload(&self, _outcome: &RunSummary) -> Option<Overload> {
        None
    }

    /// Caveats about the figures, as sentences.
    fn warnings(&self, outcome: &RunSummary) -> Vec<String>;
}
