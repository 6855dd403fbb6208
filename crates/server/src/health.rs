//! What goes wrong with a volume: requests that fail, and a store that does not answer.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures are logged no more often.
const LOGS: Duration = Duration::from_secs(10);

/// What went wrong with a volume.
#[derive(Default)]
pub(crate) struct Health(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    failed: u64,
    last_error: Option<String>,
    logged: Option<(Instant, u64)>,
    stalled_since: Option<Instant>,
}

impl Health {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request failed.
    pub(crate) fn failed(&self, volume: &str, store: &str, error: &io::Error) {
        let mut inner = self.lock();
        inner.failed += 1;
        let text = format!("store {store}: {error}");
        if inner.logged.is_none_or(|(at, _)| at.elapsed() >= LOGS) {
            let since = inner.failed - inner.logged.map_or(0, |(_, failed)| failed);
            tracing::error!(volume, store, %error, requests = since, "requests fail");
            inner.logged = Some((Instant::now(), inner.failed));
        }
        inner.last_error = Some(text);
    }

    /// Requests that failed, the last error, and for how many seconds none was answered if some are under way.
    pub(crate) fn report(&self) -> (u64, Option<String>, Option<u64>) {
        let inner = self.lock();
        (inner.failed, inner.last_error.clone(), inner.stalled_since.map(|since| since.elapsed().as_secs()))
    }

    /// Says whether the store has not answered since a moment; the log has a line when that changes.
    pub(crate) fn stalls(&self, volume: &str, store: &str, since: Option<Instant>) {
        let mut inner = self.lock();
        match (inner.stalled_since, since) {
            (None, Some(_)) => tracing::warn!(volume, store, "the store does not answer"),
            (Some(since), None) => tracing::info!(volume, store, seconds = since.elapsed().as_secs(), "the store answers again"),
            _ => {}
        }
        inner.stalled_since = since;
    }
}
