//! `seekwise serve`: volumes of a running block server, as `seekwise-serve` itself has it.

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
/// No server answers, or it refuses.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Volume(command) = command;
    volume::run(command)
}
