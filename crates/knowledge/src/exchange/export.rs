//! Exports tables.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serializer;
use serde_json::{Number, Value};

use control::experience::{Case, Experience};
use observe::Preference;
use observe::merit::TOLERANCE;

use super::{ExchangeError, Table};
use crate::query::Filter;
use crate::rows::letter;
use crate::rows::{DecisionRow, ModelRow, RequestRow, Run, Stored, WindowRow};
use crate::{Knowledge, KnowledgeError};

/// Format of an exported table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values with all columns, which [`import`](Knowledge::import) reads.
    Csv,
    /// A JSON array of objects with the same names. NaN and infinity are null.
    Json,
    /// Comma-separated values for learners, of windows only: one row per case of the [experience](Knowledge::experience), with the
    /// features of its load (empty if missing) and, last, the best measured setting as the class.
    Training,
}

/// Content of a cell.
enum Cell {
    /// Nothing.
    Empty,
    Text(String),
    Whole(i128),
    Real(f64),
    Boolean(bool),
    /// JSON inside.
    Json(String),
}

impl Cell {
    fn optional(text: Option<&str>) -> Cell {
        text.map_or(Cell::Empty, |text| Cell::Text(text.to_owned()))
    }

    fn whole(number: impl Into<i128>) -> Cell {
        Cell::Whole(number.into())
    }

    /// A number; an empty cell if it is missing.
    fn real(number: Option<f64>) -> Cell {
        number.filter(|number| !number.is_nan()).map_or(Cell::Empty, Cell::Real)
    }

    fn into_text(self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) | Cell::Json(text) => text,
            Cell::Whole(number) => number.to_string(),
            Cell::Boolean(truth) => u8::from(truth).to_string(),
            Cell::Real(number) => real_text(number),
        }
    }

    fn into_value(self) -> Value {
        match self {
            Cell::Empty => Value::Null,
            Cell::Text(text) => Value::String(text),
            Cell::Json(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Cell::Whole(number) => Number::from_i128(number).map_or(Value::Null, Value::Number),
            Cell::Boolean(truth) => Value::Bool(truth),
            // JSON knows neither NaN nor infinity.
            Cell::Real(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
        }
    }
}

/// The shortest text that parses as the same number.
fn real_text(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Receives rows of cells.
trait Sheet {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()>;
    fn end(&mut self) -> io::Result<()>;
}

struct Csv<W: Write>(csv::Writer<W>);

impl<W: Write> Sheet for Csv<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.0.write_record(cells.into_iter().map(Cell::into_text)).map_err(written)
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An array of objects, one per line.
struct Json<W: Write> {
    columns: Vec<String>,
    out: W,
    rows: u64,
}

impl<W: Write> Sheet for Json<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.out.write_all(if self.rows == 0 { b"[\n" } else { b",\n" })?;
        self.rows += 1;
        let pairs = self.columns.iter().zip(cells.into_iter().map(Cell::into_value));
        Ok(serde_json::Serializer::new(&mut self.out).collect_map(pairs)?)
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(if self.rows == 0 { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()
    }
}

impl Knowledge {
    /// Writes a snapshot of a table and returns its number of rows. `proceed` is called periodically with the number of rows written;
    /// returning false cancels the export.
    ///
    /// # Errors
    /// The file cannot be read, the text cannot be written, a feature has the name of a column; `proceed` returned false.
    pub fn export(
        &self,
        table: Table,
        form: Form,
        out: impl Write,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, ExchangeError> {
        let experience = if form == Form::Training { self.experience()? } else { Experience::default() };
        let _moment = self.moment()?;
        let features = match table {
            _ if form == Form::Training => experience.features.clone(),
            Table::Windows => self.feature_columns()?,
            _ => Vec::new(),
        };
        let mut sheet = sheet(form, columns(table, form, &features)?, out)?;
        let mut rows = 0;
        let mut put = |cells: Vec<Cell>| {
            rows += 1;
            sheet.row(cells)?;
            if rows % 1024 == 0 && !proceed(rows) { Err(ExchangeError::Interrupted) } else { Ok(()) }
        };
        let all = Filter::default();
        match table {
            Table::Windows if form == Form::Training => {
                experience.cases.iter().filter_map(|case| training(case, &experience.settings)).try_for_each(put)?;
            }
            Table::Windows => self.windows(&all).try_for_each(|stored| put(window(&stored?, &features)))?,
            Table::Decisions => self.decisions(&all).try_for_each(|stored| put(decision(&stored?)))?,
            Table::Requests => self.requests(&all).try_for_each(|stored| put(request(&stored?)))?,
            Table::Models => self.models()?.iter().try_for_each(|stored| put(model(stored)))?,
        }
        sheet.end()?;
        Ok(rows)
    }

    /// The features of all windows, in the order of their first window, so that an imported table is exported with the same columns.
    fn feature_columns(&self) -> Result<Vec<String>, KnowledgeError> {
        let lists: Vec<String> = self.read(|database| {
            let sql = "SELECT l.names FROM feature_lists l JOIN windows w ON w.list = l.list GROUP BY l.list, l.names ORDER BY min(w.window)";
            database.query(sql, &[])?.iter().map(|row| row.get(0)).collect()
        })?;
        let mut seen = BTreeSet::new();
        // A list that is not JSON is reported when its first window is read.
        let names = lists.iter().flat_map(|names| serde_json::from_str::<Vec<String>>(names).unwrap_or_default());
        Ok(names.filter(|name| seen.insert(name.clone())).collect())
    }
}

fn columns(table: Table, form: Form, features: &[String]) -> Result<Vec<String>, ExchangeError> {
    let (first, last) = match form {
        Form::Training => (&[][..], &["setting"][..]),
        Form::Csv | Form::Json => (table.columns(), table.last_columns()),
    };
    if let Some(name) = features.iter().find(|name| first.iter().chain(last).any(|column| column == name)) {
        return Err(ExchangeError::Name(name.clone()));
    }
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    Ok([owned(first), features.to_vec(), owned(last)].concat())
}

fn sheet<'a>(form: Form, columns: Vec<String>, out: impl Write + 'a) -> io::Result<Box<dyn Sheet + 'a>> {
    if form == Form::Json {
        return Ok(Box::new(Json { columns, out, rows: 0 }));
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns).map_err(written)?;
    Ok(Box::new(Csv(writer)))
}

/// The file system's error with its kind, which `csv` hides.
fn written(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

fn run(run: &Run) -> Vec<Cell> {
    vec![
        Cell::Text(run.id.to_string()),
        Cell::whole(run.began_s),
        Cell::Text(run.plant.clone()),
        Cell::Text(run.device.clone()),
        Cell::Text(run.source.clone()),
        run.seed.map_or(Cell::Empty, Cell::whole),
        Cell::Text(run.program.clone()),
    ]
}

fn window(stored: &Stored<WindowRow>, features: &[String]) -> Vec<Cell> {
    let WindowRow { number, from, to, setting, outcome, .. } = &stored.row;
    let mut cells = run(&stored.run);
    cells.extend([Cell::whole(*number), Cell::whole(from.0), Cell::whole(to.0), Cell::Text(setting.clone())]);
    cells.extend(features.iter().map(|name| stored.row.feature(name).map_or(Cell::Empty, Cell::Real)));
    cells.extend([
        Cell::whole(outcome.requests),
        Cell::whole(outcome.waited_for),
        Cell::whole(outcome.bytes),
        Cell::real(Some(outcome.mean_response_s)),
        Cell::real(Some(outcome.waited_s)),
        Cell::real(Some(outcome.p99_response_s)),
        Cell::real(Some(outcome.max_response_s)),
        Cell::real(Some(outcome.mean_service_s)),
        Cell::real(Some(outcome.fairness)),
        Cell::whole(outcome.unfinished),
        outcome.calls.map_or(Cell::Empty, |calls| Cell::whole(calls.done)),
        outcome.calls.map_or(Cell::Empty, |calls| Cell::whole(calls.bytes)),
        Cell::real(outcome.calls.map(|calls| calls.waited_s)),
    ]);
    cells
}

/// A case with its best setting; `None` if fewer than two settings were measured. If the active setting is as good as the best one, it is
/// the class, as a change would not pay.
fn training(case: &Case, settings: &[String]) -> Option<Vec<Cell>> {
    let scores = case.ranked(&Preference::default());
    let measured: Vec<(usize, f64)> = scores.iter().enumerate().filter_map(|(setting, score)| Some((setting, (*score)?))).collect();
    let (best, highest) = measured.iter().copied().filter(|_| measured.len() > 1).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let active = scores.get(case.under).copied().flatten();
    let class = if active.is_some_and(|score| score >= highest - TOLERANCE) { case.under } else { best };
    // Features are stored as f32; more digits would be noise.
    let value = |value: &Option<f32>| value.map_or(Cell::Empty, |value| Cell::Text(value.to_string()));
    Some(case.features.iter().map(value).chain([Cell::Text(settings.get(class)?.clone())]).collect())
}

fn decision(stored: &Stored<DecisionRow>) -> Vec<Cell> {
    let DecisionRow { number, at, window, from, to, why, expected_gain, measured_gain, refused } = &stored.row;
    let mut cells = run(&stored.run);
    cells.extend([
        Cell::whole(*number),
        Cell::whole(at.0),
        window.map_or(Cell::Empty, Cell::whole),
        Cell::Text(from.clone()),
        Cell::Text(to.clone()),
        Cell::Text(why.clone()),
        Cell::real(*expected_gain),
        Cell::real(*measured_gain),
        Cell::optional(refused.as_deref()),
    ]);
    cells
}

fn request(stored: &Stored<RequestRow>) -> Vec<Cell> {
    let RequestRow { number, op, lba, sectors, sync, distance, queued, dispatched, done } = &stored.row;
    let mut cells = run(&stored.run);
    cells.extend([
        Cell::whole(*number),
        Cell::Text(letter(*op).to_owned()),
        Cell::whole(*lba),
        Cell::whole(*sectors),
        Cell::Boolean(*sync),
        Cell::whole(*distance),
        Cell::whole(queued.0),
        Cell::whole(dispatched.0),
        Cell::whole(done.0),
    ]);
    cells
}

fn model(model: &ModelRow) -> Vec<Cell> {
    let ModelRow { name, kind, json, trained_s, features } = model;
    let features = Value::from(features.clone()).to_string();
    vec![
        Cell::Text(name.clone()),
        Cell::Text(kind.clone()),
        Cell::whole(*trained_s),
        Cell::Json(features),
        Cell::Json(json.clone()),
    ]
}
