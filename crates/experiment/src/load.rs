//! What is run: a trace, or the jobs of a job file.

use std::ops::Range;

use block::{Nanos, Roster, StreamId};
use report::record::{Replay, TraceDigest};
use sim::host::{HostSettings, Queue, RunSummary};
use sim::run::{Measure, Pilot, RunError, Watch};

use crate::world::World;

/// Makes a queue in front of a disk at rest.
pub type Build<'a> = dyn Fn() -> Queue + 'a;

/// What is drawn in a run of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// The same as in every run.
    OfTheRun,
    /// Others: the same load once more, as chance may have it. A trace, of which nothing is drawn, has its volume on other sectors, if its
    /// disk has them.
    Others,
}

/// A row of a report of jobs.
pub struct Row {
    /// The first job's name.
    pub name: String,
    /// The reporting group, from 0.
    pub group: u32,
    /// Whose results are in it.
    pub streams: Vec<StreamId>,
}

/// Something that issues requests, again and again the same ones.
pub trait Load: Send + Sync {
    /// What it is, for the record.
    fn digest(&self) -> TraceDigest;

    /// How it is run, for the record.
    fn replay(&self, world: &World) -> Replay;

    /// How many requests a run has, where that is known before.
    fn expected_requests(&self) -> Option<u64>;

    /// When a run is over in its own time, about, where that is known before and the number of requests is not.
    fn expected_end(&self) -> Option<Nanos> {
        None
    }

    /// How many streams there are, followed or not.
    fn stream_count(&self) -> usize;

    /// A stream's name, where it has one.
    fn stream_name(&self, stream: StreamId) -> Option<&str>;

    /// The streams that a name means: a job's, all clones' of one, those of a section; of a trace those of that name or number.
    fn streams_of(&self, name: &str) -> Vec<StreamId>;

    /// The names that mean something there.
    fn names(&self) -> Vec<String>;

    /// Where on the disk a stream's files lie, in any order; none for a load that has no files.
    fn sectors_of(&self, _stream: StreamId) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Whether a stream that was measured is reported by itself.
    fn follows(&self, _stream: StreamId) -> bool {
        true
    }

    /// The jobs as the load asks to have them reported, in its order; none for a load that has no jobs.
    fn reported(&self) -> Vec<Row> {
        Vec::new()
    }

    /// The jobs by group, in order; none for a load that has no jobs.
    fn groups(&self) -> Vec<Row> {
        Vec::new()
    }

    /// The followed streams in parts of about the same work, for this many threads.
    fn alone_parts(&self, threads: usize) -> Vec<Vec<StreamId>>;

    /// Runs it, steered by `pilot` if there is one. A block trace meets only what of the host's settings is the queue's.
    fn run(&self, queue: Queue, host: HostSettings, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError>;

    /// Runs each of these streams alone on a queue of its own.
    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError>;

    /// Runs what one tenant of a roster asks for, and nothing else, on a queue whose disk holds nothing but that tenant's sectors, in their
    /// order from 0 on. What it gets is measured as that of all who are on no roster ([`Tenants::others`](sim::run::Tenants::others)).
    fn run_tenant(
        &self,
        roster: &Roster,
        tenant: usize,
        queue: Queue,
        draws: Draws,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError>;

    /// The speed at which the disk would keep up, where it did not and there is one.
    fn sustainable_speed(&self, outcome: &RunSummary) -> Option<f64>;

    /// What the reader must know before believing the figures.
    fn warnings(&self, outcome: &RunSummary) -> Vec<String>;
}
