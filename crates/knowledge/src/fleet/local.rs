//! The machine's side: its id, its own outcomes, the outbox, and the outcomes pulled from the server.

use control::fleet::{DeviceType, FleetOutcome};
use sha2::{Digest as _, Sha256};

use super::{ADD, COLUMNS, Fleet, NewOutcome, cells, outcome};
use crate::Knowledge;
use crate::database::{Begin, Database, values};
use crate::error::{KnowledgeError, Problem};

/// Maximum outcomes in the outbox: a month without a server at one per minute. Beyond it the oldest are dropped.
pub const MAX_OUTBOX: u64 = 50_000;
/// Own outcomes kept after delivery.
const MAX_OWN: u64 = 5_000;
/// Outcomes delivered per transaction.
const AT_ONCE: usize = 200;
/// Maximum outcomes pulled from the server per type of device.
const MAX_PULLED: u64 = 5_000;

/// Result of an exchange with the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanged {
    /// Outcomes confirmed by the server.
    pub delivered: u64,
    /// Outcomes rejected by the server; they are dropped and not retried.
    pub refused: u64,
    /// Error of the last rejected outcome; `None` if none was rejected.
    pub reason: Option<String>,
    /// Number of outcomes of other machines now stored.
    pub known: u64,
}

impl Knowledge {
    /// The id of the machine that this file belongs to, drawn at random when the file was created.
    ///
    /// # Errors
    /// The file cannot be read, or the knowledge base is a server.
    pub fn machine(&self) -> Result<[u8; 16], KnowledgeError> {
        self.read(|database| Ok(identity(database)?.0))
    }

    /// A stable id for a device of this machine: a keyed hash of its name, which cannot be reversed without this file.
    ///
    /// # Errors
    /// As [`machine`](Knowledge::machine).
    pub fn device_id(&self, name: &str) -> Result<[u8; 16], KnowledgeError> {
        self.read(|database| {
            let (_, secret) = identity(database)?;
            let digest = Sha256::new().chain_update(secret).chain_update(name).finalize();
            let mut id = [0; 16];
            id.copy_from_slice(&digest[..16]);
            Ok(id)
        })
    }

    /// Draws a random id.
    ///
    /// # Errors
    /// As [`machine`](Knowledge::machine).
    pub fn draw_id(&self) -> Result<[u8; 16], KnowledgeError> {
        self.read(|database| {
            identity(database)?;
            database.query_one("SELECT randomblob(16)", &[])?.map_or(Ok([0; 16]), |row| row.get(0))
        })
    }

    /// Records the outcome of a change and queues it for delivery, in one transaction.
    ///
    /// # Errors
    /// The outcome is invalid; the file cannot be written.
    pub fn record_outcome(&mut self, new: &NewOutcome) -> Result<(), KnowledgeError> {
        self.read(|database| {
            let transaction = database.begin(Begin::Rows)?;
            let id = transaction.query_one("SELECT randomblob(16)", &[])?;
            let NewOutcome { day, device, load, preference, from, to, gain } = new.clone();
            let outcome = FleetOutcome {
                id: id.map_or(Ok([0; 16]), |row| row.get(0))?,
                machine: identity(&transaction)?.0,
                writer: String::new(),
                day,
                device,
                load,
                preference,
                from,
                to,
                gain,
                program: format!("seekwise {}", env!("CARGO_PKG_VERSION")),
            };
            if let Some(problem) = outcome.problem() {
                return Err(Problem::Value(format!("a change from {} to {}: {problem}", outcome.from, outcome.to)));
            }
            transaction.execute(ADD, &cells(&outcome)?)?;
            transaction.execute("INSERT INTO outbox SELECT outcome FROM outcomes WHERE id = ?1", values![outcome.id])?;
            let last = transaction.number("SELECT coalesce(max(outcome), 0) FROM outbox", &[])?;
            let waiting = transaction.number("SELECT count(*) FROM outbox", &[])?;
            if waiting > MAX_OUTBOX {
                transaction.execute("DELETE FROM outbox WHERE outcome = (SELECT min(outcome) FROM outbox)", &[])?;
            }
            if last.is_multiple_of(256) {
                forget_old(&transaction, &outcome.machine)?;
            }
            transaction.commit()
        })
    }

    /// Number of outcomes not yet delivered to the server.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting_outcomes(&self) -> Result<u64, KnowledgeError> {
        self.read(|database| database.number("SELECT count(*) FROM outbox", &[]))
    }

    /// Outcomes of all machines including this one, in order of recording. Unreadable rows are skipped.
    ///
    /// # Errors
    /// The file or server cannot be read.
    pub fn outcomes(&self) -> Result<Vec<FleetOutcome>, KnowledgeError> {
        self.read(|database| {
            let rows = database.query(&format!("SELECT {COLUMNS} FROM outcomes ORDER BY outcome"), &[])?;
            Ok(rows.iter().filter_map(|row| outcome(row).ok()).collect())
        })
    }

    /// Delivers the outbox, then replaces the stored outcomes of other machines by the server's for these types of device. After an interruption the
    /// next call resumes.
    ///
    /// # Errors
    /// The server or the file fails. Outcomes confirmed before stay delivered.
    pub fn exchange(&mut self, fleet: &mut Fleet, devices: &[DeviceType]) -> Result<Exchanged, KnowledgeError> {
        let mut exchanged = Exchanged::default();
        self.deliver(fleet, &mut exchanged)?;
        let mut pulled = Vec::new();
        let own = self.machine()?;
        for device in devices {
            pulled.extend(fleet.outcomes_of(device, &own, MAX_PULLED)?);
        }
        // Invalid rows on the server must not harm this machine.
        pulled.retain(|outcome| outcome.problem().is_none());
        self.read(|database| {
            let transaction = database.begin(Begin::Rows)?;
            transaction.execute("DELETE FROM outcomes WHERE machine <> ?1", values![own])?;
            for outcome in &pulled {
                transaction.execute(ADD, &cells(outcome)?)?;
                transaction.execute("UPDATE outcomes SET writer = ?2 WHERE id = ?1", values![outcome.id, &outcome.writer])?;
            }
            exchanged.known = transaction.number("SELECT count(*) FROM outcomes WHERE machine <> ?1", values![own])?;
            transaction.commit()
        })?;
        Ok(exchanged)
    }

    fn deliver(&mut self, fleet: &mut Fleet, exchanged: &mut Exchanged) -> Result<(), KnowledgeError> {
        loop {
            let waiting = self.read(|database| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM outcomes WHERE outcome IN (SELECT outcome FROM outbox ORDER BY outcome LIMIT {AT_ONCE})
                     ORDER BY outcome"
                );
                database.query(&sql, &[])?.iter().map(outcome).collect::<Result<Vec<_>, _>>()
            })?;
            if waiting.is_empty() {
                return Ok(());
            }
            match fleet.push(&waiting) {
                Ok(()) => exchanged.delivered += waiting.len() as u64,
                // The server rejected a row of the batch: retry one by one to find it.
                Err(error) if error.problem.is_of_row() => {
                    for one in &waiting {
                        match fleet.push(std::slice::from_ref(one)) {
                            Ok(()) => exchanged.delivered += 1,
                            Err(error) if error.problem.is_of_row() => {
                                exchanged.refused += 1;
                                exchanged.reason = Some(error.to_string());
                            }
                            Err(error) => return Err(error),
                        }
                    }
                }
                Err(error) => return Err(error),
            }
            self.read(|database| {
                let transaction = database.begin(Begin::Rows)?;
                for one in &waiting {
                    transaction.execute(
                        "DELETE FROM outbox WHERE outcome = (SELECT outcome FROM outcomes WHERE id = ?1)",
                        values![one.id],
                    )?;
                }
                transaction.commit()
            })?;
        }
    }
}

impl Problem {
    /// Whether the error is caused by the row, as opposed to the connection or the role.
    fn is_of_row(&self) -> bool {
        matches!(self, Problem::Value(_))
    }
}

/// The machine's id, and the secret that device ids are derived from.
fn identity(database: &Database) -> Result<([u8; 16], [u8; 16]), Problem> {
    if database.sqlite().is_none() {
        return Err(Problem::Value("is a server, which is no machine: name the machine's own file".to_owned()));
    }
    let row = database.query_one("SELECT machine, secret FROM machine", &[])?;
    let row = row.ok_or_else(|| Problem::Damaged("the machine's id is gone".to_owned()))?;
    Ok((row.get(0)?, row.get(1)?))
}

/// Deletes the oldest delivered outcomes of this machine beyond [`MAX_OWN`].
fn forget_old(database: &Database, own: &[u8; 16]) -> Result<(), Problem> {
    database.execute(
        "DELETE FROM outcomes WHERE machine = ?1 AND outcome NOT IN (SELECT outcome FROM outbox) AND outcome NOT IN
           (SELECT outcome FROM outcomes WHERE machine = ?1 ORDER BY outcome DESC LIMIT ?2)",
        values![*own, i64::try_from(MAX_OWN).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}
