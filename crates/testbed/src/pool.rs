//! Independent work on several threads. The results have the order of the items, so the number of threads affects nothing but the
//! time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use rayon::prelude::*;

use progress::monitor::Monitor;
use sim::run::Watch;

/// The monitor and the number of threads for parallel work.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    /// Receives progress.
    pub monitor: &'a dyn Monitor,
    /// Threads; at least 1.
    pub threads: usize,
}

impl<'a> Workers<'a> {
    /// With this number of threads; `None`: one for each core.
    pub fn new(monitor: &'a dyn Monitor, threads: Option<usize>) -> Workers<'a> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Workers { monitor, threads: threads.unwrap_or_else(cores).max(1) }
    }

    /// A watch that stops runs when the work is interrupted.
    pub fn watch(&self) -> Watch<'a> {
        Watch { stop: Some(self.monitor.stop()), ..Watch::default() }
    }

    /// Does `work` for each item, and reports the number of completed items as `what`.
    ///
    /// # Errors
    /// The error of the first failed item, in their order; or [`Interrupted`](progress::Interrupted).
    pub fn map<I: Sync, T: Send>(
        &self,
        what: &str,
        items: &[I],
        work: impl Fn(&I) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<Vec<T>> {
        let done = AtomicU64::new(0);
        self.monitor.begin(items.len() as u64, what);
        let results = self.each(items, |item| {
            let result = work(item);
            self.monitor.progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            result
        });
        self.monitor.end();
        results
    }

    /// Like [`Workers::map`], without progress.
    pub fn each<I: Sync, T: Send>(&self, items: &[I], work: impl Fn(&I) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
        let failed = AtomicBool::new(false);
        let results: Vec<Mutex<Option<anyhow::Result<T>>>> = items.iter().map(|_| Mutex::new(None)).collect();
        in_parallel(self.threads.min(items.len()), items.len(), &|number| {
            if failed.load(Ordering::Relaxed) {
                // Another item failed; its error is returned.
                return;
            }
            let result = self.monitor.check().map_err(anyhow::Error::from).and_then(|()| work(&items[number]));
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        })?;
        // If an item was skipped, the results contain another one's error.
        results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// Calls `work` with each number below `count`, on this number of threads. Not generic: rayon's part is compiled once and not for each caller.
fn in_parallel(threads: usize, count: usize, work: &(dyn Fn(usize) + Sync)) -> anyhow::Result<()> {
    if threads <= 1 {
        // Runs on the caller's own thread, which keeps its thread-local state, such as an interpreter's.
        (0..count).for_each(work);
        return Ok(());
    }
    // The scope waits for the threads: none is left behind, and the process may fork afterwards.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let run = |pool: &rayon::ThreadPool| pool.install(|| (0..count).into_par_iter().with_max_len(1).for_each(work));
    pool.build_scoped(|thread| thread.run(), run).context("cannot start threads")
}

/// A monitor for one of several items of work: hides the item's own progress.
pub struct Unseen<'a>(pub &'a dyn Monitor);

impl Monitor for Unseen<'_> {
    fn begin(&self, _total: u64, _what: &str) {}

    fn progress(&self, _done: u64) {}

    fn end(&self) {}

    fn warn(&self, text: &str) {
        self.0.warn(text);
    }

    fn stop(&self) -> &AtomicBool {
        self.0.stop()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::{Interrupted, Quiet};

    #[test]
    fn results_come_in_the_order_of_the_items_for_any_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [1, 3, 200] {
            let workers = Workers::new(&Quiet::default(), Some(threads)).map("", &items, |item| Ok(item * 2)).unwrap();
            assert_eq!(workers, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_stops_the_work() {
        let quiet = Quiet::default();
        let result = Workers::new(&quiet, Some(2)).each(&[1, 2, 3], |item| {
            anyhow::ensure!(*item != 2, "two");
            Ok(())
        });
        assert_eq!(result.unwrap_err().to_string(), "two");
    }

    #[test]
    fn what_is_to_stop_does_not_begin() {
        let quiet = Quiet::default();
        quiet.stop().store(true, Ordering::Relaxed);
        let result = Workers::new(&quiet, None).each(&[1], |_| -> anyhow::Result<()> { panic!("began") });
        assert!(result.unwrap_err().is::<Interrupted>());
    }
}
