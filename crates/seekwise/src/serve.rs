//! `seekwise serve`: commands for a running block server, like those of `seekwise-serve`.

use server::program::{reload, volume};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make, change, delete and list volumes of a running server
    #[command(subcommand)]
    Volume(volume::Command),
    /// Reload the `[[allow]]` tables of a running server
    Reload(reload::Reload),
}

/// Runs a command.
///
/// # Errors
/// No server is running, or it refuses the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Volume(command) => volume::run(command),
        Command::Reload(command) => reload::run(command),
    }
}
