//! Client of the fleet server, for agents, readers and operators.

use std::path::{Path, PathBuf};

use control::fleet::{DeviceType, FleetOutcome};

use super::{ADD, COLUMNS, cells, outcome};
use crate::database::{Begin, Database, values};
use crate::error::{KnowledgeError, Problem};
use crate::{Knowledge, server};

/// A connection to a server, with the rights of the connecting role; needs no right to change tables. A server of a later version works if it still
/// accepts rows of this one.
#[derive(Debug)]
pub struct Fleet {
    pub(super) database: Database,
    pub(super) address: PathBuf,
}

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
GRANT INSERT (rollout, device, id, treated, score, windows, note) ON rollout_scores TO seekwise_agent;
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
        let shown = server::without_password(address);
        match server::open_to_exchange(address, password) {
            Ok(database) => Ok(Fleet { database, address: shown }),
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
        Ok(Fleet { database, address: path })
    }

    /// SQL that creates the roles and their rights, for administrators who run it by hand.
    pub fn roles() -> &'static str {
        ROLES.trim_start()
    }

    /// The address without a password.
    pub fn address(&self) -> &Path {
        &self.address
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

    /// The newest outcomes of other machines: at most `most` on devices of the same model, and `most / 4` on other models of the same kind.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn outcomes_of(&mut self, device: &DeviceType, own: &[u8; 16], most: u64) -> Result<Vec<FleetOutcome>, KnowledgeError> {
        self.on_server(|database| {
            let mut found = Vec::new();
            for (compared, most) in [("=", most), ("<>", most / 4)] {
                let sql = format!(
                    "SELECT {COLUMNS} FROM outcomes WHERE kind = ?1 AND model {compared} ?2 AND machine <> ?3 ORDER BY outcome DESC LIMIT ?4"
                );
                let values = values![&device.kind, &device.model, *own, i64::try_from(most).unwrap_or(i64::MAX)];
                let rows = database.query(&sql, values)?;
                // Unreadable rows are skipped: other programs may have written them.
                found.extend(rows.iter().rev().filter_map(|row| outcome(row).ok()));
            }
            Ok(found)
        })
    }

    /// All outcomes, in order of arrival.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn outcomes(&mut self) -> Result<Vec<FleetOutcome>, KnowledgeError> {
        self.on_server(|database| {
            let rows = database.query(&format!("SELECT {COLUMNS} FROM outcomes ORDER BY outcome"), &[])?;
            Ok(rows.iter().filter_map(|row| outcome(row).ok()).collect())
        })
    }

    pub(super) fn on_server<T>(&self, work: impl FnOnce(&Database) -> Result<T, Problem>) -> Result<T, KnowledgeError> {
        work(&self.database).map_err(|problem| problem.of(&self.address))
    }
}

/// Registers a machine if it is unknown; the registering role owns it.
pub(super) fn register(database: &Database, machine: &[u8; 16]) -> Result<(), Problem> {
    database.execute("INSERT INTO machines (machine) VALUES (?1) ON CONFLICT DO NOTHING", values![*machine])?;
    Ok(())
}
