//! `seekwise schema`: the JSON Schemas of commands' output with `--json`.

use report::record::Kind;
use report::schema::{KINDS, page, schema};

/// Arguments of `seekwise schema`.
#[derive(clap::Args)]
pub struct SchemaArguments {
    /// The command whose output is described [default: all three, told apart by their `kind`]
    #[arg(value_enum)]
    what: Option<What>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// `seekwise simulate --json`, and the records that `seekwise compare --record` writes
    Simulate,
    /// `seekwise compare --json` and `seekwise report --json`
    Compare,
    /// `seekwise advise --json`
    Advise,
    /// All keys with their units as a Markdown page (docs/reference/json.md)
    Manual,
}

/// Runs the command.
pub fn run(args: &SchemaArguments) -> anyhow::Result<()> {
    let text = match args.what {
        Some(What::Manual) => page(),
        Some(What::Simulate) => printed(&[Kind::Simulate])?,
        Some(What::Compare) => printed(&[Kind::Compare])?,
        Some(What::Advise) => printed(&[Kind::Advise])?,
        None => printed(&KINDS)?,
    };
    Ok(terminal::print(&text)?)
}

fn printed(kinds: &[Kind]) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schema(kinds))? + "\n")
}
