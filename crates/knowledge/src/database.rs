//! One interface over the two databases: an SQLite file, and a schema `seekwise` on a PostgreSQL server.
//!
//! ```text
//! SQL in SQLite's dialect ─▶ SQLite
//!                       └──▶ translated: ?1 to $1, quoted names ─▶ PostgreSQL
//! ```
//! Statements use the common subset. Code specific to one database branches on [`Database::sqlite`].

use std::cell::RefCell;
use std::fmt;

use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::error::Problem;

/// Advisory lock that serialises writers of runs, so that the rows of a transaction are numbered contiguously: "SkWs".
const WRITER_LOCK: i64 = i32::from_be_bytes(*b"SkWs") as i64;

/// A value of a cell or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Values of a statement's parameters, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::database::Value::from($value)),*][..] };
}
pub(crate) use values;

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Integer(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Integer(value.into())
    }
}

impl From<f64> for Value {
    /// NaN becomes NULL: SQLite cannot store NaN.
    fn from(value: f64) -> Value {
        if value.is_nan() { Value::Null } else { Value::Real(value) }
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Value {
        Value::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Value {
        Value::Bytes(value)
    }
}

impl From<[u8; 16]> for Value {
    fn from(value: [u8; 16]) -> Value {
        Value::Bytes(value.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

/// Types that a cell can be converted to; `None` on a mismatch.
pub(crate) trait Read: Sized {
    fn read(value: &Value) -> Option<Self>;
}

impl Read for i64 {
    fn read(value: &Value) -> Option<i64> {
        if let Value::Integer(value) = value { Some(*value) } else { None }
    }
}

impl Read for u64 {
    fn read(value: &Value) -> Option<u64> {
        i64::read(value)?.try_into().ok()
    }
}

impl Read for u32 {
    fn read(value: &Value) -> Option<u32> {
        i64::read(value)?.try_into().ok()
    }
}

impl Read for bool {
    fn read(value: &Value) -> Option<bool> {
        i64::read(value).map(|value| value != 0)
    }
}

impl Read for f64 {
    fn read(value: &Value) -> Option<f64> {
        match value {
            Value::Real(value) => Some(*value),
            Value::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }
}

impl Read for String {
    fn read(value: &Value) -> Option<String> {
        if let Value::Text(value) = value { Some(value.clone()) } else { None }
    }
}

impl Read for Vec<u8> {
    fn read(value: &Value) -> Option<Vec<u8>> {
        if let Value::Bytes(value) = value { Some(value.clone()) } else { None }
    }
}

impl Read for [u8; 16] {
    fn read(value: &Value) -> Option<[u8; 16]> {
        if let Value::Bytes(value) = value { value.as_slice().try_into().ok() } else { None }
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: &Value) -> Option<Option<T>> {
        if *value == Value::Null { Some(None) } else { T::read(value).map(Some) }
    }
}

/// A row of a result.
#[derive(Debug)]
pub(crate) struct Row(pub(crate) Vec<Value>);

impl Row {
    /// The cell in a column, counted from 0.
    pub fn get<T: Read>(&self, column: usize) -> Result<T, Problem> {
        let value = self.0.get(column).unwrap_or(&Value::Null);
        T::read(value).ok_or_else(|| Problem::Damaged(format!("column {column} of a row is {value:?}, which cannot be there")))
    }
}

/// Kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Read-only, on one snapshot.
    Reads,
    /// Writes rows of runs; excludes other writers of such rows.
    Runs,
    /// Writes independent rows.
    Rows,
}

/// A connection to an SQLite file or a PostgreSQL server, which can read and write.
#[derive(Debug)]
pub(crate) struct Database(Reader);

/// The part of a connection that runs queries only: a function that takes it changes nothing.
pub(crate) struct Reader(Backend);

enum Backend {
    Sqlite(rusqlite::Connection),
    Server(RefCell<Box<dyn Remote>>),
}

/// A connection to a server.
pub(crate) trait Remote: Send {
    /// Runs a query in SQLite's dialect and returns all rows.
    fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Problem>;

    /// Executes a statement in SQLite's dialect and returns the number of rows changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Problem>;

    /// Executes statements without parameters, untranslated.
    fn execute_batch(&mut self, sql: &str) -> Result<(), Problem>;
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if self.sqlite().is_some() { "SQLite" } else { "PostgreSQL" })
    }
}

impl From<rusqlite::Connection> for Database {
    fn from(connection: rusqlite::Connection) -> Database {
        Database(Reader(Backend::Sqlite(connection)))
    }
}

#[cfg(feature = "postgres")]
impl From<Box<dyn Remote>> for Database {
    fn from(server: Box<dyn Remote>) -> Database {
        Database(Reader(Backend::Server(RefCell::new(server))))
    }
}

impl Reader {
    /// The SQLite connection; `None` for a server.
    pub fn sqlite(&self) -> Option<&rusqlite::Connection> {
        if let Backend::Sqlite(connection) = &self.0 { Some(connection) } else { None }
    }

    /// Runs a query and returns all rows.
    pub fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Problem> {
        match &self.0 {
            Backend::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let columns = statement.column_count();
                let mut found = statement.query(rusqlite::params_from_iter(values))?;
                let mut rows = Vec::new();
                while let Some(row) = found.next()? {
                    let cells = (0..columns).map(|column| Ok(cell(row.get_ref(column)?)?)).collect::<Result<_, Problem>>()?;
                    rows.push(Row(cells));
                }
                Ok(rows)
            }
            Backend::Server(client) => client.borrow_mut().query(sql, values),
        }
    }

    /// Runs a query and returns the first row; `None` if there is none.
    pub fn query_one(&self, sql: &str, values: &[Value]) -> Result<Option<Row>, Problem> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// Runs a query and returns the number in its first column; 0 without a row.
    pub fn number(&self, sql: &str, values: &[Value]) -> Result<u64, Problem> {
        self.query_one(sql, values)?.map_or(Ok(0), |row| row.get(0))
    }
}

impl std::ops::Deref for Database {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.0
    }
}

impl Database {
    /// Executes a statement and returns the number of rows changed.
    pub fn execute(&self, sql: &str, values: &[Value]) -> Result<u64, Problem> {
        match &self.0.0 {
            Backend::Sqlite(connection) => Ok(connection.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))? as u64),
            Backend::Server(client) => client.borrow_mut().execute(sql, values),
        }
    }

    /// Executes statements without parameters, untranslated.
    pub fn execute_batch(&self, sql: &str) -> Result<(), Problem> {
        match &self.0.0 {
            Backend::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Backend::Server(client) => client.borrow_mut().execute_batch(sql),
        }
    }

    /// Begins a transaction.
    pub fn begin(&self, what: Begin) -> Result<Transaction<'_>, Problem> {
        let begin = match (self.sqlite().is_some(), what) {
            (true, Begin::Reads) => "BEGIN",
            (true, Begin::Runs | Begin::Rows) => "BEGIN IMMEDIATE",
            (false, Begin::Reads) => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            (false, Begin::Runs | Begin::Rows) => "BEGIN",
        };
        self.execute_batch(begin)?;
        let transaction = Transaction { database: self, is_open: true };
        if self.sqlite().is_none() && what == Begin::Runs {
            self.execute_batch(&format!("SELECT pg_advisory_xact_lock({WRITER_LOCK})"))?;
        }
        Ok(transaction)
    }
}

/// An open transaction; rolled back if dropped without [`commit`](Transaction::commit).
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    database: &'a Database,
    is_open: bool,
}

impl Transaction<'_> {
    /// Commits the transaction.
    pub fn commit(mut self) -> Result<(), Problem> {
        self.database.execute_batch("COMMIT")?;
        self.is_open = false;
        Ok(())
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.database
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // An error means that the connection is lost, and the server rolls back by itself.
            let _ = self.database.execute_batch("ROLLBACK");
        }
    }
}

fn cell(value: ValueRef) -> Result<Value, rusqlite::Error> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Real(value) => Value::Real(value),
        ValueRef::Text(_) => Value::Text(value.as_str().map_err(rusqlite::Error::from)?.to_owned()),
        ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
    })
}

/// Names in our schema that are reserved words in PostgreSQL.
const RESERVED: &[&str] = &["window"];

/// Translates a statement to PostgreSQL: `?1` becomes `$1`, reserved names are quoted, comments are removed. String literals are unchanged.
pub(crate) fn translated(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len() + 16);
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("--") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        }
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            _ if is_of_name(first) => rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        match word {
            "?" => out.push('$'),
            _ if RESERVED.contains(&word) => out.extend(["\"", word, "\""]),
            _ => out.push_str(word),
        }
        rest = after;
    }
    out
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_translated_outside_of_quotes() {
        let sql = "SELECT t.window, windows FROM windows t WHERE window > ?1 AND why <> '?2 window' -- it's\nAND n = ?12";
        let expected = "SELECT t.\"window\", windows FROM windows t WHERE \"window\" > $1 AND why <> '?2 window' \nAND n = $12";
        assert_eq!(translated(sql), expected);
    }

    #[test]
    fn a_cell_that_cannot_be_there_is_damage_and_no_panic() {
        let row = Row(vec![Value::Integer(-1), Value::Null]);
        assert!(matches!(row.get::<u64>(0), Err(Problem::Damaged(_))));
        assert!(matches!(row.get::<String>(1), Err(Problem::Damaged(_))));
        assert!(matches!(row.get::<i64>(7), Err(Problem::Damaged(_))));
        assert_eq!(row.get::<Option<String>>(1).unwrap(), None);
    }
}
