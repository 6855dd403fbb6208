//! The event loop: a source issues work, a server serves it, in virtual time, and everything is measured.
//!
//! The loop knows neither traces nor hosts nor devices: they implement [`Source`] and [`Server`], and speak to it in its own
//! types, [`Issue`], [`Finished`] and [`ServerEvent`].

mod event;
mod measure;
mod pilot;
mod tenants;
mod timeline;

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Nanos;

pub use event::{Finished, Flushed, Issue, ServerEvent, Transferred};
pub use measure::{Bin, Measure, Responses, STRETCH, StreamMeasure};
pub use pilot::{Pilot, Steerable};
pub use tenants::{Attributed, BIN, Owner, Return, SILENCE, STEP, Served, TenantMeasure, Tenants};
pub use timeline::Timeline;

use pilot::Piloted;

/// Events between two checks of the flag that stops a run.
const EVENTS_PER_CHECK: u32 = 4096;

/// Decides what is issued next, and when.
pub trait Source {
    /// What it issues.
    type Work;

    /// When the next work is issued; `None` if none is before something completes, or ever.
    ///
    /// # Errors
    /// What it reads from failed.
    fn next_at(&mut self) -> Result<Option<Nanos>, RunError>;

    /// What [`next_at`](Source::next_at) announced, issued at `now`, which may be later if the server had no room.
    ///
    /// # Errors
    /// What it reads from failed.
    fn take(&mut self, now: Nanos) -> Result<Option<Self::Work>, RunError>;

    /// Learns of a completion.
    fn completed(&mut self, finished: &Finished);

    /// Whether a completion is to be measured; asked before [`completed`](Source::completed).
    fn is_measured(&self, _finished: &Finished) -> bool {
        true
    }
}

/// Serves what is issued: a block device's queue, several side by side, or a whole host.
pub trait Server {
    /// What it takes.
    type Work;

    /// Whether [`admit`](Server::admit) may be called.
    fn has_room(&self) -> bool;

    /// Takes work in; call [`dispatch`](Server::dispatch) when all of this instant is in.
    fn admit(&mut self, now: Nanos, work: Self::Work);

    /// The time of the server's next event, if nothing more is issued.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass until `now` and appends what has finished.
    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>);

    /// Sends to the device what may go there.
    fn dispatch(&mut self, now: Nanos);

    /// Whether no issuer waits for anything. The server may still have work of its own, possibly without end; the run is over
    /// then if nothing more is issued.
    fn is_at_leisure(&self) -> bool {
        false
    }

    /// The server itself, if its settings can be changed in the middle of a run.
    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        None
    }
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source, or something that the run was set up from, failed.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    /// A failure of the source, or of what the run was set up from.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> RunError {
        RunError::Failed(Box::new(error))
    }
}

/// How another thread follows a run and stops it.
#[derive(Debug, Default)]
pub struct Watch<'a> {
    /// Set it, and the run stops soon with [`RunError::Interrupted`].
    pub stop: Option<&'a AtomicBool>,
    /// How many requests have completed so far.
    pub completed: Option<&'a AtomicU64>,
    /// How far the run's own time has got, in nanoseconds.
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
        if arrival.is_none() && server.is_at_leisure() {
            break;
        }
        let event = server.next_event();
        let next = match (arrival, event) {
            (Some(arrival), Some(event)) => arrival.min(event),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => break,
        };
        let step = piloted.next_step(now).filter(|&step| step < next);
        now = now.max(step.unwrap_or(next));
        if event.is_some_and(|at| at <= now) {
            server.advance(now, &mut finished);
            for done in &finished {
                if source.is_measured(done) {
                    measure.record(done);
                } else {
                    measure.pass_over(done);
                }
                if let Some(tenants) = &mut measure.tenants {
                    tenants.got(done);
                }
                source.completed(done);
            }
            finished.clear();
        }
        // All that arrive at the same instant get into the queue before the device is offered anything.
        while server.has_room()
            && source.next_at()?.is_some_and(|at| at <= now)
            && let Some(work) = source.take(now)?
        {
            if let Some(tenants) = &mut measure.tenants {
                tenants.issued(now, &work);
            }
            server.admit(now, work);
        }
        // The pilot comes before dispatch, so that its settings hold for what the device is offered now. A step that changes
        // nothing must not ask the scheduler: one that waits may answer differently before its time.
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
