//! Programs that are commands, too: `seekwise fleet …` starts `seekwise-fleet …`. They link more than a first answer needs: a PostgreSQL
//! client, TLS, FUSE, the block server.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::anyhow;
use terminal::Failed;

/// The arguments of the program.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct ProgramArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Becomes the program `name` from the folder of this one; from `PATH` if it is not there.
///
/// # Errors
/// The program is not installed; the text says how to get it. On success, does not return.
pub fn run(name: &str, arguments: &ProgramArguments) -> anyhow::Result<()> {
    let neighbour = std::env::current_exe().ok().map(|own| own.with_file_name(name)).filter(|path| path.is_file());
    let program = neighbour.unwrap_or_else(|| PathBuf::from(name));
    let error = Command::new(&program).args(&arguments.arguments).exec();
    let why = if error.kind() == std::io::ErrorKind::NotFound {
        format!("{name} is not installed: build it with `cargo build --release -p {name}`, or install the package that has it")
    } else {
        format!("{}: {error}", program.display())
    };
    Err(anyhow!(Failed(why)))
}
