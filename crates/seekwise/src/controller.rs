//! `seekwise controller`: the controllers, which choose scheduler and settings while a load runs.

use std::fmt::Write;

use learn::candidates::{SETS, Set};
use learn::controller::ControllerSpec;
use twin::controller::{all, parse};

use crate::tunables;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the controllers
    List,
    /// Show a controller's tunables with their units, ranges and defaults
    Show {
        /// The controller's name
        name: String,
    },
    /// Print all of this as a Markdown page (docs/controllers.md)
    Manual,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    let text = match command {
        Command::List => list(),
        Command::Show { name } => show(parse(&name)?.spec),
        Command::Manual => manual(),
    };
    Ok(terminal::print(&text)?)
}

fn list() -> String {
    let width = all().map(|spec| spec.name.len()).max().unwrap_or(0);
    all().map(|spec| format!("{:width$}  {}\n", spec.name, spec.summary)).collect()
}

fn show(spec: &ControllerSpec) -> String {
    let mut text = format!("{}: {}\nsource: {}\n", spec.name, spec.summary, spec.source);
    if spec.tunables.is_empty() {
        text.push_str("no tunables\n");
    }
    text.push_str(&tunables::listed(spec.tunables));
    text
}

fn manual() -> String {
    let mut page = String::from(
        "# Controllers\n\nPrinted by `seekwise controller manual`. A controller chooses scheduler and settings while a load runs: `seekwise compare\n\
         --controller NAME` gives it a row beside the schedulers, and `--explain` shows its decisions. Set a tunable with `--controller\n\
         NAME:KEY=VALUE,KEY=VALUE`. Switching schedulers takes the host's `scheduler_switch_ms`.\n\n\
         `--candidates` sets what they choose among: settings such as `mq-deadline:fifo_batch=4,read_expire=100 read_ahead_kb=512`, or these\n\
         sets:\n\n",
    );
    for Set { name, summary, settings } in SETS {
        let texts: Vec<String> = settings().iter().map(|setting| format!("`{setting}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "* `{name}`: {summary}: {}.", texts.join(", "));
    }
    for spec in all() {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n{}. Source: {}.\n", spec.name, tunables::sentence(spec.summary), spec.source);
        if spec.tunables.is_empty() {
            page.push_str("\nIt has no tunables.\n");
            continue;
        }
        page.push_str(&tunables::table(spec.tunables));
    }
    page
}
