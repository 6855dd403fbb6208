//! Rollouts: what operators write, and what agents read and answer.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use control::fleet::rollout::{Stages, TimedScore};

use super::Fleet;
use super::server::register;
use crate::database::{Begin, Row, values};
use crate::error::{KnowledgeError, Problem};

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutState {
    /// Devices get the setting, and are compared.
    Running,
    /// A person must say that it may widen.
    Waiting,
    /// It neither widens nor is taken back.
    Paused,
    /// All stages are done; the setting stays.
    Done,
    /// Taken back.
    Aborted,
}

impl RolloutState {
    const ALL: [RolloutState; 5] =
        [RolloutState::Running, RolloutState::Waiting, RolloutState::Paused, RolloutState::Done, RolloutState::Aborted];

    /// Its name.
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

/// A rollout to be begun.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRollout {
    /// Its name.
    pub name: String,
    /// The kind of devices, as outcomes name it.
    pub kind: String,
    /// Their model.
    pub model: String,
    /// The setting, as text.
    pub setting: String,
    /// Sizes of its stages.
    pub stages: Stages,
    /// Whether a person must say so before each further stage.
    pub approve: bool,
}

/// A rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// Its number.
    pub number: i64,
    /// What was begun.
    pub what: NewRollout,
    /// The stage that it is in, from 0.
    pub stage: usize,
    /// Where it stands.
    pub state: RolloutState,
    /// Why it stands there.
    pub why: String,
    /// The role that began it.
    pub writer: String,
}

/// A device that takes part in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its id, which only its machine knows the name of.
    pub device: [u8; 16],
    /// The role of its agent.
    pub writer: String,
    /// The stage for which it was chosen; `None` if it was not.
    pub stage: Option<usize>,
    /// Its scores, in the order in which they came.
    pub scores: Vec<TimedScore>,
    /// What its agent said last, if it has the setting not active although it was chosen.
    pub note: String,
}

/// A score that an agent reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Drawn when it was measured.
    pub id: [u8; 16],
    /// Whether the setting was active.
    pub is_treated: bool,
    /// The mean score of its windows.
    pub score: f64,
    /// Number of windows.
    pub windows: u64,
    /// Why the setting is not active although the device was chosen; empty otherwise.
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
    /// All rollouts, the oldest first.
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

    /// Begins a rollout, which no device has yet.
    ///
    /// # Errors
    /// There is one of this name; the role may not.
    pub fn begin_rollout(&mut self, new: &NewRollout) -> Result<(), KnowledgeError> {
        self.on_server(|database| {
            let sql = "INSERT INTO rollouts (name, kind, model, setting, stages, approve, state, why)
                       VALUES (?1, ?2, ?3, ?4, ?5, CAST(CAST(?6 AS INTEGER) AS BOOLEAN), 'running', 'devices are awaited')";
            let NewRollout { name, kind, model, setting, stages, approve } = new;
            database.execute(sql, values![name, kind, model, setting, stages.to_string(), *approve])?;
            Ok(())
        })
    }

    /// Moves a rollout on from where it was seen; false if it is elsewhere by now.
    ///
    /// # Errors
    /// The role may not; the server does not answer.
    pub fn move_rollout(&mut self, seen: &Rollout, stage: usize, state: RolloutState, why: &str) -> Result<bool, KnowledgeError> {
        self.on_server(|database| {
            let sql = "UPDATE rollouts SET stage = ?4, state = ?5, why = ?6 WHERE rollout = ?1 AND stage = ?2 AND state = ?3";
            let values = values![seen.number, seen.stage as i64, seen.state.name(), stage as i64, state.name(), why];
            Ok(database.execute(sql, values)? > 0)
        })
    }

    /// Chooses devices for a stage.
    ///
    /// # Errors
    /// The role may not; the server does not answer.
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

    /// The devices that take part, in the order in which they are chosen, which differs from rollout to rollout.
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

    /// Lets a device of this machine take part in a rollout. Returns whether it was chosen to have the setting.
    ///
    /// # Errors
    /// The role may not; the server does not answer.
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

    /// Reports scores of a device that takes part. The same score again changes nothing.
    ///
    /// # Errors
    /// The role may not; the server does not answer.
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
