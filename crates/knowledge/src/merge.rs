//! Copies all rows of one knowledge base into another.

use std::fs;

use super::error::{KnowledgeError, Problem};
use super::query::Filter;
use super::{Batch, Knowledge};

/// Result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Windows, decisions, requests and models added.
    pub new: u64,
    /// Rows that existed already.
    pub known: u64,
}

impl Knowledge {
    /// Copies all rows of `others` that are missing here (by run and number), in one transaction; features are matched by name. `proceed`
    /// is called periodically with the number of rows read; returning false cancels the merge.
    ///
    /// # Errors
    /// A source is this file or cannot be read; two different runs have the same id; this file cannot be written; `proceed` returned false.
    pub fn merge(&mut self, others: &[Knowledge], proceed: &mut dyn FnMut(u64) -> bool) -> Result<Merged, KnowledgeError> {
        for other in others {
            let is_same = |one: &Knowledge, other: &Knowledge| match one.database.sqlite().or(other.database.sqlite()) {
                Some(_) => {
                    fs::canonicalize(&one.path).is_ok_and(|path| fs::canonicalize(&other.path).is_ok_and(|other| path == other))
                }
                None => one.path == other.path,
            };
            if is_same(self, other) {
                return Err(Problem::Value("cannot be merged into itself".into()).of(&other.path));
            }
        }
        let path = self.path.clone();
        let mut batch = self.batch()?;
        let mut merged = Merged::default();
        for other in others {
            other.add_to(&mut batch, &mut |is_new| {
                *if is_new { &mut merged.new } else { &mut merged.known } += 1;
                let rows = merged.new + merged.known;
                if rows.is_multiple_of(1024) && !proceed(rows) { Err(Problem::Interrupted.of(&path)) } else { Ok(()) }
            })?;
        }
        batch.commit()?;
        Ok(merged)
    }

    fn add_to(&self, batch: &mut Batch, count: &mut dyn FnMut(bool) -> Result<(), KnowledgeError>) -> Result<(), KnowledgeError> {
        // One snapshot: a run's decisions must not arrive without its windows.
        let _moment = self.moment()?;
        let all = Filter::default();
        for stored in self.windows(&all) {
            let stored = stored?;
            count(batch.window(&stored.run, &stored.row)?)?;
        }
        for stored in self.decisions(&all) {
            let stored = stored?;
            count(batch.decision(&stored.run, &stored.row)?)?;
        }
        for stored in self.requests(&all) {
            let stored = stored?;
            count(batch.request(&stored.run, &stored.row)?)?;
        }
        for model in self.models()? {
            count(batch.model(&model)?)?;
        }
        Ok(())
    }
}
