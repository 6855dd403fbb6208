//! `seekwise simulate`: one load on one disk under one scheduler or controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use block::StreamId;
use experiment::comparison::regime::Regime;
use experiment::comparison::{RequestObserver, regime};
use report::record::Record;
use sim::run::Transferred;
use sim::trace::sort::Sorter;
use sim::trace::{RecordedDevice, TraceError, TraceReader, TraceRequest};

use control::controller::ControllerSpec;

use crate::arguments;
use crate::controller::parse;
use crate::library;
use crate::output::Explain;
use crate::trace::copy::Target;

/// Arguments of `seekwise simulate`.
#[derive(clap::Args)]
pub struct SimulateArguments {
    #[command(flatten)]
    experiment: arguments::ExperimentArguments,
    /// The scheduler, optionally with tunables (`mq-deadline:read_expire=100,fifo_batch=8`), or a shared library with one
    /// (`./elevator.so:patience_ms=20`; docs/guide/own-scheduler.md)
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = regime::FOUND)]
    scheduler: String,
    /// A controller that chooses scheduler and settings while the load runs, optionally with tunables (`seekwise controller
    /// list`). It starts from `--scheduler`
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    controller: Option<String>,
    /// Print the record as JSON instead
    #[arg(long)]
    json: bool,
    /// Print the results of a job file in the form of fio's own report instead
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    fio: bool,
    /// Write every request of the run as a trace: when it was issued, how long it took and how much of that at the disk
    /// (docs/reference/traces.md); the file's extension selects the format (.parquet, .csv, .blkparse, ...)
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    #[command(flatten)]
    explain: Explain,
}

/// Runs the command; `controllers` are those that `--controller` may name.
pub fn run(args: &SimulateArguments, controllers: &[&'static ControllerSpec]) -> anyhow::Result<()> {
    let begins_with = regime::scheduler(&library::named(&args.scheduler)?)?;
    let regime = match &args.controller {
        None => Regime::Scheduler(begins_with),
        Some(text) => Regime::Controller { chosen: parse(text, controllers)?, begins_with },
    };
    anyhow::ensure!(!args.fio || args.experiment.is_job_file()?, "--fio: is for job files, and the load is a trace");
    let table = args.requests.as_deref().map(RequestTable::begin).transpose()?;
    let records = args.experiment.records_observed(vec![regime], false, table.as_ref().map(RequestTable::observer))?;
    library::check()?;
    if let (Some(table), [record, ..]) = (table, &records[..]) {
        table.write(args, record)?;
    }
    let (width, _) = terminal::style();
    let mut text = String::new();
    for record in &records {
        if args.json {
            text.push_str(&serde_json::to_string_pretty(record)?);
            text.push('\n');
        } else if let Some(report) = args.fio.then(|| report::fio::text(record)).flatten() {
            text.push_str(&report);
        } else {
            text.push_str(&report::single::text(record, width, args.explain.shown()));
        }
    }
    Ok(terminal::print(&text)?)
}

/// Collects the requests of a run for a trace file.
struct RequestTable {
    target: Target,
    requests: Arc<Mutex<Requests>>,
}

/// Requests arrive in order of completion and are written in order of issue.
struct Requests {
    sorter: Sorter,
    /// Why requests are missing; `None` if none are.
    failed: Option<TraceError>,
}

impl RequestTable {
    /// Checks that the file can be written.
    fn begin(file: &Path) -> anyhow::Result<RequestTable> {
        let target = Target::begin(file, None, "--requests with the ending of one")?;
        let sorter = Sorter::new(&target.folder());
        Ok(RequestTable { target, requests: Arc::new(Mutex::new(Requests { sorter, failed: None })) })
    }

    fn observer(&self) -> RequestObserver {
        let requests = Arc::clone(&self.requests);
        Arc::new(move |done: &Transferred| {
            let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
            if requests.failed.is_none() {
                requests.failed = requests.sorter.push(request(done)).err();
            }
        })
    }

    fn write(self, args: &SimulateArguments, record: &Record) -> anyhow::Result<()> {
        let RequestTable { target, requests } = self;
        let empty = Requests { sorter: Sorter::new(&target.folder()), failed: None };
        let Requests { sorter, failed } = std::mem::replace(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner), empty);
        if let Some(error) = failed {
            return Err(error.into());
        }
        let names = record.streams.iter().filter_map(|stream| Some((stream.stream, stream.name.clone()?)));
        // A controller changes the scheduler during the run.
        let scheduler = args.controller.is_none().then(|| args.scheduler.clone());
        let device = RecordedDevice { scheduler, ..RecordedDevice::default() };
        let mut trace = sorter.finish(Box::new(Names { streams: names.collect(), device }))?;
        target.write(&mut trace, (args.experiment.load(), "a run"))
    }
}

/// Converts a completed request to a trace record. Service begins when its last part is dispatched to the disk.
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

/// Stream names and scheduler of the run.
struct Names {
    streams: BTreeMap<StreamId, String>,
    device: RecordedDevice,
}

impl TraceReader for Names {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        None
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.streams.get(&stream).map(String::as_str)
    }

    fn recorded_device(&self) -> Option<&RecordedDevice> {
        Some(&self.device)
    }
}
