//! `seekwise report`: table, JSON and page from existing records, without replaying anything.

use std::path::PathBuf;

use anyhow::ensure;
use report::record::{Record, read, read_dir};

use crate::output::{self, Output};

/// Arguments of `seekwise report`.
#[derive(clap::Args)]
pub struct ReportArguments {
    /// Records written by `seekwise compare --record`, or folders of them; all of the same load, disk and replay options
    #[arg(required = true)]
    records: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &ReportArguments) -> anyhow::Result<()> {
    args.output.check()?;
    let mut records: Vec<Record> = Vec::new();
    for path in &args.records {
        if path.is_dir() {
            let found = read_dir(path)?;
            ensure!(
                !found.is_empty(),
                "{}: there is no record in this folder; `seekwise compare --record` writes them",
                path.display()
            );
            records.extend(found);
        } else {
            records.push(read(path)?);
        }
    }
    output::show(&records, None, &args.output)
}
