//! Summary statistics of a knowledge base.

use rusqlite::Connection;
use serde::Serialize;

use super::retention::{counts, pages};
use super::{Knowledge, KnowledgeError};

/// Contents of a knowledge base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Its schema version.
    pub schema_version: u32,
    /// The file's size, in bytes.
    pub bytes: u64,
    /// Runs.
    pub runs: u64,
    /// When the first run began, in seconds since 1970. Runs that say 0 are left out.
    pub first_began_s: Option<i64>,
    /// The same for the last run.
    pub last_began_s: Option<i64>,
    /// The same as dates of UTC.
    pub first_began: Option<String>,
    /// The same for the last run.
    pub last_began: Option<String>,
    /// Windows.
    pub windows: u64,
    /// Decisions.
    pub decisions: u64,
    /// Requests.
    pub requests: u64,
    /// The settings of windows, by plant, device and setting.
    pub settings: Vec<SettingSummary>,
    /// The models, by name, the earliest trained first.
    pub models: Vec<ModelSummary>,
}

/// Observations of a setting on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingSummary {
    /// The kind of plant.
    pub plant: String,
    /// The device.
    pub device: String,
    /// The setting's text.
    pub setting: String,
    /// Windows under it.
    pub windows: u64,
    /// Their durations together, in seconds.
    pub observed_s: f64,
}

/// A stored model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// The learner.
    pub kind: String,
    /// When it was trained, in seconds since 1970.
    pub trained_s: i64,
    /// The same as a date of UTC.
    pub trained: Option<String>,
    /// Number of its features.
    pub features: u64,
    /// The size of its JSON, in bytes.
    pub bytes: u64,
}

impl Knowledge {
    /// Counts what is in it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn summary(&self) -> Result<Summary, KnowledgeError> {
        self.read(|connection| {
            // All of it as of one moment, though others write.
            let moment = connection.unchecked_transaction()?;
            summary(&moment)
        })
    }
}

fn summary(connection: &Connection) -> rusqlite::Result<Summary> {
    let [windows, decisions, requests, _] = counts(connection)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get(0));
    let (first_began_s, last_began_s, first_began, last_began) = connection.query_row(
        "SELECT min(began_s), max(began_s), datetime(min(began_s), 'unixepoch'), datetime(max(began_s), 'unixepoch')
         FROM runs WHERE began_s <> 0",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    Ok(Summary {
        schema_version: number("PRAGMA user_version")?,
        bytes: pages(connection)?.0,
        runs: connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0))?,
        first_began_s,
        last_began_s,
        first_began,
        last_began,
        windows,
        decisions,
        requests,
        settings: settings(connection)?,
        models: models(connection)?,
    })
}

fn settings(connection: &Connection) -> rusqlite::Result<Vec<SettingSummary>> {
    let sql = "SELECT s.plant, s.device, s.text, count(*), total(w.to_ns - w.from_ns) / 1e9 FROM windows w
               JOIN settings s ON s.setting = w.setting GROUP BY w.setting ORDER BY s.plant, s.device, s.text";
    let read = |row: &rusqlite::Row| {
        Ok(SettingSummary {
            plant: row.get(0)?,
            device: row.get(1)?,
            setting: row.get(2)?,
            windows: row.get(3)?,
            observed_s: row.get(4)?,
        })
    };
    connection.prepare(sql)?.query_map([], read)?.collect()
}

fn models(connection: &Connection) -> rusqlite::Result<Vec<ModelSummary>> {
    let sql = "SELECT name, kind, trained_s, CASE WHEN trained_s <> 0 THEN datetime(trained_s, 'unixepoch') END,
                 json_array_length(names), length(CAST(json AS BLOB))
               FROM models JOIN feature_lists USING (list) ORDER BY name, trained_s, model";
    let read = |row: &rusqlite::Row| {
        Ok(ModelSummary {
            name: row.get(0)?,
            kind: row.get(1)?,
            trained_s: row.get(2)?,
            trained: row.get(3)?,
            features: row.get(4)?,
            bytes: row.get(5)?,
        })
    };
    connection.prepare(sql)?.query_map([], read)?.collect()
}
