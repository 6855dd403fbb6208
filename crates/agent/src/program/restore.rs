//! `seekwise-agent restore`: restores the original settings.

use std::path::{Path, PathBuf};

use agent::control_socket::{self, Answer, Ask};
use anyhow::Context as _;
use applier::{Client, ErrorKind, Outcome, Restored, restore_alone};
use terminal::Failed;

use super::{Configured, is_root, say};

/// Arguments of `seekwise-agent restore`.
#[derive(clap::Args)]
pub struct RestoreArgs {
    /// The device, such as `sda`, or a cgroup, such as /system.slice/backup.service [default: everything]
    device: Option<String>,
    /// Journal directory, used if no applier is running
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: PathBuf,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command. A running daemon restores first: otherwise it would report an external change. Then root restores everything that is
/// left by the journal, because a daemon that was taken over may claim anything.
pub fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let ask = Ask::Restore { device: args.device.clone() };
    let socket = &configuration.socket;
    let by_daemon = match control_socket::ask(socket, &ask).with_context(|| socket.display().to_string()) {
        Ok(None) => None,
        Ok(Some(Answer::Done(said))) => Some(Ok(said)),
        Ok(Some(Answer::Refused(reason))) => Some(Err(reason)),
        Ok(Some(_)) => Some(Err("unexpected reply from the daemon; are both programs of the same version?".to_owned())),
        Err(error) => Some(Err(format!("{error:#}"))),
    };
    let said = match by_daemon {
        None => outcome(&restore_by_journal(args, &configuration.applier_socket)?)?,
        Some(by_daemon) if !is_root() => by_daemon.map_err(Failed)?,
        Some(by_daemon) => {
            let mut left = restore_by_journal(args, &configuration.applier_socket)?;
            // The daemon has told of external changes.
            left.retain(|one| matches!(one.outcome, Outcome::Back { .. } | Outcome::Failed { .. }));
            let left = outcome(&left)?;
            match by_daemon {
                Ok(said) if left.is_empty() => said,
                Ok(said) => said.into_iter().chain(["The daemon had left:".to_owned()]).chain(left).collect(),
                Err(reason) if left.is_empty() => return Err(Failed(reason).into()),
                Err(reason) => {
                    [format!("The daemon did not restore ({reason}); restored without it:")].into_iter().chain(left).collect()
                }
            }
        }
    };
    let said = if said.is_empty() { vec!["Nothing to restore: the agent has changed no settings.".to_owned()] } else { said };
    Ok(terminal::print(&say::lines(said, terminal::style().0))?)
}

/// Restores by the applier, or, as root and if none is running, by its journal.
fn restore_by_journal(args: &RestoreArgs, socket: &Path) -> anyhow::Result<Vec<Restored>> {
    match Client::connect(socket).and_then(|mut client| client.restore(args.device.as_deref())) {
        Ok(restored) => Ok(restored),
        // None is running, or it is just exiting.
        Err(error) if error.kind == ErrorKind::Unreachable && is_root() => {
            Ok(restore_alone(&args.journal, args.device.as_deref()).map_err(|error| Failed(error.to_string()))?)
        }
        Err(error) => Err(Failed(error.to_string()).into()),
    }
}

/// One sentence for each device.
///
/// # Errors
/// A device could not be restored.
fn outcome(restored: &[Restored]) -> anyhow::Result<Vec<String>> {
    let sentence = |one: &Restored| format!("{}: {one}", one.scope);
    let failed: Vec<String> = restored.iter().filter(|one| matches!(one.outcome, Outcome::Failed { .. })).map(sentence).collect();
    if failed.is_empty() { Ok(restored.iter().map(sentence).collect()) } else { Err(Failed(failed.join("; ")).into()) }
}
