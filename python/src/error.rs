//! Converts errors to the package's exceptions; messages and locations are those of the command line.

use std::fmt;

use progress::Interrupted;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trace::TraceError;

/// The module that defines the exceptions.
const MODULE: &str = "seekwise._errors";

/// Invalid input and its location.
#[derive(Clone, Debug, Default)]
pub struct Invalid {
    /// The error and the valid values.
    pub message: String,
    /// Name of the argument.
    pub key: Option<String>,
    /// The row of a dataframe, from 0.
    pub row: Option<u64>,
    /// The column of a dataframe.
    pub column: Option<String>,
}

impl Invalid {
    /// Error in an argument.
    pub fn of_key(key: &str, message: String) -> Invalid {
        Invalid { message, key: Some(key.to_owned()), ..Invalid::default() }
    }

    /// Error in one cell of a dataframe; `key` is the argument that names the column.
    pub fn of_row(row: u64, key: &str, column: &str, message: String) -> Invalid {
        Invalid { message, key: Some(key.to_owned()), row: Some(row), column: Some(column.to_owned()) }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.row, &self.column, &self.key) {
            (Some(row), Some(column), _) => write!(f, "row {row}, column {column:?}: {}", self.message),
            (_, _, Some(key)) => write!(f, "{key}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Invalid {}

impl From<Invalid> for PyErr {
    fn from(error: Invalid) -> PyErr {
        raised(anyhow::Error::new(error))
    }
}

/// Violation of a rule of schedulers.
#[derive(Debug)]
pub struct Broken(pub String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// Command-line options whose Python argument has another name, as (option, argument).
const RENAMED: &[(&str, &str)] = &[("set", "host"), ("vary", "host"), ("protect", "aim"), ("kb", "knowledge_base")];

/// Replaces command-line options in a message by Python arguments; also returns the first argument named.
fn as_arguments(message: &str) -> (String, Option<String>) {
    let mut text = String::with_capacity(message.len());
    let mut key = None;
    let mut rest = message;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        let name: String = option[2..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        let is_option = !name.is_empty() && !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
        text.push_str(before);
        if !is_option {
            text.push_str("--");
            rest = &option[2..];
            continue;
        }
        let renamed =
            RENAMED.iter().find(|(option, _)| *option == name).map_or_else(|| name.replace('-', "_"), |(_, to)| (*to).to_owned());
        text.push_str(&renamed);
        key.get_or_insert(renamed);
        rest = &option[2 + name.len()..];
        // `--option value` becomes `argument=value`.
        if let Some(value) = rest.strip_prefix(' ')
            && !value.starts_with(|c: char| c.is_whitespace())
        {
            text.push('=');
            rest = value;
        }
    }
    text.push_str(rest);
    (text, key)
}

/// Converts an error of the library to an exception.
pub fn raised(error: anyhow::Error) -> PyErr {
    Python::attach(|py| exception(py, error).unwrap_or_else(|error| error))
}

fn exception(py: Python<'_>, error: anyhow::Error) -> PyResult<PyErr> {
    let error = match error.downcast::<PyErr>() {
        Ok(error) => return Ok(error),
        Err(error) => error,
    };
    let module = py.import(MODULE)?;
    if error.chain().any(|cause| cause.is::<Interrupted>()) {
        return Ok(PyErr::from_value(module.getattr("SeekwiseError")?.call1(("interrupted",))?));
    }
    if let Some(Broken(rule)) = error.downcast_ref::<Broken>() {
        return Ok(PyErr::from_value(module.getattr("ConformanceError")?.call1((rule.as_str(),))?));
    }
    let places = PyDict::new(py);
    let (message, key) = as_arguments(&format!("{error:#}"));
    places.set_item("key", key)?;
    for cause in error.chain() {
        if let Some(invalid) = cause.downcast_ref::<Invalid>() {
            places.set_item("key", &invalid.key)?;
            places.set_item("row", invalid.row)?;
            places.set_item("column", &invalid.column)?;
        }
        match cause.downcast_ref::<TraceError>() {
            Some(TraceError::Io { path, source }) => {
                let file_error = module.getattr("FileError")?;
                let arguments = (source.raw_os_error().unwrap_or(5), os_text(source), path.to_string_lossy().into_owned());
                return Ok(PyErr::from_value(file_error.call1(arguments)?));
            }
            Some(TraceError::Damaged { path, position, .. }) => {
                places.set_item("file", path.to_string_lossy().into_owned())?;
                let line = position.split(':').next().and_then(|line| line.parse::<u64>().ok());
                places.set_item("line", line)?;
            }
            Some(TraceError::Format { path, .. }) => places.set_item("file", path.to_string_lossy().into_owned())?,
            None => {}
        }
    }
    Ok(PyErr::from_value(module.getattr("InvalidInputError")?.call((message,), Some(&places))?))
}

/// Message of the operating system, without the error number.
fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Runtime error that is not caused by invalid input.
pub fn internal(message: &str) -> PyErr {
    let make = |py: Python<'_>| -> PyResult<PyErr> {
        Ok(PyErr::from_value(py.import(MODULE)?.getattr("SeekwiseError")?.call1((message,))?))
    };
    Python::attach(|py| make(py).unwrap_or_else(|error| error))
}
