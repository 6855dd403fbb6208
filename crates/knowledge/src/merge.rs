//! Copies all rows of one knowledge base into another.

use std::fs;

use super::error::{KnowledgeError, Problem};
use super::query::Filter;
use super::{Batch, Knowledge};

/// What came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Windows, decisions, requests and models that were not there.
    pub new: u64,
    /// And those that were.
    pub known: u64,
}

impl Knowledge {
    /// Takes in all that is in the others: what is there already (by its run and number) not twice, lists of features matched by
    /// their names. All or nothing. `proceed` is asked now and then with the rows read so far; false ends it.
    ///
    /// # Errors
    /// One of them is this file, one cannot be read, two runs have one id, this file cannot be written; it was told to end.
    pub fn merge(&mut self, others: &[Knowledge], proceed: &mut dyn FnMut(u64) -> bool) -> Result<Merged, KnowledgeError> {
        for other in others {
            if fs::canonicalize(&self.path).ok() == fs::canonicalize(&other.path).ok() {
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
        // As of one moment: a run's decisions without its windows would be half of it.
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
