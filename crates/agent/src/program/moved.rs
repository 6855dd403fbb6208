//! `seekwise-agent applier`: where `seekwise-applier` was before it became a program of its own. Goes with the next release.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use agent::own_applier;
use anyhow::Context as _;

/// Arguments of `seekwise-agent applier`: those of `seekwise-applier`.
#[derive(clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes `seekwise-applier`, with the same process id, arguments and open files.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let program = own_applier::program().context("the command `applier` is now the program seekwise-applier")?;
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}
