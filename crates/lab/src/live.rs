//! A block device that controllers steer: the agent's eyes, and its applier for all that is set.

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
use research::live::Live;
use research::paper::EMULATED;
use research::validation::{Model, version};
use sim::device::hdd::spec::QueuePolicy;

use crate::block_device::missing;
use crate::emulator::Emulator;
use crate::programs;
use terminal::eprint_line;

/// Where the agent's applier listens and keeps its journal, by default.
const SOCKET: &str = "/run/seekwise/applier.sock";
/// See [`SOCKET`].
pub const JOURNAL: &str = "/var/lib/seekwise";
/// Size of the disk that is emulated for an experiment. What is written to it is kept in memory.
const EMULATED_BYTES: u64 = 4 << 30;
/// `O_EXCL` of Linux: of a block device it is refused while another process uses it, as by a mount.
const EXCLUSIVE: i32 = 0o200;

/// A whole device of this machine, not used otherwise meanwhile.
pub struct BlockDevice {
    // In the order in which they end: what was set is put back by the applier while the device is still there.
    linux: LinuxTarget,
    _applier: Option<OwnApplier>,
    eyes: Tracepoints,
    device: Device,
    path: PathBuf,
    file: fs::File,
    fio: String,
    emulator: Option<Emulator>,
}

impl BlockDevice {
    /// The device that a person names, or one that is emulated for this alone. Everything on it may be overwritten. `host` names what may be
    /// set in addition to the scheduler and its tunables.
    ///
    /// # Errors
    /// Something is missing here, or the device is used, or is none that can be steered.
    pub fn open(given: &str, journal: &Path, host: &[&str]) -> anyhow::Result<BlockDevice> {
        let missing = missing(given == EMULATED);
        ensure!(missing.is_empty(), "here is missing: {}", missing.join("; "));
        let (emulator, path) = if given == EMULATED {
            let (emulator, path) = Emulator::start(&in_order(), EMULATED_BYTES, 1.0)?;
            (Some(emulator), path)
        } else {
            (None, PathBuf::from(given))
        };
        let sysfs = Sysfs::real();
        let (device, part) = topology::find(&sysfs, &path.display().to_string())?;
        ensure!(part.is_none(), "--live {given}: is a partition; schedulers are whole devices’: name one");
        ensure!(device.has_queue, "--live {given}: has no queue of its own, and so no scheduler; name a device below it");
        if let Some(why) = &device.left_alone {
            bail!("--live {given}: {why}");
        }
        let path = sysfs.dev().join(&device.name);
        let mut options = fs::OpenOptions::new();
        let exclusive = options.read(true).write(true).custom_flags(EXCLUSIVE).open(&path);
        let file = exclusive.with_context(|| format!("--live {given}: is in use, or cannot be written"))?;
        let eyes = Tracepoints::open(&sysfs, &device)?;
        let (applier, client) = applier(journal)?;
        let model = device.model.as_deref().unwrap_or(&device.name);
        let allowed = |name: &str| name == "scheduler" || name.starts_with("iosched/") || host.contains(&name);
        let mut linux = LinuxTarget::new(&sysfs, &device.name, model, client, allowed)?;
        linux.because("seekwise-lab paper run --live");
        Ok(BlockDevice { linux, _applier: applier, eyes, device, path, file, fio: version()?, emulator })
    }
}

/// A disk of 7,200 rpm that serves in order, as those of the papers did; of the requests that it may hold Linux takes no fewer.
fn in_order() -> Model {
    Model { name: "sata7200".to_owned(), disk: "sata7200".to_owned(), queue_depth: Some(4), queue_policy: Some(QueuePolicy::Fifo) }
}

/// The applier that has this journal, or one of our own.
fn applier(journal: &Path) -> anyhow::Result<(Option<OwnApplier>, Client)> {
    let socket = if journal == Path::new(JOURNAL) { PathBuf::from(SOCKET) } else { journal.join("applier.sock") };
    if let Ok(client) = Client::connect(&socket) {
        return Ok((None, client));
    }
    if let Some(folder) = socket.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let said = tempfile::NamedTempFile::new().context("cannot keep what the applier says")?;
    let mut command = Command::new(programs::find(applier::PROGRAM, "sets the device and puts everything back")?);
    command.args(["--ends-with-stdin", "--socket"]).arg(&socket).arg("--journal").arg(journal);
    command.stdout(std::process::Stdio::null()).stderr(said.reopen()?);
    let own = OwnApplier::start(command, &socket).map_err(|error| {
        let said = fs::read_to_string(said.path()).unwrap_or_default();
        anyhow::anyhow!("{error}: {}", said.trim())
    })?;
    Ok((Some(own), Client::connect(&socket)?))
}

impl Live for BlockDevice {
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
            self.device.model.clone().unwrap_or_else(|| "of no name".to_owned())
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
        self.file.sync_all().with_context(|| self.path.display().to_string())?;
        self.emulator.as_mut().map_or(Ok(()), Emulator::renew)
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        match self.linux.applier().restore(Some(&self.device.name)) {
            Ok(restored) => {
                for one in restored.iter().filter(|one| matches!(one.outcome, applier::Outcome::Failed { .. })) {
                    eprint_line(&format!("{}: {}", one.device, agent::daemon::restored(one)));
                }
            }
            // The applier itself puts everything back when it is started again, or `seekwise-agent restore`.
            Err(error) => {
                eprint_line(&format!("{}: was not put back: {error}; `seekwise-agent restore` does that", self.device.name))
            }
        }
    }
}
