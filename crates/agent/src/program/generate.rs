//! `seekwise-agent generate`: becomes fio, which dies with whoever started this.

/// Arguments of `seekwise-agent generate`.
#[derive(clap::Args)]
pub struct Args {
    /// Whose death ends it
    #[arg(long, value_name = "PROCESS")]
    parent: u32,
    /// fio's arguments
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    Err(agent::learning::become_fio(args.parent, &args.arguments))
}
