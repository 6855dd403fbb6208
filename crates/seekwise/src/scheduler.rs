//! `seekwise scheduler`: what there is, and what can be set.

use std::fmt::Write;

use block::{ALL, Scale, Spec, Tunable, Unit};

use crate::terminal;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// One line for every scheduler
    List,
    /// A scheduler's tunables with their units, ranges and defaults
    Show {
        /// The scheduler's name
        name: String,
    },
    /// All of this as a Markdown page (docs/schedulers.md)
    Manual,
}

/// Does it.
pub fn run(command: Command) -> anyhow::Result<()> {
    let text = match command {
        Command::List => list(),
        // A name alone is a setting; parsing it words the error for one that does not exist.
        Command::Show { name } => show(block::find(&name).map_or_else(|| block::parse(&name).map(|(spec, _)| spec), Ok)?),
        Command::Manual => manual(),
    };
    Ok(terminal::print(&text)?)
}

fn list() -> String {
    let width = ALL.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    ALL.iter().map(|spec| format!("{:width$}  {}\n", spec.name, spec.summary)).collect()
}

fn show(spec: &Spec) -> String {
    let mut text = format!("{}: {}\nsource: {}\n", spec.name, spec.summary, spec.source);
    if spec.tunables.is_empty() {
        text.push_str("no tunables\n");
    }
    for tunable in spec.tunables {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{} = {}\n    {}\n    {}\n", tunable.name, value(tunable), range(tunable), tunable.doc);
    }
    text
}

fn value(tunable: &Tunable) -> String {
    format!("{} {}", tunable.default, tunable.unit.symbol()).trim_end().to_owned()
}

fn range(tunable: &Tunable) -> String {
    match (tunable.unit, tunable.scale) {
        (Unit::Flag, _) => "0 (off) or 1 (on)".to_owned(),
        (_, Scale::Linear) => format!("{} to {}", tunable.min, tunable.max),
        (_, Scale::Logarithmic) => format!("{} to {}, in equal ratios", tunable.min, tunable.max),
    }
}

fn manual() -> String {
    let mut page = String::from(
        "# Schedulers\n\nPrinted by `seekwise scheduler manual`. Set a tunable with `--scheduler NAME:KEY=VALUE,KEY=VALUE`.\n",
    );
    for spec in ALL {
        let _ = write!(page, "\n## {}\n\n{}. Source: {}.\n", spec.name, sentence(spec.summary), spec.source);
        if spec.tunables.is_empty() {
            page.push_str("\nIt has no tunables.\n");
            continue;
        }
        page.push_str("\n| tunable | default | range | meaning |\n|---|---|---|---|\n");
        for tunable in spec.tunables {
            let _ = writeln!(page, "| `{}` | {} | {} | {} |", tunable.name, value(tunable), range(tunable), tunable.doc);
        }
    }
    page
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
