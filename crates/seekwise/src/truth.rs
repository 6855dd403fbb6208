//! `seekwise truth`: the same jobs by the real fio on the real kernel, and in the simulator.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use laboratory::comparison::regime;
use laboratory::pool::Crew;
use laboratory::truth::{BYTES, Question, Real, WORKLOADS};
use learn::Setting;
use serve::attach::queue::Queue;

use crate::experiment::QueuePolicyArgument;
use crate::number;
use crate::terminal::{self, Terminal};

/// Arguments of `seekwise truth`.
#[derive(clap::Args)]
pub struct Args {
    /// The disk: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`. It is emulated, unless --device names a disk that it describes
    #[arg(long, value_name = "NAME|FILE|ARRAY", default_value = "sata7200")]
    disk: String,
    /// Number of requests the disk accepts at once; 4 at least, for Linux takes no fewer [default: the profile's]
    #[arg(long, value_name = "REQUESTS", value_parser = number::within::<u32>(4..=1024, "requests"))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves queued requests [default: the profile's]
    #[arg(long, value_enum)]
    queue_policy: Option<QueuePolicyArgument>,
    /// A scheduler, optionally with tunables (`mq-deadline:fifo_batch=1`), or the set `kernel`; may be given several times
    #[arg(long = "scheduler", value_name = "NAME[:KEY=VALUE,...]", default_value = "kernel")]
    schedulers: Vec<String>,
    /// The workloads that are run, with commas between; --list names them [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    workloads: Vec<String>,
    /// Seconds that are measured of each run, one more than that is run
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = number::within::<u32>(1..=600, "seconds"))]
    seconds: u32,
    /// Real runs of each workload under each scheduler
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::within::<u32>(1..=100, "runs"))]
    runs: u32,
    /// A block device of this machine instead of an emulated disk; --disk is its profile (`seekwise disk fit` makes one). Its scheduler is
    /// changed, and put back at the end
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
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.list {
        let heads = WORKLOADS
            .iter()
            .map(|(name, jobs)| format!("{name:22}{}\n", jobs.lines().next().unwrap_or("").trim_start_matches("# ")));
        return Ok(terminal::print(&heads.collect::<String>())?);
    }
    let settings = args.schedulers.iter().map(|text| regime::schedulers(text)).collect::<anyhow::Result<Vec<_>>>()?.concat();
    for setting in &settings {
        let is_known = block::KERNEL.iter().any(|spec| spec.name == setting.spec.name);
        let known = block::KERNEL.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
        ensure!(is_known, "--scheduler {setting}: Linux has no such scheduler; it has {known}");
    }
    let question = Question {
        workloads: args.workloads.clone(),
        settings,
        seconds: f64::from(args.seconds),
        runs: args.runs,
        disk: args.disk.clone(),
        queue_depth: args.queue_depth,
        queue_policy: args.queue_policy.map(Into::into),
        writes: !args.read_only,
    };
    question.chosen()?;
    let terminal = Terminal::default();
    let mut emulator = None;
    let path = match &args.device {
        Some(device) => device.clone(),
        None => emulator.insert(Emulator::start(args)?).device.clone(),
    };
    let mut device = BlockDevice::open(path)?;
    let truth = question.ask(&mut device, Crew::new(&terminal, None))?;
    drop(device);
    drop(emulator);
    let text = if args.json { truth.to_json()? } else { truth.text(terminal::style().0) };
    Ok(terminal::print(&text)?)
}

/// A block device whose scheduler is put back when this is dropped.
struct BlockDevice {
    path: PathBuf,
    queue: Queue,
    before: String,
}

impl BlockDevice {
    fn open(path: PathBuf) -> anyhow::Result<BlockDevice> {
        let target = path.canonicalize().with_context(|| format!("--device {}", path.display()))?;
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ensure!(
            target.starts_with("/dev") && Path::new("/sys/block").join(name).is_dir(),
            "--device {}: is no whole disk; name one such as /dev/sda",
            path.display()
        );
        let queue = Queue::of(name);
        let before = queue.get("scheduler")?;
        Ok(BlockDevice { path: target, queue, before })
    }
}

impl Real for BlockDevice {
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn set(&mut self, setting: &Setting) -> anyhow::Result<Vec<String>> {
        let changed = setting.spec.tunables.iter().zip(&setting.values).filter(|(tunable, value)| tunable.default != **value);
        self.queue.use_scheduler(setting.spec.name, changed.map(|(tunable, value)| (tunable.name, *value)))?;
        let mut host = Vec::new();
        for name in ["nr_requests", "max_sectors_kb", "nomerges", "read_ahead_kb"] {
            host.push(format!("{name}={}", self.queue.get(name)?));
        }
        // SCSI and SATA drivers have a budget; loop devices, NVMe and virtio do not.
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        host.push(format!("dispatch_budget={}", u8::from(name.starts_with("sd"))));
        Ok(host)
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        // An emulated disk that is gone has nothing to put back.
        let _ = self.queue.use_scheduler(&self.before, []);
    }
}

/// `seekwise emulate --attach`, which takes everything down when it ends.
struct Emulator {
    child: Child,
    device: PathBuf,
    // Its mount point; removed after the emulator has ended.
    _folder: tempfile::TempDir,
}

impl Emulator {
    fn start(args: &Args) -> anyhow::Result<Emulator> {
        let folder = tempfile::tempdir().context("cannot make a folder to mount on")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["emulate", "--attach", "--disk", &args.disk, "--size", &BYTES.to_string()]).arg(folder.path());
        if let Some(depth) = args.queue_depth {
            command.arg("--queue-depth").arg(depth.to_string());
        }
        if let Some(policy) = args.queue_policy {
            let name = clap::ValueEnum::to_possible_value(&policy).map(|value| value.get_name().to_owned());
            command.arg("--queue-policy").arg(name.unwrap_or_default());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start the emulated disk")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("the emulated disk")?;
        }
        if line.trim().is_empty() {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said).context("the emulated disk")?;
            }
            child.wait().context("the emulated disk")?;
            bail!("the emulated disk did not start: {}", said.trim());
        }
        Ok(Emulator { child, device: PathBuf::from(line.trim()), _folder: folder })
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let process = nix::unistd::Pid::from_raw(self.child.id() as i32);
        // It may have ended by itself.
        let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
