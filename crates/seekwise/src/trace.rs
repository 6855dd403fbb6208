//! `seekwise trace`: characterise and convert traces.

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List them
    List,
}

/// Does it.
pub fn run(_command: Command) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
