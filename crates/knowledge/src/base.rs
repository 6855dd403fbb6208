//! An open knowledge base: a connection to its file.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};

use crate::error::{KnowledgeError, Problem};
use crate::open::{self, Access};
use crate::schema;

/// An open knowledge base. Several programs may open the same one.
#[derive(Debug)]
pub struct Knowledge {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
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
        open::check_type(path, Access::Create).map_err(|problem| problem.of(path))?;
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
        let result: String = self.read(|connection| connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if result != "ok" {
            return Err(Problem::Damaged(result).of(&self.path));
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
    pub(crate) fn moment(&self) -> Result<Transaction<'_>, KnowledgeError> {
        self.connection.unchecked_transaction().map_err(|error| Problem::from(error).of(&self.path))
    }

    /// Runs a read; its errors name the file.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, KnowledgeError> {
        work(&self.connection).map_err(|error| Problem::from(error).of(&self.path))
    }
}
