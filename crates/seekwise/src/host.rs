//! `seekwise host`: what can be set on the simulated host.

use sim::host::{MACHINE, TUNABLES};

use crate::{terminal, tunables};

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// The host's tunables with their units, ranges and defaults
    List,
    /// All of this as a Markdown page (docs/host.md)
    Manual,
}

/// Does it.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let text = match command {
        Command::List => {
            let (tunables, machine) = (tunables::listed(TUNABLES), tunables::listed(MACHINE));
            format!("What Linux lets an administrator set, under Linux's names:\n{tunables}\nWhat the machine is:\n{machine}")
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
         and write-back as in Linux 6; direct I/O goes past it. A block trace was recorded below the page cache and meets only the\n\
         first three.\n\n\
         ## Tunables\n\nUnder the names, units, ranges and defaults that Linux has in `/sys/block/*/queue` and `/proc/sys/vm`.\n{tunables}\n\
         ## Machine\n{machine}"
    )
}
