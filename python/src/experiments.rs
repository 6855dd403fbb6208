//! Simulation, comparison, advice and models of devices: the crate `experiment`, with arguments from Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use control::Setting;
use control::controller::ControllerSpec;
use experiment::advice::{AdviceRequest, Aim, advise as judge};
use experiment::comparison::regime::{self, Regime};
use experiment::comparison::{Experiment, RequestObserver};
use experiment::learned_device;
use experiment::recorded::Recorded;
use progress::Monitor as _;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use report::record::{Record, StreamFigures};
use serde_json::{Value, json};
use sim::device::hdd::spec::QueuePolicy;
use sim::replay::Fit;
use sim::run::Transferred;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::trace::{ReplayOptions, SPEEDS};
use trace::TraceRequest;

use crate::error::{Invalid, raised};
use crate::rows::{BATCH, Rows, SCHEMA};
use crate::scheduler::{self, Failure, watched};
use crate::table::{Table, column};
use crate::traces::Trace;
use crate::work::{self, Watcher};

/// Converts an out-of-range number to an invalid-input error; other types stay a `TypeError`.
fn beyond(key: &str, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyOverflowError>(value.py()) {
        Invalid::of_key(key, format!("{value} should be a whole number from 0 to 2^64 - 1 (seed) or 2^32 - 1")).into()
    } else {
        error
    }
}

/// Keyword arguments of an experiment from Python.
pub struct Keys<'a, 'py>(pub &'a Bound<'py, PyDict>);

impl<'py> Keys<'_, 'py> {
    /// The value of a key; `None` if it is missing or None.
    pub fn get<T: FromPyObjectOwned<'py>>(&self, key: &str) -> PyResult<Option<T>> {
        match self.0.get_item(key)? {
            Some(value) if !value.is_none() => {
                Ok(Some(value.extract::<T>().map_err(Into::<PyErr>::into).map_err(|error| beyond(key, &value, error))?))
            }
            _ => Ok(None),
        }
    }
}

/// The load and the devices.
pub fn experiment(load: &Bound<'_, PyAny>, disk: &str, keys: &Bound<'_, PyDict>) -> PyResult<Experiment> {
    let keys = Keys(keys);
    let (load, replay) = match load.cast::<Trace>() {
        Ok(trace) => trace.get().load(),
        Err(_) => (load.extract::<PathBuf>()?, ReplayOptions::default()),
    };
    let closed = keys.get::<bool>("closed")?.unwrap_or_default();
    let speed = keys.get::<f64>("speed")?.unwrap_or(1.0);
    if !SPEEDS.contains(&speed) {
        return Err(Invalid::of_key("speed", format!("{speed} should be a number from 0.000001 to 1000000")).into());
    }
    let fit = match keys.get::<String>("fit")?.as_deref() {
        None | Some("exact") => Fit::Exact,
        Some("compact") => Fit::Compact,
        Some(other) => return Err(Invalid::of_key("fit", format!("{other:?} should be exact or compact")).into()),
    };
    let queue_policy = match keys.get::<String>("queue_policy")?.as_deref() {
        None => None,
        Some("fifo") => Some(QueuePolicy::Fifo),
        Some("sstf") => Some(QueuePolicy::Sstf),
        Some("sptf") => Some(QueuePolicy::Sptf),
        Some(other) => return Err(Invalid::of_key("queue_policy", format!("{other:?} should be fifo, sstf or sptf")).into()),
    };
    let queue_depth = keys.get::<u32>("queue_depth")?;
    if let Some(depth) = queue_depth.filter(|depth| !(1..=1024).contains(depth)) {
        return Err(Invalid::of_key("queue_depth", format!("{depth} should be from 1 to 1024 requests")).into());
    }
    known_disk(disk)?;
    if replay.memory.is_none() {
        shipped::job_text(&load).map_err(|problem| Invalid::of_key("load", format!("{problem:#}")))?;
    }
    let preference = keys.get::<String>("preference")?;
    let preference = preference.map(|text| text.parse()).transpose();
    Ok(Experiment {
        load,
        replay: ReplayOptions { closed, speed, fit, ..replay },
        seed: keys.get("seed")?.unwrap_or(1),
        begin_apart: false,
        disk: disk.to_owned(),
        queue_depth,
        queue_policy,
        host: keys.get("host")?.unwrap_or_default(),
        candidates: keys.get("candidates")?.unwrap_or_default(),
        preference: preference.map_err(|problem| Invalid::of_key("preference", format!("{problem}")))?,
        experience: keys.get("experience")?,
        knowledge_base: keys.get("knowledge_base")?,
        tenants: keys.get("tenants")?,
        record: None,
        measures_cpu: false,
    })
}

/// Fails unless there is such a disk.
fn known_disk(disk: &str) -> PyResult<()> {
    sim::profile::load(disk).map_err(|problem| Invalid::of_key("disk", problem.to_string()))?;
    Ok(())
}

/// Parses a scheduler: text, or the number of a registered class with values of its tunables. `key` is the argument that names it.
pub fn setting(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Setting> {
    if let Ok((number, values)) = value.extract::<(usize, Bound<'_, PyDict>)>() {
        return scheduler::setting(number, &values);
    }
    let text: String = value.extract()?;
    Ok(Setting::parse(&text).map_err(|problem| Invalid::of_key(key, format!("{text}: {problem}")))?)
}

/// The controllers of the product.
fn controllers() -> Vec<&'static ControllerSpec> {
    twin::controller::all().collect()
}

/// Worker threads for these settings; schedulers in Python share one interpreter.
fn workers<'a>(watcher: &'a Watcher, settings: &[&Setting], threads: Option<usize>) -> Workers<'a> {
    let has_python = settings.iter().any(|setting| scheduler::is_python(setting));
    Workers::new(watcher, if has_python { Some(1) } else { threads })
}

/// Requests of a run, in order of completion.
#[derive(Default)]
struct Collected(Vec<TraceRequest>);

fn request(done: &Transferred) -> TraceRequest {
    let issue = &done.issue;
    TraceRequest {
        arrival: issue.arrival,
        device: 0,
        lba: issue.lba,
        sectors: issue.sectors,
        op: issue.op,
        sync: Some(issue.is_sync()),
        stream: issue.stream,
        priority: issue.priority,
        response: Some(done.at - issue.arrival),
        service: Some(done.at - done.dispatched),
    }
}

impl Collected {
    /// Returns the requests as a table, in order of arrival.
    fn table(mut self, record: &Record) -> anyhow::Result<Table> {
        self.0.sort_by_key(|request| request.arrival);
        let names: std::collections::BTreeMap<u32, &str> =
            record.streams.iter().filter_map(|stream| Some((stream.stream, stream.name.as_deref()?))).collect();
        let mut batches = Vec::new();
        let mut rows = Rows::default();
        for part in self.0.chunks(BATCH) {
            part.iter().for_each(|request| rows.push(request, names.get(&request.stream).copied(), None));
            batches.push(rows.finish()?);
        }
        Ok(Table::of(Arc::clone(&SCHEMA), batches))
    }
}

/// Streams of a run as a table, busiest first.
fn streams(record: &Record) -> anyhow::Result<Table> {
    let all = &record.streams;
    let each = |of: fn(&StreamFigures) -> Option<f64>| column::float(all.iter().map(of));
    let reads = |of: fn(&report::record::DirectionFigures) -> f64| {
        column::float(all.iter().map(|stream| stream.service.reads.as_ref().map(of)))
    };
    let writes = |of: fn(&report::record::DirectionFigures) -> f64| {
        column::float(all.iter().map(|stream| stream.service.writes.as_ref().map(of)))
    };
    let syncs = |of: fn(&report::record::DirectionFigures) -> f64| {
        column::float(all.iter().map(|stream| stream.service.syncs.as_ref().map(of)))
    };
    Ok(Table::new(vec![
        ("stream", column::number(all.iter().map(|stream| stream.stream))),
        ("name", column::text(all.iter().map(|stream| stream.name.as_deref()))),
        ("requests", column::count(all.iter().map(|stream| stream.requests))),
        ("throughput_mb_s", each(|stream| Some(stream.throughput_mb_s))),
        ("iops", each(|stream| Some(stream.iops))),
        ("mean_ms", each(|stream| Some(stream.mean_ms))),
        ("p99_ms", each(|stream| Some(stream.p99_ms))),
        ("slowdown", each(|stream| stream.slowdown)),
        ("read_mb_s", reads(|reads| reads.throughput_mb_s)),
        ("read_mean_ms", reads(|reads| reads.response.mean_ms)),
        ("read_p99_ms", reads(|reads| reads.response.p99_ms)),
        ("write_mb_s", writes(|writes| writes.throughput_mb_s)),
        ("write_mean_ms", writes(|writes| writes.response.mean_ms)),
        ("write_p99_ms", writes(|writes| writes.response.p99_ms)),
        ("fsync_mean_ms", syncs(|syncs| syncs.response.mean_ms)),
        ("fsync_p99_ms", syncs(|syncs| syncs.response.p99_ms)),
    ])?)
}

/// Runs one simulation. Returns the record as JSON, the streams, the requests if requested, and warnings.
#[pyfunction]
#[pyo3(signature = (load, disk, scheduler, controller, keys, requests, alone, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub fn simulate(
    py: Python<'_>,
    load: &Bound<'_, PyAny>,
    disk: &str,
    scheduler: &Bound<'_, PyAny>,
    controller: Option<&str>,
    keys: &Bound<'_, PyDict>,
    requests: bool,
    alone: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Table, Option<Table>, Vec<String>)> {
    let experiment = experiment(load, disk, keys)?;
    let begins_with = setting("scheduler", scheduler)?;
    let chosen = controller.map(|text| regime::controller(text, &controllers())).transpose().map_err(raised)?;
    let done = work::run(py, progress.as_ref(), |watcher| {
        let workers = workers(watcher, &[&begins_with], threads);
        let regime = match chosen {
            None => Regime::Scheduler(begins_with),
            Some(chosen) => Regime::Controller { chosen, begins_with },
        };
        let collected = requests.then(|| Arc::new(Mutex::new(Collected::default())));
        let observer = collected.clone().map(|collected| -> RequestObserver {
            Arc::new(move |done: &Transferred| collected.lock().unwrap_or_else(PoisonError::into_inner).0.push(request(done)))
        });
        let failure = Failure::stopping(watcher.stopper());
        let records = watched(&failure, || experiment.records_observed(vec![regime], alone, workers, observer))?;
        let record = records.into_iter().next().context("the run left no record")?;
        let requests = collected
            .map(|collected| std::mem::take(&mut *collected.lock().unwrap_or_else(PoisonError::into_inner)).table(&record));
        Ok((serde_json::to_string(&record)?, streams(&record)?, requests.transpose()?))
    })?;
    let (record, streams, requests) = done.result;
    Ok((record, streams, requests, done.warnings))
}

/// One row of a comparison, in long format.
struct Row {
    disk: Arc<str>,
    scheduler: Arc<str>,
    host: Vec<Option<i64>>,
    seed: u64,
    figure: String,
    value: Option<f64>,
}

/// Flattens the numbers of a JSON object, with paths such as `response.p99_ms`.
fn flat(prefix: &str, value: &Value, out: &mut Vec<(String, Option<f64>)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flat(&name, value, out);
            }
        }
        Value::Number(number) => out.push((prefix.to_owned(), number.as_f64())),
        Value::Null => out.push((prefix.to_owned(), None)),
        _ => {}
    }
}

/// The Cartesian product of the values, in order.
fn combinations(host: &[(String, Vec<i64>)]) -> Vec<Vec<(String, i64)>> {
    host.iter().fold(vec![Vec::new()], |all, (name, values)| {
        let with = |before: &Vec<(String, i64)>, value: i64| before.iter().cloned().chain([(name.clone(), value)]).collect();
        all.iter().flat_map(|before| values.iter().map(move |value| with(before, *value))).collect()
    })
}

/// Compares every scheduler under every combination of host values, disk and seed. Returns one row per figure, and warnings.
#[pyfunction]
#[pyo3(signature = (load, disks, schedulers, controllers, host, seeds, keys, alone, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub fn compare(
    py: Python<'_>,
    load: &Bound<'_, PyAny>,
    disks: Vec<String>,
    schedulers: Vec<Bound<'_, PyAny>>,
    controllers: Vec<String>,
    host: Vec<(String, Vec<i64>)>,
    seeds: Vec<u64>,
    keys: &Bound<'_, PyDict>,
    alone: bool,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Table, Vec<String>)> {
    for (what, is_empty) in
        [("disk", disks.is_empty()), ("schedulers", schedulers.is_empty() && controllers.is_empty()), ("seeds", seeds.is_empty())]
    {
        if is_empty {
            return Err(Invalid::of_key(what, "is empty; give at least one".to_owned()).into());
        }
    }
    let first = experiment(load, &disks[0], keys)?;
    disks.iter().try_for_each(|disk| known_disk(disk))?;
    let settings = schedulers.iter().map(|one| setting("schedulers", one)).collect::<PyResult<Vec<Setting>>>()?;
    let known = self::controllers();
    let of_key =
        |text: &String, problem: &anyhow::Error| Invalid::of_key("controllers", format!("{text}: {}", problem.root_cause()));
    let chosen = |text: &String| regime::controller(text, &known).map_err(|problem| PyErr::from(of_key(text, &problem)));
    let chosen = controllers.iter().map(chosen).collect::<PyResult<Vec<_>>>()?;
    let done = work::run(py, progress.as_ref(), |watcher| {
        let failure = Failure::stopping(watcher.stopper());
        watched(&failure, || {
            let workers = workers(watcher, &settings.iter().collect::<Vec<_>>(), threads);
            let is_drawn = first.job_text()?.is_some();
            let combined = combinations(&host);
            ensure!(
                combined.len() * (settings.len() + chosen.len()) <= regime::MOST_VARIED,
                "--vary: makes more than {} settings; give fewer values",
                regime::MOST_VARIED
            );
            let mut rows = Vec::new();
            for disk in &disks {
                // A trace does not depend on the seed: it runs once, and its rows are repeated.
                let mut same: Option<Vec<Row>> = None;
                for &seed in &seeds {
                    let experiment = Experiment { disk: disk.clone(), seed, ..first.clone() };
                    if let Some(same) = &same {
                        rows.extend(same.iter().map(|row| Row {
                            seed,
                            figure: row.figure.clone(),
                            disk: row.disk.clone(),
                            scheduler: row.scheduler.clone(),
                            host: row.host.clone(),
                            value: row.value,
                        }));
                        continue;
                    }
                    let of_seed = rows_of(&experiment, (&settings, &chosen), &combined, alone, workers)?;
                    if is_drawn {
                        rows.extend(of_seed);
                    } else {
                        rows.extend(of_seed.iter().map(|row| Row {
                            seed,
                            figure: row.figure.clone(),
                            disk: row.disk.clone(),
                            scheduler: row.scheduler.clone(),
                            host: row.host.clone(),
                            value: row.value,
                        }));
                        same = Some(of_seed);
                    }
                }
            }
            table_of(&rows, &host)
        })
    })?;
    Ok((done.result, done.warnings))
}

type Chosen = control::controller::ControllerChoice;

fn rows_of(
    experiment: &Experiment,
    (settings, chosen): (&[Setting], &[Chosen]),
    combined: &[Vec<(String, i64)>],
    alone: bool,
    workers: Workers,
) -> anyhow::Result<Vec<Row>> {
    let with = |setting: &Setting, host: &[(String, i64)]| -> anyhow::Result<Setting> {
        let mut all = setting.host.clone();
        all.extend(host.iter().cloned());
        all.sort();
        let setting = Setting { host: all, ..setting.clone() };
        setting.check_host(block::HOST_TUNABLES).context("--vary")?;
        Ok(setting)
    };
    let mut rows = Vec::new();
    let mut regimes = Vec::new();
    let mut hosts = Vec::new();
    for host in combined {
        for setting in settings {
            regimes.push(Regime::Scheduler(with(setting, host)?));
            hosts.push(host);
        }
    }
    let mut records = if regimes.is_empty() { Vec::new() } else { experiment.records(regimes, alone, workers)? };
    // A controller starts from these host values.
    for host in combined.iter().filter(|_| !chosen.is_empty()) {
        let begins_with = with(&regime::scheduler(regime::FOUND)?, host)?;
        let regimes = chosen.iter().map(|chosen| Regime::Controller { chosen: chosen.clone(), begins_with: begins_with.clone() });
        let of_host = experiment.records(regimes.collect(), alone, workers)?;
        hosts.extend(of_host.iter().map(|_| host));
        records.extend(of_host);
    }
    for (record, host) in records.iter().zip(hosts) {
        let mut figures = Vec::new();
        flat("", &serde_json::to_value(&record.figures)?, &mut figures);
        let disk: Arc<str> = Arc::from(record.disk.name.as_str());
        let label = record.scheduler.label.split(' ').next().unwrap_or_default();
        let scheduler: Arc<str> = Arc::from(label);
        let values: Vec<Option<i64>> = host.iter().map(|(_, value)| Some(*value)).collect();
        rows.extend(figures.into_iter().map(|(figure, value)| Row {
            disk: disk.clone(),
            scheduler: scheduler.clone(),
            host: values.clone(),
            seed: experiment.seed,
            figure,
            value,
        }));
    }
    Ok(rows)
}

fn table_of(rows: &[Row], host: &[(String, Vec<i64>)]) -> anyhow::Result<Table> {
    let mut columns = vec![
        ("disk", column::text(rows.iter().map(|row| Some(&*row.disk)))),
        ("scheduler", column::text(rows.iter().map(|row| Some(&*row.scheduler)))),
    ];
    for (index, (name, _)) in host.iter().enumerate() {
        columns.push((name.as_str(), column::integer(rows.iter().map(|row| row.host.get(index).copied().flatten()))));
    }
    columns.push(("seed", column::count(rows.iter().map(|row| row.seed))));
    columns.push(("figure", column::text(rows.iter().map(|row| Some(row.figure.as_str())))));
    columns.push(("value", column::float(rows.iter().map(|row| row.value))));
    Ok(Table::new(columns)?)
}

/// Recommends a setting. Returns the report as JSON and as text, the udev rule, and warnings.
#[pyfunction]
#[pyo3(signature = (load, disk, scheduler, aims, host, device, keys, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "each is an argument of the Python function")]
pub fn advise(
    py: Python<'_>,
    load: &Bound<'_, PyAny>,
    disk: Option<&str>,
    scheduler: Option<&str>,
    aims: Vec<String>,
    host: Vec<(String, Vec<i64>)>,
    device: Option<u32>,
    keys: &Bound<'_, PyDict>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, String, Vec<String>)> {
    let mut experiment = experiment(load, disk.unwrap_or("sata7200"), keys)?;
    if experiment.candidates.is_empty() {
        let usual = if host.is_empty() { "kernel-tuned" } else { "kernel" };
        experiment.candidates = vec![usual.to_owned()];
    }
    let active = scheduler.map(regime::scheduler).transpose().map_err(raised)?;
    let aims = aims.iter().map(|text| text.parse::<Aim>().map_err(|problem| Invalid::of_key("aim", format!("{text}: {problem}"))));
    let aims = aims.collect::<Result<Vec<Aim>, Invalid>>()?;
    let varied = host.iter().map(|(name, values)| {
        let values: Vec<String> = values.iter().map(i64::to_string).collect();
        format!("{name}={}", values.join(","))
    });
    let wanted = AdviceRequest { experiment, names_disk: disk.is_some(), device, active, aims, varied: varied.collect() };
    let done = work::run(py, progress.as_ref(), |watcher| {
        let advice = judge(&wanted, Workers::new(watcher, threads))?;
        let udev: String = advice.udev.iter().map(|line| report::printable(line) + "\n").collect();
        Ok((advice.to_json()?, advice.text(None), udev))
    })?;
    let (json, text, udev) = done.result;
    Ok((json, text, udev, done.warnings))
}

/// Fits a disk profile to a trace. Returns the profile in TOML and the findings as JSON.
#[pyfunction]
#[pyo3(signature = (load, device, capacity_sectors, progress))]
pub fn fit_disk(
    py: Python<'_>,
    load: &Bound<'_, PyAny>,
    device: Option<u32>,
    capacity_sectors: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let trace = load.cast::<Trace>()?.get();
    let (path, options) = trace.options();
    let done = work::run(py, progress.as_ref(), |watcher| {
        watcher.begin(0, "reading the trace, requests:");
        let mut recorded = Recorded::read(path, options, &mut |requests| {
            if requests % 4096 == 0 {
                watcher.progress(requests);
                watcher.check()?;
            }
            Ok(())
        })?;
        let name = options.name(path);
        ensure!(recorded.timed > 0, "{name}: none of {} requests says when it was done; response times are needed", recorded.all);
        let (_, seen) = recorded.of_device(path, device)?;
        watcher.begin(0, "fitting the device");
        let (fitted, residual) = twin::device::fit_and_judge(&seen, capacity_sectors, twin::device::JUDGED_SHARE).context(name)?;
        watcher.check()?;
        let findings = fitted.findings.iter().map(|finding| {
            json!({"name": finding.name, "value": finding.value, "number": finding.number, "unit": finding.unit,
                   "uncertainty": finding.uncertainty, "accesses": finding.accesses})
        });
        let judged = json!({"accesses": residual.accesses, "mean_ms": residual.mean_ms, "mean_error_ms": residual.mean_error_ms,
                            "demerit_ms": residual.demerit_ms});
        let found = json!({"findings": findings.collect::<Vec<_>>(), "judged": judged});
        Ok((fitted.profile_toml.clone(), found.to_string()))
    })?;
    Ok(done.result)
}

/// Trains a regression tree of a device. Returns the model as JSON, and its errors on held-out requests as JSON.
#[pyfunction]
#[pyo3(signature = (device, sample, requests, seed, threads, progress))]
pub fn learn_device(
    py: Python<'_>,
    device: &str,
    sample: Option<PathBuf>,
    requests: usize,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    if !(500..=1_000_000).contains(&requests) {
        return Err(Invalid::of_key("requests", format!("{requests} should be from 500 to 1000000")).into());
    }
    let options = learned_device::Options { requests, seed, sample, ..learned_device::Options::default() };
    let done = work::run(py, progress.as_ref(), |watcher| {
        let trained = learned_device::train(device, &options, Workers::new(watcher, threads))?;
        let model = &trained.model;
        let about = json!({
            "device": model.name(), "capacity_sectors": model.capacity_sectors(), "training": model.training(),
            "leaves": model.tree().leaves(), "depth": model.tree().depth(), "judged": trained.judged,
        });
        Ok((model.to_json()?, about.to_string()))
    })?;
    Ok(done.result)
}

/// Built-in disks as JSON: name, description, capacity and queue of each.
#[pyfunction]
pub fn disks() -> PyResult<String> {
    let names = sim::profile::BUILT_IN.iter().map(|(name, _)| *name);
    let all = names.map(disk_value).collect::<anyhow::Result<Vec<Value>>>().map_err(raised)?;
    Ok(Value::Array(all).to_string())
}

/// One disk as JSON, from a name, a path, an array or the text of a profile.
#[pyfunction]
pub fn disk(name: &str) -> PyResult<String> {
    Ok(disk_value(name).map_err(raised)?.to_string())
}

fn disk_value(name: &str) -> anyhow::Result<Value> {
    let profile = sim::profile::load(name)?;
    let options = sim::profile::DeviceOptions::default();
    Ok(json!({
        "name": profile.name(), "description": profile.description(), "capacity_bytes": profile.capacity_sectors() * 512,
        "rotational": profile.device().rotational(), "queue_depth": profile.build(options).queue_depth(),
        "queue_policy": profile.queue_policy(options).name(), "disks": profile.disks(), "profile": profile.text(),
    }))
}

fn tunables(of: &[block::Tunable]) -> Value {
    let all = of.iter().map(|tunable| {
        json!({"name": tunable.name, "meaning": tunable.doc, "min": tunable.min, "max": tunable.max, "default": tunable.default})
    });
    Value::Array(all.collect())
}

/// Schedulers with their tunables.
#[pyfunction]
pub fn schedulers() -> String {
    let all = device_model::sched::all().map(|spec| {
        json!({"name": spec.name, "summary": spec.summary, "source": spec.source, "is_linux": block::KERNEL.iter().any(|one| one.name == spec.name),
               "tunables": tunables(spec.tunables)})
    });
    Value::Array(all.collect()).to_string()
}

/// Controllers with their tunables.
#[pyfunction(name = "controllers")]
pub fn controller_list() -> String {
    let all = controllers().into_iter().map(
        |spec| json!({"name": spec.name, "summary": spec.summary, "source": spec.source, "tunables": tunables(spec.tunables)}),
    );
    Value::Array(all.collect()).to_string()
}

/// The tunables of the host.
#[pyfunction]
pub fn host_tunables() -> String {
    tunables(block::HOST_TUNABLES).to_string()
}

/// Built-in fio job files as JSON.
#[pyfunction]
pub fn workloads() -> String {
    let all = testbed::shipped::ALL.iter().map(|(name, text)| {
        let head = testbed::shipped::head(text);
        json!({"name": name, "summary": head.summary, "source": head.paper, "job": text})
    });
    Value::Array(all.collect()).to_string()
}
