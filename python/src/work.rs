//! Long-running work: releases the GIL, stops on Ctrl-C, and reports progress to a callback.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use progress::Monitor;
use pyo3::prelude::*;

use crate::error;

/// Interval of Ctrl-C checks and progress reports. Ctrl-C must stop the work within 0.2 s.
const POLLED: Duration = Duration::from_millis(40);

/// Progress and warnings of running work, and its stop flag.
#[derive(Default)]
pub struct Watcher {
    stop: Arc<AtomicBool>,
    done: AtomicU64,
    stage: Mutex<(u64, String)>,
    warnings: Mutex<Vec<String>>,
}

impl Watcher {
    /// Set to stop the work.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitor for Watcher {
    fn begin(&self, total: u64, what: &str) {
        self.done.store(0, Ordering::Relaxed);
        *locked(&self.stage) = (total, what.trim_end_matches(", requests:").to_owned());
    }

    fn progress(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    fn end(&self) {}

    fn warn(&self, text: &str) {
        locked(&self.warnings).push(text.to_owned());
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
}

/// Result of finished work, with its warnings.
pub struct Done<T> {
    /// The result.
    pub result: T,
    /// Sentences.
    pub warnings: Vec<String>,
}

/// Runs `work` on a separate thread. `progress` is called with steps done, total steps (0: unknown) and the name of the stage.
///
/// # Errors
/// The error of `work`, an exception raised by `progress`, or `KeyboardInterrupt`.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watcher) -> anyhow::Result<T> + Send,
) -> PyResult<Done<T>> {
    let watcher = Watcher::default();
    let mut raised: Option<PyErr> = None;
    let outcome = py.detach(|| {
        std::thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let watcher = &watcher;
            let worker = scope.spawn(move || {
                // Attach the thread to the interpreter once, instead of at each call of a scheduler in Python.
                let result = Python::attach(|py| py.detach(|| catch_unwind(AssertUnwindSafe(|| work(watcher)))));
                drop(over);
                result
            });
            let mut reported = None;
            while is_over.recv_timeout(POLLED) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| poll(py, watcher, progress, &mut reported))
                {
                    raised = Some(error);
                    watcher.stop.store(true, Ordering::Relaxed);
                }
            }
            worker.join()
        })
    });
    if let Some(error) = raised {
        return Err(error);
    }
    match outcome {
        Ok(Ok(result)) => {
            Ok(Done { result: result.map_err(error::raised)?, warnings: std::mem::take(&mut *locked(&watcher.warnings)) })
        }
        Ok(Err(_)) | Err(_) => Err(error::internal("the work ended with a panic: please report this with its input")),
    }
}

/// Last progress report.
type Reported = Option<(u64, u64, String)>;

fn poll(py: Python<'_>, watcher: &Watcher, progress: Option<&Py<PyAny>>, reported: &mut Reported) -> PyResult<()> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(()) };
    let (total, what) = locked(&watcher.stage).clone();
    let now = (watcher.done.load(Ordering::Relaxed), total, what);
    if !now.2.is_empty() && reported.as_ref() != Some(&now) {
        progress.call1(py, (now.0, now.1, now.2.clone()))?;
        *reported = Some(now);
    }
    Ok(())
}
