//! Tables as text: CSV, which can be imported again unchanged, and JSON for other programs.
//!
//! The first line names the columns. An empty cell is a missing number or text. In a feature's column, `NaN` is a feature without
//! a value, and an empty cell means that the window does not have the feature.

mod export;
mod import;

use std::io;
use std::path::PathBuf;

pub use export::Form;
pub use import::Imported;

use super::error::KnowledgeError;

/// A table that can be exported and imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Windows, with a column for each feature.
    Windows,
    /// Decisions.
    Decisions,
    /// Requests.
    Requests,
    /// Models, with their JSON.
    Models,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 4] = [Table::Windows, Table::Decisions, Table::Requests, Table::Models];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Table::Windows => "windows",
            Table::Decisions => "decisions",
            Table::Requests => "requests",
            Table::Models => "models",
        }
    }

    /// Its columns before those of the features.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Windows => {
                &["run", "began_s", "plant", "device", "source", "seed", "program", "number", "from_ns", "to_ns", "setting"]
            }
            Table::Decisions => &[
                "run",
                "began_s",
                "plant",
                "device",
                "source",
                "seed",
                "program",
                "number",
                "at_ns",
                "window",
                "from",
                "to",
                "why",
                "expected_gain",
                "measured_gain",
                "refused",
            ],
            Table::Requests => &[
                "run",
                "began_s",
                "plant",
                "device",
                "source",
                "seed",
                "program",
                "number",
                "op",
                "lba",
                "sectors",
                "sync",
                "distance_sectors",
                "queued_ns",
                "dispatched_ns",
                "done_ns",
            ],
            Table::Models => &["name", "kind", "trained_s", "features", "model"],
        }
    }

    /// Its columns after those of the features.
    fn last_columns(self) -> &'static [&'static str] {
        match self {
            Table::Windows => &[
                "outcome_requests",
                "outcome_waited_for",
                "outcome_bytes",
                "outcome_mean_response_s",
                "outcome_waited_s",
                "outcome_p99_response_s",
                "outcome_max_response_s",
                "outcome_mean_service_s",
                "outcome_fairness",
                "outcome_unfinished",
                "outcome_calls",
                "outcome_call_bytes",
                "outcome_call_waited_s",
            ],
            _ => &[],
        }
    }
}

/// Why an export or import failed.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The knowledge base.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeError),
    /// An invalid cell or line.
    #[error("{}: line {line}{}: {problem}", path.display(), place(column))]
    Text {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// From 1, and its name.
        column: Option<(usize, String)>,
        /// The fault there.
        problem: String,
    },
    /// The input cannot be read, is not UTF-8, or has a line that is too long.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The file system's error.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// A feature has the name of another column.
    #[error("feature '{0}' has the name of another column: windows with it cannot be written as a table")]
    Name(String),
    /// Cancelled by the caller; nothing was changed.
    #[error("interrupted; nothing was written")]
    Interrupted,
}

fn place(column: &Option<(usize, String)>) -> String {
    column.as_ref().map_or_else(String::new, |(number, name)| format!(", column {number} ({name})"))
}
