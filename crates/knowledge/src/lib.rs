//! The knowledge base: an SQLite file of windows, requests, models and decisions. It is the log database of the paper
//! ("Self-Learning Disk Scheduling", Fig. 1).
//!
//! ```text
//!                     run (id, plant, device, source, seed, program)
//!                      │ 1:n        │ 1:n                    │ 1:n
//! Writer ──▶ Batch ──▶ window ◀┄┄┄┄ decision                request        model
//!                      setting, features, outcome            (by the request)  name, kind, JSON, features
//! ```
//! Committed data survives a crash of the program. A program that steers a disk writes through [`Writer`], which never fails: if
//! the knowledge base cannot be written, steering continues without it.

mod error;
mod exchange;
mod gene_pool;
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

/// An open knowledge base. Several programs may open the same one.
#[derive(Debug)]
pub struct Knowledge {
    connection: Connection,
    path: PathBuf,
}

impl Knowledge {
    /// Opens a knowledge base for writing, creating it if missing and migrating it from an earlier version.
    ///
    /// # Errors
    /// The file is not a knowledge base or is of a later version (it is then left unchanged), the folder is missing, or it cannot
    /// be written.
    pub fn open(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Create)
    }

    /// Opens an existing knowledge base for writing.
    ///
    /// # Errors
    /// Those of [`open`](Knowledge::open), or the file is missing.
    pub fn open_existing(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Write)
    }

    /// Opens an existing knowledge base for writing; `None` if there is none but one can be created.
    ///
    /// # Errors
    /// Those of [`open`](Knowledge::open).
    pub fn open_if_there(path: &Path) -> Result<Option<Knowledge>, KnowledgeError> {
        open::look(path, Access::Create).map_err(|problem| problem.of(path))?;
        if path.exists() { Knowledge::open(path).map(Some) } else { Ok(None) }
    }

    /// Opens a knowledge base for reading.
    ///
    /// # Errors
    /// The file is missing, is not a knowledge base, is of another version, or cannot be read.
    pub fn open_to_read(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Read)
    }

    fn opened(path: &Path, access: Access) -> Result<Knowledge, KnowledgeError> {
        Ok(Knowledge { connection: open::open(path, access, schema::STEPS)?, path: path.to_owned() })
    }

    /// The path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks every page and every reference of the file.
    ///
    /// # Errors
    /// The file is damaged; the message says where.
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

    /// Starts a read transaction: all reads see one snapshot, even while others write.
    fn moment(&self) -> Result<Transaction<'_>, KnowledgeError> {
        self.connection.unchecked_transaction().map_err(|error| Problem::from(error).of(&self.path))
    }

    /// Runs a read; its errors name the file.
    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, KnowledgeError> {
        work(&self.connection).map_err(|error| Problem::from(error).of(&self.path))
    }
}
