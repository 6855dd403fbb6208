//! `seekwise scheduler`: the schedulers and their tunables.

use std::fmt::Write;

use block::SchedulerSpec;
use device_model::sched::all as schedulers;

use crate::tunables;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the schedulers
    List,
    /// Show a scheduler's tunables with their units, ranges and defaults
    Show {
        /// The scheduler's name
        name: String,
    },
    /// Print all of this as a Markdown page (docs/reference/schedulers.md)
    Manual,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    let text = match command {
        Command::List => list(),
        // A name alone is a valid setting; the parser has the error message for an unknown one.
        Command::Show { name } => show(block::parse_among(schedulers(), &name)?.0),
        Command::Manual => manual(),
    };
    Ok(terminal::print(&text)?)
}

fn list() -> String {
    let width = schedulers().map(|spec| spec.name.len()).max().unwrap_or(0);
    schedulers().map(|spec| format!("{:width$}  {}\n", spec.name, spec.summary)).collect()
}

fn show(spec: &SchedulerSpec) -> String {
    let mut text = format!("{}: {}\nsource: {}\n", spec.name, spec.summary, spec.source);
    if spec.tunables.is_empty() {
        text.push_str("no tunables\n");
    }
    text.push_str(&tunables::listed(spec.tunables));
    text
}

fn manual() -> String {
    let mut page = String::from(
        "# Schedulers\n\nPrinted by `seekwise scheduler manual`. Set a tunable with `--scheduler NAME:KEY=VALUE,KEY=VALUE`.\n",
    );
    for spec in schedulers() {
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
