//! Connects to a PostgreSQL server, and checks or migrates its tables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::config::Host;
use postgres::{Client, Config, NoTls};

use crate::database::Database;
use crate::error::Problem;
use crate::open::Access;
use crate::schema::{self, STEPS};

/// Schema version of this program.
pub const VERSION: u32 = STEPS.len() as u32;
/// Timeout of connecting, unless the address sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of unacknowledged TCP data, unless the address sets one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Advisory lock that serialises migrations: "SkWm".
const MIGRATION_LOCK: i32 = i32::from_be_bytes(*b"SkWm");

/// Opens a server's knowledge base. Writers migrate tables of an earlier version; readers require the current one.
pub(super) fn open(path: &Path, access: Access) -> Result<Database, Problem> {
    let mut database = Database::from(connect(path, None)?);
    match access {
        Access::Create | Access::Write => migrate(&mut database, access == Access::Create)?,
        Access::Read => {
            let (found, _) = version(&database)?.ok_or(Problem::NotInitialised)?;
            match found {
                _ if found > VERSION => return Err(Problem::Newer { found, known: VERSION }),
                _ if found < VERSION => return Err(Problem::ServerOlder { found, known: VERSION }),
                _ => database.execute_batch("SET default_transaction_read_only = on")?,
            }
        }
    }
    Ok(database)
}

/// Opens a server to exchange rows, without the right to change tables. A later version is accepted if it still takes rows of this one.
///
/// # Errors
/// The server does not answer or refuses the role; its version is earlier, or accepts rows of later programs only.
pub(super) fn open_to_exchange(path: &Path, password: Option<&str>) -> Result<Database, Problem> {
    let database = Database::from(connect(path, password)?);
    let (found, oldest) = version(&database)?.ok_or(Problem::NotInitialised)?;
    match found {
        _ if found < VERSION => Err(Problem::ServerOlder { found, known: VERSION }),
        _ if oldest > VERSION => Err(Problem::ProgramTooOld { oldest, known: VERSION }),
        _ => Ok(database),
    }
}

fn connect(path: &Path, password: Option<&str>) -> Result<Client, Problem> {
    let mut config = parse(path)?;
    if let Some(password) = password {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(ANSWER_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("seekwise");
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    let mut client = config.connect(NoTls)?;
    // A fixed search path: other schemas could have tables of the same names.
    client.batch_execute("SET search_path = seekwise, pg_temp; SET client_min_messages = warning; SET synchronous_commit = on")?;
    Ok(client)
}

fn parse(path: &Path) -> Result<Config, Problem> {
    let text = path.to_str().ok_or_else(|| Problem::Address("is not text in UTF-8".to_owned()))?;
    text.parse().map_err(|error: postgres::Error| {
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Problem::Address(reason)
    })
}

/// The address without password and options, for messages.
pub(super) fn without_password(path: &Path) -> PathBuf {
    let Ok(config) = parse(path) else { return PathBuf::from("postgresql://...") };
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
    };
    let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    let user = config.get_user().map_or_else(String::new, |user| format!("{user}@"));
    let name = config.get_dbname().map_or_else(String::new, |name| format!("/{name}"));
    PathBuf::from(format!("postgresql://{user}{}{port}{name}", hosts.join(",")))
}

/// Version of the tables, and the earliest program version that may write; `None` without tables.
fn version(database: &Database) -> Result<Option<(u32, u32)>, Problem> {
    if database.query_one("SELECT 1 WHERE to_regclass('seekwise.schema_version') IS NOT NULL", &[])?.is_none() {
        return Ok(None);
    }
    let row = database.query_one("SELECT version, oldest_writer FROM schema_version", &[])?;
    row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// Migrates the tables to the current version, in one transaction.
fn migrate(database: &mut Database, may_create: bool) -> Result<(), Problem> {
    let found = version(database)?;
    match found {
        None if !may_create => return Err(Problem::NotInitialised),
        Some((found, _)) if found > VERSION => return Err(Problem::Newer { found, known: VERSION }),
        Some((found, _)) if found == VERSION => return Ok(()),
        _ => {}
    }
    let transaction = database.begin(crate::database::Begin::Rows)?;
    transaction.execute_batch(&format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))?;
    // Another program may have migrated while this one waited for the lock.
    let done = match version(&transaction)? {
        Some((done, _)) => done as usize,
        None => {
            transaction.execute_batch(
                "CREATE SCHEMA IF NOT EXISTS seekwise;
                 CREATE TABLE seekwise.schema_version (version BIGINT NOT NULL, oldest_writer BIGINT NOT NULL);
                 INSERT INTO seekwise.schema_version VALUES (0, 1)",
            )?;
            0
        }
    };
    for (number, step) in STEPS.iter().enumerate().skip(done) {
        transaction.execute_batch(&schema::in_postgres(step.tables))?;
        transaction.execute_batch(step.postgres)?;
        let (version, oldest) = (number as i64 + 1, step.oldest_writer);
        transaction.execute_batch(&format!("UPDATE schema_version SET version = {version}, oldest_writer = {oldest}"))?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let shown = |text: &str| without_password(Path::new(text)).display().to_string();
        assert_eq!(shown("postgresql://ann:secret@db:5433/fleet?sslmode=disable"), "postgresql://ann@db:5433/fleet");
        assert_eq!(shown("postgresql://ann:secret@db:port/fleet"), "postgresql://...");
        let wrong = parse(Path::new("postgresql://ann@db:port/fleet")).unwrap_err();
        assert!(wrong.to_string().contains("postgresql://user@host:5432/database"), "{wrong}");
    }
}
