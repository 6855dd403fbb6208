//! Checks every second whether guarantees are kept, and which volume causes a violation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::store::{Report, Served, Totals};
use block::StreamId;

use crate::server::Server;
use crate::volume::Volume;

/// Seconds without a late request after which a guarantee is kept again.
const CALM: u32 = 10;

/// Statistics of a volume and the state of its guarantee.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doing {
    /// Traffic and response times of the last full second.
    pub served: Served,
    /// Requests completed, those later than on the reference disk, and those late because of other volumes. `None` without a reference
    /// disk, or if the scheduler keeps no account.
    pub counts: Option<[u64; 3]>,
    /// Unix time in seconds since which the guarantee is broken; `None` while it is kept.
    pub broken_since: Option<u64>,
    /// The volume that transferred most in the second of the latest violation.
    pub because_of: Option<String>,
    /// Of the requests judged in the last second, the share not made late by other volumes; 1 without requests.
    pub level: f64,
    /// Seconds in which the guarantee was kept.
    pub kept_seconds: u64,
    /// Seconds in which the guarantee was broken.
    pub broken_seconds: u64,
    /// Response times since the store was opened.
    pub totals: Totals,
}

/// State of a volume between two checks.
#[derive(Default)]
struct Judged {
    doing: Doing,
    /// Seconds since the last request that was late because of others.
    calm: u32,
}

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Thread that checks every store each second. Dropping it ends the thread.
pub struct Watch {
    judged: Arc<Mutex<BTreeMap<StreamId, Judged>>>,
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(server: &Arc<Server>) -> std::io::Result<Watch> {
        let (judged, is_ended) = (Arc::<Mutex<BTreeMap<StreamId, Judged>>>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (server, judged, is_ended) = (server.clone(), judged.clone(), is_ended.clone());
            thread::Builder::new().name("watch".to_owned()).spawn(move || {
                let mut next = Instant::now() + INTERVAL;
                while !is_ended.load(Ordering::Relaxed) {
                    let now = Instant::now();
                    if now < next {
                        // The end wakes it.
                        thread::park_timeout(next - now);
                        continue;
                    }
                    next = now + INTERVAL;
                    look(&server, &judged);
                }
            })?
        };
        Ok(Watch { judged, is_ended, thread: Some(thread) })
    }

    /// The latest statistics of a volume; empty before the first check.
    pub fn doing(&self, volume: &Volume) -> Doing {
        let judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.get(&volume.id).map(|judged| judged.doing.clone()).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn look(server: &Server, judged: &Mutex<BTreeMap<StreamId, Judged>>) {
    let lock = || judged.lock().unwrap_or_else(PoisonError::into_inner);
    let volumes = server.volumes();
    lock().retain(|id, _| volumes.iter().any(|volume| volume.id == *id));
    for store in server.stores() {
        let here: Vec<&Arc<Volume>> = volumes.iter().filter(|volume| volume.is_on(store)).collect();
        // Not locked, so that readers do not wait for a store.
        let Some(report) = store.host.report() else { continue };
        let mut judged = lock();
        for volume in &here {
            let judged = judged.entry(volume.id).or_default();
            let was_broken = judged.doing.broken_since.is_some();
            judge(judged, &report, volume.id, || most(&here, &report, volume.id));
            let Doing { served, broken_since, because_of, .. } = &judged.doing;
            if broken_since.is_some() && !was_broken {
                let because_of = because_of.as_deref().unwrap_or("no other volume");
                tracing::warn!(
                    volume = volume.name,
                    promise = volume.contract().replace('\n', ", "),
                    because_of,
                    p99_ms = served.p99_ms,
                    "the promise is broken: requests were later than on the reference disk because of others"
                );
            } else if was_broken && broken_since.is_none() {
                tracing::info!(volume = volume.name, "the promise is kept again");
            }
        }
    }
}

/// The other volume that transferred most in the last second; `None` if none was active.
fn most(here: &[&Arc<Volume>], report: &Report, victim: StreamId) -> Option<String> {
    let others = here.iter().filter(|volume| volume.id != victim);
    let used = others.filter_map(|volume| Some((report.served.get(&volume.id)?.bytes, volume)));
    used.max_by_key(|(bytes, _)| *bytes).map(|(_, volume)| volume.name.clone())
}

fn judge(judged: &mut Judged, report: &Report, id: StreamId, most: impl FnOnce() -> Option<String>) {
    let Judged { doing, calm } = judged;
    doing.served = report.served.get(&id).copied().unwrap_or_default();
    doing.totals = report.totals.get(&id).copied().unwrap_or_default();
    let Some(standing) = report.standings.get(&id).copied() else {
        *doing = Doing { served: doing.served, totals: doing.totals, ..Doing::default() };
        return;
    };
    let counts = [standing.completed, standing.late, standing.late_by_others];
    // A new contract resets the counters.
    let before = doing.counts.filter(|before| before[0] <= counts[0] && before[2] <= counts[2]).unwrap_or([0; 3]);
    doing.counts = Some(counts);
    let (done, late) = (counts[0] - before[0], counts[2] - before[2]);
    doing.level = if done == 0 { 1.0 } else { 1.0 - late as f64 / done as f64 };
    if counts[2] > before[2] {
        *calm = 0;
        doing.because_of = most();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        doing.broken_since.get_or_insert_with(now);
    } else {
        *calm = calm.saturating_add(1);
        if *calm >= CALM {
            (doing.broken_since, doing.because_of) = (None, None);
        }
    }
    *if doing.broken_since.is_some() { &mut doing.broken_seconds } else { &mut doing.kept_seconds } += 1;
}

#[cfg(test)]
mod tests {
    use block::Standing;

    use super::*;

    #[test]
    fn a_promise_is_broken_by_late_requests_of_others_and_kept_again_after_calm_seconds() {
        let mut judged = Judged::default();
        let mut look = |completed, late, late_by_others| {
            let standing = Standing { completed, late, late_by_others, ..Standing::default() };
            let report = Report { standings: [(7, standing)].into(), ..Report::default() };
            judge(&mut judged, &report, 7, || Some("flood".to_owned()));
            judged.doing.clone()
        };
        assert_eq!(look(100, 2, 0).broken_since, None, "late by itself");
        let broken = look(200, 5, 3);
        assert_eq!((broken.level, broken.kept_seconds, broken.broken_seconds), (0.97, 1, 1));
        assert!(broken.broken_since.is_some() && broken.because_of.as_deref() == Some("flood"), "{broken:?}");
        for _ in 0..9 {
            assert_eq!(look(300, 5, 3).broken_since, broken.broken_since);
        }
        let calm = look(300, 5, 3);
        assert_eq!((calm.broken_since, calm.level, calm.kept_seconds, calm.broken_seconds), (None, 1.0, 2, 10));
        assert_eq!(look(10, 0, 0).broken_since, None, "a new contract");
        assert!(look(20, 1, 1).broken_since.is_some());
    }
}
