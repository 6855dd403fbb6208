//! `seekwise-agent applier`: the small process that may write.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use agent::applier::{Listen, Options, Rules, serve};
use agent::notify::Notify;
use anyhow::Context as _;
use listenfd::ListenFd;
use nix::unistd::User;
use terminal::Failed;

use super::{Configured, log_to_stderr};

/// Arguments of `seekwise-agent applier`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    configured: Configured,
    /// Where to listen [default: the socket that systemd passes, else the configuration's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Where the journal is
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: PathBuf,
    /// A user that is served besides root, by name or number
    #[arg(long, value_name = "USER")]
    user: Vec<String>,
    /// End when standard input does: for whoever started this process
    #[arg(long)]
    ends_with_stdin: bool,
    /// Say only what goes wrong
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr()?;
    terminal::outlive_interrupts();
    let configuration = args.configured.load()?;
    let users = args.user.iter().map(|user| number(user)).collect::<anyhow::Result<Vec<u32>>>()?;
    let passed = ListenFd::from_env().take_unix_listener(0).context("the socket that systemd passes")?;
    let listen = match (passed, &args.socket) {
        (Some(listener), None) => Listen::On(listener),
        (_, socket) => Listen::At(socket.clone().unwrap_or_else(|| configuration.applier_socket.clone())),
    };
    let options = Options {
        journal: args.journal.clone(),
        listen,
        users,
        rules: Rules { machine: configuration.may_touch_machine(), ..Rules::default() },
        log: if args.quiet { |_| {} } else { |line| tracing::info!("{line}") },
        details: |line| tracing::debug!("{line}"),
        ..Options::new(stop(args.ends_with_stdin)?)
    };
    let notify = Notify::from_environment().context("NOTIFY_SOCKET")?;
    notify.ready("writes what seekwise-agent asks for");
    // What the system does not allow is no fault of the command line.
    serve(options).map_err(|error| Failed(error.to_string()))?;
    notify.stopping();
    Ok(())
}

/// What becomes readable, or is closed, when it is to end.
fn stop(ends_with_stdin: bool) -> anyhow::Result<OwnedFd> {
    if ends_with_stdin {
        return Ok(std::io::stdin().as_fd().try_clone_to_owned()?);
    }
    let (stop, signalled) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
    }
    Ok(stop.into())
}

/// The number of a user.
fn number(user: &str) -> anyhow::Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let found = User::from_name(user).with_context(|| format!("--user {user}"))?;
    Ok(found.with_context(|| format!("--user {user}: there is no such user"))?.uid.as_raw())
}
