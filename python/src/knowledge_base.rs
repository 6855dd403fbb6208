//! Reading a knowledge base.

use std::path::PathBuf;

use arrow_array::ArrayRef;
use knowledge::{DecisionRow, Filter, Knowledge, Stored, WindowRow};
use pyo3::prelude::*;

use crate::error::raised;
use crate::table::{Table, column};

fn filter(plant: Option<String>, device: Option<String>, setting: Option<String>) -> Filter {
    Filter { plant, device, setting }
}

/// Summary of the contents as JSON.
#[pyfunction]
pub fn knowledge_summary(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let summary = py.detach(|| {
        let summary = Knowledge::open_to_read(&path)?.summary()?;
        Ok::<String, anyhow::Error>(serde_json::to_string(&summary)?)
    });
    summary.map_err(raised)
}

/// Columns that identify the run of a row.
fn of_run<T>(rows: &[Stored<T>]) -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("began_s", column::integer(rows.iter().map(|row| Some(row.run.began_s)))),
        ("plant", column::text(rows.iter().map(|row| Some(&row.run.plant)))),
        ("device", column::text(rows.iter().map(|row| Some(&row.run.device)))),
        ("source", column::text(rows.iter().map(|row| Some(&row.run.source)))),
    ]
}

/// One row per window: setting, outcome and features.
#[pyfunction]
pub fn knowledge_windows(
    py: Python<'_>,
    path: PathBuf,
    plant: Option<String>,
    device: Option<String>,
    setting: Option<String>,
) -> PyResult<Table> {
    let table = py.detach(|| {
        let knowledge = Knowledge::open_to_read(&path)?;
        let rows = knowledge.windows(&filter(plant, device, setting)).collect::<Result<Vec<Stored<WindowRow>>, _>>()?;
        let mut columns = of_run(&rows);
        columns.push(("number", column::count(rows.iter().map(|row| row.row.number))));
        columns.push(("from_s", column::float(rows.iter().map(|row| Some(row.row.from.as_secs_f64())))));
        columns.push(("to_s", column::float(rows.iter().map(|row| Some(row.row.to.as_secs_f64())))));
        columns.push(("setting", column::text(rows.iter().map(|row| Some(row.row.setting.to_string())))));
        let outcome =
            |of: fn(&observe::window::WindowOutcome) -> f64| column::float(rows.iter().map(|row| Some(of(&row.row.outcome))));
        columns.push(("throughput_mb_s", outcome(|outcome| outcome.throughput() / 1e6)));
        columns.push(("requests_per_s", outcome(|outcome| outcome.rate())));
        columns.push(("mean_response_ms", outcome(|outcome| outcome.mean_response_s * 1e3)));
        columns.push(("p99_response_ms", outcome(|outcome| outcome.p99_response_s * 1e3)));
        columns.push(("merit", outcome(|outcome| outcome.score(&observe::Preference::default()))));
        columns.push(("fairness", outcome(|outcome| outcome.fairness)));
        Ok::<Table, anyhow::Error>(Table::new(columns)?)
    });
    table.map_err(raised)
}

/// One row per decision, with its reason.
#[pyfunction]
pub fn knowledge_decisions(
    py: Python<'_>,
    path: PathBuf,
    plant: Option<String>,
    device: Option<String>,
    setting: Option<String>,
) -> PyResult<Table> {
    let table = py.detach(|| {
        let knowledge = Knowledge::open_to_read(&path)?;
        let rows = knowledge.decisions(&filter(plant, device, setting)).collect::<Result<Vec<Stored<DecisionRow>>, _>>()?;
        let mut columns = of_run(&rows);
        columns.push(("at_s", column::float(rows.iter().map(|row| Some(row.row.at.as_secs_f64())))));
        columns.push(("from", column::text(rows.iter().map(|row| Some(&row.row.from)))));
        columns.push(("to", column::text(rows.iter().map(|row| Some(&row.row.to)))));
        columns.push(("why", column::text(rows.iter().map(|row| Some(&row.row.why)))));
        columns.push(("expected_gain", column::float(rows.iter().map(|row| row.row.expected_gain))));
        columns.push(("measured_gain", column::float(rows.iter().map(|row| row.row.measured_gain))));
        columns.push(("refused", column::text(rows.iter().map(|row| row.row.refused.as_ref()))));
        Ok::<Table, anyhow::Error>(Table::new(columns)?)
    });
    table.map_err(raised)
}
