//! Records a device's requests as a trace.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use block::Nanos;
use experiment::capture::{Capture, Captured};
use observe::Event;
use progress::Monitor;
use progress::monitor::Quiet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{EventSource as _, ObserveError, Tracepoints};
use crate::cgroups::{Processes, Source};
use crate::clock::monotonic;

/// Interval between reads, unless there is much to read.
const READS_EVERY: Nanos = Nanos::from_millis(100);
/// Time to wait for the completions of the last requests.
const LINGERS: Nanos = Nanos::from_millis(1_000);
/// Steps of the progress bar per second.
const STEPS_A_SECOND: f64 = 10.0;

/// The end of a recording; it also ends if the work is stopped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// After this time; `None` for no limit.
    pub time: Option<Nanos>,
    /// After this many requests; `None` for no limit.
    pub requests: Option<u64>,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trace.
    pub trace: Captured,
    /// Number of events lost by the kernel.
    pub lost: u64,
    /// Whether the recording ended because the device was removed.
    pub is_gone: bool,
}

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The device cannot be observed.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The trace cannot be written.
    #[error("the trace cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Records until then. If the work is stopped, the recording so far is kept. With `units`, streams have the names of their processes'
/// units, otherwise of their programs.
///
/// # Errors
/// The kernel's data cannot be parsed, or the trace cannot be written.
pub fn record(
    mut source: Tracepoints,
    mut capture: Capture,
    until: Until,
    mut units: Option<Processes>,
    monitor: &dyn Monitor,
) -> Result<Recorded, RecordError> {
    let began = monotonic();
    let steps = |time: Nanos| (time.as_secs_f64() * STEPS_A_SECOND) as u64;
    let is_timed = until.requests.is_none() && until.time.is_some();
    let what = if is_timed { "recording" } else { "recording, requests:" };
    monitor.begin(until.requests.or(until.time.map(steps)).unwrap_or(0), what);
    let (mut events, mut lost, mut is_gone) = (Vec::new(), 0, false);
    let mut closed: Option<Nanos> = None;
    loop {
        wait(&source.fds(), READS_EVERY)?;
        match source.read(&mut events) {
            Err(ObserveError::Gone { .. }) => is_gone = true,
            other => other?,
        }
        take(&mut events, &mut capture, &source, &until, closed.is_some(), units.as_mut())?;
        if source.lost() > lost {
            lost = source.lost();
            capture.gap()?;
        }
        let time = monotonic() - began;
        let is_full = until.requests.is_some_and(|most| capture.requests() >= most);
        if is_full || until.time.is_some_and(|until| time >= until) || monitor.stop().load(Ordering::Relaxed) {
            closed = closed.or(Some(time));
        }
        if is_gone || closed.is_some_and(|closed| !capture.is_waiting() || time - closed >= LINGERS) {
            break;
        }
        monitor.progress(if is_timed { steps(time) } else { capture.requests() });
    }
    source.finish(&mut events)?;
    take(&mut events, &mut capture, &source, &until, closed.is_some(), units.as_mut())?;
    monitor.end();
    Ok(Recorded { lost: source.lost(), is_gone, trace: capture.finish()? })
}

/// Passes events to the capture, except requests after its end.
fn take(
    events: &mut Vec<Event>,
    capture: &mut Capture,
    source: &Tracepoints,
    until: &Until,
    is_closed: bool,
    mut units: Option<&mut Processes>,
) -> Result<(), RecordError> {
    for event in events.drain(..) {
        let is_full = is_closed || until.requests.is_some_and(|most| capture.requests() >= most);
        let Event::Queued(request) = event else {
            capture.event(&event, |_| None)?;
            continue;
        };
        if !is_full {
            let unit = units.as_mut().and_then(|units| {
                let unit = units.unit(request.stream, source.name(request.stream), request.arrival);
                units.source(unit).map(Source::name)
            });
            capture.event(&event, |stream| unit.as_deref().or_else(|| source.name(stream)))?;
        }
    }
    Ok(())
}

/// Waits until there is much to read, for at most `longest`.
///
/// # Errors
/// `poll` failed.
pub fn wait(fds: &[BorrowedFd<'_>], longest: Nanos) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let second = 1_000_000_000;
    let longest = Timespec { tv_sec: (longest.0 / second) as i64, tv_nsec: (longest.0 % second) as i64 };
    match poll(&mut polled, Some(&longest)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A recording on a thread of its own, until it is ended.
#[derive(Debug)]
pub struct Background {
    monitor: Arc<Quiet>,
    thread: JoinHandle<Result<Recorded, RecordError>>,
}

impl Background {
    /// Starts recording.
    pub fn begin(source: Tracepoints, capture: Capture) -> Background {
        let monitor = Arc::new(Quiet::default());
        let of_thread = Arc::clone(&monitor);
        let thread = std::thread::spawn(move || record(source, capture, Until::default(), None, &*of_thread));
        Background { monitor, thread }
    }

    /// Ends the recording, and returns its result.
    ///
    /// # Errors
    /// Those of [`record`].
    pub fn end(self) -> Result<Recorded, RecordError> {
        self.monitor.stop().store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
