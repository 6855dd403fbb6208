//! Errors of a knowledge base, worded so that the user can act on them.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// A problem with a knowledge base, and its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct KnowledgeError {
    /// The knowledge base.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file to be read does not exist.
    #[error("there is no such file")]
    Missing,
    /// The folder of a file to be created does not exist.
    #[error("there is no folder {} to put it into", .0.display())]
    NoFolder(PathBuf),
    /// A folder, a pipe, a device.
    #[error("is {0}; a knowledge base is a file")]
    NotAFile(&'static str),
    /// A file, but another kind.
    #[error("{0}; a knowledge base is a file that seekwise wrote")]
    NotKnowledge(&'static str),
    /// A later version of the program wrote it.
    #[error("has schema version {found}, this seekwise knows those up to {known}: use the seekwise that wrote it, or a later one")]
    Newer {
        /// Its schema version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// An earlier version of the program wrote it, and it is to be read only.
    #[error("has schema version {found}, which becomes {known} when it is opened for writing: run `seekwise kb prune` on it once")]
    Older {
        /// Its schema version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It cannot be written.
    #[error("cannot be written: the file or its file system is read-only")]
    ReadOnly,
    /// The reader may not write it, and part of the data is still in its log.
    #[error("is being written, or was when that program was killed: only who may write it can read it now")]
    Unfinished,
    /// Another program held the lock until the timeout.
    #[error("another program keeps it locked; try again when that is done")]
    Busy,
    /// No room left. Its source is of kind [`io::ErrorKind::StorageFull`].
    #[error("{0}")]
    Full(#[source] io::Error),
    /// Its contents are inconsistent.
    #[error("is damaged ({0}): restore it from a copy, or move it away and begin a new one")]
    Damaged(String),
    /// A row that cannot be stored.
    #[error("{0}")]
    Value(String),
    /// The caller ended the work; nothing was changed.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// An error of the file system.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Another error of SQLite.
    #[error("SQLite says: {0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl Problem {
    /// Adds the file.
    pub(super) fn of(self, path: &Path) -> KnowledgeError {
        KnowledgeError { path: path.to_owned(), problem: self }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Problem {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
        match &error {
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => {
                return Problem::Damaged(error.to_string());
            }
            _ => {}
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Problem::NotKnowledge("is no database"),
            Some(ErrorCode::DatabaseCorrupt) => Problem::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => Problem::Full(io::Error::new(io::ErrorKind::StorageFull, "the disk is full")),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Problem::Busy,
            Some(ErrorCode::ReadOnly) => Problem::ReadOnly,
            Some(ErrorCode::OperationInterrupted) => Problem::Interrupted,
            _ => Problem::Sqlite(error),
        }
    }
}
