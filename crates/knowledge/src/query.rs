//! Reads rows in the order they were recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;

use super::Knowledge;
use super::database::{Row, values};
use super::error::{KnowledgeError, Problem};
use super::rows::{DecisionRow, ModelRow, RequestRow, Run, RunId, Stored, WindowRow};
use block::Nanos;
use observe::window::{Calls, WindowOutcome};

/// Rows read at a time: bounds memory, and lets other programs write between reads.
const PAGE: i64 = 1024;

/// A filter on rows; the default matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Runs on this kind of target.
    pub plant: Option<String>,
    /// Runs on this device.
    pub device: Option<String>,
    /// Windows under this setting; decisions for it.
    pub setting: Option<String>,
}

/// Iterator over rows of one kind, with their runs. Ends after an error.
pub struct Rows<'a, T: 'static> {
    knowledge: &'a Knowledge,
    filter: Filter,
    table: &'static Table<T>,
    after: i64,
    page: vec::IntoIter<Stored<T>>,
    is_done: bool,
    cache: Cache,
}

/// The query of a table. `sql` selects the row's number, the run's number, the run's columns, and the columns for `read`.
struct Table<T> {
    sql: &'static str,
    read: fn(&Row, &mut Cache) -> Result<T, Problem>,
}

/// Cache of runs and lists of features.
#[derive(Default)]
struct Cache {
    runs: BTreeMap<i64, Arc<Run>>,
    lists: BTreeMap<i64, Arc<[String]>>,
}

/// Index of a table's first own column.
const OWN: usize = 9;

macro_rules! select {
    ($key:literal, $columns:literal, $from:literal, $setting:literal) => {
        concat!(
            "SELECT ",
            $key,
            ", t.run, r.id, r.began_s, r.plant, r.device, r.source, r.seed, r.program, ",
            $columns,
            " FROM ",
            $from,
            " JOIN runs r ON r.run = t.run WHERE ",
            $key,
            " > ?1 AND (CAST(?2 AS TEXT) IS NULL OR r.plant = ?2)
            AND (CAST(?3 AS TEXT) IS NULL OR r.device = ?3) AND (CAST(?4 AS TEXT) IS NULL OR ",
            $setting,
            " = ?4) ORDER BY ",
            $key,
            " LIMIT ?5"
        )
    };
}

static WINDOWS: Table<WindowRow> = Table {
    sql: select!(
        "t.window",
        "t.number, t.from_ns, t.to_ns, s.text, t.list, l.names, t.features, t.requests, t.waited_for, t.bytes, t.mean_response_s,
         t.waited_s, t.p99_response_s, t.max_response_s, t.mean_service_s, t.fairness, t.unfinished, t.calls, t.call_bytes, t.call_waited_s",
        "windows t JOIN settings s ON s.setting = t.setting JOIN feature_lists l ON l.list = t.list",
        "s.text"
    ),
    read: window,
};

static DECISIONS: Table<DecisionRow> = Table {
    sql: select!(
        "t.decision",
        "t.number, t.at_ns, t.window_number, f.text, s.text, t.why, t.expected_gain, t.measured_gain, t.refused",
        "decisions t JOIN settings f ON f.setting = t.from_setting JOIN settings s ON s.setting = t.to_setting",
        "s.text"
    ),
    read: decision,
};

static REQUESTS: Table<RequestRow> = Table {
    sql: select!(
        "t.request",
        "t.number, t.op, t.lba, t.sectors, t.sync, t.distance, t.queued_ns, t.dispatched_ns, t.done_ns",
        "requests t",
        "NULL"
    ),
    read: request,
};

impl Knowledge {
    /// The windows.
    pub fn windows(&self, filter: &Filter) -> Rows<'_, WindowRow> {
        self.rows(&WINDOWS, filter)
    }

    /// The decisions.
    pub fn decisions(&self, filter: &Filter) -> Rows<'_, DecisionRow> {
        self.rows(&DECISIONS, filter)
    }

    /// The requests. They have no setting: a filter with a setting matches none.
    pub fn requests(&self, filter: &Filter) -> Rows<'_, RequestRow> {
        self.rows(&REQUESTS, filter)
    }

    fn rows<T>(&self, table: &'static Table<T>, filter: &Filter) -> Rows<'_, T> {
        let page = Vec::new().into_iter();
        Rows { knowledge: self, filter: filter.clone(), table, after: i64::MIN, page, is_done: false, cache: Cache::default() }
    }

    /// The models, by name, the earliest trained first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn models(&self) -> Result<Vec<ModelRow>, KnowledgeError> {
        self.read(|database| {
            let sql = "SELECT name, kind, json, trained_s, names FROM models JOIN feature_lists USING (list)
                       ORDER BY name, trained_s, model";
            database.query(sql, &[])?.iter().map(model).collect()
        })
    }

    /// The most recently trained model of this name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn latest_model(&self, name: &str) -> Result<Option<ModelRow>, KnowledgeError> {
        self.read(|database| {
            let sql = "SELECT name, kind, json, trained_s, names FROM models JOIN feature_lists USING (list) WHERE name = ?1
                       ORDER BY trained_s DESC, model DESC LIMIT 1";
            database.query_one(sql, values![name])?.as_ref().map(model).transpose()
        })
    }
}

impl<T> Rows<'_, T> {
    /// Only rows after the one with this number.
    pub(crate) fn after(self, number: i64) -> Self {
        Rows { after: number, ..self }
    }

    fn next_page(&mut self) -> Result<Vec<Stored<T>>, Problem> {
        let Filter { plant, device, setting } = &self.filter;
        let values = values![self.after, plant.as_deref(), device.as_deref(), setting.as_deref(), PAGE];
        let mut page = Vec::new();
        for row in &self.knowledge.database.query(self.table.sql, values)? {
            let place: i64 = row.get(0)?;
            if place <= self.after {
                // Only a damaged file returns rows out of order; continuing from there would never end.
                return Err(Problem::Damaged("rows are out of order".to_owned()));
            }
            self.after = place;
            let number = row.get(1)?;
            let run = match self.cache.runs.get(&number) {
                Some(run) => run.clone(),
                None => self.cache.runs.entry(number).or_insert(Arc::new(run(row, 2)?)).clone(),
            };
            page.push(Stored { run, row: (self.table.read)(row, &mut self.cache)? });
        }
        Ok(page)
    }
}

impl<T> Iterator for Rows<'_, T> {
    type Item = Result<Stored<T>, KnowledgeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.page.next() {
            return Some(Ok(row));
        }
        if self.is_done {
            return None;
        }
        match self.next_page() {
            Ok(page) => {
                self.is_done = page.is_empty();
                self.page = page.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => {
                self.is_done = true;
                Some(Err(error.of(&self.knowledge.path)))
            }
        }
    }
}

/// A run, from its seven columns.
pub(super) fn run(row: &Row, at: usize) -> Result<Run, Problem> {
    let seed = row.get::<Option<String>>(at + 5)?;
    let seed = seed.map(|seed| seed.parse().map_err(|_| Problem::Damaged(format!("'{seed}' is no seed")))).transpose()?;
    Ok(Run {
        id: RunId(row.get(at)?),
        began_s: row.get(at + 1)?,
        plant: row.get(at + 2)?,
        device: row.get(at + 3)?,
        source: row.get(at + 4)?,
        seed,
        program: row.get(at + 6)?,
    })
}

fn window(row: &Row, cache: &mut Cache) -> Result<WindowRow, Problem> {
    let (from, to) = (time(row, OWN + 1)?, time(row, OWN + 2)?);
    let list = row.get(OWN + 4)?;
    let features = match cache.lists.get(&list) {
        Some(names) => names.clone(),
        None => cache.lists.entry(list).or_insert(names(row, OWN + 5)?.into()).clone(),
    };
    let bytes: Vec<u8> = row.get(OWN + 6)?;
    if bytes.len() != features.len() * 8 {
        return Err(Problem::Damaged(format!("{} features have {} bytes of values", features.len(), bytes.len())));
    }
    let values = bytes.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(f64::from_le_bytes)).collect();
    Ok(WindowRow {
        number: row.get(OWN)?,
        from,
        to,
        setting: row.get(OWN + 3)?,
        features,
        values,
        outcome: WindowOutcome {
            duration: to - from,
            requests: row.get(OWN + 7)?,
            waited_for: row.get(OWN + 8)?,
            bytes: row.get(OWN + 9)?,
            mean_response_s: real(row, OWN + 10)?,
            waited_s: real(row, OWN + 11)?,
            p99_response_s: real(row, OWN + 12)?,
            max_response_s: real(row, OWN + 13)?,
            mean_service_s: real(row, OWN + 14)?,
            fairness: real(row, OWN + 15)?,
            unfinished: row.get(OWN + 16)?,
            calls: calls(row)?,
        },
    })
}

fn calls(row: &Row) -> Result<Option<Calls>, Problem> {
    let (done, bytes): (Option<u64>, Option<u64>) = (row.get(OWN + 17)?, row.get(OWN + 18)?);
    let waited_s = real(row, OWN + 19)?;
    Ok(done.zip(bytes).map(|(done, bytes)| Calls { done, bytes, waited_s }))
}

fn decision(row: &Row, _cache: &mut Cache) -> Result<DecisionRow, Problem> {
    Ok(DecisionRow {
        number: row.get(OWN)?,
        at: time(row, OWN + 1)?,
        window: row.get(OWN + 2)?,
        from: row.get(OWN + 3)?,
        to: row.get(OWN + 4)?,
        why: row.get(OWN + 5)?,
        expected_gain: row.get(OWN + 6)?,
        measured_gain: row.get(OWN + 7)?,
        refused: row.get(OWN + 8)?,
    })
}

fn request(row: &Row, _cache: &mut Cache) -> Result<RequestRow, Problem> {
    let letter: String = row.get(OWN + 1)?;
    Ok(RequestRow {
        number: row.get(OWN)?,
        op: super::rows::op(&letter).ok_or_else(|| Problem::Damaged(format!("'{letter}' is no operation")))?,
        lba: row.get(OWN + 2)?,
        sectors: row.get(OWN + 3)?,
        sync: row.get(OWN + 4)?,
        distance: row.get(OWN + 5)?,
        queued: time(row, OWN + 6)?,
        dispatched: time(row, OWN + 7)?,
        done: time(row, OWN + 8)?,
    })
}

fn model(row: &Row) -> Result<ModelRow, Problem> {
    Ok(ModelRow { name: row.get(0)?, kind: row.get(1)?, json: row.get(2)?, trained_s: row.get(3)?, features: names(row, 4)? })
}

fn time(row: &Row, at: usize) -> Result<Nanos, Problem> {
    row.get::<u64>(at).map(Nanos)
}

/// SQLite stores NaN as NULL.
fn real(row: &Row, at: usize) -> Result<f64, Problem> {
    Ok(row.get::<Option<f64>>(at)?.unwrap_or(f64::NAN))
}

fn names(row: &Row, at: usize) -> Result<Vec<String>, Problem> {
    serde_json::from_str(&row.get::<String>(at)?).map_err(|error| Problem::Damaged(error.to_string()))
}
