//! `seekwise report`: table, JSON and page again from records, without replaying anything.

use std::path::PathBuf;

use anyhow::ensure;
use report::record::{Record, read, read_dir};

use crate::output::{self, Output};

/// Arguments of `seekwise report`.
#[derive(clap::Args)]
pub struct Args {
    /// Records that `seekwise compare --record` wrote, or folders of them; all of one trace, one disk and one way of replaying
    #[arg(required = true)]
    records: Vec<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
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
    output::show(&records, &args.output)
}
