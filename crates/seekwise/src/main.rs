//! The program: parses the command line and connects the crates; contains no logic.

use std::process::ExitCode;

#[cfg(feature = "manual")]
use clap::CommandFactory as _;
use clap::{Parser, Subcommand};
use seekwise::{
    advise, check, compare, controller, disk, guarantee, host, learn, moved, place, programs, protect, records, scheduler, schema,
    simulate, sweep, trace, workload,
};
#[cfg(feature = "manual")]
use terminal::manual;

/// Self-tuning disk I/O: runs a block trace or the jobs of an fio job file on simulated storage under every I/O scheduler and
/// shows which serves it best.
#[derive(Parser)]
#[command(name = "seekwise", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say which scheduler and settings serve a trace, an fio job file, a workload or a block device of this machine best, and how sure that
    /// is
    ///
    /// A block device (/dev/sda or sda) is watched for --for seconds, as root, and then judged as a trace of that would be. Nothing is changed.
    #[command(mut_arg("load", |load| load.value_name("TRACE|JOB.fio|WORKLOAD|DEVICE")))]
    Advise(advise::AdviseArguments),
    /// Check the files that set I/O schedulers and settings on this machine or an image of one, and the effect of each
    ///
    /// Reads udev's rules, tuned's active profile, sysctl.d, tmpfiles.d, TLP and the kernel's command line. Shows for each setting where it is
    /// written, the kernel's value now, and a verdict: in force, overridden, in a fight with another file, or without effect and why. Nothing
    /// is changed. The exit code is 1 if a setting does not do what it says.
    Check(check::CheckArguments),
    /// Run a trace or an fio job file under all or some schedulers and show which serves it best
    Compare(compare::CompareArguments),
    /// Print a script that lets a shell complete commands and options
    #[cfg(feature = "manual")]
    Completions(manual::Completions),
    /// Print a script that lets a shell complete commands and options (not in this build: see `--features full`)
    #[cfg(not(feature = "manual"))]
    Completions(programs::ProgramArguments),
    /// List controllers, which choose scheduler and settings while a load runs, and their tunables
    #[command(subcommand)]
    Controller(controller::Command),
    /// List, show, import and validate disk profiles
    #[command(subcommand)]
    Disk(disk::Command),
    /// Emulate a disk in real time: a file, or a block device, that is as fast as the disk's model
    ///
    /// Starts the program seekwise-emulate, which has its own --help.
    Emulate(programs::ProgramArguments),
    /// Share over a PostgreSQL server what many machines measured, and roll out a setting step by step
    ///
    /// Starts the program seekwise-fleet, which has its own --help.
    Fleet(programs::ProgramArguments),
    /// Check whether a host can meet guarantees to tenants (admission control)
    ///
    /// Adds up the worst-case demand of each guarantee, then simulates tenants with bad neighbours. The exit code is 0 for either result;
    /// see `can_be_guaranteed` in the JSON.
    Guarantee(guarantee::GuaranteeArguments),
    /// List the tunables of the simulated host
    #[command(subcommand)]
    Host(host::Command),
    /// Inspect, exchange, merge and prune knowledge bases: observations, decisions and models
    #[cfg(feature = "knowledge")]
    #[command(subcommand)]
    Kb(seekwise::kb::Command),
    /// Inspect, exchange, merge and prune knowledge bases (not in this build: see `--features full`)
    #[cfg(not(feature = "knowledge"))]
    Kb(programs::ProgramArguments),
    /// Measure a device for settings of the kernel
    #[command(subcommand)]
    Learn(learn::Command),
    /// Print a command's manual page, or write the pages of all commands
    #[cfg(feature = "manual")]
    Man(manual::ManualArguments),
    /// Print a command's manual page (not in this build: see `--features full`)
    #[cfg(not(feature = "manual"))]
    Man(programs::ProgramArguments),
    /// Plan on which of several arrays each volume belongs, which migrations that needs, and simulate their effect
    Place(place::PlaceArguments),
    /// Keep promises to services without a daemon
    #[command(subcommand)]
    Protect(protect::Command),
    /// Show a comparison's records again as a table, JSON or HTML page
    Report(records::ReportArguments),
    /// List schedulers and their tunables
    #[command(subcommand)]
    Scheduler(scheduler::Command),
    /// Print the JSON Schema of what `simulate`, `compare` and `advise` print with `--json`
    Schema(schema::SchemaArguments),
    /// Serve volumes over NBD; make, change, delete and list volumes of a running block server
    ///
    /// Starts the program seekwise-serve, which has its own --help.
    Serve(programs::ProgramArguments),
    /// Run a trace or the jobs of an fio job file on one disk under one scheduler
    Simulate(simulate::SimulateArguments),
    /// Run many loads, disks, settings and seeds on all cores or many machines, into one Parquet data set
    ///
    /// The data set is a folder of Parquet files that dataframe tools read as one table, a row for each case. Killed at any moment, the same
    /// command continues where it stopped; the files are the same, byte by byte, however often it was killed and with any number of threads.
    Sweep(sweep::SweepArguments),
    /// Capture, characterise, check, rewrite, merge and convert traces
    #[command(subcommand)]
    Trace(trace::Command),
    /// List, show and randomly generate workloads (fio job files)
    ///
    /// Job files mean what they mean in fio 3.33, with `include`, variables such as ${SIZE}, `verify`, `flow`, `exitall`, `rate_min` and
    /// `steadystate`. Options that change nothing on the disk (logs, buffers, processors) are accepted; engines and options that cannot
    /// be simulated are errors that say why. A file that holds a command line, such as `fio --name=a --rw=read --size=1g`, is a
    /// job file, too.
    ///
    /// `thinktime` stalls a job as in fio: I/Os in flight are waited for first and count for the next stall, so that with the default
    /// thinktime_blocks=1 a queue is full only once, and then one I/O goes out at a time; `thinktime_blocks_type=issue` counts I/Os when
    /// they are issued. `thinktime_spin` is part of the stall. `rate` and `rate_iops` hold from the job's start on, and are made
    /// up for after a stall unless `rate_ignore_thinktime` is set.
    #[command(subcommand)]
    Workload(workload::Command),
    /// Now `seekwise-lab evaluate`, `twin`, `counters`, `field` and `worlds`
    #[command(hide = true)]
    Lab(moved::MovedArguments),
    /// Now `seekwise-lab paper`
    #[command(hide = true)]
    Paper(moved::MovedArguments),
    /// Now `seekwise-lab validate`
    #[command(hide = true)]
    Truth(moved::MovedArguments),
}

fn main() -> ExitCode {
    seekwise::begin("seekwise");
    testbed::learned::register_learned_devices();
    let command = seekwise::parse::<Cli>().command;
    // The program that is started warns itself.
    #[cfg(feature = "knowledge")]
    if !matches!(command, Command::Fleet(_)) {
        seekwise::warn_of_password();
    }
    let outcome = match command {
        Command::Advise(args) => advise::run(args),
        Command::Check(args) => check::run(&args),
        Command::Compare(args) => compare::run(args, &controller::product()),
        #[cfg(not(feature = "manual"))]
        Command::Completions(_) | Command::Man(_) => Err(terminal::Failed::left_out("shell completions and manual pages").into()),
        #[cfg(feature = "manual")]
        Command::Completions(args) => {
            manual::complete(&args, seekwise::offered::with_values(Cli::command(), &controller::product()))
        }
        Command::Controller(command) => controller::run(command, "seekwise", &controller::product()),
        Command::Disk(command) => disk::run(command),
        Command::Emulate(arguments) => programs::run("seekwise-emulate", &arguments),
        Command::Fleet(arguments) => programs::run("seekwise-fleet", &arguments),
        Command::Guarantee(args) => guarantee::run(&args),
        Command::Host(command) => host::run(&command),
        #[cfg(feature = "knowledge")]
        Command::Kb(command) => seekwise::kb::run(command),
        #[cfg(not(feature = "knowledge"))]
        Command::Kb(_) => Err(terminal::Failed::left_out("knowledge bases").into()),
        Command::Lab(args) => moved::lab(&args),
        Command::Learn(command) => learn::run(&command),
        #[cfg(feature = "manual")]
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::Paper(args) => moved::paper(&args),
        Command::Place(args) => place::run(&args),
        Command::Protect(command) => protect::run(&command),
        Command::Report(args) => records::run(&args),
        Command::Scheduler(command) => scheduler::run(command),
        Command::Schema(args) => schema::run(&args),
        Command::Serve(arguments) => programs::run("seekwise-serve", &arguments),
        Command::Simulate(args) => simulate::run(&args, &controller::product()),
        Command::Sweep(args) => sweep::run(&args),
        Command::Trace(command) => trace::run(command),
        Command::Truth(args) => moved::truth(&args),
        Command::Workload(command) => workload::run(command),
    };
    terminal::exit_code(outcome)
}
