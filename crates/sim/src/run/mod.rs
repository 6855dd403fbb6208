//! The event loop: something issues work, something serves it, in virtual time, and everything is measured.

mod measure;
mod outcome;
mod pilot;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Nanos;

pub use measure::{Bin, Measure, Responses, StreamMeasure};
pub use outcome::Outcome;
pub use pilot::{Pilot, Steerable};

use crate::host::{Finished, HostError};
use crate::trace::TraceError;
use pilot::Steered;

/// Events between two looks at the flag that stops a run.
const EVENTS_PER_LOOK: u32 = 4096;

/// Says what is issued next, and when: a trace or a workload.
pub(crate) trait Source {
    /// What it issues.
    type Work;

    /// When the next work is issued; `None` if none is before something completes, or ever.
    fn next_at(&mut self) -> Result<Option<Nanos>, RunError>;

    /// What [`next_at`](Source::next_at) announced, issued at `now`, which may be later if the server had no room.
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

    /// When something happens by itself next.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass until `now` and reports what is done.
    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>);

    /// Sends to the device what may go.
    fn dispatch(&mut self, now: Nanos);

    /// Whether nobody waits for anything: what still happens is the server's own affair, and may go on for ever. The run ends
    /// then if nothing more is issued.
    fn is_at_leisure(&self) -> bool {
        false
    }

    /// Itself, if it can be set in the middle of a run.
    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        None
    }
}

/// A run that came to no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace is not the one that was surveyed.
    #[error("the trace changed while it was being replayed")]
    Changed,
    /// There can be no such host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Somebody asked it to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a run is watched by and stopped through, from another thread.
#[derive(Debug, Default)]
pub struct Watch<'a> {
    /// Set: stop soon, with [`RunError::Interrupted`].
    pub stop: Option<&'a AtomicBool>,
    /// Grows by the requests completed.
    pub completed: Option<&'a AtomicU64>,
}

impl Watch<'_> {
    fn look(&self, measure: &Measure) -> Result<(), RunError> {
        if let Some(completed) = self.completed {
            completed.store(measure.completed(), Ordering::Relaxed);
        }
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(RunError::Interrupted);
        }
        Ok(())
    }
}

/// The loop: four sources of events (an arrival, the device, a scheduler that waits, a pilot who wants to look), the earliest first.
/// The run is over when only the last is left.
pub(crate) fn run<Work>(
    mut source: impl Source<Work = Work>,
    server: &mut impl Server<Work = Work>,
    mut measure: Measure,
    watch: &Watch,
    pilot: Option<&mut dyn Pilot>,
) -> Result<Measure, RunError> {
    let mut steered = Steered::new(pilot, server.steerable());
    let mut now = Nanos::ZERO;
    let mut finished = Vec::new();
    let mut until_look = EVENTS_PER_LOOK;
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
        let look = steered.next_look(now).filter(|&look| look < next);
        now = now.max(look.unwrap_or(next));
        if event.is_some_and(|at| at <= now) {
            server.advance(now, &mut finished);
            for done in &finished {
                if source.is_measured(done) {
                    measure.record(done);
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
            server.admit(now, work);
        }
        // What is decided now holds for what the device is offered now. A look alone is no reason to ask the scheduler: one that waits
        // may answer otherwise before its time.
        if steered.turn(now, server.steerable()) || look.is_none() {
            server.dispatch(now);
        }
        until_look -= 1;
        if until_look == 0 {
            until_look = EVENTS_PER_LOOK;
            watch.look(&measure)?;
        }
    }
    watch.look(&measure)?;
    measure.finish();
    Ok(measure)
}
