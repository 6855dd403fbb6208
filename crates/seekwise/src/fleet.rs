//! `seekwise fleet`: set up a server, report what many machines measured, and roll out a setting.

mod report;
mod rollout;

use std::path::PathBuf;

use anyhow::ensure;
use knowledge::{Fleet, Knowledge};
use terminal::eprint_line;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Create the tables and roles on a PostgreSQL server, or bring them to this version
    Init(InitArgs),
    /// Show which types of devices and loads gain by which change, with 95% intervals
    Report(report::Args),
    /// Give a setting to a few devices first, compare them with the others, and widen or take it back
    #[command(subcommand)]
    Rollout(rollout::Command),
}

/// Arguments of `seekwise fleet init`.
#[derive(clap::Args)]
pub struct InitArgs {
    /// The server, as postgresql://user@host/database, with a role that may create schemas and roles
    #[arg(value_name = "SERVER", required_unless_present = "print_roles")]
    server: Option<PathBuf>,
    /// Only print the statements that make the roles and their rights
    #[arg(long)]
    print_roles: bool,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Init(args) => init(&args),
        Command::Report(args) => report::run(&args),
        Command::Rollout(command) => rollout::run(command),
    }
}

/// Says where an argument is an address with a password, which `ps` shows to other users.
pub fn warn_of_password() {
    if std::env::args_os().any(|argument| Knowledge::holds_password(std::path::Path::new(&argument))) {
        eprint_line(
            "note: other users of this machine can see the password in the address while this runs; PGPASSWORD, passfile=FILE in the \
             address, or ~/.pgpass keep it from them",
        );
    }
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
