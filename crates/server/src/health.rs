//! Requests that fail, and volumes whose store does not answer.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use block::StreamId;

use crate::server::Server;

/// A volume stalls if requests are under way and none was answered for so long: a disk that has to try again takes a second or two.
pub const STALLS: Duration = Duration::from_secs(3);
/// How often it is looked for volumes that stall.
const LOOKS: Duration = Duration::from_millis(500);
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

    fn stalls(&self, volume: &str, store: &str, since: Option<Instant>) {
        let mut inner = self.lock();
        match (inner.stalled_since, since) {
            (None, Some(_)) => tracing::warn!(volume, store, "the store does not answer"),
            (Some(since), None) => tracing::info!(volume, store, seconds = since.elapsed().as_secs(), "the store answers again"),
            _ => {}
        }
        inner.stalled_since = since;
    }
}

/// Looks for volumes that stall until the server is gone.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn start(server: Weak<Server>) -> io::Result<()> {
    let mut seen: BTreeMap<StreamId, (u64, Instant)> = BTreeMap::new();
    thread::Builder::new().name("health".to_owned()).spawn(move || {
        while let Some(server) = server.upgrade() {
            let volumes = server.volumes();
            drop(server);
            seen.retain(|id, _| volumes.iter().any(|volume| volume.id == *id));
            for volume in &volumes {
                let (under_way, answered) = volume.under_way();
                let known = seen.entry(volume.id).or_insert((answered, Instant::now()));
                if known.0 != answered || under_way == 0 {
                    *known = (answered, Instant::now());
                }
                let since = Some(known.1).filter(|since| since.elapsed() >= STALLS);
                volume.health.stalls(&volume.name, &volume.store().name, since);
            }
            drop(volumes);
            thread::sleep(LOOKS);
        }
    })?;
    Ok(())
}
