//! `seekwise serve`: commands for a running block server, as `seekwise-serve` itself has them.

use server::program::{reload, volume};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make, change, delete and list volumes of a running server
    #[command(subcommand)]
    Volume(volume::Command),
    /// Read who may open which volume again
    Reload(reload::Reload),
}

/// Runs a command.
///
/// # Errors
/// No server answers, or it refuses.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Volume(command) => volume::run(command),
        Command::Reload(command) => reload::run(command),
    }
}
