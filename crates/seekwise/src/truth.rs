//! `seekwise truth`: the same jobs by the real fio on the real kernel, and in the simulator.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent::observe::{Background, Tracepoints};
use agent::sysfs::Sysfs;
use agent::topology::{self, Device};
use anyhow::{Context as _, ensure};
use block::{Tunable, Unit};
use laboratory::comparison::regime;
use laboratory::pool::Crew;
use laboratory::truth::fit;
use laboratory::truth::workloads::{self, WORKLOADS};
use laboratory::truth::{BYTES, Model, Question, Real, version};
use learn::Setting;
use report::truth::{Agreement, SCHEMA, Truth};
use serve::attach::queue::Queue;

use crate::emulator::Emulator;
use crate::experiment::QueuePolicyArgument;
use crate::number;
use crate::output::check_page;
use crate::trace::capture;
use terminal::{self, Terminal};

/// Arguments of `seekwise truth`.
#[derive(clap::Args)]
pub struct Args {
    /// The disk that is emulated: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64` [default: sata7200 with a queue of 4 in order, sata7200 with a queue of 32 that it
    /// sorts, and sd-card, one after the other]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    disk: Option<String>,
    /// Number of requests the disk accepts at once; 4 at least, for Linux takes no fewer [default: the profile's]
    #[arg(long, value_name = "REQUESTS", requires = "disk", value_parser = number::within::<u32>(4..=1024, "requests"))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves queued requests [default: the profile's]
    #[arg(long, value_enum, requires = "disk")]
    queue_policy: Option<QueuePolicyArgument>,
    /// A scheduler, optionally with tunables of its own and the host's (`mq-deadline:fifo_batch=1 read_ahead_kb=512`), or the set `kernel`;
    /// may be given several times [default: kernel, and settings of single tunables with the workloads that show what they do]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// The workloads that are run, with commas between: names (--list), or job files of your own, which leave out where and how long they
    /// run [default: all that have names]
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Seconds that are measured of each run, one more than that is run
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = number::within::<u32>(1..=600, "seconds"))]
    seconds: u32,
    /// Real runs of each workload under each scheduler
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::within::<u32>(1..=100, "runs"))]
    runs: u32,
    /// How many times as fast as its model the emulated disk is. Pauses of the jobs and times of the schedulers are so many times shorter,
    /// seconds too; bfq, whose times cannot all be set, and what goes through the page cache are left out
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = crate::emulate::scale, conflicts_with = "device")]
    scale: f64,
    /// A block device of this machine instead of an emulated disk. Nothing is written to it; its scheduler is changed, and put back at the
    /// end. --disk is its profile [default: one that is fitted to half a minute of reads]
    #[arg(long, value_name = "DEVICE", requires = "read_only")]
    device: Option<PathBuf>,
    /// Run only workloads that do not write
    #[arg(long)]
    read_only: bool,
    /// Name the workloads, and do nothing else
    #[arg(long, exclusive = true)]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        let lines = WORKLOADS.iter().map(|shipped| format!("{:28}{}\n", shipped.name, shipped.summary()));
        return Ok(terminal::print(&lines.collect::<String>())?);
    }
    args.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))?;
    let question = question(args)?;
    question.check()?;
    let models = match &args.disk {
        Some(disk) => {
            let (queue_depth, queue_policy) = (args.queue_depth, args.queue_policy.map(Into::into));
            vec![Model { name: disk.clone(), disk: disk.clone(), queue_depth, queue_policy }]
        }
        None => Model::usual(),
    };
    let missing = missing(args.device.is_none());
    ensure!(missing.is_empty(), "here is missing: {}", missing.join("; "));
    let fio = version()?;
    let terminal = Terminal::default();
    let crew = Crew::new(&terminal, None);
    let mut disks = Vec::new();
    match &args.device {
        Some(path) => {
            let mut device = BlockDevice::open(path)?;
            // The fitted profile is there as long as its file.
            let (model, _file) = match (&args.disk, &models[0]) {
                (Some(_), model) => (model.clone(), None),
                (None, _) => fitted(&mut device, crew)?,
            };
            disks.push(question.ask(&model, &mut device, crew)?);
        }
        None => {
            for model in &models {
                let (emulator, path) = Emulator::start(model, BYTES, args.scale)?;
                let mut device = BlockDevice::open(&path)?;
                device.emulator = Some(emulator);
                disks.push(question.ask(model, &mut device, crew)?);
            }
        }
    }
    let rows: Vec<_> = disks.iter().map(|disk| disk.rows.as_slice()).collect();
    let truth = Truth {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        fio,
        seconds: question.seconds,
        runs: args.runs,
        agreement: Agreement::over(&rows),
        disks,
    };
    if let Some(html) = &args.html {
        report::record::replace(html, truth.html().as_bytes()).with_context(|| html.display().to_string())?;
    }
    let text = if args.json { truth.to_json()? } else { truth.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

/// What it takes to run fio on a device, or an emulated one, and is not here, all of it.
pub(crate) fn missing(emulates: bool) -> Vec<&'static str> {
    let opens = |path: &str| fs::OpenOptions::new().read(true).write(true).open(path).is_ok();
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    let needs = [
        (!nix::unistd::geteuid().is_root(), "root, for the scheduler of a disk is changed"),
        (!runs("fio"), "fio (apt-get install fio)"),
        (emulates && !opens("/dev/fuse"), "/dev/fuse, which this user must be able to open"),
        (
            emulates && !opens("/dev/loop-control"),
            "/dev/loop-control (the kernel's module loop), which this user must be able to open",
        ),
        (emulates && !runs("losetup"), "losetup (apt-get install mount)"),
    ];
    needs.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect()
}

fn question(args: &Args) -> anyhow::Result<Question> {
    let mut settings = Vec::new();
    for text in &args.schedulers {
        match text.as_str() {
            "kernel" => settings.extend(regime::schedulers(text)?),
            _ => settings.push(Setting::parse(text).with_context(|| format!("--scheduler {text}"))?),
        }
    }
    for setting in &settings {
        regime::expect_settable(setting, &LIVE.map(str::to_owned)).with_context(|| format!("--scheduler {setting}"))?;
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
            "--workloads {}: writes to the device, and --read-only says not to",
            writer.map_or("", |workload| &workload.name)
        );
        chosen.retain(|workload| !workload.writes());
    }
    if args.workloads.is_empty() && args.scale != 1.0 {
        chosen.retain(|workload| !workload.is_buffered());
    }
    let (seconds, runs) = (f64::from(args.seconds), args.runs);
    Ok(Question { workloads: chosen, settings, seconds, runs, scale: args.scale })
}

/// A model of this device, by the times of reads, and the file in which its profile is.
fn fitted(device: &mut BlockDevice, crew: Crew) -> anyhow::Result<(Model, Option<tempfile::NamedTempFile>)> {
    let capacity_sectors = device.capacity_sectors;
    let fitted = fit::fit(device, capacity_sectors, crew)?;
    for finding in &fitted.findings {
        eprintln!("{}: {}", finding.name, finding.text());
    }
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().context("cannot keep the fitted profile")?;
    file.write_all(fitted.profile_toml.as_bytes()).context("cannot keep the fitted profile")?;
    let name = format!("a fitted {}", fitted.profile().name());
    let model = Model { name, disk: file.path().display().to_string(), queue_depth: None, queue_policy: None };
    Ok((model, Some(file)))
}

/// Tunables of the host that a setting may change here: of the device's queue, and of the page cache of the whole machine.
const LIVE: [&str; 6] = [
    "nr_requests",
    "read_ahead_kb",
    "dirty_ratio",
    "dirty_background_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

/// What the queue has of these; the others are in `/proc/sys/vm`.
const OF_THE_QUEUE: usize = 2;

/// A block device whose scheduler, and the machine's page cache, are put back when this is dropped.
struct BlockDevice {
    path: PathBuf,
    queue: Queue,
    /// The scheduler and [`LIVE`] when it began, and the target of write-back throttling where the kernel has that.
    before: (String, [String; LIVE.len()]),
    throttled_at: Option<String>,
    memory_mib: u64,
    capacity_sectors: u64,
    /// `None` where the kernel does not tell what it is asked.
    observed: Option<Device>,
    recording: Option<Background>,
    /// Ends after everything was put back.
    emulator: Option<Emulator>,
}

impl BlockDevice {
    fn open(path: &Path) -> anyhow::Result<BlockDevice> {
        let target = path.canonicalize().with_context(|| format!("--device {}", path.display()))?;
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ensure!(
            target.starts_with("/dev") && Path::new("/sys/block").join(name).is_dir(),
            "--device {}: is no whole disk; name one such as /dev/sda",
            path.display()
        );
        let queue = Queue::of(name);
        let mut values = [const { String::new() }; LIVE.len()];
        for (number, value) in values.iter_mut().enumerate() {
            *value = live(&queue, number)?;
        }
        let before = (queue.get("scheduler")?, values);
        let throttled_at = queue.get("wbt_lat_usec").ok();
        let observed =
            observable(name).map_err(|error| eprintln!("The twin is not asked, for nothing can be recorded: {error}")).ok();
        let size = Path::new("/sys/block").join(name).join("size");
        let text = fs::read_to_string(&size).with_context(|| size.display().to_string())?;
        let capacity_sectors = text.trim().parse().with_context(|| format!("{}: is {}", size.display(), text.trim()))?;
        Ok(BlockDevice {
            path: target,
            queue,
            before,
            throttled_at,
            memory_mib: available_mib()?,
            capacity_sectors,
            observed,
            recording: None,
            emulator: None,
        })
    }

    /// Puts a scheduler in force, and everything else as it was but for what is named.
    fn use_setting(&self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<()> {
        let changed = setting.spec.tunables.iter().zip(&setting.values).filter(|(tunable, value)| tunable.default != **value);
        let rounding = |tunable: &Tunable| if tunable.unit == Unit::Milliseconds { 10 } else { 0 };
        let changed = changed.map(|(tunable, value)| (tunable.name, *value, rounding(tunable)));
        self.queue.use_scheduler(setting.spec.name, changed)?;
        // As Linux has it for this scheduler: what was ever set by hand stays on under bfq.
        if self.queue.get("wbt_lat_usec").is_ok() {
            self.queue.set("wbt_lat_usec", if setting.spec.name == "bfq" { "0" } else { "-1" })?;
        }
        for (number, name) in LIVE.iter().enumerate() {
            let wanted = host.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_string());
            // A switch of the scheduler has given it the number of requests that it begins with.
            if wanted.is_none() && *name == "nr_requests" {
                continue;
            }
            let wanted = wanted.as_ref().unwrap_or(&self.before.1[number]);
            if live(&self.queue, number)? != *wanted {
                set_live(&self.queue, number, wanted)?;
                let read = live(&self.queue, number)?;
                ensure!(read == *wanted, "{name}: is {read} after {wanted} was written");
            }
        }
        Ok(())
    }
}

fn vm(name: &str) -> PathBuf {
    Path::new("/proc/sys/vm").join(name)
}

fn live(queue: &Queue, number: usize) -> anyhow::Result<String> {
    let name = LIVE[number];
    if number < OF_THE_QUEUE {
        return Ok(queue.get(name)?);
    }
    let path = vm(name);
    Ok(fs::read_to_string(&path).with_context(|| path.display().to_string())?.trim().to_owned())
}

fn set_live(queue: &Queue, number: usize, value: &str) -> anyhow::Result<()> {
    let name = LIVE[number];
    if number < OF_THE_QUEUE {
        return Ok(queue.set(name, value)?);
    }
    let path = vm(name);
    fs::write(&path, value).with_context(|| format!("{}: writing {value}", path.display()))
}

/// The device, if what it is asked can be observed here.
fn observable(name: &str) -> anyhow::Result<Device> {
    let sysfs = Sysfs::real();
    let (device, _) = topology::find(&sysfs, name)?;
    Tracepoints::open(&sysfs, &device)?;
    Ok(device)
}

/// Memory that could hold file pages.
fn available_mib() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo: MemAvailable is missing")? / 1024)
}

impl Real for BlockDevice {
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn set(&mut self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<Vec<String>> {
        self.use_setting(setting, host)?;
        let mut simulated = vec![format!("memory_mib={}", self.memory_mib)];
        for name in ["max_sectors_kb", "nomerges"] {
            simulated.push(format!("{name}={}", self.queue.get(name)?));
        }
        // A kernel without it throttles nothing.
        simulated.push(format!("wbt_lat_usec={}", self.queue.get("wbt_lat_usec").unwrap_or_else(|_| "0".to_owned())));
        for (number, name) in LIVE.iter().enumerate() {
            simulated.push(format!("{name}={}", live(&self.queue, number)?));
        }
        // SCSI and SATA drivers have a budget; loop devices, NVMe and virtio do not.
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        simulated.push(format!("dispatch_budget={}", u8::from(name.starts_with("sd"))));
        Ok(simulated)
    }

    fn record(&mut self, file: &Path) -> anyhow::Result<bool> {
        let Some(device) = &self.observed else { return Ok(false) };
        let out = fs::File::create(file).with_context(|| file.display().to_string())?;
        let capture = agent::advice::to_store(out, device, &capture::program())?;
        self.recording = Some(Background::begin(Tracepoints::open(&Sysfs::real(), device)?, capture));
        Ok(true)
    }

    fn recorded(&mut self) -> anyhow::Result<()> {
        let Some(recording) = self.recording.take() else { return Ok(()) };
        let recorded = recording.end()?;
        ensure!(recorded.lost == 0, "the kernel lost {} events: too much happened at once", recorded.lost);
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        fs::File::open(&self.path)?.sync_all().with_context(|| self.path.display().to_string())?;
        self.emulator.as_mut().map_or(Ok(()), Emulator::renew)
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        // An emulated disk that is gone has nothing to put back, but the page cache is the machine's.
        let _ = self.queue.use_scheduler(&self.before.0, []);
        if let Some(value) = &self.throttled_at {
            let _ = self.queue.set("wbt_lat_usec", value);
        }
        for (number, value) in self.before.1.iter().enumerate() {
            let _ = set_live(&self.queue, number, value);
        }
    }
}
