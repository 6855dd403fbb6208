//! `seekwise-agent restore`: restores the original settings.

use std::path::PathBuf;

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

/// Runs the command.
pub fn run(args: &RestoreArgs) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let ask = Ask::Restore { device: args.device.clone() };
    let socket = &configuration.socket;
    // A running daemon must do it itself: else it would report an external change.
    let said = match control_socket::ask(socket, &ask).with_context(|| socket.display().to_string())? {
        Some(Answer::Done(said)) => said,
        Some(Answer::Refused(reason)) => return Err(Failed(reason).into()),
        Some(_) => anyhow::bail!("unexpected reply from the daemon; are both programs of the same version?"),
        None => {
            let applier = Client::connect(&configuration.applier_socket);
            let restored = match applier.and_then(|mut client| client.restore(args.device.as_deref())) {
                Ok(restored) => restored,
                // None is running, or it is just exiting.
                Err(error) if error.kind == ErrorKind::Unreachable && is_root() => {
                    restore_alone(&args.journal, args.device.as_deref()).map_err(|error| Failed(error.to_string()))?
                }
                Err(error) => return Err(Failed(error.to_string()).into()),
            };
            outcome(&restored)?
        }
    };
    let said = if said.is_empty() { vec!["Nothing to restore: the agent has changed no settings.".to_owned()] } else { said };
    Ok(terminal::print(&say::lines(said, terminal::style().0))?)
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
