//! An open knowledge base: a connection to its file or server.

use std::path::{Path, PathBuf};

use crate::database::{Begin, Database, Reader, Transaction};
use crate::error::{KnowledgeError, Problem};
use crate::open::{self, Access};
use crate::schema;
use crate::server::{self, address};

/// An open knowledge base. Several programs may open the same one.
#[derive(Debug)]
pub struct Knowledge {
    pub(crate) database: Database,
    pub(crate) path: PathBuf,
}

impl Knowledge {
    /// Opens a knowledge base for writing, creating it if missing and migrating it from an earlier version. A path that begins with
    /// `postgresql://` or `postgres://` is the address of a server ([`is_server`](Knowledge::is_server)).
    ///
    /// # Errors
    /// The file is not a knowledge base or has a later version (it is then unchanged), the folder is missing, or the file cannot be
    /// written; the server does not answer or refuses the role.
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
        if Knowledge::is_server(path) {
            return Knowledge::open(path).map(Some);
        }
        open::check_type(path, Access::Create).map_err(|problem| problem.of(path))?;
        if path.exists() { Knowledge::open(path).map(Some) } else { Ok(None) }
    }

    /// Opens a knowledge base for reading.
    ///
    /// # Errors
    /// The file is missing, is not a knowledge base, has another version, or cannot be read.
    pub fn open_to_read(path: &Path) -> Result<Knowledge, KnowledgeError> {
        Knowledge::opened(path, Access::Read)
    }

    /// Whether the path is the address of a PostgreSQL server: begins with `postgresql://` or `postgres://`.
    pub fn is_server(path: &Path) -> bool {
        path.to_str().is_some_and(|text| text.starts_with("postgresql://") || text.starts_with("postgres://"))
    }

    /// Whether an address contains a password, which other users of the machine can see in a command line.
    pub fn holds_password(path: &Path) -> bool {
        Knowledge::is_server(path) && address::holds_password(path)
    }

    fn opened(path: &Path, access: Access) -> Result<Knowledge, KnowledgeError> {
        if Knowledge::is_server(path) {
            // Errors and messages must not show a password.
            let shown = address::without_password(path);
            let database = server::open(path, access).map_err(|problem| problem.of(&shown))?;
            return Ok(Knowledge { database, path: shown });
        }
        if path.to_string_lossy().contains("://") {
            let problem = Problem::Address("begins with neither postgresql:// nor postgres://".to_owned());
            return Err(problem.of(&address::without_password(path)));
        }
        Ok(Knowledge { database: open::open(path, access, schema::STEPS)?.into(), path: path.to_owned() })
    }

    /// The path as given; a server's address without the password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the integrity of every page and reference of a file. Does nothing for a server.
    ///
    /// # Errors
    /// The file is damaged; the message names the place.
    pub fn check(&self) -> Result<(), KnowledgeError> {
        if self.database.sqlite().is_none() {
            return Ok(());
        }
        let first = |sql: &str| self.read(|database| database.query_one(sql, &[])?.map(|row| row.get::<String>(0)).transpose());
        let result = first("PRAGMA integrity_check(1)")?.unwrap_or_default();
        if result != "ok" {
            return Err(Problem::Damaged(result).of(&self.path));
        }
        match first("PRAGMA foreign_key_check")? {
            Some(table) => Err(Problem::Damaged(format!("a row of {table} refers to one that is gone")).of(&self.path)),
            None => Ok(()),
        }
    }

    /// Starts a read transaction, whose reads all see one snapshot, even while others write.
    pub(crate) fn moment(&self) -> Result<Transaction<'_>, KnowledgeError> {
        self.database.begin(Begin::Reads).map_err(|problem| problem.of(&self.path))
    }

    /// Runs queries; their errors name the file.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Reader) -> Result<T, Problem>) -> Result<T, KnowledgeError> {
        work(&self.database).map_err(|problem| problem.of(&self.path))
    }

    /// Runs one transaction that writes independent rows, and commits it unless `work` fails; errors name the file.
    pub(crate) fn write<T>(&mut self, work: impl FnOnce(&Database) -> Result<T, Problem>) -> Result<T, KnowledgeError> {
        let written = self.database.begin(Begin::Rows).and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        written.map_err(|problem| problem.of(&self.path))
    }
}
