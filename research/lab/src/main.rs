//! The program for research on controllers and papers: parses the command line, calls `research` and prints.

mod block_device;
mod emulator;
mod evaluate;
mod field;
mod guarantees;
mod iocost;
mod learn;
mod live;
mod paper;
mod programs;
mod protect;
mod settings;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use control::controller::ControllerSpec;
use seekwise::{compare, controller, offered, simulate};
use terminal::manual;

/// Research on controllers of disk I/O: evaluates them on unseen workloads and devices, trains models, replicates papers, and compares the
/// simulator with the real kernel. For everything else use `seekwise`
#[derive(Parser)]
#[command(name = "seekwise-lab", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Like `seekwise compare`, with the research controllers too
    Compare(compare::CompareArguments),
    /// Print a shell completion script
    Completions(manual::Completions),
    /// List all controllers, including research controllers, and their tunables
    #[command(subcommand)]
    Controller(controller::Command),
    /// Compare predictions from counters only with real runs
    Counters(evaluate::Questions),
    /// Evaluate controllers on unseen workloads and devices, compared with every constant setting
    #[command(alias = "exam")]
    Evaluate(evaluate::EvaluateArguments),
    /// Run the agent on emulated disks under the real kernel and compare it with fixed settings
    Field(field::FieldArguments),
    /// Measure the gain from a fleet for a machine that meets a load for the first time, and the loss from a hostile one
    Fleet(evaluate::FleetArguments),
    /// Measure whether guarantees to tenants are kept, on drawn hosts with drawn loads
    Guarantees(guarantees::GuaranteesArguments),
    /// Measure how right `seekwise learn iocost` is, on drawn devices, and the kernel's script for comparison
    Iocost(iocost::IocostArguments),
    /// Train, test and print models, and gather training data
    #[command(subcommand)]
    Learn(learn::Command),
    /// Print a command's manual page, or write the pages of all commands
    Man(manual::ManualArguments),
    /// Measure which gains a controller states on drawn loads where none of its settings is applied
    NoChange(evaluate::NoChangeArguments),
    /// Replicate a paper's experiments and compare the results with the paper's
    #[command(subcommand)]
    Paper(paper::Command),
    /// Measure whether promises to cgroups are kept next to noisy neighbours, on drawn hosts: by limits that a controller sets, and by others
    Protect(protect::ProtectArguments),
    /// Measure the shares of disk time that `fairio` gives drawn tenants on drawn devices, and their cost in throughput
    Shares(evaluate::SharesArguments),
    /// Like `seekwise simulate`, with the research controllers too
    Simulate(simulate::SimulateArguments),
    /// Measure the processor time of a controller at a steady rate of requests, after its first minute
    ProcessorTime(evaluate::ProcessorTimeArguments),
    /// Compare the twin's predictions for every scheduler with real runs
    Twin(evaluate::TwinArguments),
    /// Compare the simulator with the real kernel: run the same fio jobs on an emulated or real disk and in the simulator
    ///
    /// Without --device the disk is emulated, which requires root, losetup and FUSE.
    #[command(alias = "truth")]
    Validate(validate::ValidateArguments),
    /// List the three worlds: training (learning), validation (design choices) and test (reported results)
    Worlds,
    /// Report the gain and cost of each group of settings: its best setting in hindsight for drawn loads on drawn devices
    Worth(evaluate::WorthArguments),
}

fn main() -> ExitCode {
    seekwise::begin("seekwise-lab");
    testbed::learned::register_learned_devices();
    let controllers: Vec<&'static ControllerSpec> = research::controller::all().collect();
    let outcome = match seekwise::parse::<Cli>().command {
        Command::Compare(args) => compare::run(args, &controllers),
        Command::Completions(args) => manual::complete(&args, offered::with_values(Cli::command(), &controllers)),
        Command::Controller(command) => controller::run(command, "seekwise-lab", &controllers),
        Command::Counters(args) => evaluate::counters(&args),
        Command::Evaluate(args) => evaluate::controllers(&args),
        Command::Field(args) => field::run(&args),
        Command::Fleet(args) => evaluate::fleet(&args),
        Command::Guarantees(args) => guarantees::run(&args),
        Command::Iocost(args) => iocost::run(&args),
        Command::Learn(command) => learn::run(command),
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::NoChange(args) => evaluate::no_change(&args),
        Command::Paper(command) => paper::run(command),
        Command::ProcessorTime(args) => evaluate::processor_time(&args),
        Command::Protect(args) => protect::run(&args),
        Command::Shares(args) => evaluate::shares(&args),
        Command::Simulate(args) => simulate::run(&args, &controllers),
        Command::Twin(args) => evaluate::twin(&args),
        Command::Worth(args) => evaluate::worth(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Worlds => evaluate::worlds(),
    };
    terminal::exit_code(outcome)
}
