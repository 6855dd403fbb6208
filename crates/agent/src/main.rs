//! The program: parses the command line and calls the library.

mod program;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use terminal::manual;

/// Monitors block devices, recommends an I/O scheduler and its settings and, where allowed, applies them and restores the original
/// settings at exit
///
/// Changes nothing unless the configuration or `seekwise-agent act` asks for it. Never overwrites settings that an administrator or another
/// program has changed.
#[derive(Parser)]
#[command(name = "seekwise-agent", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: tune the named devices, or those with mode = "act" in the configuration; monitor the others
    ///
    /// Requires the applier, the small privileged process that writes settings: as a service, seekwise-applier.socket. If none is running
    /// and the daemon is started by root, it starts its own. Stops on Ctrl-C or SIGTERM and restores all settings unless the configuration
    /// has exit = "keep".
    Act(program::act::ActArgs),
    /// Moved to `seekwise advise`
    #[command(hide = true, disable_help_flag = true)]
    Advise(program::moved::MovedArgs),
    /// Moved to the program seekwise-applier
    #[command(hide = true, disable_help_flag = true)]
    Applier(program::moved::MovedArgs),
    /// Print a shell completion script
    Completions(manual::Completions),
    /// Check the configuration and print the effective settings of each device
    Configuration(program::configuration::ConfigurationArgs),
    /// Explain a recommendation or a change: the observations and the prediction for each candidate
    Explain(program::history::ExplainArgs),
    /// Run fio on the scratch file, for learning mode
    #[command(hide = true, name = agent::learning::COMMAND)]
    Generate(program::generate::GenerateArgs),
    /// List recommendations, changes and restored settings
    History(program::history::HistoryArgs),
    /// Run learning mode now: run workloads on a scratch file, try settings, and keep the best in the knowledge base
    ///
    /// Requires root. Pauses within a second of any other I/O on the device and resumes when the device is idle. Stops on Ctrl-C and
    /// restores all settings. The daemon runs learning mode automatically if `[learning]` in the configuration names a scratch file.
    Learn(program::learn::LearnArgs),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::ManualArguments),
    /// Keep a promise to a service, container or cgroup by limiting its neighbours
    ///
    /// Requires root. Watches the requests of each cgroup, and limits only the units that --limit or the configuration names, only while that
    /// is needed and never below a floor. Prints each limit with its reason. Stops on Ctrl-C and puts everything back, also if it is killed.
    /// The daemon keeps the promises of `[[protect]]` in the configuration.
    Protect(program::protect::ProtectArgs),
    /// Resume tuning of a device that the agent stopped tuning after an external change
    Resume(program::ask::ResumeArgs),
    /// Restore the settings from before the agent, also after a crash or a reboot
    Restore(program::restore::RestoreArgs),
    /// Print the state of the daemon and of its devices
    Status(program::ask::StatusArgs),
    /// Show who is slow, and because of whom: systemd units and containers that use a device, with their response times and what they wait
    /// for
    ///
    /// Requires root, or the applier. Refreshes in place on a terminal; in a pipe, prints one table after the other. Ends on Ctrl-C.
    Top(program::top::TopArgs),
    /// Compare the active settings with those that the agent set, and name conflicting tools; exit code 1 if they differ
    Verify(program::ask::VerifyArgs),
    /// Monitor devices and report what would be set, without changing anything
    Watch(program::watch::WatchArgs),
}

fn main() -> ExitCode {
    terminal::begin("seekwise-agent");
    let mut command = Cli::command();
    let cli = Cli::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.format(&mut command).exit());
    let outcome = match cli.command {
        Command::Act(args) => program::act::run(&args),
        Command::Advise(_) => program::moved::advise(),
        Command::Applier(args) => program::moved::applier(&args),
        Command::Completions(args) => manual::complete(&args, Cli::command()),
        Command::Configuration(args) => program::configuration::run(&args),
        Command::Explain(args) => program::history::explain(&args),
        Command::Generate(args) => program::generate::run(&args),
        Command::History(args) => program::history::run(&args),
        Command::Learn(args) => program::learn::run(&args),
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::Protect(args) => program::protect::run(&args),
        Command::Resume(args) => program::ask::resume(&args),
        Command::Restore(args) => program::restore::run(&args),
        Command::Status(args) => program::ask::status(&args),
        Command::Top(args) => program::top::run(&args),
        Command::Verify(args) => program::ask::verify(&args),
        Command::Watch(args) => program::watch::run(&args),
    };
    terminal::exit_code(outcome)
}
