//! Summary statistics of a knowledge base.

use serde::Serialize;

use super::database::{Reader, Row};
use super::error::Problem;
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
    /// Start of the first run, in seconds since 1970; `None` without runs. Runs with the time 0 are ignored.
    pub first_began_s: Option<i64>,
    /// Start of the last run, in seconds since 1970.
    pub last_began_s: Option<i64>,
    /// Start of the first run as a UTC date.
    pub first_began: Option<String>,
    /// Start of the last run as a UTC date.
    pub last_began: Option<String>,
    /// Windows.
    pub windows: u64,
    /// Decisions.
    pub decisions: u64,
    /// Requests.
    pub requests: u64,
    /// Settings with windows, sorted by plant, device and setting.
    pub settings: Vec<SettingSummary>,
    /// Models, sorted by name and time of training.
    pub models: Vec<ModelSummary>,
}

/// Statistics of a setting on a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingSummary {
    /// The kind of plant.
    pub plant: String,
    /// The device.
    pub device: String,
    /// The setting's text.
    pub setting: String,
    /// Number of windows.
    pub windows: u64,
    /// Total duration of the windows, in seconds.
    pub observed_s: f64,
}

/// A stored model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// The learner.
    pub kind: String,
    /// Time of training, in seconds since 1970.
    pub trained_s: i64,
    /// Time of training as a UTC date.
    pub trained: Option<String>,
    /// Number of its features.
    pub features: u64,
    /// Size of its JSON, in bytes.
    pub bytes: u64,
}

impl Knowledge {
    /// Summarises the contents.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn summary(&self) -> Result<Summary, KnowledgeError> {
        // One snapshot, so that the counts are consistent while others write.
        let moment = self.moment()?;
        summary(&moment).map_err(|problem| problem.of(&self.path))
    }
}

fn summary(database: &Reader) -> Result<Summary, Problem> {
    let [windows, decisions, requests, _] = counts(database)?;
    let began = database.query_one("SELECT min(began_s), max(began_s) FROM runs WHERE began_s <> 0", &[])?;
    let (first_began_s, last_began_s) =
        began.map_or(Ok((None, None)), |row| Ok::<(Option<i64>, Option<i64>), Problem>((row.get(0)?, row.get(1)?)))?;
    let version = match database.sqlite() {
        Some(_) => database.number("PRAGMA user_version", &[])?,
        None => database.number("SELECT version FROM schema_version", &[])?,
    };
    Ok(Summary {
        schema_version: u32::try_from(version).unwrap_or(u32::MAX),
        bytes: pages(database)?.0,
        runs: database.number("SELECT count(*) FROM runs", &[])?,
        first_began_s,
        last_began_s,
        first_began: first_began_s.and_then(date),
        last_began: last_began_s.and_then(date),
        windows,
        decisions,
        requests,
        settings: settings(database)?,
        models: models(database)?,
    })
}

/// Converts seconds since 1970 to a UTC date; `None` if out of range.
fn date(seconds: i64) -> Option<String> {
    chrono::DateTime::from_timestamp(seconds, 0).map(|date| date.format("%Y-%m-%d %H:%M:%S").to_string())
}

fn settings(database: &Reader) -> Result<Vec<SettingSummary>, Problem> {
    let sql = "SELECT s.plant, s.device, s.text, count(*), CAST(sum(w.to_ns - w.from_ns) AS DOUBLE PRECISION) / 1e9 FROM windows w
               JOIN settings s ON s.setting = w.setting GROUP BY s.setting, s.plant, s.device, s.text
               ORDER BY s.plant, s.device, s.text";
    let read = |row: &Row| {
        Ok(SettingSummary {
            plant: row.get(0)?,
            device: row.get(1)?,
            setting: row.get(2)?,
            windows: row.get(3)?,
            observed_s: row.get(4)?,
        })
    };
    database.query(sql, &[])?.iter().map(read).collect()
}

fn models(database: &Reader) -> Result<Vec<ModelSummary>, Problem> {
    let sql = "SELECT name, kind, trained_s, names, CAST(octet_length(json) AS BIGINT)
               FROM models JOIN feature_lists USING (list) ORDER BY name, trained_s, model";
    let read = |row: &Row| {
        let trained_s = row.get(2)?;
        let names: String = row.get(3)?;
        let names: Vec<String> = serde_json::from_str(&names).map_err(|error| Problem::Damaged(error.to_string()))?;
        Ok(ModelSummary {
            name: row.get(0)?,
            kind: row.get(1)?,
            trained_s,
            trained: Some(trained_s).filter(|seconds| *seconds != 0).and_then(date),
            features: names.len() as u64,
            bytes: row.get(4)?,
        })
    };
    database.query(sql, &[])?.iter().map(read).collect()
}
