//! The program `seekwise-fleet`, also started as `seekwise fleet`: sets up a server, reports gains measured by many machines, and rolls out
//! a setting.

mod report;
mod rollout;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::ensure;
use clap::{CommandFactory as _, Parser};
use knowledge::{Fleet, Knowledge};
use terminal::{eprint_line, manual};

/// Shares over a PostgreSQL server what many machines measured, and rolls out a setting step by step
#[derive(Parser)]
#[command(name = "seekwise-fleet", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(clap::Subcommand)]
enum Command {
    /// Create the tables and roles on a PostgreSQL server, or bring them to this version
    Init(InitArgs),
    /// Show which types of devices and loads gain by which change, with 95% intervals
    Report(report::ReportArgs),
    /// Give a setting to a few devices first, compare them with the others, and widen or take it back
    #[command(subcommand)]
    Rollout(rollout::Command),
    /// Print a shell completion script
    Completions(manual::Completions),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::ManualArguments),
}

/// Arguments of `seekwise fleet init`.
#[derive(clap::Args)]
struct InitArgs {
    /// The server, as postgresql://user@host/database, with a role that may create schemas and roles
    #[arg(value_name = "SERVER", required_unless_present = "print_roles")]
    server: Option<PathBuf>,
    /// Only print the statements that make the roles and their rights
    #[arg(long)]
    print_roles: bool,
}

fn main() -> ExitCode {
    seekwise::begin("seekwise-fleet");
    seekwise::warn_of_password();
    let outcome = match seekwise::parse::<Cli>().command {
        Command::Init(args) => init(&args),
        Command::Report(args) => report::run(&args),
        Command::Rollout(command) => rollout::run(command),
        Command::Completions(arguments) => manual::complete(&arguments, Cli::command()),
        Command::Man(arguments) => manual::run(&arguments, Cli::command()),
    };
    terminal::exit_code(outcome)
}

fn init(args: &InitArgs) -> anyhow::Result<()> {
    let Some(server) = args.server.as_ref().filter(|_| !args.print_roles) else {
        return Ok(terminal::print(&format!("SET search_path = seekwise;\n{}", Fleet::roles()))?);
    };
    check_server(server)?;
    let fleet = Fleet::init(server)?;
    eprint_line(&format!(
        "{}: ready. Grant seekwise_agent to the roles of agents, seekwise_reader to readers, seekwise_operator to those who roll out settings.",
        fleet.address().display()
    ));
    Ok(())
}

/// Rejects an argument that is not the address of a server.
fn check_server(server: &std::path::Path) -> anyhow::Result<()> {
    let wrong =
        || format!("{} is no server; it should begin with postgresql://, as in postgresql://user@host/database", server.display());
    ensure!(Knowledge::is_server(server), wrong());
    Ok(())
}
