//! The program: parses the command line, wires the crates together, holds no logic.

mod compare;
mod controller;
mod disk;
mod experiment;
mod host;
mod kb;
mod lab;
mod learn;
mod output;
mod paper;
mod report;
mod scheduler;
mod simulate;
mod terminal;
mod trace;
mod tunables;
mod whole_file;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Disk I/O that tunes itself: runs a trace of real requests or the jobs of an fio job file on faithful simulated storage under
/// every I/O scheduler and shows which serves it best.
#[derive(Parser)]
#[command(name = "seekwise", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a trace or an fio job file under all or some schedulers and say which serves it best
    Compare(compare::Args),
    /// List controllers, which choose scheduler and settings while a load runs, and their tunables
    #[command(subcommand)]
    Controller(controller::Command),
    /// List, show, import and validate disk profiles
    #[command(subcommand)]
    Disk(disk::Command),
    /// List the tunables of the simulated host
    #[command(subcommand)]
    Host(host::Command),
    /// Look into, exchange and keep small the knowledge base: what was observed, decided and learned
    #[command(subcommand)]
    Kb(kb::Command),
    /// Examine controllers on loads and devices that they never saw
    #[command(subcommand)]
    Lab(lab::Command),
    /// Train models on labelled rows, evaluate and show them
    #[command(subcommand)]
    Learn(learn::Command),
    /// Repeat a paper's experiments and show what it states beside what comes out here
    #[command(subcommand)]
    Paper(paper::Command),
    /// Show the records of a comparison again, as table, JSON or page
    Report(report::Args),
    /// List schedulers and their tunables
    #[command(subcommand)]
    Scheduler(scheduler::Command),
    /// Run a trace or the jobs of an fio job file on one disk under one scheduler
    Simulate(simulate::Args),
    /// Characterise and convert traces
    #[command(subcommand)]
    Trace(trace::Command),
    /// List, show and draw workloads: fio job files
    #[command(subcommand)]
    Workload(workload::Command),
}

fn main() -> ExitCode {
    terminal::catch_interrupt();
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Compare(args) => compare::run(args),
        Command::Controller(command) => controller::run(command),
        Command::Disk(command) => disk::run(command),
        Command::Host(command) => host::run(&command),
        Command::Kb(command) => kb::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Learn(command) => learn::run(command),
        Command::Paper(command) => paper::run(command),
        Command::Report(args) => report::run(&args),
        Command::Scheduler(command) => scheduler::run(command),
        Command::Simulate(args) => simulate::run(&args),
        Command::Trace(command) => trace::run(command),
        Command::Workload(command) => workload::run(command),
    };
    terminal::exit_code(outcome)
}
