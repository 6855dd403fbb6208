//! The program: parses the command line and calls the library.

mod program;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use terminal::manual;

/// Watches block devices, says which I/O scheduler and settings would serve them better, and, if it is allowed to, sets them and puts
/// everything back.
///
/// Nothing is changed unless the configuration or `seekwise-agent act` says so. What an administrator or another program changes stays as
/// they want it.
#[derive(Parser)]
#[command(name = "seekwise-agent", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tune devices: the daemon. Those that are named, or those for which the configuration says mode = "act"; the others are watched
    ///
    /// Needs the applier, the small process that alone may write settings: as a service it is seekwise-applier.socket. Started by root
    /// without one, it starts its own. Ends on Ctrl-C or SIGTERM, and puts everything back unless the configuration says otherwise.
    Act(program::act::Args),
    /// Watch a device for a while, or read a recording, and say what to set, why, what it would bring and how sure that is
    Advise(program::advise::Args),
    /// Now the program seekwise-applier
    #[command(hide = true, disable_help_flag = true)]
    Applier(program::moved::Args),
    /// Print what a shell reads to complete commands and options
    Completions(manual::Completions),
    /// Check the configuration, and say what holds for each device and from which files
    Configuration(program::configuration::Args),
    /// Explain a piece of advice or a change: what it rests on, and what every candidate promised
    Explain(program::history::ExplainArgs),
    /// Become the program that gives a device work on its scratch file
    #[command(hide = true, name = agent::learning::COMMAND)]
    Generate(program::generate::Args),
    /// List what was advised, changed and put back
    History(program::history::Args),
    /// Learn now what serves a device: give it work on a scratch file, try settings, and keep what served in the knowledge base
    ///
    /// As root. Stops within a second when anybody else uses the device, and goes on when nobody does. Ends on Ctrl-C, and puts everything
    /// back. The daemon learns by itself where the configuration has a [learning] with a scratch file.
    Learn(program::learn::Args),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::Arguments),
    /// Tune a device again on which the agent has stood down because somebody else had changed a setting
    Resume(program::ask::ResumeArgs),
    /// Put back what was there before the agent, also after a crash or a reboot
    Restore(program::restore::Args),
    /// Say what the daemon watches and does
    Status(program::ask::StatusArgs),
    /// Check that what is in force is what the agent has set, and say who else sets it; exit code 1 if it is not
    Verify(program::ask::VerifyArgs),
    /// Watch devices and say what would be set, and change nothing
    Watch(program::watch::Args),
}

fn main() -> ExitCode {
    terminal::begin("seekwise-agent");
    let mut command = Cli::command();
    let cli = Cli::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.format(&mut command).exit());
    let outcome = match cli.command {
        Command::Act(args) => program::act::run(&args),
        Command::Advise(args) => program::advise::run(&args),
        Command::Applier(args) => program::moved::run(&args),
        Command::Completions(args) => manual::complete(&args, Cli::command()),
        Command::Configuration(args) => program::configuration::run(&args),
        Command::Explain(args) => program::history::explain(&args),
        Command::Generate(args) => program::generate::run(&args),
        Command::History(args) => program::history::run(&args),
        Command::Learn(args) => program::learn::run(&args),
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::Resume(args) => program::ask::resume(&args),
        Command::Restore(args) => program::restore::run(&args),
        Command::Status(args) => program::ask::status(&args),
        Command::Verify(args) => program::ask::verify(&args),
        Command::Watch(args) => program::watch::run(&args),
    };
    terminal::exit_code(outcome)
}
