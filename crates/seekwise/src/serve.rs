//! `seekwise serve`: manages volumes of a running block server, like `seekwise-serve volume`.

use server::program::volume;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make, change, delete and list volumes of a running server
    #[command(subcommand)]
    Volume(volume::Command),
}

/// Runs a command.
///
/// # Errors
/// No server is running, or it refuses the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Volume(command) = command;
    volume::run(command)
}
