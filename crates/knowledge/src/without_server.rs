//! In place of the client of PostgreSQL in programs that were built without it: every server is refused.

use std::path::Path;

use crate::database::{Database, Row, Value};
use crate::error::Problem;
use crate::open::Access;
use crate::schema::STEPS;

/// Schema version of this program.
pub const VERSION: u32 = STEPS.len() as u32;

/// A connection, of which there is none.
pub(crate) enum Client {}

impl Client {
    /// Runs a query and returns all rows.
    pub fn query(&mut self, _: &str, _: &[Value]) -> Result<Vec<Row>, Problem> {
        match *self {}
    }

    /// Executes a statement and returns the number of rows changed.
    pub fn execute(&mut self, _: &str, _: &[Value]) -> Result<u64, Problem> {
        match *self {}
    }

    /// Executes statements without parameters.
    pub fn execute_batch(&mut self, _: &str) -> Result<(), Problem> {
        match *self {}
    }
}

/// Refuses a server's knowledge base.
pub(super) fn open(_: &Path, _: Access) -> Result<Database, Problem> {
    Err(Problem::NoClient)
}

/// Refuses a server to exchange rows with.
pub(super) fn open_to_exchange(_: &Path, _: Option<&str>) -> Result<(Database, u32), Problem> {
    Err(Problem::NoClient)
}

pub(crate) mod address {
    use std::path::{Path, PathBuf};

    /// The address's scheme, for messages: the rest, which may hold a password, is not parsed.
    pub(crate) fn without_password(path: &Path) -> PathBuf {
        let scheme = path.to_str().and_then(|text| text.split_once("://")).map_or("", |(scheme, _)| scheme);
        PathBuf::from(format!("{scheme}://[…]"))
    }

    /// Whether there may be a password before the host.
    pub(crate) fn holds_password(path: &Path) -> bool {
        path.to_str().is_some_and(|text| text.contains('@') || text.contains("password="))
    }
}
