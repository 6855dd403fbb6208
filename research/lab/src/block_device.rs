//! A block device of the real kernel on which fio runs under several settings in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use applier::attribute::{MACHINE, MACHINE_PREFIX, NONE, NR_REQUESTS, READ_AHEAD, SCHEDULER, WRITE_BACK_THROTTLE};
use applier::sysfs::Sysfs;
use control::Setting;
use emulate::attach::queue::Queue;
use linux::events::{Background, Tracepoints};
use linux::topology::{self, Device};
use research::validation::RealDevice;

use crate::emulator::Emulator;
use crate::settings::Settings;
use seekwise::trace::copy;
use terminal::eprint_line;

/// The missing prerequisites for running fio on a device, or on an emulated one; empty if there are none.
pub(crate) fn missing(emulates: bool) -> Vec<&'static str> {
    let opens = |path: &str| fs::OpenOptions::new().read(true).write(true).open(path).is_ok();
    let runs = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    let needs = [
        (!nix::unistd::geteuid().is_root(), "root, to change the scheduler"),
        (!runs("fio"), "fio (apt-get install fio)"),
        (emulates && !opens("/dev/fuse"), "/dev/fuse, readable and writable by this user"),
        (
            emulates && !opens("/dev/loop-control"),
            "/dev/loop-control (the kernel's module loop), readable and writable by this user",
        ),
        (emulates && !runs("losetup"), "losetup (apt-get install mount)"),
    ];
    needs.into_iter().filter(|(is_missing, _)| *is_missing).map(|(_, what)| what).collect()
}

/// Host tunables that a setting may change: of the device's queue, and of the machine's page cache. Limits in percent precede those in
/// bytes, which replace them when written.
pub const LIVE: [&str; 8] = [
    "nr_requests",
    "read_ahead_kb",
    "dirty_ratio",
    "dirty_bytes",
    "dirty_background_ratio",
    "dirty_background_bytes",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

/// Number of queue tunables at the start of [`LIVE`]; the others are in `/proc/sys/vm`.
pub const OF_THE_QUEUE: usize = 2;

/// A block device. Its settings, and those of the page cache, are restored on drop; after a kill, at the next start.
pub struct BlockDevice {
    path: PathBuf,
    name: String,
    queue: Queue,
    settings: Arc<Settings>,
    /// The original read-ahead in KiB.
    read_ahead: String,
    memory_mib: u64,
    /// 512-byte sectors of the device.
    pub capacity_sectors: u64,
    /// `None` if its requests cannot be traced.
    observed: Option<Device>,
    recording: Option<Background>,
    /// The process that emulates the disk, if any. Ends after settings were restored.
    pub emulator: Option<Emulator>,
}

impl BlockDevice {
    /// Opens a whole disk.
    ///
    /// # Errors
    /// It is not a whole disk, or its settings cannot be read.
    pub fn open(path: &Path, settings: &Arc<Settings>) -> anyhow::Result<BlockDevice> {
        let target = path.canonicalize().with_context(|| format!("--device {}", path.display()))?;
        let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ensure!(
            target.starts_with("/dev") && Path::new("/sys/block").join(name).is_dir(),
            "--device {}: is not a whole disk; name one such as /dev/sda",
            path.display()
        );
        let queue = Queue::of(name);
        let observed = observable(name).map_err(|error| eprintln!("No forecasts: requests cannot be traced: {error}")).ok();
        let size = Path::new("/sys/block").join(name).join("size");
        let text = fs::read_to_string(&size).with_context(|| size.display().to_string())?;
        let capacity_sectors = text.trim().parse().with_context(|| format!("{}: is {}", size.display(), text.trim()))?;
        Ok(BlockDevice {
            name: name.to_owned(),
            settings: settings.clone(),
            read_ahead: queue.get("read_ahead_kb")?,
            queue,
            memory_mib: available_mib()?,
            capacity_sectors,
            observed,
            path: target,
            recording: None,
            emulator: None,
        })
    }

    /// Applies a scheduler and the given host tunables; all others get their original values.
    fn use_setting(&self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<()> {
        let value = |name: &str| host.iter().find(|(key, _)| key == name).map(|(_, value)| value.to_string());
        self.settings.restore(MACHINE)?;
        let of_machine = LIVE[OF_THE_QUEUE..].iter().filter_map(|name| Some((format!("{MACHINE_PREFIX}{name}"), value(name)?)));
        let of_machine: Vec<_> = of_machine.collect();
        if !of_machine.is_empty() {
            self.settings.set(MACHINE, &of_machine)?;
        }
        let scheduler = (SCHEDULER.to_owned(), setting.spec.name.to_owned());
        if setting.spec.name != NONE {
            // Only a switch restores the defaults of the tunables.
            self.settings.set(&self.name, &[(SCHEDULER.to_owned(), NONE.to_owned())])?;
        }
        let changed = setting.spec.tunables.iter().zip(&setting.values).filter(|(tunable, value)| tunable.default != **value);
        let mut wanted: Vec<_> = changed.map(|(tunable, value)| (format!("iosched/{}", tunable.name), value.to_string())).collect();
        wanted.push(scheduler);
        // Linux's default for this scheduler: a value that was ever set manually would stay active under bfq.
        if self.queue.get(WRITE_BACK_THROTTLE).is_ok() {
            wanted.push((WRITE_BACK_THROTTLE.to_owned(), "-1".to_owned()));
        }
        wanted.push((READ_AHEAD.to_owned(), value(READ_AHEAD).unwrap_or_else(|| self.read_ahead.clone())));
        // Without a value, switching the scheduler has set its default number of requests.
        wanted.extend(value(NR_REQUESTS).map(|value| (NR_REQUESTS.to_owned(), value)));
        self.settings.set(&self.name, &wanted)
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

/// The device for tracing.
///
/// # Errors
/// Its requests cannot be traced.
fn observable(name: &str) -> anyhow::Result<Device> {
    let sysfs = Sysfs::real();
    let (device, _) = topology::find(&sysfs, name)?;
    Tracepoints::open(&sysfs, &device)?;
    Ok(device)
}

/// Available memory in MiB (MemAvailable).
fn available_mib() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo: MemAvailable is missing")? / 1024)
}

impl RealDevice for BlockDevice {
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn set(&mut self, setting: &Setting, host: &[(String, i64)]) -> anyhow::Result<Vec<String>> {
        self.use_setting(setting, host)?;
        let mut simulated = vec![format!("memory_mib={}", self.memory_mib)];
        for name in ["max_sectors_kb", "nomerges"] {
            simulated.push(format!("{name}={}", self.queue.get(name)?));
        }
        // A kernel without the attribute does not throttle.
        simulated.push(format!("wbt_lat_usec={}", self.queue.get("wbt_lat_usec").unwrap_or_else(|_| "0".to_owned())));
        for (number, name) in LIVE.iter().enumerate() {
            // Of a limit in per cent and the one in bytes, the inactive one reads as 0.
            let value = live(&self.queue, number)?;
            if !(name.starts_with("dirty_") && value == "0") {
                simulated.push(format!("{name}={value}"));
            }
        }
        // SCSI and SATA drivers have a budget; loop devices, NVMe and virtio do not.
        simulated.push(format!("dispatch_budget={}", u8::from(self.name.starts_with("sd"))));
        Ok(simulated)
    }

    fn record(&mut self, file: &Path) -> anyhow::Result<bool> {
        let Some(device) = &self.observed else { return Ok(false) };
        let out = fs::File::create(file).with_context(|| file.display().to_string())?;
        let capture = linux::advice::to_store(out, (&Sysfs::real(), device), &copy::program())?;
        self.recording = Some(Background::begin(Tracepoints::open(&Sysfs::real(), device)?, capture));
        Ok(true)
    }

    fn recorded(&mut self) -> anyhow::Result<()> {
        let Some(recording) = self.recording.take() else { return Ok(()) };
        let recorded = recording.end()?;
        ensure!(recorded.lost == 0, "the kernel lost {} trace events: the request rate is too high", recorded.lost);
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        fs::File::open(&self.path)?.sync_all().with_context(|| self.path.display().to_string())?;
        self.emulator.as_mut().map_or(Ok(()), Emulator::renew)
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        for device in [&self.name, MACHINE] {
            if let Err(error) = self.settings.restore(device) {
                eprint_line(&format!("could not be restored: {error:#}; the next start tries again"));
            }
        }
    }
}
