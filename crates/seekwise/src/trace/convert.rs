//! `seekwise trace convert`.

use std::path::PathBuf;

use sim::trace::{self, OpenOptions};

use super::copy::Target;
use crate::arguments::ColumnsArgument;

/// Arguments of `seekwise trace convert`.
#[derive(clap::Args)]
pub struct ConvertArguments {
    /// The trace to read
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The trace to write; - is standard output, for text formats only
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// The format of IN (`seekwise trace formats`) [default: recognised by content]
    #[arg(long, alias = "format", value_name = "FORMAT")]
    from: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// The format of OUT [default: by its extension]
    #[arg(long, alias = "as", value_name = "FORMAT")]
    to: Option<String>,
    /// Skip and count damaged records instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
}

/// Runs the command.
pub fn run(args: &ConvertArguments) -> anyhow::Result<()> {
    let target = Target::begin(&args.output, args.to.as_deref(), "--to")?;
    let (format, columns) = (args.from.clone(), args.columns.get().cloned());
    let options = OpenOptions { format, columns, skip_bad: args.skip_bad, ..OpenOptions::default() };
    let mut opened = trace::open(&args.input, &options)?;
    target.write(opened.reader.as_mut(), (&args.input, opened.format.name))
}
