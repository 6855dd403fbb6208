//! Traces: files of every format, and dataframes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};
use arrow_array::RecordBatchReader as _;
use block::did_you_mean;
use progress::Monitor as _;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyo3_arrow::input::AnyRecordBatch;
use serde_json::json;
use testbed::trace::ReplayOptions;
use trace::write::{self, About};
use trace::{InMemory, OpenOptions, Opened};

use crate::columns::{Import, Layout, OpColumns, Requests};
use crate::error::{Invalid, raised};
use crate::rows::{Batches, SCHEMA};
use crate::table::{schema_dict, stream};
use crate::work::{self, Watcher};

/// Requests between checks of the stop flag.
const CHECKED: u64 = 4096;

/// A block trace: requests with their arrival times and streams.
///
/// A file is streamed in bounded memory on each use; a trace made from a dataframe shares its memory.
/// ``polars.DataFrame(trace)``, ``pyarrow.table(trace)`` and DuckDB read it through the Arrow C stream, in the columns of
/// Seekwise's own format: ``arrival_ns`` (since the first request), ``device``, ``lba`` and ``sectors`` (of 512 bytes), ``is_read``, …
#[pyclass(frozen, module = "seekwise")]
pub struct Trace {
    path: PathBuf,
    options: OpenOptions,
    same_devices: bool,
    requests: OnceLock<u64>,
    format: &'static str,
}

impl Trace {
    /// Path and replay options for an experiment.
    pub fn load(&self) -> (PathBuf, ReplayOptions) {
        let OpenOptions { format, columns, skip_bad, others, memory, .. } = self.options.clone();
        let replay = ReplayOptions {
            format,
            columns,
            skip_bad,
            others,
            memory,
            same_devices: self.same_devices,
            ..ReplayOptions::default()
        };
        (self.path.clone(), replay)
    }

    fn open(&self) -> anyhow::Result<Opened> {
        Ok(trace::open(&self.path, &self.options)?)
    }

    /// Path and options to open the trace.
    pub fn options(&self) -> (&Path, &OpenOptions) {
        (&self.path, &self.options)
    }

    fn count(&self, watcher: &Watcher) -> anyhow::Result<u64> {
        let mut reader = self.open()?.reader;
        watcher.begin(0, "reading the trace, requests:");
        let mut requests = 0;
        while let Some(request) = reader.next_request() {
            request?;
            requests += 1;
            if requests % CHECKED == 0 {
                watcher.progress(requests);
                watcher.check()?;
            }
        }
        Ok(requests)
    }
}

/// Opens a trace file. The format is detected now; requests are read on use.
#[pyfunction]
#[pyo3(signature = (paths, format, columns, skip_bad, same_devices))]
pub fn open_trace(
    paths: Vec<PathBuf>,
    format: Option<String>,
    columns: Option<&str>,
    skip_bad: bool,
    same_devices: bool,
) -> PyResult<Trace> {
    let columns = columns.map(|text| text.parse().map_err(|problem: String| Invalid::of_key("columns", problem))).transpose()?;
    let mut files = trace::merge::in_folders(&paths).map_err(|error| raised(error.into()))?;
    if files.is_empty() {
        return Err(Invalid::of_key("path", "no trace is named".to_owned()).into());
    }
    let path = files.remove(0);
    let identity = if same_devices { trace::merge::Identity::ByName } else { trace::merge::Identity::OfEachTrace };
    let options = OpenOptions { format, columns, skip_bad, others: files, identity, ..OpenOptions::default() };
    // Reject an invalid file here rather than on first use.
    let opened = trace::open(&path, &options).map_err(|error| raised(error.into()))?;
    Ok(Trace { path, options, same_devices, requests: OnceLock::new(), format: opened.format.name })
}

/// Nanoseconds per unit.
fn unit_ns(key: &str, unit: &str) -> Result<i64, Invalid> {
    const UNITS: [(&str, i64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    let found = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns);
    found.ok_or_else(|| Invalid::of_key(key, format!("{unit:?} should be s, ms, us or ns")))
}

/// Bytes per unit.
fn unit_bytes(key: &str, unit: &str) -> Result<u64, Invalid> {
    match unit {
        "bytes" => Ok(1),
        "sectors" => Ok(512),
        _ => Err(Invalid::of_key(key, format!("{unit:?} should be bytes or sectors (of 512 bytes)"))),
    }
}

/// Parses the layout from the keyword arguments of the Python function.
fn layout(keys: &Bound<'_, PyDict>) -> PyResult<Layout> {
    let text = |key: &str| -> PyResult<Option<String>> {
        keys.get_item(key)?.map(|value| value.extract()).transpose().map(Option::flatten)
    };
    let needed = |key: &str| -> PyResult<String> {
        let missing = || Invalid::of_key(key, "which column is it? time, offset, size and op are needed".to_owned());
        Ok(text(key)?.ok_or_else(missing)?)
    };
    let unit = |key: &'static str, default: &str| -> PyResult<String> { Ok(text(key)?.unwrap_or_else(|| default.to_owned())) };
    let time_unit = unit("unit", "ns")?;
    let response_unit = unit("response_unit", &time_unit)?;
    Ok(Layout {
        time: needed("time")?,
        time_ns: unit_ns("unit", &time_unit)?,
        offset: needed("offset")?,
        offset_bytes: unit_bytes("offset_unit", &unit("offset_unit", "bytes")?)?,
        size: needed("size")?,
        size_bytes: unit_bytes("size_unit", &unit("size_unit", "bytes")?)?,
        op: OpColumns::Words { column: needed("op")?, read: text("read")?, write: text("write")? },
        stream: text("stream")?,
        stream_name: text("stream_name")?,
        device: text("device")?,
        response: text("response")?,
        service: text("service")?,
        response_ns: unit_ns("response_unit", &response_unit)?,
        sync: text("sync")?,
        priority: None,
    })
}

/// Layout of Seekwise's own format, without optional columns that are missing.
fn own_layout(has: &dyn Fn(&str) -> bool) -> Layout {
    let if_there = |name: &str| has(name).then(|| name.to_owned());
    Layout {
        time: "arrival_ns".to_owned(),
        time_ns: 1,
        offset: "lba".to_owned(),
        offset_bytes: 512,
        size: "sectors".to_owned(),
        size_bytes: 512,
        op: OpColumns::Flags { read: "is_read".to_owned(), discard: if_there("is_discard") },
        stream: if_there("stream"),
        stream_name: if_there("stream_name"),
        device: if_there("device"),
        response: if_there("response_ns"),
        service: if_there("service_ns"),
        response_ns: 1,
        sync: if_there("sync"),
        priority: if_there("priority_class").zip(if_there("priority_level")),
    }
}

/// Makes a trace from an object with an Arrow C stream. Without keys, the columns of Seekwise's own format are expected.
#[pyfunction]
#[pyo3(signature = (data, name, keys, progress))]
pub fn trace_from_arrow(
    py: Python<'_>,
    data: AnyRecordBatch,
    name: &str,
    keys: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Trace> {
    let mut reader = data.into_reader()?;
    let schema = reader.schema();
    let has_own = schema.index_of("arrival_ns").is_ok() && schema.index_of("lba").is_ok();
    let layout = if keys.is_empty() && has_own { own_layout(&|name| schema.index_of(name).is_ok()) } else { layout(keys)? };
    let mut import = Import::new(layout, &schema)?;
    let read = work::run(py, progress.as_ref(), move |watcher| {
        watcher.begin(0, "reading the dataframe, requests:");
        for batch in &mut reader {
            import.add(&batch?)?;
            watcher.check()?;
        }
        Ok(import.finish()?)
    })?;
    let requests = read.result;
    let count = requests.len();
    if count == 0 {
        return Err(Invalid::of_key("data", "there is no request in it".to_owned()).into());
    }
    let memory: Arc<Requests> = Arc::new(requests);
    let memory: Arc<dyn InMemory> = memory;
    let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
    Ok(Trace { path: PathBuf::from(name), options, same_devices: false, requests: OnceLock::from(count), format: "memory" })
}

#[pymethods]
impl Trace {
    /// Number of requests. The first call reads the whole file.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        if let Some(requests) = self.requests.get() {
            return Ok(*requests as usize);
        }
        let counted = work::run(py, None, |watcher| self.count(watcher))?.result;
        Ok(*self.requests.get_or_init(|| counted) as usize)
    }

    // Without this, truth testing would call `__len__` and read the whole file.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        let requests = self.requests.get().map(|requests| format!(", {requests} requests")).unwrap_or_default();
        format!("<seekwise.Trace: {}, format {}{requests}>", self.path.display(), self.format)
    }

    /// Path of the file, or the name given to a dataframe.
    #[getter]
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Name of the file's format; ``memory`` for a dataframe.
    #[getter]
    fn format(&self) -> &'static str {
        self.format
    }

    /// Column names with their Arrow types.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        schema_dict(py, &SCHEMA)
    }

    /// The Arrow C stream (PyCapsule interface): batches of 65,536 requests, read on demand.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let reader = self.open().map_err(raised)?.reader;
        stream(py, &SCHEMA, Batches::new(reader), requested_schema)
    }

    /// Characteristics as JSON.
    #[pyo3(signature = (top, progress))]
    fn _describe(&self, py: Python<'_>, top: usize, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let done = work::run(py, progress.as_ref(), |watcher| {
            let mut opened = self.open()?;
            watcher.begin(0, "reading the trace, requests:");
            let info = trace::info::characterise(&mut *opened.reader, top, |requests| {
                watcher.progress(requests);
                watcher.check().is_ok()
            })?;
            watcher.check()?;
            let info = info.context("interrupted")?;
            let mut value = serde_json::to_value(&info)?;
            value["warnings"] = json!(opened.reader.warnings());
            Ok(value.to_string())
        })?;
        Ok(done.result)
    }

    /// Writes the trace atomically. Returns the number of requests, and the information that the format could not hold.
    #[pyo3(signature = (path, format, progress))]
    fn _write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(u64, Vec<String>)> {
        let done = work::run(py, progress.as_ref(), |watcher| self.write_to(&path, format, watcher))?;
        Ok(done.result)
    }
}

impl Trace {
    fn write_to(&self, path: &Path, format: Option<&str>, watcher: &Watcher) -> anyhow::Result<(u64, Vec<String>)> {
        let names = || write::ALL.iter().map(|format| format.name);
        let list = || names().collect::<Vec<_>>().join(", ");
        let format = match format {
            Some(name) => write::named(name)
                .with_context(|| format!("format {name:?}: the formats are {}{}", list(), did_you_mean(name, names())))?,
            None => write::by_extension(path)
                .with_context(|| format!("{}: no format has this extension; give format=, one of {}", path.display(), list()))?,
        };
        let Opened { format: from, mut reader } = self.open()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        report::record::check_replaceable(path).with_context(|| path.display().to_string())?;
        // Permissions as of open(2): 0666 minus the umask.
        let file = report::record::unfinished::create(folder, 0o666).with_context(|| path.display().to_string())?;
        let about = About {
            program: format!("seekwise {}", env!("CARGO_PKG_VERSION")),
            source: self.path.display().to_string(),
            device: reader.recorded_device().cloned(),
        };
        let out = Box::new(std::io::BufWriter::new(file.reopen()?));
        let of = || path.display().to_string();
        let mut writer = (format.create)(out, &about).with_context(of)?;
        let mut losses = write::Losses::of(format);
        watcher.begin(0, "writing the trace, requests:");
        let mut requests = 0;
        while let Some(request) = reader.next_request() {
            let request = request?;
            losses.see(&request, &*reader);
            if format.holds(&request) {
                writer.write(&request, &*reader).with_context(of)?;
                requests += 1;
            }
            if requests % CHECKED == 0 {
                watcher.progress(requests);
                watcher.check()?;
            }
        }
        if requests == 0 {
            bail!("{}: no request in it can be written as {} (format {})", self.path.display(), format.name, from.name);
        }
        let note = writer.finish().with_context(of)?;
        file.persist(path).with_context(of)?;
        let lost = losses.lost().map(|field| format!("{} cannot hold {}", format.name, field.words()));
        Ok((requests, lost.chain(note).collect()))
    }
}

/// Supported formats as JSON: name, summary and source of readers; name, summary and extensions of writers.
#[pyfunction]
pub fn trace_formats() -> String {
    let read = trace::ALL.iter().map(|format| json!({"name": format.name, "summary": format.summary, "source": format.source}));
    let written =
        write::ALL.iter().map(|format| json!({"name": format.name, "summary": format.summary, "extensions": format.extensions}));
    json!({"read": read.collect::<Vec<_>>(), "written": written.collect::<Vec<_>>()}).to_string()
}
