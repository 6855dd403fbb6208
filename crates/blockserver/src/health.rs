//! Health of a volume: failed requests, and a stalled store.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum interval between log lines about failed requests.
const LOGS: Duration = Duration::from_secs(10);

/// Failures of a volume's requests, and whether its store is stalled.
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

    /// Counts a failed request, and logs it at limited rate.
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

    /// Number of failed requests, the last error, and for how many seconds the volume has been stalled; `None` if it is not.
    pub(crate) fn report(&self) -> (u64, Option<String>, Option<u64>) {
        let inner = self.lock();
        (inner.failed, inner.last_error.clone(), inner.stalled_since.map(|since| since.elapsed().as_secs()))
    }

    /// Sets since when the store has been stalled; `None` if it is not. Logs changes.
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
