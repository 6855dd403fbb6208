//! `seekwise host`: the tunables of the simulated host.

use sim::host::{MACHINE, TUNABLES};

use crate::tunables;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the host's tunables with their units, ranges and defaults
    List,
    /// Print all of this as a Markdown page (docs/reference/host.md)
    Manual,
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let text = match command {
        Command::List => {
            let (tunables, machine) = (tunables::listed(TUNABLES), tunables::listed(MACHINE));
            format!("Tunables, under Linux's names:\n{tunables}\nThe machine:\n{machine}")
        }
        Command::Manual => manual(),
    };
    Ok(terminal::print(&text)?)
}

fn manual() -> String {
    let (tunables, machine) = (tunables::table(TUNABLES), tunables::table(MACHINE));
    format!(
        "# The host\n\n\
         Printed by `seekwise host manual`. Set one with `--set KEY=VALUE`; `--set` may be given several times.\n\n\
         Jobs of an fio job file run on a simulated host: their buffered reads and writes go through its page cache, with read-ahead\n\
         and write-back as in Linux 6; direct I/O bypasses it. A block trace was recorded below the page cache, so only the first four\n\
         tunables affect it.\n\n\
         ## Tunables\n\nNames, units, ranges and defaults are those of Linux in `/sys/block/*/queue` and `/proc/sys/vm`.\n{tunables}\n\
         ## Machine\n{machine}"
    )
}
