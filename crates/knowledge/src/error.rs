//! Errors of a knowledge base, worded so that the user can act on them.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Something is wrong with this file.
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
    /// It was to be read.
    #[error("there is no such file")]
    Missing,
    /// It was to be created.
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
    /// It was to be written.
    #[error("cannot be written: the file or its file system is read-only")]
    ReadOnly,
    /// It was to be read by somebody who may not write it, and part of it is in its log still.
    #[error("is being written, or was when that program was killed: only who may write it can read it now")]
    Unfinished,
    /// Another program kept it locked for longer than one waits.
    #[error("another program keeps it locked; try again when that is done")]
    Busy,
    /// No room left. Its source is of kind [`io::ErrorKind::StorageFull`].
    #[error("{0}")]
    Full(#[source] io::Error),
    /// What is in it cannot be.
    #[error("is damaged ({0}): restore it from a copy, or move it away and begin a new one")]
    Damaged(String),
    /// A row that it has no place for.
    #[error("{0}")]
    Value(String),
    /// The work was to stop; nothing was changed.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The file system said no.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// SQLite said no.
    #[error("SQLite says: {0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl Problem {
    /// Of this file.
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
