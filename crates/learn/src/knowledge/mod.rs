//! The knowledge base: one SQLite file with windows, requests, models and decisions, the paper's log database ("Self-Learning Disk
//! Scheduling", Fig. 1).
//!
//! ```text
//!                     run (id, plant, device, source, seed, program)
//!                      │ 1:n        │ 1:n                    │ 1:n
//! Writer ──▶ Batch ──▶ window ◀┄┄┄┄ decision                request        model
//!                      setting, features, outcome            (by the request)  name, kind, JSON, features
//! ```
//! What is committed is in the file, even if the program is killed the moment after. Whoever steers a disk writes through [`Writer`],
//! which never fails: a knowledge base that cannot be written is done without.

mod error;
mod exchange;
mod lived;
mod merge;
mod open;
mod query;
mod record;
mod retention;
mod rows;
mod schema;
mod summary;
mod writer;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};

pub use error::{KnowledgeError, Problem};
pub use exchange::{ExchangeError, Form, Imported, Table};
pub use merge::Merged;
pub use query::{Filter, Rows};
pub use record::Batch;
pub use retention::{Pruned, Retention};
pub use rows::{DecisionRow, ModelRow, RequestRow, Row, Run, RunId, Stored, WindowRow};
pub use summary::{ModelSummary, SettingSummary, Summary};
pub use writer::{Pace, Writer};

use open::Access;

/// An open knowledge base. Several programs can have the same one open.
#[derive(Debug)]
pub struct Knowledge {
    connection: Connection,
    path: PathBuf,
}

impl Knowledge {
    /// Opens one for writing, and creates it where there is none. One of an earlier version becomes one of this.
    ///
    /// # Errors
    /// It is no knowledge base or one of a later version (it then stays as it is), there is no such folder, it cannot be written.
    pub fn open(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Create)
    }

    /// Opens one for writing that is there.
    ///
    /// # Errors
    /// Those of [`open`](Knowledge::open), and there is none.
    pub fn open_existing(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Write)
    }

    /// Opens one for writing that is there; `None` where there is none and one can be created.
    ///
    /// # Errors
    /// Those of [`open`](Knowledge::open).
    pub fn open_if_there(path: &Path) -> Result<Option<Knowledge>, KnowledgeError> {
        open::look(path, Access::Create).map_err(|problem| problem.of(path))?;
        if path.exists() { Knowledge::open(path).map(Some) } else { Ok(None) }
    }

    /// Opens one for reading.
    ///
    /// # Errors
    /// There is none, it is no knowledge base or one of another version, it cannot be read.
    pub fn open_to_read(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Read)
    }

    fn opened(path: &Path, access: Access) -> Result<Knowledge, KnowledgeError> {
        Ok(Knowledge { connection: open::open(path, access, schema::STEPS)?, path: path.to_owned() })
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at every page and every reference of the file.
    ///
    /// # Errors
    /// It is damaged; the message says where.
    pub fn check(&self) -> Result<(), KnowledgeError> {
        let found: String = self.read(|connection| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if found != "ok" {
            return Err(Problem::Damaged(found).of(&self.path));
        }
        let dangling: Option<String> = self.read(|connection| {
            use rusqlite::OptionalExtension;
            connection.query_row("PRAGMA foreign_key_check", [], |row| row.get(0)).optional()
        })?;
        match dangling {
            Some(table) => Err(Problem::Damaged(format!("a row of {table} refers to one that is gone")).of(&self.path)),
            None => Ok(()),
        }
    }

    /// While it lives all is read as of one moment, though others write.
    fn moment(&self) -> Result<Transaction<'_>, KnowledgeError> {
        self.connection.unchecked_transaction().map_err(|error| Problem::from(error).of(&self.path))
    }

    /// Its errors name the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, KnowledgeError> {
        work(&self.connection).map_err(|error| Problem::from(error).of(&self.path))
    }
}
