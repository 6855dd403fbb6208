//! `seekwise-agent act`: the daemon.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agent::applier::Client;
use agent::configuration::{Configuration, Mode};
use agent::control::Server;
use agent::daemon::history::History;
use agent::daemon::open::Machine;
use agent::daemon::run::{Beside, now, run as run_daemon};
use agent::daemon::{Daemon, Wants};
use agent::metrics::{self, Metrics};
use agent::notify::Notify;
use agent::sysfs::Sysfs;
use anyhow::{Context as _, bail};
use nix::unistd::{Gid, User, setgid, setgroups, setuid};
use terminal::Failed;
use tracing::{info, warn};

use super::{Configured, is_root, log_to_stderr, names};

/// How long an applier takes to listen: it reads its journal first, and may put things back.
const APPLIER_STARTS: Duration = Duration::from_secs(30);

/// Arguments of `seekwise-agent act`.
#[derive(clap::Args)]
pub struct Args {
    /// Devices to tune, as in `sda` or /dev/disk/by-id/… [default: what the configuration says of each]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// The journal of the applier that is started where none runs
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: std::path::PathBuf,
    /// Go by the counters alone, as where single requests may not be seen
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    let configuration = args.configured.load()?;
    let named = names(&args.devices)?;
    let user = configuration.user.as_deref().map(user).transpose()?;
    // Started before privileges are given up, and ended by the end of its standard input, whatever becomes of this process.
    let _applier = OwnApplier::start_if_needed(args, &configuration, user.as_ref())?;
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
        metrics::serve(listen, metrics.clone()).with_context(|| format!("metrics = {listen:?}"))?;
    }
    let (sysfs, began) = (Sysfs::real(), now());
    let opens = Box::new(Machine::new(sysfs.clone(), &configuration.applier_socket).by_counters(args.counters));
    let experience = configuration.experience()?;
    let mode = (!named.is_empty()).then_some(Mode::Act);
    let wants = Wants { configuration, named, mode };
    let mut daemon = Daemon::new(began, (sysfs, "/".into()), wants, opens, (experience, history, metrics));
    daemon.step(began);
    expect_something(&daemon)?;
    let tuned = daemon.watched().filter(|watched| watched.settings().mode == Mode::Act).count();
    let all = daemon.watched().count();
    let status = format!("tunes {tuned} and watches {} devices", all - tuned);
    info!("{status}");
    if tuned == 0 {
        info!("nothing is tuned: the configuration says mode = \"act\" of no device, and none is named");
    }
    notify.ready(&status);
    let beside = Beside { control: Some(control), notify, stop: terminal::interrupted(), lasts: None };
    run_daemon(&mut daemon, &beside, |_| Ok(()))?;
    Ok(())
}

/// Fails loudly where a sandbox, or a missing applier, forbids all of the work.
fn expect_something(daemon: &Daemon) -> anyhow::Result<()> {
    let troubles = daemon.history().entries().filter(|entry| entry.kind == agent::daemon::history::Kind::Trouble);
    let troubles: Vec<String> = troubles.map(|entry| format!("{}: {}", entry.device, entry.why)).collect();
    if daemon.watched().count() == 0 && !troubles.is_empty() {
        return Err(Failed(format!("no device can be worked on: {}", troubles.join("; "))).into());
    }
    Ok(())
}

fn user(name: &str) -> anyhow::Result<User> {
    let found = User::from_name(name).with_context(|| format!("user = \"{name}\""))?;
    found.with_context(|| format!("user = \"{name}\": there is no such user; name one, as in user = \"nobody\""))
}

/// A folder that is there only while the daemon runs as a service, or is made by its package.
fn make(folder: &Path, user: Option<&User>) -> anyhow::Result<()> {
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

/// Gives up root for good.
fn become_user(user: &User) -> anyhow::Result<()> {
    if !is_root() {
        return Ok(());
    }
    let cannot = || format!("user = \"{}\": cannot become that user", user.name);
    setgroups(&[] as &[Gid]).with_context(cannot)?;
    setgid(user.gid).with_context(cannot)?;
    setuid(user.uid).with_context(cannot)?;
    if is_root() {
        bail!("{}", cannot());
    }
    Ok(())
}

/// An applier that was started because none was there. Started again if it is killed: as long as something is set that is to be put back,
/// somebody must be able to.
struct OwnApplier {
    /// The end of its standard input ends it; it puts back what is to be put back.
    input: Arc<Mutex<Option<ChildStdin>>>,
    watches: Option<JoinHandle<()>>,
}

impl OwnApplier {
    fn start_if_needed(args: &Args, configuration: &Configuration, user: Option<&User>) -> anyhow::Result<Option<OwnApplier>> {
        let socket = &configuration.applier_socket;
        if !is_root() || Client::connect(socket).is_ok() {
            return Ok(None);
        }
        if let Some(folder) = socket.parent() {
            make(folder, None)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("applier").arg("--ends-with-stdin").arg("--socket").arg(socket).arg("--journal").arg(&args.journal);
        if let Some(file) = args.configured.file() {
            command.arg("--config").arg(file);
        }
        if let Some(user) = user {
            command.arg("--user").arg(user.uid.to_string());
        }
        command.stdin(Stdio::piped()).env_remove("NOTIFY_SOCKET");
        let mut child = command.spawn().context("starting the applier")?;
        let began = Instant::now();
        while Client::connect(socket).is_err() {
            if let Some(status) = child.try_wait()? {
                return Err(Failed(format!("the applier ended at once ({status}); it said why")).into());
            }
            if began.elapsed() > APPLIER_STARTS {
                return Err(Failed(format!("{}: the applier does not listen", socket.display())).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        info!("started an applier of its own at {}", socket.display());
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let shared = input.clone();
        let watches = std::thread::Builder::new().name("applier".to_owned()).spawn(move || watch_over(child, command, &shared))?;
        Ok(Some(OwnApplier { input, watches: Some(watches) }))
    }
}

/// Waits for it, and starts another if it was not to end.
fn watch_over(mut child: Child, mut command: Command, input: &Mutex<Option<ChildStdin>>) {
    loop {
        let ended = child.wait();
        let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
        if input.is_none() {
            return;
        }
        let ended = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
        if !is_root() {
            warn!(
                "the applier ended ({ended}), and this process may not start another; as root, `seekwise-agent restore` puts everything back"
            );
            return;
        }
        warn!("the applier ended ({ended}): starting another");
        match command.spawn() {
            Ok(another) => child = another,
            Err(error) => {
                warn!("the applier cannot be started: {error}");
                return;
            }
        }
        *input = child.stdin.take();
    }
}

impl Drop for OwnApplier {
    fn drop(&mut self) {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
        // One that panicked has said so.
        let _ = self.watches.take().map(JoinHandle::join);
    }
}
