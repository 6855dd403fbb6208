//! The program for those who study controllers and papers: parses the command line, calls `research` and prints.

mod block_device;
mod emulator;
mod evaluate;
mod field;
mod learn;
mod live;
mod paper;
mod programs;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use control::controller::ControllerSpec;
use seekwise::{compare, controller, simulate};
use terminal::manual;

/// Studies controllers of disk I/O: evaluates them on unseen workloads and devices, trains models, repeats papers, and compares the
/// simulator with the real kernel. `seekwise` is the program for everything else.
#[derive(Parser)]
#[command(name = "seekwise-lab", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// As `seekwise compare`, with the controllers for research as well
    Compare(compare::Args),
    /// Print what a shell reads to complete commands and options
    Completions(manual::Completions),
    /// List all controllers, those for research included, and their tunables
    #[command(subcommand)]
    Controller(controller::Command),
    /// Compare what counters alone predict of settings with real runs
    Counters(evaluate::Questions),
    /// Evaluate controllers on workloads and devices they have never seen, against every constant setting
    #[command(alias = "exam")]
    Evaluate(evaluate::Args),
    /// Run the agent on emulated disks under the real kernel and the real fio, compared with fixed settings
    Field(field::Args),
    /// Train, evaluate and show models, and gather experience to train on
    #[command(subcommand)]
    Learn(learn::Command),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::Arguments),
    /// Repeat a paper's experiments and show the results next to the paper's
    #[command(subcommand)]
    Paper(paper::Command),
    /// As `seekwise simulate`, with the controllers for research as well
    Simulate(simulate::Args),
    /// Replay recordings of workloads under every scheduler, and compare the predictions with real runs
    Twin(evaluate::TwinArgs),
    /// Compare the simulator with the real kernel: the same fio jobs on an emulated disk, or on a real one, and simulated
    ///
    /// Without --device the disk is emulated: that needs root, losetup and FUSE.
    #[command(alias = "truth")]
    Validate(validate::Args),
    /// List the three worlds: training (learning), validation (design choices) and test (reported results)
    Worlds,
}

fn main() -> ExitCode {
    terminal::begin("seekwise-lab");
    experiment::learned_device::make_devices();
    let controllers: Vec<&'static ControllerSpec> = research::controller::all().collect();
    let outcome = match seekwise::parse::<Cli>().command {
        Command::Compare(args) => compare::run(args, &controllers),
        Command::Completions(args) => manual::complete(&args, Cli::command()),
        Command::Controller(command) => controller::run(command, "seekwise-lab", &controllers),
        Command::Counters(args) => evaluate::counters(&args),
        Command::Evaluate(args) => evaluate::controllers(&args),
        Command::Field(args) => field::run(&args),
        Command::Learn(command) => learn::run(command),
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::Paper(command) => paper::run(command),
        Command::Simulate(args) => simulate::run(&args, &controllers),
        Command::Twin(args) => evaluate::twin(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Worlds => evaluate::worlds(),
    };
    terminal::exit_code(outcome)
}
