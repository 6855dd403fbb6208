//! `seekwise controller`: the controllers, which choose scheduler and settings while a load runs.

use std::fmt::Write;

use anyhow::Context as _;
use control::candidates::{SETS, Set};
use control::controller::{ControllerChoice, ControllerSpec};
use experiment::comparison::regime;

use crate::moved;
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
    /// Print all of this as a Markdown page (docs/reference/controllers.md)
    Manual,
}

/// Controllers of the program `seekwise`.
pub fn product() -> Vec<&'static ControllerSpec> {
    twin::controller::all().collect()
}

/// Parses the value of `--controller`: a name from `known`, optionally with tunables.
///
/// # Errors
/// Unknown controller (for a research controller, the message names the program that has it), or invalid tunable.
pub fn parse(text: &str, known: &[&'static ControllerSpec]) -> anyhow::Result<ControllerChoice> {
    let name = text.split(':').next().unwrap_or_default();
    let has_moved = moved::CONTROLLERS.contains(&name) && !known.iter().any(|spec| spec.name == name);
    let chosen = regime::controller(text, known);
    if has_moved { chosen.context("this controller is for research: use `seekwise-lab` with the same arguments") } else { chosen }
}

/// Runs the command for the controllers that `program` knows.
pub fn run(command: Command, program: &str, known: &[&'static ControllerSpec]) -> anyhow::Result<()> {
    let text = match command {
        Command::List => list(known),
        Command::Show { name } => show(ControllerChoice::parse_among(known.iter().copied(), &name)?.spec),
        Command::Manual => manual(program, known),
    };
    Ok(terminal::print(&text)?)
}

fn list(known: &[&ControllerSpec]) -> String {
    let width = known.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    known.iter().map(|spec| format!("{:width$}  {}\n", spec.name, spec.summary)).collect()
}

fn show(spec: &ControllerSpec) -> String {
    let mut text = format!("{}: {}\nsource: {}\n", spec.name, spec.summary, spec.source);
    if spec.tunables.is_empty() {
        text.push_str("no tunables\n");
    }
    text.push_str(&tunables::listed(spec.tunables));
    text
}

fn manual(program: &str, known: &[&ControllerSpec]) -> String {
    let mut page = format!(
        "# Controllers\n\nPrinted by `{program} controller manual`. A controller chooses scheduler and settings while a load runs: `{program} compare\n\
         --controller NAME` gives it a row next to the schedulers, and `--explain` shows its decisions. Set a tunable with `--controller\n\
         NAME:KEY=VALUE,KEY=VALUE`. Switching schedulers takes the host's `scheduler_switch_ms`.\n\n\
         `--candidates` sets the settings to choose from, such as `mq-deadline:fifo_batch=4,read_expire=100 read_ahead_kb=512`, or these\n\
         sets:\n\n",
    );
    for Set { name, summary, settings } in SETS {
        let texts: Vec<String> = settings().iter().map(|setting| format!("`{setting}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(page, "* `{name}`: {summary}: {}.", texts.join(", "));
    }
    for spec in known {
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
