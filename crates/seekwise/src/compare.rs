//! `seekwise compare`: one trace, one disk, all schedulers, one table.

/// Arguments of `seekwise compare`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs it.
pub fn run(_args: Args) -> anyhow::Result<()> {
    anyhow::bail!("not built yet")
}
