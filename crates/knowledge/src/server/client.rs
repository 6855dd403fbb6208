//! A connection to a PostgreSQL server: statements are translated and prepared once, and values and errors are converted.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::database::{Row, Value, translated};
use crate::error::Problem;

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

/// Advice where the server asks for a password and there is none: the sources of `address`.
const NO_PASSWORD: &str = "the server asks for a password, and none was given: set PGPASSWORD, write it to a file that passfile=FILE in \
     the address or ~/.pgpass names, or for an agent to the file of password_file";
/// Advice where the server refuses a password. It says the same of a role without a password as of a wrong one.
const WRONG_PASSWORD: &str =
    "the password is wrong, or the role has none; an administrator sets one with `\\password ROLE` in psql";
/// Advice where a role may not log in this way.
const NO_ENTRY: &str = "check the role's name, its certificate, and the line of the server's pg_hba.conf for this role and address";

/// A connection with its prepared statements.
pub(crate) struct Client {
    client: postgres::Client,
    prepared: BTreeMap<String, postgres::Statement>,
}

impl Client {
    /// Runs a query and returns all rows.
    pub fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Problem> {
        let statement = self.prepare(sql)?;
        let found = self.client.query(&statement, &parameters(values))?;
        let cells = |row: &postgres::Row| (0..row.len()).map(|column| row.try_get(column)).collect::<Result<_, _>>();
        Ok(found.iter().map(|row| cells(row).map(Row)).collect::<Result<_, _>>()?)
    }

    /// Executes a statement and returns the number of rows changed.
    pub fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Problem> {
        let statement = self.prepare(sql)?;
        Ok(self.client.execute(&statement, &parameters(values))?)
    }

    /// Executes statements without parameters, untranslated.
    pub fn execute_batch(&mut self, sql: &str) -> Result<(), Problem> {
        Ok(self.client.batch_execute(sql)?)
    }

    fn prepare(&mut self, sql: &str) -> Result<postgres::Statement, postgres::Error> {
        if let Some(known) = self.prepared.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(&translated(sql))?;
        self.prepared.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl From<postgres::Client> for Client {
    fn from(client: postgres::Client) -> Client {
        Client { client, prepared: BTreeMap::new() }
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

type Boxed = Box<dyn Error + Sync + Send>;

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match (self, kind) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Integer(value), &Type::INT8) => value.to_sql(kind, out),
            (Value::Integer(value), &Type::INT4) => i32::try_from(*value)?.to_sql(kind, out),
            (Value::Integer(value), &Type::FLOAT8) => (*value as f64).to_sql(kind, out),
            (Value::Real(value), &Type::FLOAT8) => value.to_sql(kind, out),
            (Value::Text(value), &Type::TEXT | &Type::VARCHAR | &Type::NAME) => value.to_sql(kind, out),
            (Value::Bytes(value), &Type::BYTEA) => value.to_sql(kind, out),
            _ => Err(format!("{self:?} cannot be a {kind}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Value, Boxed> {
        Ok(match *kind {
            Type::INT8 => Value::Integer(i64::from_sql(kind, raw)?),
            Type::INT4 => Value::Integer(i32::from_sql(kind, raw)?.into()),
            Type::BOOL => Value::Integer(bool::from_sql(kind, raw)?.into()),
            Type::FLOAT8 => Value::from(f64::from_sql(kind, raw)?),
            Type::BYTEA => Value::Bytes(raw.to_vec()),
            Type::TEXT | Type::VARCHAR | Type::NAME => Value::Text(String::from_sql(kind, raw)?),
            _ => return Err(format!("a {kind} where a number, a text or bytes should be").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Value, Boxed> {
        Ok(Value::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
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
