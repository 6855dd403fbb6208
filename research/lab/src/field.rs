//! `seekwise-lab field`: the agent on emulated disks under the real kernel, compared with fixed settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use control::Setting;
use experiment::comparison::regime;
use nix::sys::signal::{Signal, kill};
use observe::Preference;
use research::field::{AgentDevice, Devices, Load, Trials};
use research::report::field::{AgentChange, Field, SCHEMA};
use research::validation::workloads;
use research::validation::workloads::WORKLOADS;
use research::validation::{BYTES, Model, RealDevice, expect_of_linux, version};
use serde::Deserialize;

use crate::block_device::{BlockDevice, LIVE, OF_THE_QUEUE, missing};
use crate::emulator::{Emulated, Emulator};
use crate::programs;
use crate::settings::{JOURNAL, Settings};
use seekwise::number;
use terminal::{self, Terminal};

/// Timeout for the agent's first reply after its start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Arguments of `seekwise-lab field`.
#[derive(clap::Args)]
pub struct FieldArguments {
    #[command(flatten)]
    emulated: Emulated,
    /// Number of disks of each kind to run in parallel. Each takes CPU time, flash more than hard disks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::within::<u16>(1..=64, "disks"))]
    at_once: u16,
    /// Workloads to run separately, comma-separated: names (`seekwise-lab validate --list`) or job files; `none` for none [default: all
    /// names]
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Workloads to run in sequence under one instance of the agent, comma-separated
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    mix: Vec<String>,
    /// Fixed setting to compare with, or the set `kernel`; may be given several times. The first is the original setting for the agent
    /// [default: mq-deadline, none, kyber, bfq]
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]")]
    schedulers: Vec<String>,
    /// Measured seconds of each workload, after one second of warm-up
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = number::within::<u32>(1..=3600, "seconds"))]
    seconds: u32,
    /// Number of repetitions; confidence intervals need more than one
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number::within::<u32>(1..=100, "rounds"))]
    rounds: u32,
    /// Weights of merit: throughput, response time, fairness; each 1 to 3, summing to 6 or 7 [default: 2,3,1]
    #[arg(long, value_name = "T,R,F")]
    preference: Option<Preference>,
    /// Run fio on a file of an ext4 file system on the disk instead of on the disk
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "8G", value_parser = number::size)]
    ext4: Option<u64>,
    /// Additional lines for the agent's configuration, such as `controller = "genetic"`
    #[arg(long, value_name = "LINE")]
    configure: Vec<String>,
    /// Folder in which the original settings are kept until they are restored; after a kill, the next start restores them
    #[arg(long, value_name = "DIR", default_value = JOURNAL)]
    journal: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &FieldArguments) -> anyhow::Result<()> {
    let trials = trials(args)?;
    ensure!(!trials.loads.is_empty(), "--workloads none: requires --mix");
    let missing = missing(true);
    ensure!(missing.is_empty(), "missing prerequisites: {}", missing.join("; "));
    programs::agent()?;
    let fio = version()?;
    let settings = Settings::open(&args.journal)?;
    let models = args.emulated.models();
    let terminal = Terminal::default();
    let devices = models.iter().map(|model| devices(model, args, (&trials, &settings))).collect::<anyhow::Result<Vec<_>>>()?;
    let pairs = trials.run(devices, &terminal)?;
    let field = Field {
        schema: SCHEMA,
        seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        fio,
        seconds: trials.seconds,
        rounds: trials.rounds,
        pairs,
    };
    let text = if args.json { field.to_json()? } else { field.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

fn trials(args: &FieldArguments) -> anyhow::Result<Trials> {
    let named = |names: &[String]| names.iter().map(|name| workloads::find(name)).collect::<anyhow::Result<Vec<_>>>();
    let all = || WORKLOADS.iter().map(|shipped| shipped.name.to_owned()).collect();
    let single: Vec<String> = match args.workloads.as_slice() {
        [] if args.mix.is_empty() => all(),
        [none] if none == "none" => Vec::new(),
        names => names.to_vec(),
    };
    let mut loads: Vec<Load> = named(&single)?.iter().map(Load::single).collect();
    if !args.mix.is_empty() {
        ensure!(args.mix.len() > 1, "--mix {}: should be at least two workloads", args.mix[0]);
        loads.push(Load::mix(&named(&args.mix)?));
    }
    let usual = ["mq-deadline", "none", "kyber", "bfq"].map(str::to_owned);
    let mut settings: Vec<Setting> = Vec::new();
    for text in if args.schedulers.is_empty() { &usual[..] } else { &args.schedulers } {
        match text.as_str() {
            "kernel" => settings.extend(regime::schedulers(text)?),
            _ => settings.push(Setting::parse(text).with_context(|| format!("--scheduler {text}"))?),
        }
    }
    for setting in &settings {
        expect_of_linux(setting)?;
        // Devices run concurrently and share the page cache, so settings must not include tunables of the machine.
        let settable: Vec<String> = LIVE[..OF_THE_QUEUE].iter().map(|&name| name.to_owned()).collect();
        regime::expect_settable("--scheduler", setting, &settable)?;
    }
    let (seconds, preference) = (f64::from(args.seconds), args.preference.unwrap_or_default());
    Ok(Trials { loads, settings, seconds, rounds: args.rounds, preference })
}

fn devices(model: &Model, args: &FieldArguments, (trials, settings): (&Trials, &Arc<Settings>)) -> anyhow::Result<Devices> {
    let name = match (model.queue_depth, model.queue_policy) {
        (Some(depth), Some(policy)) => format!("{} ({depth} requests, {})", model.name, format!("{policy:?}").to_lowercase()),
        _ => model.name.clone(),
    };
    let device = |_| -> anyhow::Result<Box<dyn AgentDevice>> {
        // An eighth more suffices for the file system's metadata.
        let (emulator, path) = Emulator::start(model, args.ext4.map_or(BYTES, |bytes| bytes + bytes / 8), 1.0)?;
        let mut device = BlockDevice::open(&path, settings)?;
        device.emulator = Some(emulator);
        let mounted = args.ext4.map(|bytes| Mounted::ext4(&path, bytes)).transpose()?;
        let place = tempfile::tempdir().context("cannot create a folder for the agent")?;
        let configuration = configuration(place.path(), &trials.preference, &args.configure);
        let file = place.path().join("agent.toml");
        fs::write(&file, configuration).with_context(|| file.display().to_string())?;
        Ok(Box::new(Plot { agent: None, mounted, device, place }))
    };
    Ok(Devices { name, devices: (0..args.at_once).map(device).collect::<anyhow::Result<_>>()? })
}

/// Configuration of the agent, with paths outside of the machine's own.
fn configuration(place: &Path, preference: &Preference, lines: &[String]) -> String {
    let place = place.display();
    let own = format!(
        "socket = \"{place}/agent.sock\"\napplier_socket = \"{place}/applier.sock\"\nstate_directory = \"{place}/state\"\n\
         preference = \"{preference}\"\n"
    );
    lines.iter().fold(own, |all, line| all + line + "\n")
}

/// A file system on a disk, with one file in it.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Creates an ext4 file system with a fully written file: holes would be read without I/O.
    fn ext4(device: &Path, bytes: u64) -> anyhow::Result<Mounted> {
        let run = |program: &str, arguments: &[&str], last: &Path| -> anyhow::Result<()> {
            let output =
                Command::new(program).args(arguments).arg(last).output().with_context(|| format!("cannot run {program}"))?;
            ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
            Ok(())
        };
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], device)?;
        let folder = tempfile::tempdir().context("cannot create a mount point")?;
        run("mount", &["-t", "ext4", &device.display().to_string()], folder.path())?;
        let mounted = Mounted { folder };
        let path = mounted.file();
        let cannot_write = || path.display().to_string();
        let mut file = fs::File::create(&path).with_context(cannot_write)?;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(1), bytes), &mut file).with_context(cannot_write)?;
        file.sync_all().with_context(cannot_write)?;
        Ok(mounted)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // As a last resort, a lazy unmount: the kernel removes it once it is unused.
        let unmount = |lazily: &[&str]| Command::new("umount").args(lazily).arg(self.folder.path()).status();
        if !unmount(&[]).is_ok_and(|status| status.success()) {
            let _ = unmount(&["-l"]);
        }
    }
}

/// A disk and its agent.
struct Plot {
    // Both end before the disk.
    agent: Option<Child>,
    mounted: Option<Mounted>,
    device: BlockDevice,
    place: tempfile::TempDir,
}

impl Plot {
    fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(programs::agent()?);
        command.args(arguments).arg("--config").arg(self.place.path().join("agent.toml")).stdin(Stdio::null());
        Ok(command)
    }

    /// The agent's log.
    fn said(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    fn answers(&self) -> anyhow::Result<bool> {
        let mut command = self.command(&["status", "--json"])?;
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("seekwise-agent")?.success())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(mut agent) = self.agent.take() else { return Ok(()) };
        // It may have exited already.
        let _ = kill(nix::unistd::Pid::from_raw(agent.id() as i32), Signal::SIGTERM);
        let status = agent.wait().context("seekwise-agent")?;
        ensure!(status.success(), "the agent failed ({status}): {}", self.said().trim());
        Ok(())
    }
}

impl RealDevice for Plot {
    fn path(&self) -> String {
        self.mounted.as_ref().map_or_else(|| self.device.path(), |mounted| mounted.file().display().to_string())
    }

    fn set(&mut self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<Vec<String>> {
        self.device.set(setting, host)
    }

    fn record(&mut self, file: &Path) -> anyhow::Result<bool> {
        self.device.record(file)
    }

    fn recorded(&mut self) -> anyhow::Result<()> {
        self.device.recorded()
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.device.settle()
    }
}

/// Fields of a history entry.
#[derive(Deserialize)]
struct Entry {
    kind: String,
    unix_seconds: u64,
    to: String,
    why: String,
    measured_percent: Option<f64>,
}

impl AgentDevice for Plot {
    fn start_agent(&mut self) -> anyhow::Result<()> {
        // Each trial begins without a history.
        let state = self.place.path().join("state");
        if state.exists() {
            fs::remove_dir_all(&state).with_context(|| state.display().to_string())?;
        }
        let log = fs::File::create(self.place.path().join("log")).context("cannot create the agent's log")?;
        let device = self.device.path();
        let mut command = self.command(&["act", &device])?;
        command.arg("--journal").arg(self.place.path().join("journal")).stdout(Stdio::null()).stderr(log);
        let mut agent = command.spawn().context("cannot start the agent")?;
        let began = Instant::now();
        while !self.answers()? {
            if let Some(status) = agent.try_wait().context("the agent")? {
                bail!("the agent exited ({status}): {}", self.said().trim());
            }
            ensure!(began.elapsed() < PATIENCE, "the agent does not reply: {}", self.said().trim());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.agent = Some(agent);
        Ok(())
    }

    fn stop_agent(&mut self) -> anyhow::Result<Vec<AgentChange>> {
        self.end()?;
        let output = self.command(&["history", "--json"])?.output().context("seekwise-agent")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let entries = text.lines().map(|line| serde_json::from_str(line).context("seekwise-agent history --json"));
        let entries: Vec<Entry> = entries.collect::<anyhow::Result<_>>()?;
        let began = entries.first().map_or(0, |entry| entry.unix_seconds);
        let told = entries.into_iter().filter(|entry| !matches!(entry.kind.as_str(), "began" | "restored"));
        Ok(told.map(|entry| entry.change(began)).collect())
    }
}

impl Entry {
    fn change(self, began: u64) -> AgentChange {
        let Entry { kind, unix_seconds, to, why, measured_percent } = self;
        AgentChange { at_s: unix_seconds.saturating_sub(began), kind, to, why, measured_percent }
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
