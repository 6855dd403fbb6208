//! The machine's side: its id, its own outcomes, the outbox, and the outcomes pulled from the server.

use std::collections::BTreeMap;

use control::fleet::{DeviceType, FleetOutcome};
use sha2::{Digest as _, Sha256};

use super::{ADD, COLUMNS, Fleet, NewOutcome, Score, cells, outcome};
use crate::Knowledge;
use crate::database::{Database, Reader, values};
use crate::error::{KnowledgeError, Problem};

/// Maximum outcomes in the outbox: a month without a server at one per minute. Beyond it the oldest are dropped.
pub const MAX_OUTBOX: u64 = 50_000;
/// Own outcomes kept after delivery.
const MAX_OWN: u64 = 5_000;
/// Maximum queued scores of rollouts: a week of one device. Beyond it the oldest are dropped.
const MAX_SCORES: i64 = 1_000;
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

/// A queued score.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingScore {
    /// Name of the rollout.
    pub rollout: String,
    /// Id of the device.
    pub device: [u8; 16],
    /// The score, with its current age.
    pub score: Score,
}

impl Knowledge {
    /// Binds the file to the host with this unique id (`/etc/machine-id`), of which only a hash is stored. Returns true if the file came
    /// from another host, for example in a copied image; machine and devices then get new ids, so that two machines do not share one
    /// identity. Queued outcomes are delivered by the machine that connects first.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn claim(&mut self, host: &str) -> Result<bool, KnowledgeError> {
        self.write(|transaction| {
            let (machine, secret) = identity(transaction)?;
            let hash = |secret: [u8; 16]| Sha256::new().chain_update(secret).chain_update(host).finalize().to_vec();
            let row = transaction.query_one("SELECT host FROM machine", &[])?;
            let known: Option<Vec<u8>> = row.map_or(Ok(None), |row| row.get(0))?;
            let is_copied = known.as_ref().is_some_and(|known| *known != hash(secret));
            if is_copied {
                transaction.execute("UPDATE machine SET machine = randomblob(16), secret = randomblob(16)", &[])?;
                let (new, _) = identity(transaction)?;
                let sql = "UPDATE outcomes SET machine = ?2 WHERE machine = ?1 AND outcome IN (SELECT outcome FROM outbox)";
                transaction.execute(sql, values![machine, new])?;
                transaction.execute("DELETE FROM waiting_scores", &[])?;
                transaction.execute("DELETE FROM taking_part", &[])?;
            }
            if is_copied || known.is_none() {
                let (_, secret) = identity(transaction)?;
                transaction.execute("UPDATE machine SET host = ?1", values![hash(secret)])?;
            }
            Ok(is_copied)
        })
    }

    /// Rollouts with enrolled devices, as of the last exchange.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn taking_part(&self) -> Result<Vec<(String, [u8; 16])>, KnowledgeError> {
        self.read(|database| {
            let rows = database.query("SELECT rollout, device FROM taking_part ORDER BY rollout, device", &[])?;
            rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
        })
    }

    /// Stores the rollouts with enrolled devices. Queued scores of other rollouts are dropped.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn take_part(&mut self, rollouts: &[(String, [u8; 16])]) -> Result<(), KnowledgeError> {
        if self.taking_part()? == *rollouts {
            return Ok(());
        }
        self.write(|transaction| {
            transaction.execute("DELETE FROM taking_part", &[])?;
            for (rollout, device) in rollouts {
                transaction
                    .execute("INSERT OR IGNORE INTO taking_part (rollout, device) VALUES (?1, ?2)", values![rollout, *device])?;
            }
            transaction.execute("DELETE FROM waiting_scores WHERE rollout NOT IN (SELECT rollout FROM taking_part)", &[])?;
            Ok(())
        })
    }

    /// Queues a score measured at `now_s` (seconds since 1970) until the server confirms it; it survives restarts.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_score(&mut self, rollout: &str, device: &[u8; 16], score: &Score, now_s: u64) -> Result<(), KnowledgeError> {
        self.write(|transaction| {
            let sql = "INSERT INTO waiting_scores (id, rollout, device, treated, value, windows, note, at_s) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let windows = i64::try_from(score.windows).unwrap_or(i64::MAX);
            let at_s = i64::try_from(now_s).unwrap_or(i64::MAX);
            transaction.execute(
                sql,
                values![score.id, rollout, *device, score.is_treated, score.score, windows, &score.note, at_s],
            )?;
            let sql = "DELETE FROM waiting_scores WHERE score <= (SELECT max(score) FROM waiting_scores) - ?1";
            transaction.execute(sql, values![MAX_SCORES])?;
            Ok(())
        })
    }

    /// Queued scores, oldest first, with their age at `now_s`. The age is at least 0, even if the clock was set back.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting_scores(&self, now_s: u64) -> Result<Vec<WaitingScore>, KnowledgeError> {
        self.read(|database| {
            let sql = "SELECT rollout, device, id, treated, value, windows, note, at_s FROM waiting_scores ORDER BY score";
            let waiting = |row: &crate::database::Row| {
                let at_s: u64 = row.get(7)?;
                let score = Score {
                    id: row.get(2)?,
                    is_treated: row.get(3)?,
                    score: row.get(4)?,
                    windows: row.get(5)?,
                    note: row.get(6)?,
                    age_s: now_s.saturating_sub(at_s) as f64,
                };
                Ok(WaitingScore { rollout: row.get(0)?, device: row.get(1)?, score })
            };
            database.query(sql, &[])?.iter().map(waiting).collect()
        })
    }

    /// Removes a score that the server has confirmed or rejected.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn forget_score(&mut self, id: &[u8; 16]) -> Result<(), KnowledgeError> {
        self.write(|transaction| transaction.execute("DELETE FROM waiting_scores WHERE id = ?1", values![*id]).map(drop))
    }

    /// The id of the machine to which this file belongs, drawn when the file was created.
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
        self.write(|transaction| {
            let id = transaction.query_one("SELECT randomblob(16)", &[])?;
            let NewOutcome { day, device, load, preference, from, to, gain } = new.clone();
            let outcome = FleetOutcome {
                id: id.map_or(Ok([0; 16]), |row| row.get(0))?,
                machine: identity(transaction)?.0,
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
                forget_old(transaction, &outcome.machine)?;
            }
            Ok(())
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

    /// Delivers the outbox, then replaces the stored outcomes of other machines by the server's for these types of device. After an
    /// interruption the next call resumes.
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
        self.write(|transaction| {
            let rows = transaction.query("SELECT id, writer FROM outcomes WHERE machine <> ?1", values![own])?;
            let known: BTreeMap<[u8; 16], String> =
                rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_, Problem>>()?;
            let wanted: BTreeMap<[u8; 16], &FleetOutcome> = pulled.iter().map(|outcome| (outcome.id, outcome)).collect();
            // Most are unchanged since the last exchange and are not written again.
            for id in known.keys().filter(|id| !wanted.contains_key(*id)) {
                transaction.execute("DELETE FROM outcomes WHERE id = ?1 AND machine <> ?2", values![*id, own])?;
            }
            for outcome in pulled.iter().filter(|outcome| known.get(&outcome.id) != Some(&outcome.writer)) {
                transaction.execute(ADD, &cells(outcome)?)?;
                let sql = "UPDATE outcomes SET writer = ?2 WHERE id = ?1 AND machine <> ?3";
                transaction.execute(sql, values![outcome.id, &outcome.writer, own])?;
            }
            exchanged.known = transaction.number("SELECT count(*) FROM outcomes WHERE machine <> ?1", values![own])?;
            Ok(())
        })?;
        Ok(exchanged)
    }

    fn deliver(&mut self, fleet: &mut Fleet, exchanged: &mut Exchanged) -> Result<(), KnowledgeError> {
        loop {
            let (waiting, broken) = self.read(|database| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM outcomes WHERE outcome IN (SELECT outcome FROM outbox ORDER BY outcome LIMIT {AT_ONCE})
                     ORDER BY outcome"
                );
                let (mut waiting, mut broken): (Vec<FleetOutcome>, Vec<([u8; 16], String)>) = Default::default();
                for row in &database.query(&sql, &[])? {
                    match outcome(row) {
                        Ok(outcome) => waiting.push(outcome),
                        Err(problem) => broken.push((row.get(0)?, problem.to_string())),
                    }
                }
                Ok((waiting, broken))
            })?;
            if waiting.is_empty() && broken.is_empty() {
                return Ok(());
            }
            for (_, reason) in &broken {
                exchanged.refused += 1;
                exchanged.reason = Some(format!("{}: {reason}", self.path.display()));
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
            self.write(|transaction| {
                for id in waiting.iter().map(|one| &one.id).chain(broken.iter().map(|(id, _)| id)) {
                    transaction
                        .execute("DELETE FROM outbox WHERE outcome = (SELECT outcome FROM outcomes WHERE id = ?1)", values![*id])?;
                }
                Ok(())
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

/// The machine's id, and the secret from which device ids are derived.
fn identity(database: &Reader) -> Result<([u8; 16], [u8; 16]), Problem> {
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
