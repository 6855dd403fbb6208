//! `seekwise-serve reload`.

use clap::Args;

use super::volume::Socket;
use crate::control;

/// Reads the tables `[[allow]]` of the configuration again
///
/// The configuration is checked whole; if it is wrong, the tables before are kept. Clients keep their open volumes. All other keys are read
/// when the server starts.
#[derive(Args)]
pub struct Reload {
    #[command(flatten)]
    socket: Socket,
}

/// Sends the command to the server.
///
/// # Errors
/// No server answers, or its configuration is invalid.
pub fn run(reload: &Reload) -> anyhow::Result<()> {
    reload.socket.ask(&control::Command::Reload).map(|_| ())
}
