//! Client of the fleet server, for agents, readers and operators.

use std::path::{Path, PathBuf};

use control::fleet::{DeviceType, FleetOutcome};

use super::{ADD, COLUMNS, PLACE, cells, outcome};
use crate::Knowledge;
use crate::database::{Begin, Database, values};
use crate::error::{KnowledgeError, Problem};
use crate::server::{self, address};

/// A connection to a server, with the rights of the connecting role, which needs no right to change tables. A server of a later version
/// works if it still accepts rows of this one.
#[derive(Debug)]
pub struct Fleet {
    pub(super) database: Database,
    pub(super) address: PathBuf,
    /// Schema version of the server's tables.
    pub(super) version: u32,
}

/// Number of newest outcomes searched for other models of a kind.
const OTHER_MODELS_AMONG: i64 = 200_000;
/// Minimum number of outcomes pulled per role if there are many roles.
const MIN_OF_ROLE: u64 = 5;
/// Maximum age of pulled outcomes in days, by the server's clock: kernels and firmware change over longer times.
const MAX_AGE_DAYS: i64 = 730;
/// Maximum bytes of outcomes pulled per type of device.
const MAX_BYTES: i64 = 8 << 20;
/// Rows per page.
const PAGE: i64 = 1_000;

/// The newest outcomes of each role for a model. Roles are found by a loose index scan, with one look-up each.
const OF_MODEL: &str = "
WITH RECURSIVE roles(writer) AS (
  SELECT min(writer) FROM outcomes WHERE kind = ?1 AND model = ?2
  UNION ALL
  SELECT (SELECT min(o.writer) FROM outcomes o WHERE o.kind = ?1 AND o.model = ?2 AND o.writer > roles.writer) FROM roles WHERE roles.writer IS NOT NULL
), many(count) AS (SELECT greatest(count(*), 1) FROM roles WHERE writer IS NOT NULL)
SELECT COLUMNS FROM (
  SELECT newest.*, sum(octet_length(load) + octet_length(from_setting) + octet_length(to_setting) + 256) OVER (ORDER BY outcome DESC) AS bytes
  FROM roles, many, LATERAL (
    SELECT * FROM outcomes o WHERE o.kind = ?1 AND o.model = ?2 AND o.writer = roles.writer AND o.machine <> ?3 AND AGE
    ORDER BY o.outcome DESC LIMIT greatest(?4 / many.count, ?5)
  ) newest WHERE roles.writer IS NOT NULL
) bounded WHERE bytes <= ?6 ORDER BY outcome DESC LIMIT ?4";

/// The newest outcomes of other models of a kind.
const OF_KIND: &str = "
SELECT COLUMNS FROM (
  SELECT o.*, sum(octet_length(load) + octet_length(from_setting) + octet_length(to_setting) + 256) OVER (ORDER BY outcome DESC) AS bytes
  FROM outcomes o WHERE o.kind = ?1 AND o.model <> ?2 AND o.machine <> ?3 AND AGE
    AND o.outcome > (SELECT max(outcome) FROM outcomes) - ?5
) bounded WHERE bytes <= ?6 ORDER BY outcome DESC LIMIT ?4";

/// Group roles without login, created by `seekwise fleet init`. An administrator grants them to login roles.
const ROLES: &str = "
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'seekwise_reader') THEN CREATE ROLE seekwise_reader NOLOGIN; END IF;
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'seekwise_agent') THEN CREATE ROLE seekwise_agent NOLOGIN; END IF;
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'seekwise_operator') THEN CREATE ROLE seekwise_operator NOLOGIN; END IF;
END $$;
GRANT USAGE ON SCHEMA seekwise TO seekwise_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA seekwise TO seekwise_reader;
GRANT USAGE ON SCHEMA seekwise TO seekwise_agent;
GRANT SELECT ON schema_version, machines, outcomes, rollouts, rollout_devices, rollout_members TO seekwise_agent;
GRANT INSERT (machine) ON machines TO seekwise_agent;
GRANT INSERT (id, machine, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program) ON outcomes TO seekwise_agent;
GRANT INSERT (rollout, device, machine) ON rollout_devices TO seekwise_agent;
GRANT INSERT (rollout, device, id, treated, score, windows, note, age_s) ON rollout_scores TO seekwise_agent;
GRANT seekwise_reader TO seekwise_operator;
GRANT INSERT (name, kind, model, setting, stages, approve, state, why), UPDATE (stage, state, why) ON rollouts TO seekwise_operator;
GRANT INSERT ON rollout_members TO seekwise_operator;
GRANT USAGE ON SEQUENCE rollouts_rollout_seq, outcomes_outcome_seq TO seekwise_operator, seekwise_agent;
";

impl Fleet {
    /// Connects to a server.
    ///
    /// # Errors
    /// The address is invalid, the server does not answer or refuses the role, or the version of its tables is incompatible with this program.
    pub fn connect(address: &Path) -> Result<Fleet, KnowledgeError> {
        Fleet::connect_with_password(address, None)
    }

    /// As [`connect`](Fleet::connect), with a password that is not part of the address.
    ///
    /// # Errors
    /// As [`connect`](Fleet::connect).
    pub fn connect_with_password(address: &Path, password: Option<&str>) -> Result<Fleet, KnowledgeError> {
        let shown = address::without_password(address);
        match server::open_to_exchange(address, password) {
            Ok((database, version)) => Ok(Fleet { database, address: shown, version }),
            Err(problem) => Err(problem.of(&shown)),
        }
    }

    /// Creates the tables or migrates them from an earlier version, and creates the roles with their rights.
    ///
    /// # Errors
    /// The server does not answer; the role may not create schemas or roles.
    pub fn init(address: &Path) -> Result<Fleet, KnowledgeError> {
        let Knowledge { database, path } = Knowledge::open(address)?;
        let made = database.begin(Begin::Rows).and_then(|transaction| {
            transaction.execute_batch(ROLES)?;
            transaction.commit()
        });
        made.map_err(|problem| problem.of(&path))?;
        Ok(Fleet { database, address: path, version: server::VERSION })
    }

    /// SQL that creates the roles and their rights, for administrators who run it by hand.
    pub fn roles() -> &'static str {
        ROLES.trim_start()
    }

    /// The address without a password.
    pub fn address(&self) -> &Path {
        &self.address
    }

    /// Whether the connection is encrypted, according to the server.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn is_encrypted(&self) -> Result<bool, KnowledgeError> {
        self.on_server(|database| {
            let sql = "SELECT CAST(ssl AS INTEGER) FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            database.query_one(sql, &[])?.map_or(Ok(false), |row| row.get(0))
        })
    }

    /// Inserts outcomes in one transaction; those that exist are ignored.
    ///
    /// # Errors
    /// The server rejects an outcome or does not answer; then none is inserted.
    pub fn push(&mut self, outcomes: &[FleetOutcome]) -> Result<(), KnowledgeError> {
        self.on_server(|database| {
            let transaction = database.begin(Begin::Rows)?;
            let mut machines: Vec<&[u8; 16]> = outcomes.iter().map(|outcome| &outcome.machine).collect();
            machines.sort_unstable();
            machines.dedup();
            for machine in machines {
                register(&transaction, machine)?;
            }
            for outcome in outcomes {
                transaction.execute(ADD, &cells(outcome)?)?;
            }
            transaction.commit()
        })
    }

    /// Outcomes of other machines, in order of arrival: at most `most` on devices of the same model, the newest of each role, so that no
    /// role displaces the others; and the newest `most / 4` on other models of the same kind.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn outcomes_of(&mut self, device: &DeviceType, own: &[u8; 16], most: u64) -> Result<Vec<FleetOutcome>, KnowledgeError> {
        let age = if self.version >= 3 { format!("o.written >= CURRENT_DATE - {MAX_AGE_DAYS}") } else { "true".to_owned() };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.on_server(|database| {
            let mut found = Vec::new();
            for (sql, most, fifth) in [(OF_MODEL, most, MIN_OF_ROLE as i64), (OF_KIND, most / 4, OTHER_MODELS_AMONG)] {
                let sql = sql.replace("COLUMNS", COLUMNS).replace("AGE", &age);
                let rows = database.query(&sql, values![&device.kind, &device.model, *own, most, fifth, MAX_BYTES])?;
                // Unreadable rows are skipped: other programs may have written them.
                found.extend(rows.iter().rev().filter_map(|row| outcome(row).ok()));
            }
            Ok(found)
        })
    }

    /// Calls `take` with each outcome, in order of arrival, reading page by page. Returns the number of unreadable rows.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn each_outcome(&mut self, take: &mut dyn FnMut(FleetOutcome)) -> Result<u64, KnowledgeError> {
        self.on_server(|database| {
            let (mut last, mut broken) = (i64::MIN, 0);
            let sql = format!("SELECT {COLUMNS}, outcome FROM outcomes WHERE outcome > ?1 ORDER BY outcome LIMIT ?2");
            loop {
                let rows = database.query(&sql, values![last, PAGE])?;
                let Some(row) = rows.last() else { return Ok(broken) };
                last = row.get(PLACE)?;
                for row in &rows {
                    match outcome(row) {
                        Ok(outcome) => take(outcome),
                        Err(_) => broken += 1,
                    }
                }
            }
        })
    }

    /// All outcomes.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn outcomes(&mut self) -> Result<Vec<FleetOutcome>, KnowledgeError> {
        let mut outcomes = Vec::new();
        self.each_outcome(&mut |outcome| outcomes.push(outcome))?;
        Ok(outcomes)
    }

    pub(super) fn on_server<T>(&self, work: impl FnOnce(&Database) -> Result<T, Problem>) -> Result<T, KnowledgeError> {
        work(&self.database).map_err(|problem| problem.of(&self.address))
    }
}

/// Registers a machine if it is unknown; the registering role owns it.
pub(super) fn register(database: &Database, machine: &[u8; 16]) -> Result<(), Problem> {
    database.execute("INSERT INTO machines (machine) VALUES (?1) ON CONFLICT DO NOTHING", values![*machine])?;
    let sql = "SELECT writer FROM machines WHERE machine = ?1 AND writer <> current_user";
    match database.query_one(sql, values![*machine])? {
        Some(row) => Err(Problem::OtherMachine(row.get(0)?)),
        None => Ok(()),
    }
}
