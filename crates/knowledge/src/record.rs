//! Writes rows; a batch is a transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Knowledge;
use super::database::{Begin, Database, Transaction, Value, values};
use super::error::{KnowledgeError, Problem};
use super::rows::{self, DecisionRow, ModelRow, RequestRow, Row, Run, RunId, WindowRow};
use block::Nanos;

/// Rows committed together; dropping a batch without [`commit`](Batch::commit) rolls it back.
#[derive(Debug)]
pub struct Batch<'a> {
    transaction: Transaction<'a>,
    path: &'a Path,
    runs: BTreeMap<RunId, i64>,
    settings: BTreeMap<(i64, String), i64>,
    lists: BTreeMap<Vec<String>, i64>,
}

impl Knowledge {
    /// Begins a batch. Other programs cannot write until it ends.
    ///
    /// # Errors
    /// Another program held the write lock for too long.
    pub fn batch(&mut self) -> Result<Batch<'_>, KnowledgeError> {
        let Knowledge { database, path } = self;
        let transaction = database.begin(Begin::Runs).map_err(|problem| problem.of(path))?;
        Ok(Batch { transaction, path, runs: BTreeMap::new(), settings: BTreeMap::new(), lists: BTreeMap::new() })
    }
}

impl Batch<'_> {
    /// Records a run. Recording a row also records its run.
    ///
    /// # Errors
    /// A different run with this id exists; the file cannot be written.
    pub fn run(&mut self, run: &Run) -> Result<(), KnowledgeError> {
        self.run_row(run).map(drop).map_err(|problem| problem.of(self.path))
    }

    /// Records a window; false if the run already has one with this number.
    ///
    /// # Errors
    /// A feature is named twice or not at all, a number is beyond 2^63-1; the file cannot be written.
    pub fn window(&mut self, run: &Run, window: &WindowRow) -> Result<bool, KnowledgeError> {
        self.window_row(run, window).map_err(|problem| problem.of(self.path))
    }

    /// Records a decision; false if the run already has one with this number. A measured gain is then added if the stored one has none.
    ///
    /// # Errors
    /// A number is beyond 2^63-1; the file cannot be written.
    pub fn decision(&mut self, run: &Run, decision: &DecisionRow) -> Result<bool, KnowledgeError> {
        self.decision_row(run, decision).map_err(|problem| problem.of(self.path))
    }

    /// Records a request; false if the run already has one with this number.
    ///
    /// # Errors
    /// A number is beyond 2^63-1; the file cannot be written.
    pub fn request(&mut self, run: &Run, request: &RequestRow) -> Result<bool, KnowledgeError> {
        self.request_row(run, request).map_err(|problem| problem.of(self.path))
    }

    /// Records a model; false if an identical one exists.
    ///
    /// # Errors
    /// It is not JSON, a feature is named twice or not at all; the file cannot be written.
    pub fn model(&mut self, model: &ModelRow) -> Result<bool, KnowledgeError> {
        self.model_row(model).map_err(|problem| problem.of(self.path))
    }

    /// Records a row; false if it already exists. The run of a model is not stored.
    ///
    /// # Errors
    /// Those of [`window`](Batch::window), [`decision`](Batch::decision), [`request`](Batch::request) and [`model`](Batch::model).
    pub fn row(&mut self, run: &Run, row: &Row) -> Result<bool, KnowledgeError> {
        match row {
            Row::Window(window) => self.window(run, window),
            Row::Decision(decision) => self.decision(run, decision),
            Row::Request(request) => self.request(run, request),
            Row::Model(model) => self.model(model),
        }
    }

    /// Commits the batch.
    ///
    /// # Errors
    /// The file cannot be written; the batch is then rolled back.
    pub fn commit(self) -> Result<(), KnowledgeError> {
        self.transaction.commit().map_err(|problem| problem.of(self.path))
    }

    fn run_row(&mut self, run: &Run) -> Result<i64, Problem> {
        if let Some(&row) = self.runs.get(&run.id) {
            return Ok(row);
        }
        let sql = "SELECT run, id, began_s, plant, device, source, seed, program FROM runs WHERE id = ?1";
        let found = self.transaction.query_one(sql, values![run.id.0])?;
        let found = found.map(|row| Ok::<_, Problem>((row.get(0)?, super::query::run(&row, 1)?))).transpose()?;
        let row = match found {
            Some((row, known)) if known == *run => row,
            Some((_, known)) => return Err(Problem::Value(differing(run, &known))),
            None => {
                let Run { id, began_s, plant, device, source, seed, program } = run;
                number_of(
                    &self.transaction,
                    "INSERT INTO runs (id, began_s, plant, device, source, seed, program) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     RETURNING run",
                    values![id.0, *began_s, plant, device, source, seed.map(|seed| seed.to_string()), program],
                )?
            }
        };
        self.runs.insert(run.id, row);
        Ok(row)
    }

    fn setting_row(&mut self, run: &Run, text: &str) -> Result<i64, Problem> {
        let key = (self.run_row(run)?, text.to_owned());
        if let Some(&row) = self.settings.get(&key) {
            return Ok(row);
        }
        let values = values![&run.plant, &run.device, text];
        let sql = "INSERT INTO settings (plant, device, text) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        insert(&self.transaction, sql, values)?;
        let find = "SELECT setting FROM settings WHERE plant = ?1 AND device = ?2 AND text = ?3";
        let row = number_of(&self.transaction, find, values)?;
        self.settings.insert(key, row);
        Ok(row)
    }

    fn list_row(&mut self, names: &[String]) -> Result<i64, Problem> {
        if let Some(&row) = self.lists.get(names) {
            return Ok(row);
        }
        let mut seen = BTreeSet::new();
        for name in names {
            if name.is_empty() {
                return Err(Problem::Value("a feature without a name cannot be kept".into()));
            }
            if !seen.insert(name) {
                return Err(Problem::Value(format!("feature '{name}' is named twice; each should have a name of its own")));
            }
        }
        let json = serde_json::to_string(names).map_err(|error| Problem::Value(error.to_string()))?;
        insert(&self.transaction, "INSERT INTO feature_lists (names) VALUES (?1) ON CONFLICT DO NOTHING", values![&json])?;
        let row = number_of(&self.transaction, "SELECT list FROM feature_lists WHERE names = ?1", values![&json])?;
        self.lists.insert(names.to_owned(), row);
        Ok(row)
    }

    fn window_row(&mut self, run: &Run, window: &WindowRow) -> Result<bool, Problem> {
        if window.features.len() != window.values.len() {
            let (names, values) = (window.features.len(), window.values.len());
            return Err(Problem::Value(format!("window {}: {names} features have {values} values", window.number)));
        }
        let (run, setting) = (self.run_row(run)?, self.setting_row(run, &window.setting)?);
        let list = self.list_row(&window.features)?;
        let outcome = &window.outcome;
        insert(
            &self.transaction,
            "INSERT INTO windows (run, number, setting, from_ns, to_ns, list, features, requests, waited_for, bytes,
               mean_response_s, waited_s, p99_response_s, max_response_s, mean_service_s, fairness, unfinished, calls, call_bytes, call_waited_s)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20) ON CONFLICT (run, number) DO NOTHING",
            values![
                run,
                whole("number", window.number)?,
                setting,
                time("from_ns", window.from)?,
                time("to_ns", window.to)?,
                list,
                bytes_of(&window.values),
                whole("requests", outcome.requests)?,
                whole("waited_for", outcome.waited_for)?,
                whole("bytes", outcome.bytes)?,
                outcome.mean_response_s,
                outcome.waited_s,
                outcome.p99_response_s,
                outcome.max_response_s,
                outcome.mean_service_s,
                outcome.fairness,
                whole("unfinished", outcome.unfinished)?,
                outcome.calls.map(|calls| whole("calls", calls.done)).transpose()?,
                outcome.calls.map(|calls| whole("call_bytes", calls.bytes)).transpose()?,
                outcome.calls.map(|calls| calls.waited_s),
            ],
        )
    }

    fn decision_row(&mut self, run: &Run, decision: &DecisionRow) -> Result<bool, Problem> {
        let row = self.run_row(run)?;
        let (from, to) = (self.setting_row(run, &decision.from)?, self.setting_row(run, &decision.to)?);
        let number = whole("number", decision.number)?;
        let is_new = insert(
            &self.transaction,
            "INSERT INTO decisions (run, number, at_ns, window_number, from_setting, to_setting, why, expected_gain, measured_gain,
               refused)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (run, number) DO NOTHING",
            values![
                row,
                number,
                time("at_ns", decision.at)?,
                decision.window.map(|window| whole("window", window)).transpose()?,
                from,
                to,
                &decision.why,
                decision.expected_gain,
                decision.measured_gain,
                decision.refused.as_deref().filter(|reason| !reason.is_empty()),
            ],
        )?;
        if !is_new && decision.measured_gain.is_some() {
            let measured = "UPDATE decisions SET measured_gain = ?3 WHERE run = ?1 AND number = ?2 AND measured_gain IS NULL";
            insert(&self.transaction, measured, values![row, number, decision.measured_gain])?;
        }
        Ok(is_new)
    }

    fn request_row(&mut self, run: &Run, request: &RequestRow) -> Result<bool, Problem> {
        let run = self.run_row(run)?;
        insert(
            &self.transaction,
            "INSERT INTO requests (run, number, op, lba, sectors, sync, distance, queued_ns, dispatched_ns, done_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (run, number) DO NOTHING",
            values![
                run,
                whole("number", request.number)?,
                rows::letter(request.op),
                whole("lba", request.lba)?,
                request.sectors,
                request.sync,
                request.distance,
                time("queued_ns", request.queued)?,
                time("dispatched_ns", request.dispatched)?,
                time("done_ns", request.done)?,
            ],
        )
    }

    fn model_row(&mut self, model: &ModelRow) -> Result<bool, Problem> {
        let ModelRow { name, kind, json, trained_s, features } = model;
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(json) {
            return Err(Problem::Value(format!("model '{name}' is not JSON: {error}")));
        }
        let list = self.list_row(features)?;
        insert(
            &self.transaction,
            "INSERT INTO models (name, kind, json, trained_s, list)
             SELECT ?1, ?2, ?3, CAST(?4 AS BIGINT), CAST(?5 AS BIGINT) WHERE NOT EXISTS
             (SELECT 1 FROM models WHERE name = ?1 AND kind = ?2 AND json = ?3 AND trained_s = ?4 AND list = ?5)",
            values![name, kind, json, *trained_s, list],
        )
    }
}

/// Executes a statement; returns whether it changed a row.
fn insert(database: &Database, sql: &str, values: &[Value]) -> Result<bool, Problem> {
    Ok(database.execute(sql, values)? > 0)
}

/// Runs a query that returns one number.
fn number_of(database: &Database, sql: &str, values: &[Value]) -> Result<i64, Problem> {
    let row = database.query_one(sql, values)?;
    row.ok_or_else(|| Problem::Damaged("a row is gone that was just written".to_owned()))?.get(0)
}

fn differing(run: &Run, known: &Run) -> String {
    let what = |run: &Run| {
        let seed = run.seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        format!("'{}' on {} '{}' by {}{seed}, began {}", run.source, run.plant, run.device, run.program, run.began_s)
    };
    format!("run {} is known as {}, not as {}; two runs should not have one id", run.id, what(known), what(run))
}

fn whole(what: &str, value: u64) -> Result<i64, Problem> {
    i64::try_from(value)
        .map_err(|_| Problem::Value(format!("{what} {value} is too large; the largest that is kept is {}", i64::MAX)))
}

fn time(what: &str, value: Nanos) -> Result<i64, Problem> {
    whole(what, value.0)
}

/// Encodes values as 8 bytes each, little-endian. NaNs are made identical, because their bits depend on the processor.
fn bytes_of(values: &[f64]) -> Vec<u8> {
    let one_nan = |value: &f64| if value.is_nan() { f64::NAN } else { *value };
    values.iter().flat_map(|value| one_nan(value).to_le_bytes()).collect()
}
