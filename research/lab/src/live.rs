//! A block device for controllers: the agent's tracing, and its applier for settings.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent::own_applier::OwnApplier;
use anyhow::{Context as _, bail, ensure};
use applier::Client;
use applier::sysfs::Sysfs;
use block::Nanos;
use control::Target;
use linux::clock::now;
use linux::events::{EventSource as _, Tracepoints, wait};
use linux::target::LinuxTarget;
use linux::topology::{self, Device};
use observe::Event;
use research::live::LiveDevice;
use research::paper::EMULATED;
use research::validation::{Model, version};
use sim::device::hdd::spec::QueuePolicy;

use crate::block_device::missing;
use crate::emulator::Emulator;
use crate::programs;
use terminal::eprint_line;

/// Default socket of the agent's applier.
const SOCKET: &str = "/run/seekwise/applier.sock";
/// Default journal directory of the agent's applier.
pub const JOURNAL: &str = "/var/lib/seekwise";
/// Size of the emulated disk for an experiment, whose data is in memory.
const EMULATED_BYTES: u64 = 4 << 30;
/// `O_EXCL` of Linux: fails for a block device that is in use, for example mounted.
const EXCLUSIVE: i32 = 0o200;

/// A whole device of this machine, opened exclusively.
pub struct BlockDevice {
    // In the order in which they end: the applier restores the settings while the device is still there.
    linux: LinuxTarget,
    _applier: Option<OwnApplier>,
    eyes: Tracepoints,
    device: Device,
    path: PathBuf,
    /// The exclusively opened device; `None` while a file system is on it.
    file: Option<fs::File>,
    mounted: Option<Mounted>,
    fio: String,
    emulator: Option<Emulator>,
}

impl BlockDevice {
    /// Opens the named device, or a newly emulated one. Its contents may be overwritten. `host` names host tunables that may be set in
    /// addition to the scheduler and its tunables.
    ///
    /// # Errors
    /// A prerequisite is missing, or the device is in use or has no queue.
    pub fn open(given: &str, journal: &Path, host: &[&str]) -> anyhow::Result<BlockDevice> {
        let missing = missing(given == EMULATED);
        ensure!(missing.is_empty(), "missing prerequisites: {}", missing.join("; "));
        let (emulator, path) = if given == EMULATED {
            let (emulator, path) = Emulator::start(&in_order(), EMULATED_BYTES, 1.0)?;
            (Some(emulator), path)
        } else {
            (None, PathBuf::from(given))
        };
        let sysfs = Sysfs::real();
        let (device, part) = topology::find(&sysfs, &path.display().to_string())?;
        ensure!(part.is_none(), "--live {given}: is a partition; name a whole device");
        ensure!(device.has_queue, "--live {given}: has no queue and no scheduler; name a device below it");
        if let Some(why) = &device.left_alone {
            bail!("--live {given}: {why}");
        }
        let path = sysfs.dev().join(&device.name);
        let file = exclusively(&path).with_context(|| format!("--live {given}: is in use or not writable"))?;
        let eyes = Tracepoints::open(&sysfs, &device)?;
        let (applier, client) = applier(journal)?;
        let model = device.model.as_deref().unwrap_or(&device.name);
        let allowed = |name: &str| name == "scheduler" || name.starts_with("iosched/") || host.contains(&name);
        let mut linux = LinuxTarget::new(&sysfs, &device.name, model, client, allowed)?;
        linux.because("seekwise-lab paper run --live");
        let (file, mounted, fio) = (Some(file), None, version()?);
        Ok(BlockDevice { linux, _applier: applier, eyes, device, path, file, mounted, fio, emulator })
    }
}

/// A disk with 7,200 rpm and FIFO order, as in the papers; its queue depth is the minimum of Linux.
fn in_order() -> Model {
    Model { name: "sata7200".to_owned(), disk: "sata7200".to_owned(), queue_depth: Some(4), queue_policy: Some(QueuePolicy::Fifo) }
}

/// The applier with this journal: the running one, or a new one.
fn applier(journal: &Path) -> anyhow::Result<(Option<OwnApplier>, Client)> {
    let socket = if journal == Path::new(JOURNAL) { PathBuf::from(SOCKET) } else { journal.join("applier.sock") };
    if let Ok(client) = Client::connect(&socket) {
        return Ok((None, client));
    }
    if let Some(folder) = socket.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let said = tempfile::NamedTempFile::new().context("cannot create the applier's log")?;
    let mut command = Command::new(programs::find(applier::PROGRAM, "is required to change settings")?);
    command.args(["--ends-with-stdin", "--socket"]).arg(&socket).arg("--journal").arg(journal);
    command.stdout(std::process::Stdio::null()).stderr(said.reopen()?);
    let own = OwnApplier::start(command, &socket).map_err(|error| {
        let said = fs::read_to_string(said.path()).unwrap_or_default();
        anyhow::anyhow!("{error}: {}", said.trim())
    })?;
    Ok((Some(own), Client::connect(&socket)?))
}

impl LiveDevice for BlockDevice {
    fn path(&self) -> String {
        self.path.display().to_string()
    }

    fn size_bytes(&self) -> u64 {
        self.device.size_sectors * 512
    }

    fn facts(&self) -> Vec<(String, String)> {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let what = if self.emulator.is_some() {
            "an emulated disk (`seekwise emulate --attach`): sata7200 that holds four requests and serves them in order. The papers’ drives had \
             no queue; of the requests that a drive may hold Linux takes no fewer than four"
                .to_owned()
        } else {
            self.device.model.clone().unwrap_or_else(|| "unknown model".to_owned())
        };
        let gib = self.size_bytes() as f64 / f64::from(1_u32 << 30);
        [
            ("Kernel", format!("Linux {}, {cores} processors; {}", kernel.trim(), self.fio)),
            ("Device", format!("{}, {gib:.1} GiB: {what}.", self.device.name)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn plant(&mut self) -> &mut dyn Target {
        &mut self.linux
    }

    fn now(&self) -> Nanos {
        now().at
    }

    fn watch(&mut self, longest: Nanos, out: &mut Vec<Event>) -> anyhow::Result<()> {
        wait(&self.eyes.fds(), longest)?;
        Ok(self.eyes.read(out)?)
    }

    fn lost(&self) -> u64 {
        self.eyes.lost()
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        if let Some(mounted) = &self.mounted {
            let folder = mounted.folder.path();
            return runs("sync", &["--file-system", &folder.display().to_string()]);
        }
        if let Some(file) = &self.file {
            file.sync_all().with_context(|| self.path.display().to_string())?;
        }
        self.emulator.as_mut().map_or(Ok(()), Emulator::renew)
    }

    fn mount(&mut self, file_system: &str) -> anyhow::Result<PathBuf> {
        self.unmount()?;
        let path = self.path.display().to_string();
        let mkfs = format!("mkfs.{file_system}");
        // No discard and no deferred initialisation, which would disturb the measurement.
        let options: &[&str] =
            if file_system == "xfs" { &["-q", "-f", "-K"] } else { &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0"] };
        let folder = tempfile::tempdir().context("cannot create a mount point")?;
        // mkfs and mount open the device exclusively themselves.
        self.file = None;
        let mounted = runs(&mkfs, &[options, &[&path]].concat()).and_then(|()| {
            let folder = folder.path().display().to_string();
            runs("mount", &["-t", file_system, "-o", "noatime", &path, &folder])
        });
        if mounted.is_err() {
            self.file = exclusively(&self.path).ok();
        }
        mounted?;
        let root = folder.path().to_owned();
        self.mounted = Some(Mounted { folder });
        Ok(root)
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        let Some(mounted) = self.mounted.take() else { return Ok(()) };
        mounted.end()?;
        self.file = Some(exclusively(&self.path).with_context(|| self.path.display().to_string())?);
        Ok(())
    }
}

/// A mounted file system.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Unmounts it.
    ///
    /// # Errors
    /// The file system is in use.
    fn end(self) -> anyhow::Result<()> {
        // If it is still mounted, the folder must not be emptied.
        let folder = self.folder.keep();
        runs("umount", &[&folder.display().to_string()])?;
        fs::remove_dir(&folder).with_context(|| folder.display().to_string())
    }
}

fn exclusively(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).custom_flags(EXCLUSIVE).open(path)
}

/// Runs a system program and waits for it to exit.
fn runs(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let ran = Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output();
    let ran = ran.with_context(|| format!("cannot run {program}"))?;
    ensure!(ran.status.success(), "{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&ran.stderr).trim());
    Ok(())
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprint_line(&format!("{}: {error:#}", self.device.name));
        }
        match self.linux.applier().restore(Some(&self.device.name)) {
            Ok(restored) => {
                for one in restored.iter().filter(|one| matches!(one.outcome, applier::Outcome::Failed { .. })) {
                    eprint_line(&format!("{}: {one}", one.scope));
                }
            }
            // The applier restores everything when it is started again, as does `seekwise-agent restore`.
            Err(error) => {
                eprint_line(&format!("{}: could not be restored: {error}; run `seekwise-agent restore`", self.device.name))
            }
        }
    }
}
