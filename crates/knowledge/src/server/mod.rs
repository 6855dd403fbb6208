//! Connects to a PostgreSQL server, and checks or migrates its tables.

pub(crate) mod address;
mod client;
mod tls;

use std::path::Path;
use std::time::Duration;

use postgres::NoTls;

use crate::database::Database;
use crate::error::Problem;
use crate::open::Access;
use crate::schema::{self, STEPS};

use self::address::Address;
pub(crate) use self::client::Client;

/// Schema version of this program.
pub const VERSION: u32 = STEPS.len() as u32;
/// Earliest version of a server's tables with which this program can exchange rows.
const OLDEST_SERVER: u32 = 2;
/// Timeout of connecting, unless the address sets one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of unacknowledged TCP data, unless the address sets one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout per statement. Exchanges take milliseconds; the longest statement is a migration of a large base.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);
/// Advisory lock that serialises migrations: "SkWm".
const MIGRATION_LOCK: i32 = i32::from_be_bytes(*b"SkWm");

/// Opens a server's knowledge base. Writers migrate tables of an earlier version; readers require the current one.
pub(super) fn open(path: &Path, access: Access) -> Result<Database, Problem> {
    let mut database = Database::from(Client::from(connect(path, None)?));
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

/// Opens a server to exchange rows, without the right to change tables; also returns its version. A later version is accepted if it still
/// takes rows of this one, an earlier one if it has outcomes ([`OLDEST_SERVER`]).
///
/// # Errors
/// The server does not answer or refuses the role; its version is too early, or accepts rows of later programs only.
pub(super) fn open_to_exchange(path: &Path, password: Option<&str>) -> Result<(Database, u32), Problem> {
    let database = Database::from(Client::from(connect(path, password)?));
    let (found, oldest) = version(&database)?.ok_or(Problem::NotInitialised)?;
    match found {
        _ if found < OLDEST_SERVER => Err(Problem::ServerOlder { found, known: VERSION }),
        _ if oldest > VERSION => Err(Problem::ProgramTooOld { oldest, known: VERSION }),
        _ => Ok((database, found)),
    }
}

fn connect(path: &Path, password: Option<&str>) -> Result<postgres::Client, Problem> {
    let mut address = Address::parse(path)?;
    address.add_password(password)?;
    let Address { mut config, tls, .. } = address;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(ANSWER_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("seekwise");
    }
    let mut client = match &tls {
        None => config.connect(NoTls)?,
        Some((files, names)) => {
            let connector = tls::connector(files, *names)?;
            files.key.as_deref().map_or(Ok(()), address::check_private)?;
            config.connect(connector)?
        }
    };
    // A fixed search path: other schemas could have tables of the same names.
    client.batch_execute(&format!(
        "SET search_path = seekwise, pg_temp; SET client_min_messages = warning; SET synchronous_commit = on; SET statement_timeout = {}",
        STATEMENT_TIMEOUT.as_millis()
    ))?;
    Ok(client)
}

/// Version of the tables, and the earliest program version that may write; `None` without tables.
fn version(database: &Database) -> Result<Option<(u32, u32)>, Problem> {
    if database.query_one("SELECT 1 WHERE to_regclass('seekwise.schema_version') IS NOT NULL", &[])?.is_none() {
        return Ok(None);
    }
    let row = database.query_one("SELECT version, oldest_writer FROM schema_version", &[]);
    // Tables of this name in an unknown format belong to another application.
    match row {
        Err(Problem::Postgres(_)) | Ok(None) => Err(Problem::OtherSchema),
        Ok(Some(row)) => Ok(Some((row.get(0).map_err(|_| Problem::OtherSchema)?, row.get(1).map_err(|_| Problem::OtherSchema)?))),
        Err(problem) => Err(problem),
    }
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
