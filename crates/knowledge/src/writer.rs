//! Writes rows while a controller runs, without blocking or stopping it on errors.

use std::path::Path;
use std::time::Duration;

use block::Nanos;

use super::error::{KnowledgeError, Problem};
use super::retention::Retention;
use super::rows::{Row, Run};
use super::{Batch, Knowledge};

/// Maximum wait of a commit for another program's transaction; it is retried later.
const LOCK_TIMEOUT: Duration = Duration::from_millis(50);
/// As [`LOCK_TIMEOUT`], for the last commit.
const LAST_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of rows after which retention is applied.
const PRUNE_EVERY: u64 = 4096;
/// As [`PRUNE_EVERY`], while the file exceeds its size limit.
const SHRINK_EVERY: u64 = 256;
/// Maximum number of batches that wait for a lock.
const MAX_PENDING_BATCHES: usize = 16;

/// When rows are committed: at this number of rows, or when the first has waited for this time. Uncommitted rows are lost if the program is
/// killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Rows.
    pub rows: usize,
    /// Time since the first of them, by the clock of the caller.
    pub time: Nanos,
}

impl Default for Pace {
    /// A thousand rows, or a second.
    fn default() -> Pace {
        Pace { rows: 1000, time: Nanos::from_millis(1000) }
    }
}

/// Writes the rows of one run, one transaction per batch, and applies retention periodically. On the first failure it disables itself:
/// [`failed`](Writer::failed) returns the reason, and later rows are dropped.
///
/// Dropping it commits pending rows.
#[derive(Debug)]
pub struct Writer {
    /// `None` once it has failed.
    knowledge: Option<Knowledge>,
    run: Run,
    pace: Pace,
    retention: Retention,
    pending: Vec<Row>,
    /// Time at which the first of them was added.
    since: Nanos,
    committed: u64,
    since_pruned: u64,
    failed: Option<String>,
}

impl Writer {
    /// Opens the file, creating it if missing. If that fails, the writer is disabled from the start.
    pub fn open(path: &Path, run: Run, pace: Pace, retention: Retention) -> Writer {
        let opened = Knowledge::open(path).and_then(|knowledge| knowledge.set_lock_timeout(LOCK_TIMEOUT).map(|()| knowledge));
        let (knowledge, failed) = match opened {
            Ok(knowledge) => (Some(knowledge), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (pending, since) = (Vec::new(), Nanos::ZERO);
        Writer { knowledge, run, pace, retention, pending, since, committed: 0, since_pruned: 0, failed }
    }

    /// Adds a row, and commits if due.
    pub fn write(&mut self, now: Nanos, row: impl Into<Row>) {
        if self.knowledge.is_none() {
            return;
        }
        if self.pending.is_empty() {
            self.since = now;
        }
        self.pending.push(row.into());
        self.tick(now);
    }

    /// Commits if due, without a new row.
    pub fn tick(&mut self, now: Nanos) {
        let is_due = self.pending.len() >= self.pace.rows || now - self.since >= self.pace.time;
        if !self.pending.is_empty() && is_due {
            self.since = now;
            self.commit();
        }
    }

    /// Commits pending rows. If another program holds the lock, they are kept, up to a bound.
    pub fn commit(&mut self) {
        let Some(knowledge) = &mut self.knowledge else { return };
        let rows = self.pending.len() as u64;
        let done = write_all(knowledge, &self.run, &self.pending).and_then(|()| {
            self.pending.clear();
            self.committed += rows;
            self.since_pruned += rows;
            let is_time =
                self.since_pruned >= PRUNE_EVERY || self.since_pruned >= SHRINK_EVERY && knowledge.is_beyond(&self.retention)?;
            // A shared server is pruned by its administrator.
            if is_time && knowledge.database.sqlite().is_some() {
                knowledge.prune(&self.retention)?;
                self.since_pruned = 0;
            }
            Ok(())
        });
        let bound = self.pace.rows.max(1).saturating_mul(MAX_PENDING_BATCHES);
        match done {
            Err(KnowledgeError { problem: Problem::Busy, .. }) if self.pending.len() < bound => {}
            Err(error) => self.fail(&error),
            Ok(()) => {}
        }
    }

    /// Commits pending rows, waiting for another program if necessary (for seconds at most), and closes the file.
    ///
    /// # Errors
    /// The error that disabled the writer.
    pub fn finish(mut self) -> Result<(), String> {
        self.last_commit();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Why the writer disabled itself; `None` while it works.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Number of rows committed, which survive a crash of the program.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    fn last_commit(&mut self) {
        if !self.pending.is_empty()
            && self.knowledge.as_ref().is_some_and(|knowledge| knowledge.set_lock_timeout(LAST_LOCK_TIMEOUT).is_ok())
        {
            self.commit();
        }
        if !self.pending.is_empty() {
            let path = self.knowledge.as_ref().map(|knowledge| knowledge.path().to_owned());
            self.fail(&Problem::Busy.of(&path.unwrap_or_default()));
        }
    }

    fn fail(&mut self, error: &KnowledgeError) {
        self.failed = Some(error.to_string());
        self.knowledge = None;
        self.pending = Vec::new();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.last_commit();
    }
}

impl Knowledge {
    fn set_lock_timeout(&self, timeout: Duration) -> Result<(), KnowledgeError> {
        let set = match self.database.sqlite() {
            Some(file) => file.busy_timeout(timeout).map_err(Problem::from),
            None => self.database.execute_batch(&format!("SET lock_timeout = {}", timeout.as_millis())),
        };
        set.map_err(|problem| problem.of(&self.path))
    }
}

fn write_all(knowledge: &mut Knowledge, run: &Run, rows: &[Row]) -> Result<(), KnowledgeError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut batch: Batch = knowledge.batch()?;
    for row in rows {
        batch.row(run, row)?;
    }
    batch.commit()
}
