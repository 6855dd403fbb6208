//! The program: parses the command line and calls the library.

use std::path::PathBuf;
use std::process::ExitCode;

use blockserver::program;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use terminal::manual;

/// Serves volumes over NBD, each with the performance it was promised
///
/// Volumes are made of extents of stores, which are files or block devices. In front of each store is an I/O scheduler that keeps the
/// volumes' promises. Stops on Ctrl-C or SIGTERM after the requests under way.
#[derive(Parser)]
#[command(name = "seekwise-serve", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Cli {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "/etc/seekwise/serve.toml")]
    config: PathBuf,
    /// Serve in the background, and end when the server is ready
    #[arg(long, requires = "log")]
    daemonize: bool,
    /// File to which a server in the background appends its messages
    #[arg(long, value_name = "FILE", requires = "daemonize")]
    log: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Make, change, move, delete and list volumes of a running server
    #[command(subcommand)]
    Volume(program::volume::Command),
    /// List, adopt and recover stores while the server is stopped
    #[command(subcommand)]
    Store(program::store::Command),
    /// Say which volumes should move to another store, so that every store can keep its guarantees
    Plan(program::plan::Plan),
    /// Reload the tables of permitted users
    Reload(program::reload::Reload),
    /// Print a shell completion script
    Completions(manual::Completions),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::ManualArguments),
}

fn main() -> ExitCode {
    terminal::begin("seekwise-serve");
    let mut command = Cli::command();
    let cli = Cli::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.format(&mut command).exit());
    let outcome = match cli.command {
        None => match &cli.log {
            Some(log) => program::daemonize::run(&cli.config, log),
            None => program::run(&cli.config),
        },
        Some(Command::Volume(command)) => program::volume::run(&command),
        Some(Command::Store(command)) => program::store::run(&command),
        Some(Command::Plan(plan)) => program::plan::run(&plan),
        Some(Command::Reload(reload)) => program::reload::run(&reload),
        Some(Command::Completions(arguments)) => manual::complete(&arguments, Cli::command()),
        Some(Command::Man(arguments)) => manual::run(&arguments, Cli::command()),
    };
    terminal::exit_code(outcome)
}
