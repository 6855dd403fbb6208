//! Imports tables.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use block::Nanos;
use csv::{ErrorKind, Position, StringRecord};

use super::{ExchangeError, Table};
use crate::rows::op;
use crate::rows::{DecisionRow, ModelRow, RequestRow, Row, Run, RunId, WindowRow};
use crate::{Batch, Knowledge, KnowledgeError, Problem};
use observe::window::{Calls, WindowOutcome};

/// Maximum length of a line, so that a file without lines is not read into memory.
const LINE_LIMIT_BYTES: u64 = 256 << 20;

/// Result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The table.
    pub table: Table,
    /// Rows that were added.
    pub new: u64,
    /// Rows that already existed.
    pub known: u64,
}

impl Knowledge {
    /// Adds the rows of a CSV table written by [`export`](Knowledge::export), recognised by its columns in any order, in one transaction.
    /// `path` is for messages. `proceed` is called periodically with the number of rows read; returning false cancels the import.
    ///
    /// # Errors
    /// The text is not such a table (the message has the line, and the expected content); the knowledge base cannot be written;
    /// `proceed` returned false.
    pub fn import(
        &mut self,
        path: &Path,
        text: impl Read,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Imported, ExchangeError> {
        let line_bytes = Rc::new(Cell::new(0));
        let mut reader = csv::Reader::from_reader(Limited { text, line_bytes: line_bytes.clone() });
        let header = reader.headers().map_err(|error| malformed(path, error))?.clone();
        let header = Header::new(path, &header)?;
        let mut imported = Imported { table: header.table, new: 0, known: 0 };
        let mut batch = self.batch()?;
        let mut record = StringRecord::new();
        let mut reading = Reading::default();
        while reader.read_record(&mut record).map_err(|error| malformed(path, error))? {
            line_bytes.set(0);
            let line = Line { path, header: &header, record: &record };
            *if line.enter(&mut batch, &mut reading)? { &mut imported.new } else { &mut imported.known } += 1;
            let rows = imported.new + imported.known;
            if rows.is_multiple_of(1024) && !proceed(rows) {
                return Err(ExchangeError::Interrupted);
            }
        }
        batch.commit()?;
        Ok(imported)
    }
}

/// A reader that fails on lines longer than [`LINE_LIMIT_BYTES`].
struct Limited<R> {
    text: R,
    line_bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.text.read(buffer)?;
        self.line_bytes.set(self.line_bytes.get() + bytes as u64);
        if self.line_bytes.get() > LINE_LIMIT_BYTES {
            let problem = format!("a line has more than {LINE_LIMIT_BYTES} bytes; this is no table that seekwise wrote");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(bytes)
    }
}

fn malformed(path: &Path, error: csv::Error) -> ExchangeError {
    let text = |position: Option<&Position>, column, problem| {
        let line = position.map_or(1, Position::line);
        ExchangeError::Text { path: path.to_owned(), line, column, problem }
    };
    match error.into_kind() {
        ErrorKind::Io(source) => ExchangeError::Read { path: path.to_owned(), source },
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            text(pos.as_ref(), None, format!("{len} cells should be {expected_len}, as in the first line"))
        }
        ErrorKind::Utf8 { pos, err } => text(
            pos.as_ref(),
            Some((err.field() + 1, "?".into())),
            "is not text in UTF-8; a table is a CSV that seekwise wrote".into(),
        ),
        kind => ExchangeError::Read { path: path.to_owned(), source: io::Error::other(format!("{kind:?}")) },
    }
}

/// The header line.
struct Header {
    table: Table,
    columns: BTreeMap<String, usize>,
    features: Vec<(usize, String)>,
}

impl Header {
    fn new(path: &Path, names: &StringRecord) -> Result<Header, ExchangeError> {
        let wrong = |column: Option<(usize, String)>, problem: String| {
            Err(ExchangeError::Text { path: path.to_owned(), line: 1, column, problem })
        };
        let mut columns = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            if name.is_empty() {
                return wrong(Some((index + 1, name.into())), "has no name".into());
            }
            if columns.insert(name.to_owned(), index).is_some() {
                return wrong(Some((index + 1, name.into())), "is there twice".into());
            }
        }
        let telling =
            [(Table::Windows, "outcome_requests"), (Table::Decisions, "why"), (Table::Requests, "lba"), (Table::Models, "model")];
        let Some((table, _)) = telling.into_iter().find(|(_, column)| columns.contains_key(*column)) else {
            return wrong(
                None,
                "names no columns of a knowledge base; `seekwise kb export` writes tables that can be imported".into(),
            );
        };
        let own = || table.columns().iter().chain(table.last_columns());
        if let Some(missing) = own().find(|name| !columns.contains_key(**name)) {
            return wrong(None, format!("there is no column {missing}, which {} have", table.name()));
        }
        let mut features: Vec<(usize, String)> =
            columns.iter().filter(|(name, _)| !own().any(|own| own == name)).map(|(name, &index)| (index, name.clone())).collect();
        features.sort();
        match features.first() {
            Some((index, name)) if table != Table::Windows => {
                wrong(Some((index + 1, name.clone())), format!("{} have no such column", table.name()))
            }
            _ => Ok(Header { table, columns, features }),
        }
    }
}

/// Values cached from line to line.
#[derive(Default)]
struct Reading {
    /// The columns of the last window's features, and their names.
    features: Option<(Vec<bool>, Arc<[String]>)>,
}

/// A row being read.
struct Line<'a> {
    path: &'a Path,
    header: &'a Header,
    record: &'a StringRecord,
}

impl Line<'_> {
    /// Records the row; false if it already exists.
    fn enter(&self, batch: &mut Batch, reading: &mut Reading) -> Result<bool, ExchangeError> {
        let entered = match self.header.table {
            Table::Windows => batch.row(&self.run()?, &Row::Window(self.window(reading)?)),
            Table::Decisions => batch.row(&self.run()?, &Row::Decision(self.decision()?)),
            Table::Requests => batch.row(&self.run()?, &Row::Request(self.request()?)),
            Table::Models => batch.model(&self.model()?),
        };
        entered.map_err(|error| match error {
            KnowledgeError { problem: Problem::Value(problem), .. } => self.wrong(None, problem),
            error => error.into(),
        })
    }

    fn run(&self) -> Result<Run, ExchangeError> {
        Ok(Run {
            id: self.text("run").parse::<RunId>().map_err(|problem| self.wrong_in("run", problem))?,
            began_s: self.number("began_s", WHOLE)?,
            plant: self.text("plant").to_owned(),
            device: self.text("device").to_owned(),
            source: self.text("source").to_owned(),
            seed: self.optional("seed", COUNT)?,
            program: self.text("program").to_owned(),
        })
    }

    fn window(&self, reading: &mut Reading) -> Result<WindowRow, ExchangeError> {
        let (from, to) = (self.time("from_ns")?, self.time("to_ns")?);
        let (features, values) = self.features(reading)?;
        let outcome = WindowOutcome {
            duration: to - from,
            requests: self.number("outcome_requests", COUNT)?,
            waited_for: self.number("outcome_waited_for", COUNT)?,
            bytes: self.number("outcome_bytes", COUNT)?,
            mean_response_s: self.real("outcome_mean_response_s")?.unwrap_or(f64::NAN),
            waited_s: self.real("outcome_waited_s")?.unwrap_or(f64::NAN),
            p99_response_s: self.real("outcome_p99_response_s")?.unwrap_or(f64::NAN),
            max_response_s: self.real("outcome_max_response_s")?.unwrap_or(f64::NAN),
            mean_service_s: self.real("outcome_mean_service_s")?.unwrap_or(f64::NAN),
            fairness: self.real("outcome_fairness")?.unwrap_or(f64::NAN),
            unfinished: self.number("outcome_unfinished", COUNT)?,
            calls: self.calls()?,
        };
        let setting = self.text("setting").to_owned();
        Ok(WindowRow { number: self.number("number", COUNT)?, from, to, setting, features, values, outcome })
    }

    fn calls(&self) -> Result<Option<Calls>, ExchangeError> {
        let (done, bytes) = (self.optional("outcome_calls", COUNT)?, self.optional("outcome_call_bytes", COUNT)?);
        let waited_s = self.real("outcome_call_waited_s")?.unwrap_or(f64::NAN);
        Ok(done.zip(bytes).map(|(done, bytes)| Calls { done, bytes, waited_s }))
    }

    /// The cells of features that are not empty.
    fn features(&self, reading: &mut Reading) -> Result<(Arc<[String]>, Vec<f64>), ExchangeError> {
        let columns = || self.header.features.iter().filter(|(index, _)| !self.record[*index].is_empty());
        let present: Vec<bool> = self.header.features.iter().map(|(index, _)| !self.record[*index].is_empty()).collect();
        let names = match &reading.features {
            Some((known, names)) if *known == present => names.clone(),
            _ => columns().map(|(_, name)| name.clone()).collect(),
        };
        reading.features = Some((present, names.clone()));
        let value = |(index, name): &(usize, String)| {
            let text = &self.record[*index];
            text.parse::<f64>()
                .map_err(|_| self.wrong(Some((index + 1, name.clone())), format!("'{text}' should be a number or NaN")))
        };
        Ok((names, columns().map(value).collect::<Result<_, _>>()?))
    }

    fn decision(&self) -> Result<DecisionRow, ExchangeError> {
        Ok(DecisionRow {
            number: self.number("number", COUNT)?,
            at: self.time("at_ns")?,
            window: self.optional("window", COUNT)?,
            from: self.text("from").to_owned(),
            to: self.text("to").to_owned(),
            why: self.text("why").to_owned(),
            expected_gain: self.real("expected_gain")?,
            measured_gain: self.real("measured_gain")?,
            refused: Some(self.text("refused").to_owned()).filter(|reason| !reason.is_empty()),
        })
    }

    fn request(&self) -> Result<RequestRow, ExchangeError> {
        let letter = self.text("op");
        let sync = self.text("sync");
        Ok(RequestRow {
            number: self.number("number", COUNT)?,
            op: op(letter).ok_or_else(|| self.wrong_in("op", format!("'{letter}' should be R, W or D")))?,
            lba: self.number("lba", COUNT)?,
            sectors: self.number("sectors", "a whole number from 0 to 4294967295")?,
            sync: match sync {
                "0" => false,
                "1" => true,
                _ => return Err(self.wrong_in("sync", format!("'{sync}' should be 0 or 1"))),
            },
            distance: self.number("distance_sectors", WHOLE)?,
            queued: self.time("queued_ns")?,
            dispatched: self.time("dispatched_ns")?,
            done: self.time("done_ns")?,
        })
    }

    fn model(&self) -> Result<ModelRow, ExchangeError> {
        let features = serde_json::from_str(self.text("features"))
            .map_err(|error| self.wrong_in("features", format!("should be a JSON array of names: {error}")))?;
        Ok(ModelRow {
            name: self.text("name").to_owned(),
            kind: self.text("kind").to_owned(),
            json: self.text("model").to_owned(),
            trained_s: self.number("trained_s", WHOLE)?,
            features,
        })
    }

    /// The cell in a column that the header is known to have; every line has the same number of cells.
    fn text(&self, name: &str) -> &str {
        self.header.columns.get(name).and_then(|index| self.record.get(*index)).unwrap_or_default()
    }

    fn number<T: FromStr>(&self, name: &str, right: &str) -> Result<T, ExchangeError> {
        let text = self.text(name);
        text.parse().map_err(|_| self.wrong_in(name, format!("'{text}' should be {right}")))
    }

    fn optional<T: FromStr>(&self, name: &str, right: &str) -> Result<Option<T>, ExchangeError> {
        if self.text(name).is_empty() { Ok(None) } else { self.number(name, right).map(Some) }
    }

    fn real(&self, name: &str) -> Result<Option<f64>, ExchangeError> {
        self.optional(name, "a number, or nothing")
    }

    fn time(&self, name: &str) -> Result<Nanos, ExchangeError> {
        self.number(name, COUNT).map(Nanos)
    }

    fn wrong_in(&self, name: &str, problem: String) -> ExchangeError {
        let index = self.header.columns.get(name).copied().unwrap_or_default();
        self.wrong(Some((index + 1, name.to_owned())), problem)
    }

    fn wrong(&self, column: Option<(usize, String)>, problem: String) -> ExchangeError {
        let line = self.record.position().map_or(0, Position::line);
        ExchangeError::Text { path: self.path.to_owned(), line, column, problem }
    }
}

const COUNT: &str = "a whole number, 0 or more";
const WHOLE: &str = "a whole number";
