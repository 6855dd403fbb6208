//! Reads rows in the order they were recorded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec;

use block::Nanos;
use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use super::Knowledge;
use super::error::{KnowledgeError, Problem};
use super::rows::{DecisionRow, ModelRow, RequestRow, Run, RunId, Stored, WindowRow};
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
    read: fn(&Row, &mut Cache) -> rusqlite::Result<T>,
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
            " > ?1 AND (?2 IS NULL OR r.plant = ?2)
            AND (?3 IS NULL OR r.device = ?3) AND (?4 IS NULL OR ",
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
        self.read(|connection| {
            let sql = "SELECT name, kind, json, trained_s, names FROM models JOIN feature_lists USING (list)
                       ORDER BY name, trained_s, model";
            connection.prepare_cached(sql)?.query_map([], model)?.collect()
        })
    }

    /// The most recently trained model of this name.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn latest_model(&self, name: &str) -> Result<Option<ModelRow>, KnowledgeError> {
        self.read(|connection| {
            let sql = "SELECT name, kind, json, trained_s, names FROM models JOIN feature_lists USING (list) WHERE name = ?1
                       ORDER BY trained_s DESC, model DESC LIMIT 1";
            connection.prepare_cached(sql)?.query_row([name], model).optional()
        })
    }
}

impl<T> Rows<'_, T> {
    fn next_page(&mut self) -> rusqlite::Result<Vec<Stored<T>>> {
        let mut statement = self.knowledge.connection.prepare_cached(self.table.sql)?;
        let Filter { plant, device, setting } = &self.filter;
        let mut rows = statement.query(params![self.after, plant, device, setting, PAGE])?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            let place: i64 = row.get(0)?;
            if place <= self.after {
                // Only a damaged file gives rows out of order; going on from there would never end.
                let damaged = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
                return Err(rusqlite::Error::SqliteFailure(damaged, Some("rows are out of order".to_owned())));
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
                Some(Err(Problem::from(error).of(&self.knowledge.path)))
            }
        }
    }
}

/// A run, from its seven columns.
pub(super) fn run(row: &Row, at: usize) -> rusqlite::Result<Run> {
    let seed = row.get::<_, Option<String>>(at + 5)?;
    let seed =
        seed.map(|seed| seed.parse().map_err(|_| invalid(at + 5, Type::Text, format!("'{seed}' is no seed")))).transpose()?;
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

fn window(row: &Row, cache: &mut Cache) -> rusqlite::Result<WindowRow> {
    let (from, to) = (time(row, OWN + 1)?, time(row, OWN + 2)?);
    let list = row.get(OWN + 4)?;
    let features = match cache.lists.get(&list) {
        Some(names) => names.clone(),
        None => cache.lists.entry(list).or_insert(names(row, OWN + 5)?.into()).clone(),
    };
    let bytes = row.get_ref(OWN + 6)?.as_blob()?;
    if bytes.len() != features.len() * 8 {
        let problem = format!("{} features have {} bytes of values", features.len(), bytes.len());
        return Err(invalid(OWN + 6, Type::Blob, problem));
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

fn calls(row: &Row) -> rusqlite::Result<Option<Calls>> {
    let (done, bytes): (Option<u64>, Option<u64>) = (row.get(OWN + 17)?, row.get(OWN + 18)?);
    let waited_s = real(row, OWN + 19)?;
    Ok(done.zip(bytes).map(|(done, bytes)| Calls { done, bytes, waited_s }))
}

fn decision(row: &Row, _cache: &mut Cache) -> rusqlite::Result<DecisionRow> {
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

fn request(row: &Row, _cache: &mut Cache) -> rusqlite::Result<RequestRow> {
    let letter: String = row.get(OWN + 1)?;
    Ok(RequestRow {
        number: row.get(OWN)?,
        op: super::rows::op(&letter).ok_or_else(|| invalid(OWN + 1, Type::Text, format!("'{letter}' is no operation")))?,
        lba: row.get(OWN + 2)?,
        sectors: row.get(OWN + 3)?,
        sync: row.get(OWN + 4)?,
        distance: row.get(OWN + 5)?,
        queued: time(row, OWN + 6)?,
        dispatched: time(row, OWN + 7)?,
        done: time(row, OWN + 8)?,
    })
}

fn model(row: &Row) -> rusqlite::Result<ModelRow> {
    Ok(ModelRow { name: row.get(0)?, kind: row.get(1)?, json: row.get(2)?, trained_s: row.get(3)?, features: names(row, 4)? })
}

fn time(row: &Row, at: usize) -> rusqlite::Result<Nanos> {
    row.get(at).map(Nanos)
}

/// SQLite keeps NaN as NULL.
fn real(row: &Row, at: usize) -> rusqlite::Result<f64> {
    Ok(row.get::<_, Option<f64>>(at)?.unwrap_or(f64::NAN))
}

fn names(row: &Row, at: usize) -> rusqlite::Result<Vec<String>> {
    serde_json::from_str(&row.get::<_, String>(at)?).map_err(|error| invalid(at, Type::Text, error.to_string()))
}

/// The error for an impossible value.
fn invalid(at: usize, kind: Type, problem: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, kind, problem.into())
}
