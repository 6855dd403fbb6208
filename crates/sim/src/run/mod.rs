//! The event loop: a source issues work, a server serves it, in virtual time, and everything is measured.
//!
//! The loop knows neither traces nor hosts nor devices: they implement [`Source`] and [`Server`] with its types [`Issue`],
//! [`Finished`] and [`ServerEvent`].

mod event;
mod measure;
mod pilot;
mod responses;
mod tenants;
mod timeline;

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Nanos;

pub use event::{Finished, Flushed, Issue, ServerEvent, Transferred};
pub use measure::{Bin, Measure, STRETCH, StreamMeasure};
pub use pilot::{Pilot, Steerable};
pub use responses::Responses;
pub use tenants::{Attributed, BIN, IDLE_GAP, Owner, Return, STEP, Served, TenantMeasure, Tenants};
pub use timeline::Timeline;

use pilot::Piloted;

/// Events between two checks of the flag that stops a run.
const EVENTS_PER_CHECK: u32 = 4096;

/// A source of work: decides the next request, and its time.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use block::{Limits, Nanos, Op, Priority};
/// use sim::host::{Queue, QueueSettings};
/// use sim::profile::{DeviceOptions, load};
/// use sim::run::{Finished, Issue, Measure, RunError, Source, Watch, run};
///
/// /// One read per 10 ms, until `left` is zero.
/// struct Periodic {
///     at: Nanos,
///     left: u64,
/// }
///
/// impl Source for Periodic {
///     type Work = Issue;
///
///     fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
///         Ok((self.left > 0).then_some(self.at))
///     }
///
///     fn take(&mut self, _now: Nanos) -> Result<Option<Issue>, RunError> {
///         let (arrival, lba, priority) = (self.at, 1_000 * self.left, Priority::DEFAULT);
///         (self.at, self.left) = (self.at + Nanos::from_millis(10), self.left - 1);
///         Ok(Some(Issue { arrival, lba, sectors: 8, op: Op::Read, sync: true, stream: 0, priority, token: 0 }))
///     }
///
///     fn completed(&mut self, _finished: &Finished) {}
/// }
///
/// let (scheduler, values) = block::parse("noop")?;
/// let device = load("atlas10k")?.build(DeviceOptions::default());
/// let mut queue = Queue::new((scheduler.build)(&Limits::default(), &values), device, QueueSettings::default());
/// let source = Periodic { at: Nanos::ZERO, left: 50 };
/// let measure = run(source, &mut queue, Measure::new([0]), &Watch::default(), None)?;
/// assert_eq!(measure.completed(), 50);
/// # Ok(())
/// # }
/// ```
pub trait Source {
    /// The work that it issues.
    type Work;

    /// When the next work is issued; `None` if nothing more is issued until a completion, or ever.
    ///
    /// # Errors
    /// Reading its input failed.
    fn next_at(&mut self) -> Result<Option<Nanos>, RunError>;

    /// Returns the work announced by [`next_at`](Source::next_at), issued at `now`, which is later than announced if the server had
    /// no room.
    ///
    /// # Errors
    /// Reading its input failed.
    fn take(&mut self, now: Nanos) -> Result<Option<Self::Work>, RunError>;

    /// Called for each completion.
    fn completed(&mut self, finished: &Finished);

    /// Whether a completion is to be measured; asked before [`completed`](Source::completed).
    fn is_measured(&self, _finished: &Finished) -> bool {
        true
    }
}

/// A server of work: a block device's queue, several in parallel, or a whole host.
///
/// ```
/// use std::collections::VecDeque;
///
/// use block::Nanos;
/// use sim::run::{Finished, Issue, Server, Transferred};
///
/// /// Completes every request after 1 ms.
/// #[derive(Default)]
/// struct Delay(VecDeque<(Nanos, Issue)>);
///
/// impl Server for Delay {
///     type Work = Issue;
///
///     fn has_room(&self) -> bool {
///         true
///     }
///
///     fn admit(&mut self, now: Nanos, issue: Issue) {
///         self.0.push_back((now, issue));
///     }
///
///     fn next_event(&self) -> Option<Nanos> {
///         self.0.front().map(|(admitted, _)| *admitted + Nanos::from_millis(1))
///     }
///
///     fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
///         while let Some(at) = self.next_event().filter(|at| *at <= now) {
///             let Some((dispatched, issue)) = self.0.pop_front() else { return };
///             finished.push(Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched, at }));
///         }
///     }
///
///     fn dispatch(&mut self, _now: Nanos) {}
/// }
///
/// assert_eq!(Delay::default().next_event(), None);
/// ```
pub trait Server {
    /// The work that it admits.
    type Work;

    /// Whether [`admit`](Server::admit) may be called.
    fn has_room(&self) -> bool;

    /// Admits work; call [`dispatch`](Server::dispatch) after all work of the same instant.
    fn admit(&mut self, now: Nanos, work: Self::Work);

    /// The time of the server's next event if nothing more is issued; `None` if there is none.
    fn next_event(&self) -> Option<Nanos>;

    /// Advances to `now` and appends completed work.
    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>);

    /// Dispatches requests to the device.
    fn dispatch(&mut self, now: Nanos);

    /// Whether no issuer waits for a completion. The server may still have work of its own, possibly without end; the run ends then
    /// if nothing more is issued.
    fn is_idle(&self) -> bool {
        false
    }

    /// The server itself, if its settings can be changed during a run; `None` otherwise.
    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        None
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source, or something that the run was set up from, failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// It was stopped through [`Watch::stop`].
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// A failure of the source, or of the setup of the run.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> RunError {
        RunError::Failed(Box::new(error))
    }
}

/// Lets another thread follow a run and stop it.
#[derive(Debug, Default)]
pub struct Watch<'a> {
    /// Set it, and the run stops soon with [`RunError::Interrupted`].
    pub stop: Option<&'a AtomicBool>,
    /// Requests completed so far.
    pub completed: Option<&'a AtomicU64>,
    /// The current virtual time in nanoseconds.
    pub reached: Option<&'a AtomicU64>,
}

impl Watch<'_> {
    fn check(&self, measure: &Measure, now: Nanos) -> Result<(), RunError> {
        if let Some(reached) = self.reached {
            reached.store(now.0, Ordering::Relaxed);
        }
        if let Some(completed) = self.completed {
            completed.store(measure.completed(), Ordering::Relaxed);
        }
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(RunError::Interrupted);
        }
        Ok(())
    }
}

/// The loop. There are four kinds of events: an arrival, a completion, the end of a scheduler's wait, and a pilot's step. The earliest
/// comes first. The run is over when only pilot's steps are left.
///
/// # Errors
/// The source failed, or the run was asked to stop.
pub fn run<Work: Attributed>(
    mut source: impl Source<Work = Work>,
    server: &mut impl Server<Work = Work>,
    mut measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<Measure, RunError> {
    let mut piloted = Piloted::new(pilot, server.steerable());
    let mut now = Nanos::ZERO;
    let mut finished = Vec::new();
    let mut until_check = EVENTS_PER_CHECK;
    loop {
        let arrival = if server.has_room() { source.next_at()? } else { None };
        if arrival.is_none() && server.is_idle() {
            break;
        }
        let event = server.next_event();
        let next = match (arrival, event) {
            (Some(arrival), Some(event)) => arrival.min(event),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => break,
        };
        let step = piloted.next_step(now, next);
        now = now.max(step.unwrap_or(next));
        if event.is_some_and(|at| at <= now) {
            server.advance(now, &mut finished);
            for done in &finished {
                if source.is_measured(done) {
                    measure.record(done);
                } else {
                    measure.record_unmeasured(done);
                }
                if let Some(tenants) = &mut measure.tenants {
                    tenants.completed(done);
                }
                source.completed(done);
            }
            finished.clear();
        }
        // All arrivals of the same instant are admitted before anything is dispatched.
        while server.has_room()
            && source.next_at()?.is_some_and(|at| at <= now)
            && let Some(work) = source.take(now)?
        {
            if let Some(tenants) = &mut measure.tenants {
                tenants.issued(now, &work);
            }
            server.admit(now, work);
        }
        // The pilot comes before dispatch, so that its settings apply to it. A step that changes nothing must not dispatch: a
        // scheduler that waits may decide differently before its time.
        if piloted.turn(now, server.steerable()) || step.is_none() {
            server.dispatch(now);
        }
        until_check -= 1;
        if until_check == 0 {
            until_check = EVENTS_PER_CHECK;
            watch.check(&measure, now)?;
        }
    }
    watch.check(&measure, now)?;
    measure.finish(now);
    Ok(measure)
}
