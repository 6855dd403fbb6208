//! `seekwise-agent act`: the daemon.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::Command;

use agent::configuration::{Configuration, Mode};
use agent::control_socket::Server;
use agent::daemon::open::Machine;
use agent::daemon::run::{LoopContext, run as run_daemon};
use agent::daemon::{Daemon, Learner, Scope};
use agent::fleet::{Exchange, FleetLink, MACHINE_ID};
use agent::history::History;
use agent::learning::{self, Memory};
use agent::metrics::Metrics;
use agent::own_applier::{self, OwnApplier};
use anyhow::{Context as _, bail};
use applier::Client;
use applier::sysfs::Sysfs;
use endpoint::notify::Notify;
use linux::clock::now;
use linux::topology::HotPlug;
use nix::unistd::{Gid, User, setgid, setgroups, setuid};
use terminal::Failed;
use tracing::{info, warn};

use super::{Configured, is_root, log_to_stderr, names};

/// Arguments of `seekwise-agent act`.
#[derive(clap::Args)]
pub struct ActArgs {
    /// Devices to tune, such as `sda` or /dev/disk/by-id/… [default: those with mode = "act" in the configuration]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Journal directory of the applier that is started if none is running
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: std::path::PathBuf,
    /// Use the kernel's counters only, as if requests could not be traced
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command.
pub fn run(args: &ActArgs) -> anyhow::Result<()> {
    log_to_stderr()?;
    let configuration = args.configured.load()?;
    let named = names(&args.devices)?;
    let user = configuration.user.as_deref().map(user).transpose()?;
    // Started before privileges are dropped. It exits at the end of its standard input, even if this process is killed.
    let _applier = own_applier((&args.journal, false), &args.configured, &configuration, user.as_ref(), &[])?;
    for folder in [configuration.socket.parent(), Some(configuration.state_directory.as_path())].into_iter().flatten() {
        make(folder, user.as_ref())?;
    }
    if let Some(user) = &user {
        become_user(user)?;
    }
    let notify = Notify::from_environment().context("NOTIFY_SOCKET")?;
    let control = Server::listen(&configuration.socket).with_context(|| configuration.socket.display().to_string())?;
    let history = History::open(&configuration.state_directory, configuration.history)
        .with_context(|| configuration.state_directory.display().to_string())?;
    let metrics = Metrics::new();
    if let Some(listen) = &configuration.metrics {
        let shown = metrics.clone();
        endpoint::metrics::serve(listen, "seekwise-agent", move || shown.text())
            .with_context(|| format!("metrics = {listen:?}"))?;
    }
    let (sysfs, began) = (Sysfs::real(), now());
    let opens = Box::new(Machine::new(sysfs.clone(), &configuration.applier_socket).by_counters(args.counters));
    let experience = configuration.experience()?;
    let mode = (!named.is_empty()).then_some(Mode::Act);
    let wants = Scope { configuration, named, mode };
    let memory = Memory::below(&wants.configuration.state_directory);
    let learner = learner(&sysfs, &wants.configuration, &memory);
    let link = link(&wants.configuration, &memory, began.at)?;
    let daemon = Daemon::new(began, (sysfs, "/".into()), wants, opens, (experience, history, metrics)).remembering(memory);
    let mut daemon = match learner {
        Some(learner) => daemon.learning(learner),
        None => daemon,
    };
    if let Some(link) = link {
        daemon = daemon.sharing(link);
    }
    daemon.step(began);
    expect_something(&daemon)?;
    let tuned = daemon.sessions().filter(|watched| watched.settings().mode == Mode::Act).count();
    let all = daemon.sessions().count();
    let status = format!("tuning {tuned} and monitoring {} devices", all - tuned);
    info!("{status}");
    // Where devices are named, no other is looked at.
    let reasons = if args.devices.is_empty() { Vec::new() } else { daemon.reasons() };
    if tuned == 0 && !reasons.is_empty() {
        info!("no device is tuned: {}", reasons.join("; "));
    } else if tuned == 0 {
        info!("no device is tuned: the configuration sets mode = \"act\" for none, and none is named on the command line");
    }
    notify.ready(&status);
    let context = LoopContext {
        control: Some(control),
        hot_plug: hot_plug(),
        notify,
        stop: terminal::interrupted(),
        lasts: None,
        monitor: None,
    };
    run_daemon(&mut daemon, &context, |_| Ok(()))?;
    Ok(())
}

/// A listener for the kernel's hot-plug events; `None` if it cannot be opened, which is logged: devices are then polled.
pub fn hot_plug() -> Option<HotPlug> {
    HotPlug::listen().inspect_err(|error| info!("no hot-plug events, devices are polled every few seconds: {error}")).ok()
}

/// The learner for `[learning]` of the configuration; `None` if that names no scratch file.
fn learner(sysfs: &Sysfs, configuration: &Configuration, memory: &Memory) -> Option<Learner> {
    let scratch = configuration.learning.scratch.clone()?;
    let equipment = learning::Machine { sysfs: sysfs.clone(), scratch };
    // Its filesystem may be mounted later: the daemon tunes meanwhile, and `status` prints the error.
    if let Err(why) = equipment.check() {
        warn!("learning: {why}");
    }
    Some(Learner::new(configuration.learning.clone(), false, Box::new(equipment), memory.clone()))
}

/// Starts the thread for the server of `[fleet]`; `None` if no server is configured.
fn link(configuration: &Configuration, memory: &Memory, now: block::Nanos) -> anyhow::Result<Option<FleetLink>> {
    if configuration.fleet.server.is_none() {
        return Ok(None);
    }
    let exchange =
        Exchange { file: memory.path().to_owned(), settings: configuration.fleet.clone(), machine_id: MACHINE_ID.into() };
    Ok(Some(FleetLink::start(exchange, now).context("fleet: a thread cannot be started")?))
}

/// Checks that at least one device could be opened, or that no device failed to open.
///
/// # Errors
/// Every device failed to open, for example because of a sandbox or a missing applier: the errors of all of them.
pub fn expect_something(daemon: &Daemon) -> anyhow::Result<()> {
    let troubles = daemon.history().entries().filter(|entry| entry.kind == agent::history::EntryKind::Trouble);
    let troubles: Vec<String> = troubles.map(|entry| format!("{}: {}", entry.device, entry.why)).collect();
    if daemon.sessions().count() == 0 && !troubles.is_empty() {
        return Err(Failed(format!("cannot open any device: {}", troubles.join("; "))).into());
    }
    Ok(())
}

fn user(name: &str) -> anyhow::Result<User> {
    let found = User::from_name(name).with_context(|| format!("user = \"{name}\""))?;
    found.with_context(|| format!("user = \"{name}\": no such user; name an existing one, such as user = \"nobody\""))
}

/// Creates a folder (mode 755) and its parents if it does not exist, owned by `user` if this is root. As a service, systemd or the package
/// has created it.
///
/// # Errors
/// It cannot be created, or its owner cannot be changed.
pub fn make(folder: &Path, user: Option<&User>) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).with_context(|| folder.display().to_string())?;
    if let Some(user) = user.filter(|_| is_root()) {
        std::os::unix::fs::chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Drops root privileges permanently.
fn become_user(user: &User) -> anyhow::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let cannot = || format!("user = \"{}\": cannot switch to that user", user.name);
    setgroups(&[] as &[Gid]).with_context(cannot)?;
    setgid(user.gid).with_context(cannot)?;
    setuid(user.uid).with_context(cannot)?;
    if is_root() {
        bail!("{}", cannot());
    }
    Ok(())
}

/// Starts an applier with its journal in this folder; `is_quiet`: it logs only warnings. Besides those of the configuration it may limit these
/// `cgroups`. `None` if one is running already, or this is not
/// root.
///
/// # Errors
/// It cannot be started, or exits at once.
pub fn own_applier(
    (journal, is_quiet): (&Path, bool),
    configured: &Configured,
    configuration: &Configuration,
    user: Option<&User>,
    cgroups: &[String],
) -> anyhow::Result<Option<OwnApplier>> {
    let socket = &configuration.applier_socket;
    if !is_root() || Client::connect(socket).is_ok() {
        return Ok(None);
    }
    if let Some(folder) = socket.parent() {
        make(folder, None)?;
    }
    // A missing program or permission is not a usage error.
    let failed = |error: applier::ApplierError| Failed(error.to_string());
    let mut command = Command::new(own_applier::program().map_err(failed)?);
    command.arg("--ends-with-stdin").arg("--socket").arg(socket).arg("--journal").arg(journal);
    if is_quiet {
        command.arg("--quiet");
    }
    if let Some(file) = configured.file() {
        command.arg("--config").arg(file);
    }
    for cgroup in cgroups {
        command.arg("--cgroup").arg(cgroup);
    }
    if let Some(user) = user {
        command.arg("--user").arg(user.uid.to_string());
    }
    Ok(Some(OwnApplier::start(command, socket).map_err(failed)?))
}
