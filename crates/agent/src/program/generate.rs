//! `seekwise-agent generate`: executes fio, to be killed when the parent process dies.

/// Arguments of `seekwise-agent generate`.
#[derive(clap::Args)]
pub struct GenerateArgs {
    /// Process id of the parent; fio is killed when it dies
    #[arg(long, value_name = "PROCESS")]
    parent: u32,
    /// fio's arguments
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the command.
pub fn run(args: &GenerateArgs) -> anyhow::Result<()> {
    Err(agent::learning::become_fio(args.parent, &args.arguments))
}
