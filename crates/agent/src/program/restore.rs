//! `seekwise-agent restore`: everything back.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use agent::applier::{Client, Kind, Listen, Options, Outcome, Restored, serve};
use agent::control::{self, Answer, Ask};
use agent::daemon::restored;
use anyhow::Context as _;
use terminal::Failed;

use super::{Configured, is_root, say};

/// Arguments of `seekwise-agent restore`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this device, as in `sda` [default: all of them, and the machine's own settings]
    device: Option<String>,
    /// Where the journal is, for when no applier runs
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: PathBuf,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let ask = Ask::Restore { device: args.device.clone() };
    let socket = &configuration.socket;
    // A daemon that was not told would take it for somebody else's doing.
    let said = match control::ask(socket, &ask).with_context(|| socket.display().to_string())? {
        Some(Answer::Done(said)) => said,
        Some(Answer::Refused(reason)) => return Err(Failed(reason).into()),
        Some(_) => anyhow::bail!("the daemon answers something else"),
        None => {
            let applier = Client::connect(&configuration.applier_socket);
            let restored = match applier.and_then(|mut client| client.restore(args.device.as_deref())) {
                Ok(restored) => restored,
                // None is there, or it was ended at this moment.
                Err(error) if error.kind == Kind::Unreachable && is_root() => without_applier(args)?,
                Err(error) => return Err(Failed(error.to_string()).into()),
            };
            outcome(&restored)?
        }
    };
    let said =
        if said.is_empty() { vec!["Nothing was changed by the agent, so there is nothing to put back.".to_owned()] } else { said };
    Ok(terminal::print(&say::lines(said, terminal::style().0))?)
}

/// The sentences, or an error if something could not be put back.
fn outcome(restored: &[Restored]) -> anyhow::Result<Vec<String>> {
    let sentence = |one: &Restored| format!("{}: {}", one.device, self::restored(one));
    let failed: Vec<String> = restored.iter().filter(|one| matches!(one.outcome, Outcome::Failed { .. })).map(sentence).collect();
    if failed.is_empty() { Ok(restored.iter().map(sentence).collect()) } else { Err(Failed(failed.join("; ")).into()) }
}

/// An applier for just this, in a folder that nobody else can look into.
fn without_applier(args: &Args) -> anyhow::Result<Vec<Restored>> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("applier.sock");
    let (stop, ends) = UnixStream::pair()?;
    let options = Options {
        journal: args.journal.clone(),
        listen: Listen::At(socket.clone()),
        log: terminal::eprint_line,
        ..Options::new(stop.into())
    };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(options));
        let restored = loop {
            match Client::connect(&socket) {
                Ok(mut client) => break client.restore(args.device.as_deref()),
                Err(_) if serving.is_finished() => break Ok(Vec::new()),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        drop(ends);
        let served = serving.join().map_err(|_| Failed("the applier panicked".to_owned()))?;
        served.map_err(|error| Failed(error.to_string()))?;
        Ok(restored.map_err(|error| Failed(error.to_string()))?)
    })
}
