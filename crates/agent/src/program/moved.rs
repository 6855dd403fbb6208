//! Commands that have moved to other programs. To be removed in the next release.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use agent::own_applier;
use anyhow::{Context as _, bail};

/// Arguments of a command that has moved.
#[derive(clap::Args)]
pub struct MovedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Error for `seekwise-agent advise`.
///
/// # Errors
/// Always.
pub fn advise() -> anyhow::Result<()> {
    bail!("`seekwise-agent advise` has moved: it is `seekwise advise` now")
}

/// Executes `seekwise-applier` in this process, with the same arguments and open files. Returns only on failure.
pub fn applier(args: &MovedArgs) -> anyhow::Result<()> {
    let program = own_applier::program().context("the command `applier` has moved to the program seekwise-applier")?;
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| program.display().to_string())
}
