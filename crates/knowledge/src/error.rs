//! Errors of a knowledge base, worded so that the user can act on them.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// An error of a knowledge base, with its path.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct KnowledgeError {
    /// Path of the file, or address of the server without the password.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub problem: Problem,
}

/// Cause of a [`KnowledgeError`].
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file to be read does not exist.
    #[error("there is no such file")]
    Missing,
    /// The folder of a file to be created does not exist.
    #[error("there is no folder {} to put it into", .0.display())]
    NoFolder(PathBuf),
    /// The path is a folder, pipe or device.
    #[error("is {0}; a knowledge base is a file")]
    NotAFile(&'static str),
    /// A file of another format.
    #[error("{0}; a knowledge base is a file that seekwise wrote")]
    NotKnowledge(&'static str),
    /// Written by a later version of the program.
    #[error("has schema version {found}, this seekwise knows those up to {known}: use the seekwise that wrote it, or a later one")]
    Newer {
        /// Schema version found.
        found: u32,
        /// Latest schema version supported.
        known: u32,
    },
    /// Written by an earlier version of the program, and opened for reading only.
    #[error("has schema version {found}, which becomes {known} when it is opened for writing: run `seekwise kb prune` on it once")]
    Older {
        /// Schema version found.
        found: u32,
        /// Latest schema version supported.
        known: u32,
    },
    /// No write access.
    #[error("cannot be written: the file or its file system is read-only")]
    ReadOnly,
    /// Part of the data is still in the write-ahead log, which needs write access to read.
    #[error("is being written, or was when that program was killed: only who may write it can read it now")]
    Unfinished,
    /// Another program held the lock until the timeout.
    #[error("another program keeps it locked; try again when that is done")]
    Busy,
    /// No space left. The source is of kind [`io::ErrorKind::StorageFull`].
    #[error("{0}")]
    Full(#[source] io::Error),
    /// The contents are inconsistent.
    #[error("is damaged ({0}): restore it from a copy, or move it away and begin a new one")]
    Damaged(String),
    /// A row that cannot be stored.
    #[error("{0}")]
    Value(String),
    /// Cancelled by the caller; nothing was changed.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The server does not answer.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The address of a server is invalid.
    #[error("is no address of a PostgreSQL server ({0}); it should be as postgresql://user@host:5432/database")]
    Address(String),
    /// TLS failed: the server's certificate, or a local file.
    #[error("cannot be reached encrypted: {0}")]
    Tls(String),
    /// A password or key file is invalid.
    #[error("{0}")]
    Secret(String),
    /// The server did not accept the role: its password, its certificate or the address that it comes from.
    #[error("{0}")]
    Login(String),
    /// The database role lacks the right.
    #[error("{0}: the role may not do this; `seekwise fleet init` makes roles, and an administrator grants them")]
    Denied(String),
    /// A server without Seekwise's tables.
    #[error("has no schema seekwise yet: run `seekwise fleet init` with a role that may create one")]
    NotInitialised,
    /// A schema of the same name belongs to another application.
    #[error("has a schema seekwise that another application made: use a database of its own for the fleet")]
    OtherSchema,
    /// The machine's id belongs to another role: the file was copied from another machine, or the role was changed.
    #[error(
        "knows this machine's id as one of the role {0}, so it takes nothing for it from this role: log in as {0}, or, if this file was copied from another machine, move it away, and the agent makes a new one"
    )]
    OtherMachine(String),
    /// The server's tables are of an earlier version, and this connection cannot migrate them.
    #[error("has schema version {found}, this program writes {known}: run `seekwise fleet init` of this version once")]
    ServerOlder {
        /// Schema version found.
        found: u32,
        /// Latest schema version supported.
        known: u32,
    },
    /// The server no longer accepts rows of this program's version.
    #[error(
        "takes rows of programs that know schema version {oldest} or later, this one knows {known}: update seekwise on this machine"
    )]
    ProgramTooOld {
        /// Earliest version accepted.
        oldest: u32,
        /// Latest schema version supported.
        known: u32,
    },
    /// Another error of PostgreSQL.
    #[error("PostgreSQL says: {0}")]
    Postgres(String),
    /// The program was built without the client of PostgreSQL.
    #[error(
        "is a PostgreSQL server, for which this program was built without a client: build it with --features postgres, or use the packages"
    )]
    NoClient,
    /// An error of the file system.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Another error of SQLite.
    #[error("SQLite says: {0}")]
    Sqlite(#[source] rusqlite::Error),
}

impl Problem {
    /// Adds the path.
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
