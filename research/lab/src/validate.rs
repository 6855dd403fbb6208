//! `seekwise-lab validate`: the same jobs run by fio on the real kernel and in the simulator.

use std::fs;
use std::io::Write as _;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use control::Setting;
use experiment::comparison::regime;
use research::report::validation::{Agreement, Disk, SCHEMA, Validation};
use research::validation::drawn::{self, LOADS_PER_DISK};
use research::validation::fit;
use research::validation::workloads;
use research::validation::workloads::WORKLOADS;
use research::validation::{BYTES, Model, ValidationRequest, version};
use testbed::pool::Workers;

use crate::block_device::{BlockDevice, LIVE, missing};
use crate::emulator::{Emulated, Emulator};
use crate::settings::{JOURNAL, Settings};
use seekwise::number;
use seekwise::output::check_page;
use terminal::{self, Terminal};

/// Arguments of `seekwise-lab validate`.
#[derive(clap::Args)]
pub struct ValidateArguments {
    #[command(flatten)]
    emulated: Emulated,
    /// A scheduler, optionally with its tunables and those of the host (`mq-deadline:fifo_batch=1 read_ahead_kb=512`), or the set `kernel`;
    /// may be given several times [default: kernel, and single tunables with workloads that show their effect]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// Workloads, comma-separated: names (--list) or job files without filename and runtime [default: all names]
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Measured seconds of each run, after one second of warm-up
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = number::within::<u32>(1..=600, "seconds"))]
    seconds: u32,
    /// Number of real runs of each workload under each scheduler
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::within::<u32>(1..=100, "runs"))]
    runs: u32,
    /// Speed factor of the emulated disk. Pauses of the jobs, times of the schedulers and measured seconds are divided by it; bfq and
    /// buffered workloads, which cannot be scaled, are skipped
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = seekwise::number::speed_up, conflicts_with = "device")]
    scale: f64,
    /// Use this block device instead of an emulated disk. It is only read; its scheduler is changed, and restored at the end. --disk is its
    /// profile [default: fitted to 30 s of reads]
    #[arg(long, value_name = "DEVICE", requires = "read_only")]
    device: Option<PathBuf>,
    /// Run only workloads that do not write
    #[arg(long)]
    read_only: bool,
    /// Run N drawn workloads instead: cached writes with reads and syncs, each under a drawn scheduler, six on each drawn hard disk
    #[arg(long, value_name = "N", conflicts_with_all = ["schedulers", "workloads", "scale", "device", "read_only", "disk"],
        value_parser = number::within::<u32>(1..=10_000, "workloads"))]
    drawn: Option<u32>,
    /// Seed of the drawn workloads and disks
    #[arg(long, value_name = "SEED", default_value_t = 1, requires = "drawn")]
    seed: u64,
    /// List the workloads and exit
    #[arg(long, exclusive = true)]
    list: bool,
    /// Folder in which the original settings are kept until they are restored; after a kill, the next start restores them
    #[arg(long, value_name = "DIR", default_value = JOURNAL)]
    journal: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ValidateArguments) -> anyhow::Result<()> {
    if args.list {
        let lines = WORKLOADS.iter().map(|shipped| format!("{:28}{}\n", shipped.name, shipped.summary()));
        return Ok(terminal::print(&lines.collect::<String>())?);
    }
    args.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))?;
    let drawn = drawn_disks(args)?;
    let question = question(args)?;
    let questions = || iter::once(&question).chain(drawn.iter().map(|disk| &disk.question));
    questions().try_for_each(ValidationRequest::check)?;
    let models = args.emulated.models();
    let missing = missing(args.device.is_none());
    ensure!(missing.is_empty(), "missing prerequisites: {}", missing.join("; "));
    let fio = version()?;
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, None);
    let settings = Settings::open(&args.journal)?;
    let mut disks = Vec::new();
    match &args.device {
        _ if !drawn.is_empty() => {
            for disk in &drawn {
                disks.push(on_emulated(&disk.model, &disk.question, &settings, workers)?);
            }
        }
        Some(path) => {
            let mut device = BlockDevice::open(path, &settings)?;
            // The fitted profile exists as long as its file.
            let (model, _file) = match (&args.emulated.disk, &models[0]) {
                (Some(_), model) => (model.clone(), None),
                (None, _) => fitted(&mut device, workers)?,
            };
            disks.push(question.ask(&model, &mut device, workers)?);
        }
        None => {
            for model in &models {
                disks.push(on_emulated(model, &question, &settings, workers)?);
            }
        }
    }
    let rows: Vec<_> = disks.iter().map(|disk| disk.rows.as_slice()).collect();
    let validation = Validation {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        fio,
        seconds: question.seconds,
        runs: args.runs,
        agreement: Agreement::over(&rows, drawn.first().map_or(question.pairs(), |disk| disk.question.pairs())),
        disks,
    };
    if let Some(html) = &args.html {
        report::record::replace(html, validation.html().as_bytes()).with_context(|| html.display().to_string())?;
    }
    let text = if args.json { validation.to_json()? } else { validation.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

/// A drawn disk, and the drawn workloads that run on it.
struct DrawnDisk {
    model: Model,
    question: ValidationRequest,
    /// The profile's file, which exists as long as this.
    _file: tempfile::NamedTempFile,
}

/// The drawn disks; none without `--drawn`.
fn drawn_disks(args: &ValidateArguments) -> anyhow::Result<Vec<DrawnDisk>> {
    let count = args.drawn.unwrap_or(0);
    let disk = |number: u32| {
        let (model, file) = drawn::disk(args.seed, number)?;
        let first = number * LOADS_PER_DISK;
        let loads = first..count.min(first + LOADS_PER_DISK);
        let workloads = loads.map(|load| drawn::load(args.seed, load)).collect::<anyhow::Result<Vec<_>>>()?;
        let (seconds, runs) = (f64::from(args.seconds), args.runs);
        let question = ValidationRequest { workloads, settings: Vec::new(), seconds, runs, scale: 1.0 };
        Ok(DrawnDisk { model, question, _file: file })
    };
    (0..count.div_ceil(LOADS_PER_DISK)).map(disk).collect()
}

/// Runs all workloads on a new emulated disk.
fn on_emulated(model: &Model, question: &ValidationRequest, settings: &Arc<Settings>, workers: Workers) -> anyhow::Result<Disk> {
    let (emulator, path) = Emulator::start(model, BYTES, question.scale)?;
    let mut device = BlockDevice::open(&path, settings)?;
    device.emulator = Some(emulator);
    question.ask(model, &mut device, workers)
}

fn question(args: &ValidateArguments) -> anyhow::Result<ValidationRequest> {
    let mut settings = Vec::new();
    for text in &args.schedulers {
        match text.as_str() {
            "kernel" => settings.extend(regime::schedulers(text)?),
            _ => settings.push(Setting::parse(text).with_context(|| format!("--scheduler {text}"))?),
        }
    }
    for setting in &settings {
        regime::expect_settable("--scheduler", setting, &LIVE.map(str::to_owned))?;
    }
    let names: Vec<&str> = match args.workloads.as_slice() {
        [] => WORKLOADS.iter().map(|shipped| shipped.name).collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let mut chosen = names.into_iter().map(workloads::find).collect::<anyhow::Result<Vec<_>>>()?;
    if args.read_only {
        let writer = chosen.iter().find(|workload| workload.writes()).filter(|_| !args.workloads.is_empty());
        ensure!(
            writer.is_none(),
            "--workloads {}: writes to the device, which --read-only forbids",
            writer.map_or("", |workload| &workload.name)
        );
        chosen.retain(|workload| !workload.writes());
    }
    if args.workloads.is_empty() && args.scale != 1.0 {
        chosen.retain(|workload| !workload.is_buffered());
    }
    let (seconds, runs) = (f64::from(args.seconds), args.runs);
    Ok(ValidationRequest { workloads: chosen, settings, seconds, runs, scale: args.scale })
}

/// A model of this device, fitted to the times of reads, and the file of its profile.
fn fitted(device: &mut BlockDevice, workers: Workers) -> anyhow::Result<(Model, Option<tempfile::NamedTempFile>)> {
    let capacity_sectors = device.capacity_sectors;
    let fitted = fit::fit(device, capacity_sectors, workers)?;
    for finding in &fitted.findings {
        eprintln!("{}: {}", finding.name, finding.text());
    }
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().context("cannot store the fitted profile")?;
    file.write_all(fitted.profile_toml.as_bytes()).context("cannot store the fitted profile")?;
    let name = format!("fitted {}", fitted.profile().name());
    let model = Model { name, disk: file.path().display().to_string(), queue_depth: None, queue_policy: None };
    Ok((model, Some(file)))
}
