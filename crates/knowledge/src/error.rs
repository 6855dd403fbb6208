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
    /// An error of the file system.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Another error of SQLite.
    #[error("SQLite says: {0}")]
    Sqlite(#[source] rusqlite::Error),
}

/// Advice on failed TLS connections, by text in the libraries' messages.
const TLS_ADVICE: [(&str, &str); 5] = [
    (
        "server does not support TLS",
        "it does not encrypt; set ssl = on there, or add sslmode=disable to the address to send everything in plain text",
    ),
    ("UnknownIssuer", "name the signer of its certificate with sslrootcert=FILE"),
    ("CaUsedAsEndEntity", "name the signer of its certificate with sslrootcert=FILE, and give the server one that it signed"),
    (
        "not valid for name",
        "name the host as its certificate does (hostaddr=ADDRESS says where it is), or add sslmode=verify-ca to accept any name",
    ),
    ("tls handshake", "the server and this machine do not agree on TLS"),
];

/// Advice where the server asks for a password and there is none: the sources of [`crate::address`].
const NO_PASSWORD: &str = "the server asks for a password, and none was given: set PGPASSWORD, write it to a file that passfile=FILE in \
     the address or ~/.pgpass names, or for an agent to the file of password_file";
/// Advice where the server refuses a password. It says the same of a role without a password as of a wrong one.
const WRONG_PASSWORD: &str =
    "the password is wrong, or the role has none; an administrator sets one with `\\password ROLE` in psql";
/// Advice where a role may not log in this way.
const NO_ENTRY: &str = "check the role's name, its certificate, and the line of the server's pg_hba.conf for this role and address";

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

impl From<postgres::Error> for Problem {
    fn from(error: postgres::Error) -> Problem {
        use postgres::error::SqlState;
        let Some(answer) = error.as_db_error() else {
            // The library's own message ends at "error connecting to server", so the causes are appended.
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(next) = cause {
                let next_text = next.to_string();
                if !text.contains(&next_text) {
                    text = format!("{text}: {next_text}");
                }
                cause = next.source();
            }
            if text.contains("password missing") {
                return Problem::Login(NO_PASSWORD.to_owned());
            }
            for (sign, advice) in TLS_ADVICE {
                if text.contains(sign) {
                    return Problem::Tls(format!("{text}: {advice}"));
                }
            }
            return if error.is_closed() || text.contains("connect") || text.contains("communicating") || text.contains("timeout") {
                Problem::Unreachable(text)
            } else {
                Problem::Postgres(text)
            };
        };
        let message = answer.message().to_owned();
        match answer.code() {
            &SqlState::INVALID_PASSWORD => Problem::Login(format!("{message}: {WRONG_PASSWORD}")),
            code if code.code().starts_with("28") => Problem::Login(format!("{message}: {NO_ENTRY}")),
            &SqlState::INSUFFICIENT_PRIVILEGE => Problem::Denied(message),
            code if code.code().starts_with("22") || code.code().starts_with("23") => Problem::Value(message),
            code if code.code().starts_with("57P") || code.code().starts_with("08") => Problem::Unreachable(message),
            &SqlState::LOCK_NOT_AVAILABLE | &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Problem::Busy
            }
            &SqlState::QUERY_CANCELED => Problem::Busy,
            &SqlState::DISK_FULL => Problem::Full(io::Error::new(io::ErrorKind::StorageFull, "the server's disk is full")),
            &SqlState::TOO_MANY_CONNECTIONS => Problem::Unreachable(message),
            &SqlState::INVALID_CATALOG_NAME => Problem::Unreachable(message),
            _ => Problem::Postgres(message),
        }
    }
}
