//! Rollouts: operators write them; agents enrol their devices and report scores.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use control::fleet::rollout::{Stages, TimedScore};

use super::Fleet;
use super::server::register;
use crate::database::{Begin, Row, values};
use crate::error::{KnowledgeError, Problem};

/// State of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Chosen devices get the setting and are compared with the others.
    Running,
    /// Waits for approval of the next stage.
    Waiting,
    /// Paused by an operator: it neither advances nor reverts.
    Paused,
    /// All stages are complete; the setting stays.
    Done,
    /// Reverted on all devices.
    Aborted,
}

impl RolloutState {
    const ALL: [RolloutState; 5] =
        [RolloutState::Running, RolloutState::Waiting, RolloutState::Paused, RolloutState::Done, RolloutState::Aborted];

    /// Name, as stored and displayed.
    pub fn name(self) -> &'static str {
        match self {
            RolloutState::Running => "running",
            RolloutState::Waiting => "waiting",
            RolloutState::Paused => "paused",
            RolloutState::Done => "done",
            RolloutState::Aborted => "aborted",
        }
    }
}

impl fmt::Display for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RolloutState {
    type Err = String;

    fn from_str(text: &str) -> Result<RolloutState, String> {
        RolloutState::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| format!("'{text}' is no state of a rollout"))
    }
}

/// Definition of a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRollout {
    /// Its name.
    pub name: String,
    /// Kind of device, as in [`DeviceType`](control::fleet::DeviceType).
    pub kind: String,
    /// Device model.
    pub model: String,
    /// The setting to roll out, as text.
    pub setting: String,
    /// Sizes of the stages.
    pub stages: Stages,
    /// Whether each stage after the first needs approval.
    pub approve: bool,
}

/// A rollout with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// Its number.
    pub number: i64,
    /// Its definition.
    pub what: NewRollout,
    /// Current stage, from 0.
    pub stage: usize,
    /// Current state.
    pub state: RolloutState,
    /// Reason for the current state.
    pub why: String,
    /// Database role that created it.
    pub writer: String,
}

/// A device enrolled in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Id of the device; only its own machine can map it to a name.
    pub device: [u8; 16],
    /// Database role of its agent.
    pub writer: String,
    /// Stage in which it was selected for treatment; `None` if it was not selected.
    pub stage: Option<usize>,
    /// Reported scores, in order of arrival.
    pub scores: Vec<TimedScore>,
    /// Latest note of its agent: why a selected device does not run the setting; empty otherwise.
    pub note: String,
}

/// A score reported by an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Random id, which makes reports idempotent.
    pub id: [u8; 16],
    /// Whether the rollout's setting was active.
    pub is_treated: bool,
    /// Mean score of the windows.
    pub score: f64,
    /// Number of windows.
    pub windows: u64,
    /// Why a selected device does not run the setting; empty otherwise. At most 64 characters.
    pub note: String,
    /// How long ago it was measured, in seconds; 0 of one that is new.
    pub age_s: f64,
}

/// The largest age of a score: a year.
const MAX_AGE_S: f64 = 31_536_000.0;

const COLUMNS: &str = "rollout, name, kind, model, setting, stages, CAST(approve AS INTEGER), stage, state, why, writer";

fn rollout(row: &Row) -> Result<Rollout, Problem> {
    let text = |column: usize| row.get::<String>(column);
    let stages: String = text(5)?;
    Ok(Rollout {
        number: row.get(0)?,
        what: NewRollout {
            name: text(1)?,
            kind: text(2)?,
            model: text(3)?,
            setting: text(4)?,
            stages: stages.parse().map_err(Problem::Damaged)?,
            approve: row.get(6)?,
        },
        stage: row.get::<u32>(7)? as usize,
        state: text(8)?.parse().map_err(Problem::Damaged)?,
        why: text(9)?,
        writer: text(10)?,
    })
}

impl Fleet {
    /// All rollouts, oldest first.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn rollouts(&self) -> Result<Vec<Rollout>, KnowledgeError> {
        self.on_server(|database| {
            let rows = database.query(&format!("SELECT {COLUMNS} FROM rollouts ORDER BY rollout"), &[])?;
            rows.iter().map(rollout).collect()
        })
    }

    /// The rollout of this name; `None` if there is none.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn rollout(&self, name: &str) -> Result<Option<Rollout>, KnowledgeError> {
        Ok(self.rollouts()?.into_iter().find(|rollout| rollout.what.name == name))
    }

    /// Creates a rollout without devices.
    ///
    /// # Errors
    /// The name is taken; the role lacks the right.
    pub fn begin_rollout(&mut self, new: &NewRollout) -> Result<(), KnowledgeError> {
        self.on_server(|database| {
            let sql = "INSERT INTO rollouts (name, kind, model, setting, stages, approve, state, why)
                       VALUES (?1, ?2, ?3, ?4, ?5, CAST(CAST(?6 AS INTEGER) AS BOOLEAN), 'running', 'devices are awaited')";
            let NewRollout { name, kind, model, setting, stages, approve } = new;
            database.execute(sql, values![name, kind, model, setting, stages.to_string(), *approve])?;
            Ok(())
        })
    }

    /// Sets stage, state and reason if stage and state are still those of `seen` (compare-and-swap). Returns false if they have changed.
    ///
    /// # Errors
    /// The role lacks the right; the server does not answer.
    pub fn move_rollout(&mut self, seen: &Rollout, stage: usize, state: RolloutState, why: &str) -> Result<bool, KnowledgeError> {
        self.on_server(|database| {
            let sql = "UPDATE rollouts SET stage = ?4, state = ?5, why = ?6 WHERE rollout = ?1 AND stage = ?2 AND state = ?3";
            let values = values![seen.number, seen.stage as i64, seen.state.name(), stage as i64, state.name(), why];
            Ok(database.execute(sql, values)? > 0)
        })
    }

    /// Selects devices for treatment in a stage.
    ///
    /// # Errors
    /// The role lacks the right; the server does not answer.
    pub fn choose(&mut self, rollout: &Rollout, stage: usize, devices: &[[u8; 16]]) -> Result<(), KnowledgeError> {
        self.on_server(|database| {
            let transaction = database.begin(Begin::Rows)?;
            for device in devices {
                let sql = "INSERT INTO rollout_members (rollout, device, stage) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
                transaction.execute(sql, values![rollout.number, *device, stage as i64])?;
            }
            transaction.commit()
        })
    }

    /// Enrolled devices, in order of selection: pseudo-random, different for each rollout.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn members(&self, rollout: &Rollout) -> Result<Vec<Member>, KnowledgeError> {
        self.on_server(|database| {
            let sql = "SELECT d.device, d.writer, m.stage FROM rollout_devices d
                       LEFT JOIN rollout_members m ON m.rollout = d.rollout AND m.device = d.device
                       WHERE d.rollout = ?1 ORDER BY md5(d.device || decode(md5(CAST(d.rollout AS TEXT)), 'hex'))";
            let mut members = Vec::new();
            for row in database.query(sql, values![rollout.number])? {
                let stage: Option<u32> = row.get(2)?;
                let (device, writer) = (row.get(0)?, row.get(1)?);
                members.push(Member {
                    device,
                    writer,
                    stage: stage.map(|stage| stage as usize),
                    scores: Vec::new(),
                    note: String::new(),
                });
            }
            let places: BTreeMap<[u8; 16], usize> =
                members.iter().enumerate().map(|(place, member): (usize, &Member)| (member.device, place)).collect();
            let age = if self.version >= 3 { " - age_s" } else { "" };
            let sql = format!(
                "SELECT device, CAST(extract(epoch FROM written) AS DOUBLE PRECISION){age} AS measured_at, CAST(treated AS INTEGER), score, note
                 FROM rollout_scores WHERE rollout = ?1 ORDER BY measured_at, id"
            );
            for row in database.query(&sql, values![rollout.number])? {
                let device: [u8; 16] = row.get(0)?;
                if let Some(member) = places.get(&device).and_then(|place| members.get_mut(*place)) {
                    member.scores.push(TimedScore { at_s: row.get(1)?, is_treated: row.get(2)?, score: row.get(3)? });
                    member.note = row.get(4)?;
                }
            }
            Ok(members)
        })
    }

    /// Enrols a device of this machine in a rollout. Returns whether it is selected for treatment.
    ///
    /// # Errors
    /// The role lacks the right; the server does not answer.
    pub fn take_part(&mut self, rollout: &Rollout, machine: &[u8; 16], device: &[u8; 16]) -> Result<bool, KnowledgeError> {
        self.on_server(|database| {
            let transaction = database.begin(Begin::Rows)?;
            register(&transaction, machine)?;
            let sql = "INSERT INTO rollout_devices (rollout, device, machine) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
            transaction.execute(sql, values![rollout.number, *device, *machine])?;
            let sql = "SELECT 1 FROM rollout_members WHERE rollout = ?1 AND device = ?2";
            let is_chosen = transaction.query_one(sql, values![rollout.number, *device])?.is_some();
            transaction.commit()?;
            Ok(is_chosen)
        })
    }

    /// Reports scores of an enrolled device. Idempotent.
    ///
    /// # Errors
    /// The role lacks the right; the server does not answer.
    pub fn report_scores(&mut self, rollout: &Rollout, device: &[u8; 16], scores: &[Score]) -> Result<(), KnowledgeError> {
        self.on_server(|database| {
            let transaction = database.begin(Begin::Rows)?;
            let (column, value) = if self.version >= 3 { (", age_s", ", ?8") } else { ("", "") };
            let sql = format!(
                "INSERT INTO rollout_scores (rollout, device, id, treated, score, windows, note{column})
                 VALUES (?1, ?2, ?3, CAST(CAST(?4 AS INTEGER) AS BOOLEAN), ?5, ?6, ?7{value}) ON CONFLICT DO NOTHING"
            );
            for Score { id, is_treated, score, windows, note, age_s } in scores {
                let windows = i64::try_from(*windows).unwrap_or(i64::MAX);
                let mut values = values![rollout.number, *device, *id, *is_treated, *score, windows, note].to_vec();
                if self.version >= 3 {
                    values.push(age_s.clamp(0.0, MAX_AGE_S).into());
                }
                transaction.execute(&sql, &values)?;
            }
            transaction.commit()
        })
    }
}
