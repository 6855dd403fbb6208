//! Replays a trace on a device under a scheduler.

mod lanes;
mod placement;
mod source;

pub use placement::{FOLLOWED_STREAMS, Fit, FitError, Placement, Survey};

use block::StreamId;

use crate::host::{Queue, RunSummary};
use crate::run::{Measure, Pilot, RunError, Watch, run};
use crate::trace::{TraceError, TraceReader};
use lanes::Lanes;
use source::{Closed, Numbered, Open};

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the recorded times.
    Open,
    /// Each request is issued its recorded think time after completion of the request that its stream waited for.
    Closed,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// When requests are issued.
    pub mode: Mode,
    /// Divisor of the trace's times (open) or think times (closed); positive and finite.
    pub speed: f64,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It differs from the trace that was surveyed.
    #[error("the trace changed while it was being replayed")]
    Changed,
    /// A tenant's request is beyond the end of its reference disk.
    #[error(
        "stream {stream}: its request for sector {lba} is beyond the tenant's reference disk of {capacity} sectors; a larger disk, or volumes for the tenant, would do"
    )]
    Beyond {
        /// The tenant.
        stream: StreamId,
        /// Its first sector in the trace.
        lba: u64,
        /// Capacity of the disk in sectors.
        capacity: u64,
    },
}

impl From<ReplayError> for RunError {
    fn from(error: ReplayError) -> RunError {
        RunError::failed(error)
    }
}

impl From<TraceError> for RunError {
    fn from(error: TraceError) -> RunError {
        ReplayError::Trace(error).into()
    }
}

/// Replays a trace through `queue`, optionally controlled by `pilot`. `placement` must come from a survey of the same trace.
///
/// # Errors
/// The trace cannot be read or has changed, or the replay was stopped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use block::Limits;
/// use sim::host::{Queue, QueueSettings};
/// use sim::profile::{DeviceOptions, load};
/// use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay};
/// use sim::run::{Measure, Watch};
/// use sim::trace::{OpenOptions, open};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trace.csv");
/// std::fs::write(&path, "time_ms,lba,sectors,op\n0,0,8,r\n20,1000,16,w\n")?;
/// let survey = Survey::take(&mut *open(&path, &OpenOptions::default())?.reader, |_| true)?.ok_or("interrupted")?;
///
/// let disk = load("atlas10k")?;
/// let placement = Placement::new(&survey, disk.capacity_sectors(), Fit::Exact)?;
/// let (scheduler, values) = block::parse("clook")?;
/// let scheduler = (scheduler.build)(&Limits::default(), &values);
/// let queue = Queue::new(scheduler, disk.build(DeviceOptions::default()), QueueSettings::default());
/// let settings = Settings { mode: Mode::Open, speed: 1.0 };
/// let reader = open(&path, &OpenOptions::default())?.reader;
/// let summary = replay(reader, &placement, queue, &settings, Measure::new([]), &Watch::default(), None)?;
/// assert_eq!(summary.measure.completed(), 2);
/// # Ok(())
/// # }
/// ```
pub fn replay(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    queue: Queue,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<RunSummary, RunError> {
    through(queue, Numbered::all(reader), placement, settings, measure, watch, pilot)
}

/// Replays the requests of one tenant through `queue`; `placement` is that of the tenant on the queue's disk
/// ([`Placement::alone`]).
///
/// # Errors
/// As [`replay`], or a request is beyond the disk.
pub fn replay_tenant(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    queue: Queue,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<RunSummary, RunError> {
    through(queue, Numbered::meant(reader, placement, watch.stop), placement, settings, measure, watch, pilot)
}

fn through(
    mut queue: Queue,
    requests: Numbered<'_>,
    placement: &Placement,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<RunSummary, RunError> {
    let measure = match settings.mode {
        Mode::Open => run(Open::new(requests, placement, settings.speed), &mut queue, measure, watch, pilot)?,
        Mode::Closed => run(Closed::new(requests, placement, settings.speed), &mut queue, measure, watch, pilot)?,
    };
    Ok(RunSummary::new(measure, &queue))
}

/// Replays each stream that `measure` follows alone on its own device, made by `build`: the service that it would get without the
/// others. Requests of other streams are skipped and not counted, so the streams can be divided among processors: the set of
/// followed streams affects a stream only through the shared limit on memory.
///
/// # Errors
/// As [`replay`].
pub fn replay_alone(
    reader: Box<dyn TraceReader + '_>,
    placement: &Placement,
    build: &dyn Fn() -> Queue,
    settings: &Settings,
    measure: Measure,
    watch: &Watch,
) -> Result<Measure, RunError> {
    let followed = measure.followed();
    let mut lanes = Lanes::new(followed.clone(), build);
    let requests = Numbered::only(reader, followed, watch.stop);
    match settings.mode {
        Mode::Open => run(Open::new(requests, placement, settings.speed), &mut lanes, measure, watch, None),
        Mode::Closed => run(Closed::new(requests, placement, settings.speed), &mut lanes, measure, watch, None),
    }
}
