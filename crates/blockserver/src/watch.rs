//! Judges every second whether guarantees are kept, and finds the cause if not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::store::{Report, Served, Totals};
use block::{Nanos, Standing, StreamId, Tenant};

use crate::server::Server;
use crate::verdict::{self, Account, Verdict};
use crate::volume::Volume;

/// Seconds without a broken one after which a guarantee is kept again.
const CALM: u32 = 10;

/// Statistics of a volume and the state of its guarantee.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doing {
    /// Traffic and response times of the last full second.
    pub served: Served,
    /// Requests completed, those that took longer than the worst case on the reference disk, and those of them that did because of other
    /// volumes. `None` without a reference disk, or if the scheduler keeps no account.
    pub counts: Option<[u64; 3]>,
    /// Verdict on the last full second; `None` without a guarantee.
    pub verdict: Option<Verdict>,
    /// Unix time in seconds since which the guarantee is broken; `None` while it is kept.
    pub broken_since: Option<u64>,
    /// The volume that transferred most in the latest second that was broken by others; `None` if the store broke it.
    pub because_of: Option<String>,
    /// Shortfall in the latest broken second, with figures.
    pub missed: Option<String>,
    /// Of the requests judged in the last second, the share not made late by other volumes; 1 without requests.
    pub level: f64,
    /// Number of seconds with each verdict, in the order of [`Verdict::ALL`].
    pub seconds: [u64; 4],
    /// Response times since the store was opened.
    pub totals: Totals,
}

/// State of a volume between two checks.
#[derive(Default)]
struct Judged {
    doing: Doing,
    /// Seconds since the last broken one.
    calm: u32,
    /// Number of the last judged second.
    second: Option<u64>,
    /// Standing at its end.
    before: Option<Standing>,
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
                    // Without drift, so that no second is left out; but not two checks at once after a pause.
                    next = (next + INTERVAL).max(now);
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
            let Some(tenant) = server.tenant(volume.id) else { continue };
            let judged = judged.entry(volume.id).or_default();
            let was_broken = judged.doing.broken_since.is_some();
            judge(judged, &report, volume.id, &tenant, || most(&here, &report, volume.id));
            let Doing { served, broken_since, because_of, missed, .. } = &judged.doing;
            if broken_since.is_some() && !was_broken {
                tracing::warn!(
                    volume = volume.name,
                    promise = volume.contract().replace('\n', ", "),
                    because_of = because_of.as_deref().unwrap_or("the store"),
                    missed = missed.as_deref().unwrap_or_default(),
                    p99_ms = served.p99_ms,
                    "the promise is broken"
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

fn judge(judged: &mut Judged, report: &Report, id: StreamId, tenant: &Tenant, most: impl FnOnce() -> Option<String>) {
    let Judged { doing, calm, second, before } = judged;
    doing.served = report.served.get(&id).copied().unwrap_or_default();
    // The clocks of the store and of this thread differ: a second is judged once.
    if doing.served != Served::default() && second.replace(doing.served.second) == Some(doing.served.second) {
        return;
    }
    doing.totals = report.totals.get(&id).copied().unwrap_or_default();
    if !verdict::has_promise(tenant) {
        *doing = Doing { served: doing.served, totals: doing.totals, ..Doing::default() };
        return;
    }
    let standing = report.at_second.get(&id).copied();
    // A new contract resets the counters.
    let before = before.replace(standing.unwrap_or_default()).filter(|before| {
        standing.is_some_and(|now| now.completed >= before.completed && now.reference_work >= before.reference_work)
    });
    let before = before.unwrap_or_default();
    doing.counts = standing.map(|standing| [standing.completed, standing.late, standing.late_by_others]);
    let neighbour = most();
    // Where there are no others, the scheduler's account of a single late request is wrong.
    let late_by_others = |now: Standing| now.late_by_others.saturating_sub(before.late_by_others);
    let account = standing.map_or(Account::default(), |now| Account {
        completed: now.completed - before.completed,
        late_by_others: if neighbour.is_some() { late_by_others(now) } else { 0 },
        reference_work: Some(now.reference_work - before.reference_work).filter(|_| now.reference_work > Nanos::ZERO),
    });
    let Account { completed, late_by_others, .. } = account;
    doing.level = if completed == 0 { 1.0 } else { 1.0 - late_by_others as f64 / completed as f64 };
    let missed = verdict::missed(tenant, &doing.served, &account);
    // Without an account of the scheduler, others are the cause where there are any.
    let is_by_others = missed.is_some() && neighbour.is_some() && (standing.is_none() || late_by_others > 0);
    let verdict = match &missed {
        Some(_) if is_by_others => Verdict::ByOthers,
        Some(_) => Verdict::ByStore,
        None if verdict::is_asked(tenant, &doing.served) => Verdict::Kept,
        None => Verdict::NotAsked,
    };
    doing.verdict = Some(verdict);
    doing.seconds[verdict as usize] += 1;
    if missed.is_some() {
        *calm = 0;
        doing.because_of = neighbour.filter(|_| is_by_others);
        doing.missed = missed;
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        doing.broken_since.get_or_insert_with(now);
    } else {
        *calm = calm.saturating_add(1);
        if *calm >= CALM {
            (doing.broken_since, doing.because_of, doing.missed) = (None, None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use block::tenants::ConstantTime;

    use super::*;

    #[test]
    fn a_promise_is_broken_by_late_requests_and_kept_again_after_calm_seconds() {
        let mut judged = Judged::default();
        let reference = Arc::new(ConstantTime { request: Nanos::ZERO, sector: Nanos::ZERO });
        let tenant = Tenant { reference: Some(reference), ..Tenant::new("a") };
        let mut second = 0;
        let mut look = |completed, late, late_by_others| {
            second += 1;
            let standing = Standing { completed, late, late_by_others, ..Standing::default() };
            let served = Served { requests: 100, second, ..Served::default() };
            let report = Report { at_second: [(7, standing)].into(), served: [(7, served)].into(), ..Report::default() };
            judge(&mut judged, &report, 7, &tenant, || Some("flood".to_owned()));
            judged.doing.clone()
        };
        assert_eq!(look(100, 1, 1).verdict, Some(Verdict::Kept), "one in a hundred");
        assert_eq!(look(200, 10, 1).verdict, Some(Verdict::Kept), "late by itself");
        let broken = look(300, 20, 4);
        assert_eq!((broken.verdict, broken.level, broken.seconds), (Some(Verdict::ByOthers), 0.97, [2, 1, 0, 0]));
        assert!(broken.broken_since.is_some() && broken.because_of.as_deref() == Some("flood"), "{broken:?}");
        for _ in 0..9 {
            assert_eq!(look(400, 20, 4).broken_since, broken.broken_since);
        }
        let calm = look(400, 20, 4);
        assert_eq!((calm.broken_since, calm.level, calm.seconds), (None, 1.0, [12, 1, 0, 0]));
        assert_eq!(look(10, 0, 0).broken_since, None, "a new contract");
        assert!(look(110, 9, 9).broken_since.is_some());
    }
}
