//! Writing while a disk is steered: never in the way, never a reason to stop.

use std::path::Path;
use std::time::Duration;

use block::Nanos;

use super::error::{KnowledgeError, Problem};
use super::retention::Retention;
use super::rows::{Row, Run};
use super::{Batch, Knowledge};

/// How long a commit waits for another program's transaction, while somebody may wait for the writer. It is tried again.
const PATIENCE: Duration = Duration::from_millis(50);
/// And the last commit.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// Rows after which the retention rule is applied.
const PRUNED_EVERY: u64 = 4096;
/// And if the file is too large.
const SHRUNK_EVERY: u64 = 256;
/// Batches that wait for a lock at most.
const WAITING_BATCHES: usize = 16;

/// When rows are committed: as soon as there are this many, or the first of them has waited this long. What the program has not
/// committed when it is killed is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Rows.
    pub rows: usize,
    /// By the time that the writer is told.
    pub time: Nanos,
}

impl Default for Pace {
    /// A thousand rows, or a second.
    fn default() -> Pace {
        Pace { rows: 1000, time: Nanos::from_millis(1000) }
    }
}

/// Writes one run's rows, a transaction per batch, and applies the retention rule now and then. At the first failure it turns itself
/// off: [`failed`](Writer::failed) says why, and nothing more is written or kept.
///
/// Dropping it commits what waits.
#[derive(Debug)]
pub struct Writer {
    /// `None` once it has failed.
    knowledge: Option<Knowledge>,
    run: Run,
    pace: Pace,
    retention: Retention,
    waiting: Vec<Row>,
    /// When the first of them came.
    since: Nanos,
    committed: u64,
    since_pruned: u64,
    failed: Option<String>,
}

impl Writer {
    /// Opens the file, and creates it where there is none. If that fails the writer is off from the beginning.
    pub fn open(path: &Path, run: Run, pace: Pace, retention: Retention) -> Writer {
        let opened = Knowledge::open(path).and_then(|knowledge| knowledge.be_patient(PATIENCE).map(|()| knowledge));
        let (knowledge, failed) = match opened {
            Ok(knowledge) => (Some(knowledge), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (waiting, since) = (Vec::new(), Nanos::ZERO);
        Writer { knowledge, run, pace, retention, waiting, since, committed: 0, since_pruned: 0, failed }
    }

    /// Takes a row in, and commits if it is time to.
    pub fn write(&mut self, now: Nanos, row: impl Into<Row>) {
        if self.knowledge.is_none() {
            return;
        }
        if self.waiting.is_empty() {
            self.since = now;
        }
        self.waiting.push(row.into());
        self.tick(now);
    }

    /// Commits if it is time to, though no row came.
    pub fn tick(&mut self, now: Nanos) {
        let is_due = self.waiting.len() >= self.pace.rows || now - self.since >= self.pace.time;
        if !self.waiting.is_empty() && is_due {
            self.since = now;
            self.commit();
        }
    }

    /// Commits what waits. If another program holds the file it keeps waiting, up to a bound.
    pub fn commit(&mut self) {
        let Some(knowledge) = &mut self.knowledge else { return };
        let rows = self.waiting.len() as u64;
        let done = write_all(knowledge, &self.run, &self.waiting).and_then(|()| {
            self.waiting.clear();
            self.committed += rows;
            self.since_pruned += rows;
            let is_time =
                self.since_pruned >= PRUNED_EVERY || self.since_pruned >= SHRUNK_EVERY && knowledge.is_beyond(&self.retention)?;
            if is_time {
                knowledge.prune(&self.retention)?;
                self.since_pruned = 0;
            }
            Ok(())
        });
        let bound = self.pace.rows.max(1).saturating_mul(WAITING_BATCHES);
        match done {
            Err(KnowledgeError { problem: Problem::Busy, .. }) if self.waiting.len() < bound => {}
            Err(error) => self.fail(&error),
            Ok(()) => {}
        }
    }

    /// Commits what waits, however long another program takes (within seconds), and closes the file.
    ///
    /// # Errors
    /// Why it turned itself off, if it did.
    pub fn finish(mut self) -> Result<(), String> {
        self.last_commit();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Why it turned itself off, if it did.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Rows committed so far: these are there again whatever happens to the program.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    fn last_commit(&mut self) {
        if !self.waiting.is_empty() && self.knowledge.as_ref().is_some_and(|knowledge| knowledge.be_patient(LAST_PATIENCE).is_ok())
        {
            self.commit();
        }
        if !self.waiting.is_empty() {
            let path = self.knowledge.as_ref().map(|knowledge| knowledge.path().to_owned());
            self.fail(&Problem::Busy.of(&path.unwrap_or_default()));
        }
    }

    fn fail(&mut self, error: &KnowledgeError) {
        self.failed = Some(error.to_string());
        self.knowledge = None;
        self.waiting = Vec::new();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.last_commit();
    }
}

impl Knowledge {
    fn be_patient(&self, patience: Duration) -> Result<(), KnowledgeError> {
        self.read(|connection| connection.busy_timeout(patience))
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
